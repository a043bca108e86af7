"""Training ResNet-18 from a record file: what reading and decoding add to a step.

usage: python benchmarks/data_training.py DIR      data_files.py makes the files

Prints, as JSON lines, the time of a step on one batch that stays in memory, the CPU
time of decoding a batch, the time of a step that takes its batch from the records, and
how that compares with computing plus half of decoding, which is what two cores can do
at best.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import plait as mx
from plait import autograd, gluon

BATCH, STEPS = 16, 8


def records(folder):
    return mx.io.ImageRecordIter(
        path_imgrec=str(folder / "a.rec"),
        data_shape=(3, 224, 224),
        batch_size=BATCH,
        preprocess_threads=2,
        random_resized_crop=True,
        min_random_area=0.08,
        max_aspect_ratio=4 / 3,
        min_aspect_ratio=3 / 4,
        rand_mirror=True,
        shuffle=True,
        mean_r=123.7,
        std_r=58.4,
    )


def median_step(step, batches):
    """Seconds a step; the first two are not counted."""
    times = []
    for _ in range(STEPS + 2):
        start = time.perf_counter()
        step(next(batches))
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def forever(iterator):
    while True:
        for batch in iterator:
            yield batch.data[0], batch.label[0]
        iterator.reset()


def decoding(folder):
    """CPU seconds of making a batch."""
    iterator = records(folder)
    batches = forever(iterator)
    next(batches)
    count, start = 20, time.process_time()
    for _ in range(count):
        next(batches)
    return (time.process_time() - start) / count


def main():
    folder = Path(sys.argv[1])
    net = gluon.model_zoo.vision.resnet18_v1(classes=10)
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def step(batch):
        with autograd.record():
            loss = loss_of(net(batch[0]), batch[1])
        loss.backward()
        trainer.step(BATCH)
        mx.nd.waitall()

    cpu = decoding(folder)
    batches = forever(records(folder))
    same = next(batches)
    computing = median_step(step, iter([same] * (STEPS + 2)))
    both = median_step(step, batches)
    again = median_step(step, iter([same] * (STEPS + 2)))
    computing = (computing + again) / 2
    ideal = computing + cpu / 2
    for row, value, unit, target in (
        ("training ResNet-18: a step on a batch in memory", 1e3 * computing, "ms", ""),
        ("training ResNet-18: CPU time of decoding a batch", 1e3 * cpu, "ms", ""),
        ("training ResNet-18: a step from records", 1e3 * both, "ms", ""),
        (
            "the step against computing + half of decoding",
            both / ideal,
            "",
            "at most 1.03",
        ),
    ):
        line = {"row": row, "value": value, "unit": unit, "target": target}
        print(json.dumps(line))


if __name__ == "__main__":
    main()
