"""download(): fetches the file behind a URL, as the caller asks it to. Data sets and
models of Plait never call it: they come from local files."""

import os
import tempfile
import urllib.request
import warnings

from ..error import CheckError, MXNetOSError

_TIMEOUT = 60  # seconds without a byte
_BLOCK = 1 << 16


def _blocks(url, verify_ssl):
    """The content behind a URL in blocks, by the package requests if it is there."""
    if url.startswith("file:"):
        requests = None
    else:
        try:
            import requests
        except ImportError:
            requests = None
    if requests is not None:
        reply = requests.get(url, stream=True, verify=verify_ssl, timeout=_TIMEOUT)
        if reply.status_code != 200:
            raise MXNetOSError("the server answers %s" % reply.status_code)
        yield from reply.iter_content(chunk_size=_BLOCK)
        return
    context = None
    if not verify_ssl and url.startswith("https:"):
        import ssl

        context = ssl._create_unverified_context()
    with urllib.request.urlopen(url, timeout=_TIMEOUT, context=context) as reply:
        while block := reply.read(_BLOCK):
            yield block


def _fetch(url, file, sha1_hash, verify_ssl, check_sha1):
    """Writes to a file aside, which takes the place of `file` when it is whole."""
    folder, name = os.path.split(os.path.abspath(file))
    os.makedirs(folder, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=name + ".", dir=folder)
    try:
        with os.fdopen(handle, "wb") as out:
            for block in _blocks(url, verify_ssl):
                out.write(block)
        if sha1_hash and not check_sha1(aside, sha1_hash):
            raise MXNetOSError("its content is not what SHA-1 %s says" % sha1_hash)
        os.chmod(aside, 0o644)  # mkstemp's files are for their owner alone
        os.replace(aside, file)
    except BaseException:
        os.unlink(aside)
        raise


def download(
    url, path=None, overwrite=False, sha1_hash=None, retries=5, verify_ssl=True
):
    """Fetches the file behind `url` unless it is there already; returns its path.

    path is a file or a folder, by default the file's own name in this folder. A file
    whose SHA-1 is not sha1_hash is fetched again. What fails is tried `retries` times
    more; a failure leaves no part of a file.
    """
    from .utils import check_sha1

    file = os.path.expanduser(path) if path else url.split("/")[-1]
    if not file or retries < 0:
        raise CheckError(
            "download: path is %r, url %r and retries %d; the name of a file and a "
            "number that is not negative were expected" % (path, url, retries)
        )
    if os.path.isdir(file):
        file = os.path.join(file, url.split("/")[-1])
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False): anybody on the "
            "way may change the file",
            stacklevel=2,
        )
    if os.path.exists(file) and not overwrite:
        if not sha1_hash or check_sha1(file, sha1_hash):
            return file
    for left in range(retries, -1, -1):
        try:
            _fetch(url, file, sha1_hash, verify_ssl, check_sha1)
            return file
        except Exception as error:
            if left == 0:
                raise MXNetOSError(
                    "download: %s cannot be fetched (%s); the file may be put by hand "
                    "to %s" % (url, error, os.path.abspath(file))
                ) from error
    return file
