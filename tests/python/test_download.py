"""gluon.utils.download, against a server on this machine, and files of data sets."""

import gzip
import hashlib
import http.server
import struct
import threading

import numpy as np
import pytest

import plait as mx
from plait.gluon.utils import download
from plait.test_utils import files

_CONTENT = b"content " * 5000


@pytest.fixture(params=["requests", "urllib"])
def server(request, monkeypatch):
    """(URL of a server, the paths it was asked for); /flaky fails the first time."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            bad = self.path == "/none" or asked == ["/flaky"]
            self.send_response(404 if bad else 200)
            self.end_headers()
            self.wfile.write(b"no" if bad else _CONTENT)

        def log_message(self, *args):
            pass

    if request.param == "requests":
        pytest.importorskip("requests")
    else:
        monkeypatch.setitem(__import__("sys").modules, "requests", None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield "http://127.0.0.1:%d" % httpd.server_port, asked
        httpd.shutdown()
        thread.join()


def test_a_file_is_fetched_once(server, tmp_path, monkeypatch):
    url, asked = server
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a" / "file.bin"
    for _ in range(2):
        assert download(url + "/data.bin", str(path)) == str(path)
        assert path.read_bytes() == _CONTENT
    assert download(url + "/data.bin", str(tmp_path / "a")).endswith("a/data.bin")
    assert download(url + "/data.bin") == "data.bin"
    assert len(asked) == 3
    path.write_bytes(b"old")
    assert mx.test_utils.download(url + "/x", "file.bin", str(path.parent)) == str(path)
    assert path.read_bytes() == b"old"
    download(url + "/x", str(path), overwrite=True)
    assert path.read_bytes() == _CONTENT


def test_the_content_is_checked(server, tmp_path):
    url, asked = server
    path, sha1 = tmp_path / "f", hashlib.sha1(_CONTENT).hexdigest()
    path.write_bytes(b"damaged")
    download(url + "/f", str(path), sha1_hash=sha1)
    assert path.read_bytes() == _CONTENT and asked == ["/f"]
    with pytest.raises(OSError, match="its content is not what SHA-1 00 says"):
        download(url + "/f", str(path), sha1_hash="00", retries=1)
    assert path.read_bytes() == _CONTENT  # what was there stays
    assert [p.name for p in tmp_path.iterdir()] == ["f"] and len(asked) == 3


def test_what_fails_is_tried_again(server, tmp_path):
    url, asked = server
    download(url + "/flaky", str(tmp_path / "f"), retries=1)
    assert (tmp_path / "f").read_bytes() == _CONTENT
    with pytest.raises(OSError, match=r"none cannot be fetched .*404.*by hand to"):
        download(url + "/none", str(tmp_path / "g"), retries=2)
    assert asked == ["/flaky"] * 2 + ["/none"] * 3
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_bad_arguments_and_files():
    with pytest.raises(AssertionError, match="the name of a file"):
        download("http://127.0.0.1/")
    with pytest.raises(AssertionError, match="retries -1"):
        download("http://127.0.0.1/a", retries=-1)


def test_files_behind_file_urls_and_the_warning(tmp_path):
    (tmp_path / "a").write_bytes(b"123")
    with pytest.warns(UserWarning, match="Unverified HTTPS request"):
        download((tmp_path / "a").as_uri(), str(tmp_path / "b"), verify_ssl=False)
    assert (tmp_path / "b").read_bytes() == b"123"


def test_mnist_is_taken_from_the_home_of_data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "datasets" / "mnist"
    path = str(tmp_path / "data")
    with pytest.raises(FileNotFoundError, match="put the four files"):
        files.get_mnist(path)
    folder.mkdir(parents=True)
    for part, count in (("train", 3), ("t10k", 2)):
        images = struct.pack(">4I", 2051, count, 28, 28) + bytes(784 * count)
        labels = struct.pack(">2I", 2049, count) + bytes(range(count))
        name = str(folder / part)
        with gzip.open(name + "-images-idx3-ubyte.gz", "wb") as f:
            f.write(images)
        with open(name + "-labels-idx1-ubyte", "wb") as f:
            f.write(labels)
    data = files.get_mnist(path)
    assert data["train_data"].shape == (3, 1, 28, 28)
    np.testing.assert_array_equal(data["test_label"], [0, 1])
    names = {p.name for p in (tmp_path / "data").iterdir()}
    assert "train-images-idx3-ubyte" in names and len(names) == 4
    train, test = files.get_mnist_iterator(1, (784,), path=path)
    assert len(list(train)) == 3 and len(list(test)) == 2
