"""Estimator, its event handlers and checkpoints."""

import logging
import warnings

import numpy as np
import pytest

from plait import gluon, metric, nd
from plait.gluon.contrib import estimator as E


def data(count=32, batch=8):
    x = np.random.rand(count, 4).astype("float32")
    y = (x.sum(1) > 2).astype("float32")
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch)


def make(**options):
    net = gluon.nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    options.setdefault("train_metrics", metric.Accuracy())
    made = E.Estimator(
        net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, **options
    )
    made.logger.handlers = []
    return made


class Noting(
    E.TrainBegin, E.TrainEnd, E.EpochBegin, E.EpochEnd, E.BatchBegin, E.BatchEnd
):
    """Notes what happens."""

    def __init__(self):
        self.calls = []

    def train_begin(self, estimator, *args, **kwargs):
        self.calls.append("train_begin")

    def train_end(self, estimator, *args, **kwargs):
        self.calls.append("train_end")

    def epoch_begin(self, estimator, *args, **kwargs):
        self.calls.append("epoch_begin")

    def epoch_end(self, estimator, *args, **kwargs):
        self.calls.append("epoch_end")

    def batch_begin(self, estimator, *args, **kwargs):
        assert kwargs["batch"][0].shape == (8, 4)
        self.calls.append("batch_begin")

    def batch_end(self, estimator, *args, **kwargs):
        assert kwargs["pred"][0].shape == (8, 2) and kwargs["loss"][0].shape == (8,)
        self.calls.append("batch_end")


def test_training_learns_and_validates():
    made = make()
    made.fit(data(256), data(64), epochs=20)
    name, value = made.train_metrics[0].get()
    assert name == "training accuracy" and value > 0.9
    name, value = made.val_metrics[0].get()
    assert name == "validation accuracy" and value > 0.8


def test_events_come_in_order():
    made, noting = make(), Noting()
    made.fit(data(16), epochs=2, event_handlers=[noting])
    epoch = ["epoch_begin"] + ["batch_begin", "batch_end"] * 2 + ["epoch_end"]
    assert noting.calls == ["train_begin"] + 2 * epoch + ["train_end"]
    noting.calls = []
    made.fit(data(32), batches=3, event_handlers=[noting])
    assert noting.calls.count("batch_end") == 3


def test_wrong_arguments():
    made = make()
    with pytest.raises(ValueError, match="one type of iteration"):
        made.fit(data(), epochs=1, batches=1)
    with pytest.raises(ValueError, match="DataLoader"):
        made.fit([1, 2], epochs=1)
    with pytest.raises(ValueError, match="loss must be"):
        E.Estimator(made.net, lambda x, y: x)
    with pytest.raises(ValueError, match="Trainer"):
        E.Estimator(made.net, made.loss, trainer="sgd")


def test_defaults_are_suggested():
    net = gluon.nn.Dense(2)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        made = E.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss())
    names = [m.name for m in made.train_metrics]
    assert names == ["training accuracy", "training softmaxcrossentropyloss"]
    validation = [m.name for m in made.val_metrics]
    assert validation == [n.replace("training", "validation") for n in names]


def test_logging(caplog):
    made = make()
    made.logger = logging.getLogger("estimator-test")
    made.logger.setLevel(logging.INFO)
    with caplog.at_level(logging.INFO):
        handler = E.LoggingHandler(log_interval=1, metrics=made.train_metrics)
        made.fit(data(16), epochs=1, event_handlers=[handler])
    text = caplog.text
    assert "Train for 1 epochs." in text and "[Epoch 0][Batch 1][Samples 16]" in text
    assert "Train finished using total" in text and "training accuracy" in text


def test_early_stopping():
    made = make()
    made.trainer.set_learning_rate(0)  # it cannot improve
    stopping = E.EarlyStoppingHandler(made.train_metrics[0], patience=2, mode="max")
    made.fit(data(16), epochs=50, event_handlers=[stopping])
    assert stopping.current_epoch == 3 and stopping.stopped_epoch == 2
    with pytest.raises(ValueError, match="monitor"):
        E.EarlyStoppingHandler("accuracy")
    with pytest.warns(UserWarning, match="greater"):
        E.EarlyStoppingHandler(metric.Accuracy())
    with pytest.warns(UserWarning, match="less"):
        E.EarlyStoppingHandler(metric.Loss())


def test_checkpoints_rotate_and_resume(tmp_path):
    folder = str(tmp_path)
    made = make()
    saving = E.CheckpointHandler(folder, "m", max_checkpoints=2)
    made.fit(data(16), epochs=4, event_handlers=[saving])
    names = sorted(p.name for p in tmp_path.glob("*.params"))
    assert names == ["m-epoch2batch6.params", "m-epoch3batch8.params"]
    assert (tmp_path / "m-epoch3batch8.states").exists()
    again = make()
    resuming = E.CheckpointHandler(folder, "m", resume_from_checkpoint=True)
    noting = Noting()
    again.fit(data(16), epochs=6, event_handlers=[resuming, noting])
    assert noting.calls.count("epoch_end") == 2
    assert (tmp_path / "m-epoch5batch12.params").exists()
    with pytest.raises(ValueError, match="maximum number of epoch"):
        make().fit(data(16), epochs=6, event_handlers=[resuming])


def test_the_best_checkpoint_is_kept(tmp_path):
    made = make()
    saving = E.CheckpointHandler(
        str(tmp_path), "m", made.train_metrics[0], save_best=True, mode="max"
    )
    made.fit(data(64), epochs=3, event_handlers=[saving])
    assert (tmp_path / "m-best.params").exists() and 0 < saving.best <= 1
    with pytest.raises(ValueError, match="monitor"):
        E.CheckpointHandler(str(tmp_path), save_best=True)


def test_evaluate_leaves_the_network_alone():
    made = make()
    made.net(nd.zeros((1, 4)))
    before = made.net.weight.data().asnumpy()
    made.evaluate(data(16))
    assert (made.net.weight.data().asnumpy() == before).all()
    assert made.val_metrics[0].num_inst == 16


def test_own_batch_processor():
    class Doubling(E.BatchProcessor):
        def fit_batch(self, estimator, batch, batch_axis=0):
            self.seen = getattr(self, "seen", 0) + 1
            return super().fit_batch(estimator, batch, batch_axis)

    made = make(batch_processor=Doubling())
    made.fit(data(16), epochs=1)
    assert made.batch_processor.seen == 2
    with pytest.raises(ValueError, match="fit_batch"):
        make(batch_processor=object())


def test_checkpoints_of_a_hybridized_net_hold_its_graph(tmp_path):
    import plait as mx
    from plait.gluon.contrib.estimator import Estimator
    from plait.gluon.contrib.estimator.event_handler import CheckpointHandler

    data = mx.gluon.data.ArrayDataset(mx.nd.ones((4, 3)), mx.nd.zeros((4,)))
    loader = mx.gluon.data.DataLoader(data, batch_size=2)
    for name, hybrid in (("graph", True), ("plain", False)):
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Dense(2))
        net.initialize()
        net.hybridize(active=hybrid)
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
        fit = Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
        handler = CheckpointHandler(str(tmp_path), model_prefix=name)
        fit.fit(loader, epochs=1, event_handlers=[handler])
    names = {p.name for p in tmp_path.iterdir()}
    assert "graph-symbol.json" in names and "plain-symbol.json" not in names
    block = mx.gluon.SymbolBlock.imports(
        str(tmp_path / "graph-symbol.json"), ["data"], None
    )
    block.initialize()
    assert block(mx.nd.ones((1, 3))).shape == (1, 2)
