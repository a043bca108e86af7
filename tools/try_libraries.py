"""Trains a little with libraries written for MXNet: run by try_libraries.sh."""

import os
import random
import subprocess
import sys
import tempfile
import time
import warnings

warnings.simplefilter("ignore")

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402


class Boxes(gluon.data.Dataset):
    """Pictures of noise with a bright square, and where it is."""

    def __len__(self):
        return 16

    def __getitem__(self, i):
        rng = np.random.RandomState(i)
        picture = rng.randint(0, 100, (200, 200, 3)).astype("uint8")
        x, y = rng.randint(0, 100, 2)
        picture[y : y + 80, x : x + 80, i % 2] = 250
        box = np.array([[x, y, x + 80, y + 80, i % 2]], "float32")
        return nd.array(picture, dtype="uint8"), box


def gluoncv():
    """A detector: anchors, targets, loss, data loader and mean average precision."""
    from gluoncv import model_zoo
    from gluoncv.data.batchify import Pad, Stack, Tuple
    from gluoncv.data.transforms.presets import ssd
    from gluoncv.loss import SSDMultiBoxLoss
    from gluoncv.utils.metrics.voc_detection import VOC07MApMetric

    names = ["red", "green"]
    net = model_zoo.get_model(
        "ssd_512_mobilenet1.0_custom", classes=names, pretrained_base=False
    )
    net.initialize(mx.init.Uniform(0.05))
    with autograd.train_mode():
        anchors = net(nd.zeros((1, 3, 256, 256)))[2]
    train = gluon.data.DataLoader(
        Boxes().transform(ssd.SSDDefaultTrainTransform(256, 256, anchors)),
        4,
        shuffle=True,
        batchify_fn=Tuple(Stack(), Stack(), Stack()),
        num_workers=2,
    )
    loss = SSDMultiBoxLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3})
    net.hybridize(static_alloc=True)
    losses = []
    for _ in range(6):
        for x, classes, boxes in train:
            with autograd.record():
                outputs = net(x)
                total = loss([outputs[0]], [outputs[1]], [classes], [boxes])[0]
                autograd.backward(total)
            trainer.step(1)
        losses.append(total[0].mean().asscalar())
    assert losses[-1] < losses[0], losses
    net.set_nms(0.45, 400)
    test = gluon.data.DataLoader(
        Boxes().transform(ssd.SSDDefaultValTransform(256, 256)),
        4,
        batchify_fn=Tuple(Stack(), Pad(pad_val=-1)),
    )
    metric = VOC07MApMetric(iou_thresh=0.5, class_names=names)
    for x, y in test:
        ids, scores, boxes = net(x)
        truth = y.slice_axis(-1, 0, 4), y.slice_axis(-1, 4, 5)
        metric.update(boxes.clip(0, 256), ids, scores, *truth, None)
    value = metric.get()[1][-1]
    return "SSD: loss %.2f to %.2f, mAP %.2f" % (losses[0], losses[-1], value)


def gluonnlp():
    """BERT finds out whether a token is in a sentence."""
    import gluonnlp as nlp

    encoder = nlp.model.BERTEncoder(
        num_layers=2, units=32, hidden_size=64, max_length=16, num_heads=4, dropout=0.0
    )
    bert = nlp.model.BERTModel(
        encoder, vocab_size=50, token_type_vocab_size=2, units=32, embed_size=32,
        use_decoder=False, use_classifier=False,
    )  # fmt: skip
    net = nlp.model.BERTClassifier(bert, num_classes=2, dropout=0.0)
    net.initialize(mx.init.Normal(0.05))
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "bertadam", {"learning_rate": 2e-3})
    loss = gluon.loss.SoftmaxCELoss()
    rng = np.random.RandomState(0)
    for _ in range(150):
        tokens = rng.randint(1, 50, (64, 12))
        length = nd.array(rng.randint(6, 13, 64))
        seen = (tokens < 5) & (np.arange(12) < length.asnumpy()[:, None])
        labels = nd.array(seen.any(1))
        with autograd.record():
            scores = net(nd.array(tokens), nd.zeros((64, 12)), length)
            value = loss(scores, labels)
        value.backward()
        trainer.step(64)
    accuracy = (scores.argmax(1) == labels).mean().asscalar()
    assert accuracy > 0.8, accuracy
    return "BERT: accuracy %.2f" % accuracy


def gluonts():
    """DeepAR goes on with noisy waves."""
    from gluonts.dataset.common import ListDataset
    from gluonts.mx import DeepAREstimator
    from gluonts.mx.trainer import Trainer

    rng = np.random.RandomState(0)
    waves = [
        np.sin(np.arange(212) / 24 * 2 * np.pi + i) + 0.1 * rng.randn(212)
        for i in range(8)
    ]
    data = ListDataset(
        [{"start": "2020-01-01", "target": w[:200]} for w in waves], freq="1H"
    )
    trainer = Trainer(epochs=5, num_batches_per_epoch=40, learning_rate=3e-3)
    predictor = DeepAREstimator(freq="1H", prediction_length=12, trainer=trainer).train(
        data
    )
    errors = [
        np.abs(f.mean - w[200:]).mean() for f, w in zip(predictor.predict(data), waves)
    ]
    assert np.mean(errors) < 0.5, errors
    return "DeepAR: mean error %.2f of an amplitude of 1" % np.mean(errors)


def sockeye():
    """Translation: a transformer learns to read sentences backwards."""
    random.seed(1)
    words = ["w%d" % i for i in range(50)]
    with tempfile.TemporaryDirectory() as folder:
        for part, count in (("train", 2000), ("dev", 100)):
            with (
                open(folder + "/%s.src" % part, "w") as source,
                open(folder + "/%s.trg" % part, "w") as target,
            ):
                for _ in range(count):
                    line = random.choices(words, k=random.randint(3, 10))
                    print(*line, file=source)
                    print(*reversed(line), file=target)
        sizes = (
            "--num-layers 1:1 --transformer-model-size 32"
            " --transformer-attention-heads 4"
            " --transformer-feed-forward-num-hidden 64 --num-embed 32 --batch-size 200"
            " --batch-type word --max-updates 100 --checkpoint-interval 50"
            " --max-seq-len 12 --decode-and-evaluate 20"
        ).split()
        train = "-s train.src -t train.trg -vs dev.src -vt dev.trg -o model --use-cpu"
        done = subprocess.run(
            [sys.executable, "-m", "sockeye.train", *train.split(), *sizes],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        translated = subprocess.run(
            [sys.executable, "-m", "sockeye.translate", "-m", "model", "--use-cpu"],
            cwd=folder,
            input=" ".join(words[:5]) + "\n",
            capture_output=True,
            text=True,
        )
        if translated.returncode:
            raise RuntimeError(translated.stderr[-2000:])
        log = open(os.path.join(folder, "model", "log")).read()
    return "transformer: " + log.rsplit("Best validation ", 1)[1].split("\n")[0]


if __name__ == "__main__":
    print("mxnet is", mx.__file__, mx.__version__)
    mx.random.seed(1)
    np.random.seed(1)
    for example in (gluoncv, gluonnlp, gluonts, sockeye):
        start = time.time()
        text = example()
        print("%-9s %s (%.0f s)" % (example.__name__, text, time.time() - start))
