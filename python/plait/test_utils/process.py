"""Helpers about the process: environment variables, retries, what the
machine can do.
"""

import functools
import os
import platform
import sys
from contextlib import contextmanager

from .. import ndarray as nd

__all__ = [
    "environment",
    "retry",
    "discard_stderr",
    "is_cd_run",
    "is_aarch64_run",
    "has_tvm_ops",
    "is_op_runnable",
    "list_gpus",
    "get_im2rec_path",
    "DummyIter",
]


@contextmanager
def environment(*args):
    """Sets variables for a `with` block: environment(name, value) or environment(dict).

    None removes a variable. All work is waited for before they are set back.
    """
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    else:
        assert len(args) == 2, (
            "Expecting one dict arg or two args: env var name and value"
        )
        wanted = {args[0]: args[1]}

    def assign(values):
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    before = {name: os.environ.get(name) for name in wanted}
    assign(wanted)
    try:
        yield
    finally:
        nd.waitall()
        assign(before)


def retry(n):
    """Decorates a test that may fail by chance: it is run up to n times."""
    assert n > 0

    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            for attempt in range(n):
                try:
                    return f(*args, **kwargs)
                except AssertionError:
                    if attempt == n - 1:
                        raise
                    nd.waitall()

        return wrapper

    return decorate


@contextmanager
def discard_stderr():
    """Throws away what the process writes to standard error inside a `with` block."""
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError):  # replaced by an object without a file
        yield
        return
    kept = os.dup(number)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), number)
            yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def is_cd_run():
    """Whether this is MXNet's own release pipeline."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run():
    """Whether the machine is a 64-bit ARM."""
    return platform.machine() == "aarch64"


def has_tvm_ops():
    """Whether operators built with TVM are there: never."""
    return False


def is_op_runnable():
    """Whether operators run on the current context: always."""
    return True


def list_gpus():
    """The numbers of the GPUs."""
    from ..context import num_gpus

    return range(num_gpus())


def get_im2rec_path(home_env="MXNET_HOME"):
    """The path of tools/im2rec.py."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.environ.get(home_env, package), os.path.join(package, "..", "..")]
    for folder in folders:
        path = os.path.join(folder, "tools", "im2rec.py")
        if os.path.isfile(path):
            return path
    raise OSError("Could not find path to tools/im2rec.py")


class DummyIter:
    """An iterator that gives the first batch of another again and again."""

    def __init__(self, real_iter):
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self):
        return self

    def next(self):
        """The batch."""
        return self.the_batch

    __next__ = next

    def reset(self):
        """Nothing to do."""
