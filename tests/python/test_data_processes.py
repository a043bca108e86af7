"""DataLoader with worker processes: order, errors, crashes, shared memory, teardown."""

import glob
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import plait as mx
from plait import nd
from plait.gluon import data as D

pytestmark = pytest.mark.skipif(os.name == "nt", reason="worker processes need POSIX")


class Arrays(D.Dataset):
    """Samples of several kinds, made in the worker."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return nd.full((3, 2), i), np.float64(i)


class Texts(Arrays):
    """Samples with what no NDArray holds."""

    def __getitem__(self, i):
        return super().__getitem__(i) + ("sample %d" % i,)


class Noise(D.Dataset):
    """Random samples."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return np.random.rand(), float(mx.nd.random.uniform().asscalar())


class Trouble(D.Dataset):
    """The sample with this number fails in some way."""

    def __init__(self, how, number=5):
        self.how, self.number = how, number

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == self.number:
            if self.how == "raise":
                raise LookupError("sample %d is lost" % i)
            if self.how == "die":
                os._exit(7)
            time.sleep(60)
        return i


def keep(batch):
    return batch


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_come_in_order(method):
    loader = D.DataLoader(Arrays(), 6, num_workers=2, start_method=method)
    for _ in range(2):
        seen = []
        for arrays, numbers in loader:
            assert arrays.shape[1:] == (3, 2) and arrays.dtype == np.float32
            assert numbers.dtype == np.float64
            assert (arrays.asnumpy()[:, 0, 0] == numbers.asnumpy()).all()
            seen += numbers.asnumpy().tolist()
        assert seen == list(range(20))


def test_texts_and_nested_values_travel():
    loader = D.DataLoader(
        Texts(), 3, batchify_fn=keep, num_workers=1, thread_pool=False
    )
    batch = next(iter(loader))
    assert [s[2] for s in batch] == ["sample 0", "sample 1", "sample 2"]
    assert isinstance(batch[1][0], nd.NDArray) and batch[1][0].asnumpy()[0, 0] == 1


def test_delivered_batches_are_never_overwritten():
    loader = D.DataLoader(Arrays(), 2, num_workers=1, thread_pool=False, prefetch=1)
    batches = list(loader)
    for arrays, numbers in batches:
        assert (arrays.asnumpy()[:, 0, 0] == numbers.asnumpy()).all()


def test_random_samples_do_not_depend_on_the_number_of_workers():
    results = []
    for workers in (1, 3):
        np.random.seed(3)
        loader = D.DataLoader(Noise(), 2, num_workers=workers, thread_pool=False)
        epochs = [
            [[x.asnumpy().tolist() for x in batch] for batch in loader]
            for _ in range(2)
        ]
        assert epochs[0] != epochs[1]
        flat = np.array(epochs).ravel()
        assert len(set(flat.tolist())) == flat.size
        results.append(epochs)
    assert results[0] == results[1]


def test_errors_keep_their_class_and_say_where():
    loader = D.DataLoader(Trouble("raise"), 2, num_workers=2, thread_pool=False)
    iterator = iter(loader)
    assert next(iterator).asnumpy().tolist() == [0, 1]
    next(iterator)
    with pytest.raises(LookupError, match="sample 5 is lost") as caught:
        next(iterator)
    assert "__getitem__" in str(caught.value.__cause__)
    assert next(iterator).asnumpy().tolist() == [6, 7]


def test_a_worker_that_dies_is_reported():
    loader = D.DataLoader(Trouble("die"), 2, num_workers=1, thread_pool=False)
    with pytest.raises(RuntimeError, match="died .exit code 7"):
        list(loader)


def test_a_worker_that_hangs_times_out():
    loader = D.DataLoader(
        Trouble("hang", 0), 2, num_workers=1, thread_pool=False, timeout=0.3
    )
    begin = time.time()
    with pytest.raises(TimeoutError, match="0.3 seconds"):
        next(iter(loader))
    del loader
    assert time.time() - begin < 60


def test_leaving_early_ends_the_workers():
    loader = D.DataLoader(Arrays(), 2, num_workers=2, thread_pool=False)
    for _ in loader:
        break
    processes = [w.process for w in loader._pool._workers]
    loader.clean()
    for process in processes:
        process.join(10)
        assert not process.is_alive()
    assert next(iter(loader))[1].asnumpy().tolist() == [0, 1]  # they start again


def test_two_iterators_share_the_workers():
    loader = D.DataLoader(
        D.SimpleDataset(np.arange(8)), 2, num_workers=2, thread_pool=False
    )
    pairs = [(a.asnumpy()[0], b.asnumpy()[0]) for a, b in zip(loader, loader)]
    assert pairs == [(0, 0), (2, 2), (4, 4), (6, 6)]


def test_many_epochs_keep_memory_and_files_flat():
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    data = D.SimpleDataset([np.zeros(20000, np.float32)] * 16)
    loader = D.DataLoader(data, 4, num_workers=2, thread_pool=False)
    for _ in range(3):
        list(loader)
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        list(loader)
    assert resident() - before < 8 << 20 and len(os.listdir("/proc/self/fd")) <= files
    assert not glob.glob("/dev/shm/plait*")


def test_the_parent_may_have_computed_before_the_fork():
    assert nd.dot(nd.ones((256, 256)), nd.ones((256, 256))).asnumpy()[0, 0] == 256
    loader = D.DataLoader(Arrays(), 10, num_workers=2, thread_pool=False, timeout=60)
    assert [len(batch[1]) for batch in loader] == [10, 10]


@pytest.mark.parametrize(
    "body",
    [
        "for batch in loader: break",
        "list(loader)",
        "it = iter(loader); next(it)",
        "it = iter(loader); del loader; next(it)",
    ],
)
def test_programs_end_quietly(body, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import numpy as np\n"
        "from plait.gluon import data as D\n"
        "if __name__ == '__main__':\n"
        "    loader = D.DataLoader(D.SimpleDataset(np.arange(100)), 2, num_workers=2,\n"
        "                          thread_pool=False)\n"
        "    %s\n" % body
    )
    path = os.path.dirname(os.path.dirname(mx.__file__))
    done = subprocess.run(
        [sys.executable, str(script)],
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == ""
