"""Names without a promise that libraries written for MXNet import: GluonCV, GluonNLP,
GluonTS, Sockeye."""

import importlib
import multiprocessing.pool
import pickle

import pytest

from plait import gluon, nd
from plait.gluon.model_zoo import model_store


@pytest.mark.parametrize(
    "place",
    [
        "base.NDArrayHandle",
        "contrib.amp.amp._amp_initialized",
        "gluon.block._flatten",
        "gluon.block._regroup",
        "gluon.data.dataloader.ForkingPickler",
        "gluon.data.dataloader._MultiWorkerIter",
        "gluon.data.dataloader._as_in_context",
        "gluon.loss._apply_weighting",
        "gluon.loss._reshape_like",
        "gluon.tensor_types",
        "image.image._get_interp_method",
        "metric.ndarray",
    ],
)
def test_the_name_is_there(place):
    module, name = place.rsplit(".", 1)
    root = importlib.import_module("plait")
    try:
        assert hasattr(importlib.import_module("plait." + module), name)
    except ModuleNotFoundError:
        assert hasattr(getattr(root, module), name)


def test_a_library_adds_models_of_its_own(tmp_path):
    model_store._model_sha1["own_model"] = "0123456789abcdef"
    try:
        assert model_store.short_hash("own_model") == "01234567"
        with pytest.raises(FileNotFoundError, match="own_model-01234567.params"):
            model_store.get_model_file("own_model", root=str(tmp_path))
    finally:
        del model_store._model_sha1["own_model"]


def test_addresses_of_published_files(monkeypatch):
    url = gluon.utils._get_repo_file_url
    assert url("gluon/dataset", "a.zip").endswith("/gluon/dataset/a.zip")
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://example.org/mirror")
    assert url("x", "y") == "http://example.org/mirror/x/y"


def test_nested_arguments_are_flattened_and_grouped_again():
    a, b = nd.ones((2,)), nd.zeros((3,))
    flat, structure = gluon.block._flatten([a, [b, None]], "input")
    assert len(flat) == 3 and structure == [0, [0, -1]]
    again = gluon.block._regroup(flat, structure)
    assert again[0] is a and again[1][0] is b and again[1][1] is None


def _make(indices, factor, batchify):
    return pickle.dumps([i * factor for i in indices])


def test_a_subclass_of_the_multi_worker_iterator_pushes_work_of_its_own():
    class Own(gluon.data.dataloader._MultiWorkerIter):
        def _push_next(self):
            indices = next(self._iter, None)
            if indices is None:
                return
            result = self._worker_pool.apply_async(_make, (indices, 10, None))
            self._data_buffer[self._sent_idx] = result
            self._sent_idx += 1

    with multiprocessing.pool.ThreadPool(2) as pool:
        batches = Own(pool, None, [[0, 1], [2, 3], [4]], prefetch=2)
        assert len(batches) == 3
        assert list(batches) == [[0, 10], [20, 30], [40]]
