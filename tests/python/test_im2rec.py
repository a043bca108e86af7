"""plait-im2rec: lists, records, broken images, and runs that were interrupted."""

import os
from pathlib import Path

import numpy as np
import pytest

from plait import _plait, im2rec, recordio

pytestmark = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


@pytest.fixture
def root(tmp_path):
    """Two folders of five images each, one of them a PNG with alpha."""
    folder = tmp_path / "images"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(5):
            image = np.full((30, 40 + i, 3), 20 * i, "uint8")
            file = _plait.encode_image(image, ".jpg", 95)
            (folder / name / ("%d.jpg" % i)).write_bytes(file)
    image = np.full((30, 40, 4), 90, "uint8")
    (folder / "cat/4.png").write_bytes(_plait.encode_image(image, ".png", 3))
    os.remove(folder / "cat/4.jpg")
    (folder / "cat/readme.txt").write_text("no image")
    return folder


def run(*arguments):
    assert im2rec.main([str(a) for a in arguments]) == 0


def records(prefix):
    reader = recordio.MXIndexedRecordIO("%s.idx" % prefix, "%s.rec" % prefix, "r")
    return [(k, recordio.unpack(reader.read_idx(k))) for k in reader.keys]


def test_lists_number_images_and_folders(root, tmp_path, capsys):
    prefix = tmp_path / "a"
    run("--list", "--recursive", "--no-shuffle", prefix, root)
    lines = Path("%s.lst" % prefix).read_text().splitlines()
    assert lines[0] == "0\t0.000000\tcat/0.jpg"
    assert lines[9] == "9\t1.000000\tdog/4.jpg"
    assert len(lines) == 10
    assert capsys.readouterr().out.splitlines() == ["cat 0", "dog 1"]
    run("--list", "--recursive", prefix, root)
    shuffled = Path("%s.lst" % prefix).read_text().splitlines()
    assert sorted(shuffled) == lines and shuffled != lines
    # The order that MXNet's program gives.
    order = [int(line.split("\t")[0]) for line in shuffled]
    assert order == [4, 0, 5, 9, 3, 1, 6, 8, 7, 2]


def test_chunks_and_shares(root, tmp_path):
    prefix = tmp_path / "a"
    run(
        "--list", "--recursive", "--chunks", 2, "--train-ratio", 0.6, "--test-ratio",
        0.2, prefix, root,
    )  # fmt: skip
    counts, seen = {}, []
    for path in sorted(tmp_path.glob("a_*.lst")):
        lines = path.read_text().splitlines()
        counts[path.name] = len(lines)
        seen += lines
    assert counts == {
        "a_%d_%s.lst" % (chunk, part): n
        for chunk in range(2)
        for part, n in (("train", 3), ("val", 1), ("test", 1))
    }
    assert len(set(seen)) == 10


@pytest.fixture
def listed(root, tmp_path):
    run("--list", "--recursive", "--no-shuffle", tmp_path / "a", root)
    return tmp_path / "a"


def test_records_hold_images_in_the_order_of_the_list(root, listed):
    for threads in (1, 4):
        run("--num-thread", threads, "--resize", 20, listed, root)
        found = records(listed)
        assert [k for k, _ in found] == list(range(10))
        for number, (header, content) in found:
            assert header.label == number // 5 and header.id == number
            image = _plait.decode_image(content)
            assert image.shape[0] == 20 and image.shape[1] in (26, 27, 28, 29)
    assert not list(listed.parent.glob("*.part*"))


def test_forms_of_images(root, listed):
    run("--pass-through", listed, root)
    assert records(listed)[0][1][1] == (root / "cat/0.jpg").read_bytes()
    run("--center-crop", "--encoding", ".png", "--color", -1, listed, root)
    images = [_plait.decode_image(c, -1) for _, (_, c) in records(listed)]
    assert [i.shape for i in images[3:6]] == [(30, 30, 3), (30, 30, 4), (30, 30, 3)]
    run("--color", 0, "--resize", 10, "--center-crop", "--exact", listed, root)
    assert _plait.decode_image(records(listed)[0][1][1], -1).shape == (10, 10)


def test_several_labels(root, listed):
    Path("%s.lst" % listed).write_text("7\t1.5\t2.5\tcat/0.jpg\n8\t3\t4\tdog/0.jpg\n")
    run("--pack-label", listed, root)
    assert [list(h.label) for _, (h, _) in records(listed)] == [[1.5, 2.5], [3, 4]]
    run(listed, root)
    assert [h.label for _, (h, _) in records(listed)] == [1.5, 3]


def test_broken_images_are_left_out_and_named(root, listed, capsys):
    (root / "cat/1.jpg").write_bytes((root / "cat/1.jpg").read_bytes()[:200])
    os.remove(root / "dog/2.jpg")
    with open("%s.lst" % listed, "a") as file:
        file.write("no line of a list\n")
    run(listed, root)
    assert [k for k, _ in records(listed)] == [0, 2, 3, 4, 5, 6, 8, 9]
    error = capsys.readouterr().err
    assert "left out: cat/1.jpg: image: the JPEG has a damaged head" in error
    assert "left out: dog/2.jpg" in error and "line 11 is left out" in error
    assert "2 images were left out" in error and "10/10" in error


@pytest.mark.parametrize("lost", [0, 30])
def test_an_interrupted_run_goes_on(root, listed, capsys, monkeypatch, lost):
    run("--pass-through", listed, root)
    wanted = Path("%s.rec" % listed).read_bytes()
    os.remove("%s.rec" % listed)
    make_record, made = im2rec.make_record, []

    def interrupted(args, image):
        if image[0] == 6:
            raise KeyboardInterrupt
        made.append(image[0])
        return make_record(args, image)

    monkeypatch.setattr(im2rec, "make_record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        im2rec.main(["--pass-through", "--num-thread", "1", str(listed), str(root)])
    part = Path("%s.rec.part" % listed)
    assert part.exists() and not Path("%s.rec" % listed).exists()
    if lost:  # the machine stopped before all was on the disk
        part.write_bytes(part.read_bytes()[:-lost])
    made.clear()
    monkeypatch.setattr(
        im2rec, "make_record", lambda a, i: made.append(i[0]) or make_record(a, i)
    )
    run("--pass-through", "--num-thread", "1", listed, root)
    assert made == ([5, 6, 7, 8, 9] if lost else [6, 7, 8, 9])
    assert Path("%s.rec" % listed).read_bytes() == wanted
    assert "Going on after" in capsys.readouterr().err
    assert not list(listed.parent.glob("*.part*"))


def test_an_interrupted_run_with_other_options_begins_anew(root, listed, monkeypatch):
    def interrupted(args, image):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(im2rec, "make_record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            im2rec.main(["--pass-through", str(listed), str(root)])
    run("--resize", 20, listed, root)
    assert len(records(listed)) == 10


def test_the_prefix_may_be_called_like_the_folder(root):
    run("--list", "--recursive", root, root)
    run("--pass-through", root, root)
    assert len(records(root)) == 10
    os.rename("%s.lst" % root, root / "inside.lst")
    run("--pass-through", root, root)
    assert len(records(root / "inside")) == 10


def test_nothing_to_do_is_an_error(root, tmp_path, capsys):
    assert im2rec.main([str(tmp_path / "none"), str(root)]) == 2
    assert im2rec.main([str(tmp_path / "a"), str(tmp_path / "none")]) == 2
    with pytest.raises(SystemExit):
        im2rec.main(["--num-thread", "0", str(tmp_path / "a"), str(root)])
    assert "no list begins with" in capsys.readouterr().err
