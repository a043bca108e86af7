"""From a folder of images to a trained network, and a picture of what it confuses.

The folder has a folder of images for each class. plait-im2rec lists them and packs them
into record files; ImageRecordIter reads, crops and mirrors them in threads while a
small convolutional network is trained. Without --images, pictures of four shapes are
drawn.
"""

import argparse
from pathlib import Path

import numpy as np

import plait as mx
from plait import autograd, gluon, im2rec, recordio
from plait.gluon import nn

SHAPES = ["circle", "cross", "ring", "square"]


def draw(shape, rng):
    """A picture of a shape, of any colour, size and place, on noise."""
    height, width = rng.randint(48, 80, 2)
    y, x = np.mgrid[:height, :width]
    size = rng.uniform(12, 20)
    y = (y - rng.uniform(20, height - 20)) / size
    x = (x - rng.uniform(20, width - 20)) / size
    far, near = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    inside = {
        "circle": np.hypot(x, y) < 1,
        "cross": (far < 1) & (near < 0.3),
        "ring": np.abs(np.hypot(x, y) - 0.8) < 0.2,
        "square": far < 0.9,
    }[shape]
    ground, paint = rng.uniform(0, 110, 3), rng.uniform(140, 255, 3)
    image = np.where(inside[..., None], paint, ground)
    return np.clip(image + rng.normal(0, 25, image.shape), 0, 255).astype("uint8")


def draw_folder(folder, count):
    """Draws `count` pictures of each shape."""
    rng = np.random.RandomState(1)
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            record = recordio.pack_img((0, 0, 0, 0), draw(shape, rng), quality=90)
            (folder / shape / f"{i:04}.jpg").write_bytes(recordio.unpack(record)[1])


def batches(prefix, size, **augmentation):
    return mx.io.ImageRecordIter(
        path_imgrec=f"{prefix}.rec", path_imgidx=f"{prefix}.idx",
        data_shape=(3, 48, 48), batch_size=size, resize=52,
        mean_r=125, mean_g=125, mean_b=125, std_r=60, std_g=60, std_b=60,
        **augmentation,
    )  # fmt: skip


def network(classes):
    net = nn.HybridSequential()
    for channels in (16, 32, 64):
        net.add(
            nn.Conv2D(channels, 3, padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(),
        )
    net.add(nn.GlobalAvgPool2D(), nn.Dense(classes))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def train(net, data, epochs):
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.004})
    for epoch in range(epochs):
        data.reset()
        total = mx.metric.Loss()
        for batch in data:
            x, label = batch.data[0], batch.label[0]
            with autograd.record():
                loss = loss_of(net(x), label)
            loss.backward()
            trainer.step(x.shape[0])
            total.update(None, loss)
        print(f"epoch {epoch + 1}: loss {total.get()[1]:.3f}")


def confusion(net, data, classes):
    """How often class (row) was taken for class (column)."""
    table = np.zeros((classes, classes), int)
    data.reset()
    for batch in data:
        real = batch.data[0].shape[0] - batch.pad
        guess = net(batch.data[0]).argmax(axis=1).asnumpy().astype(int)[:real]
        label = batch.label[0].asnumpy().astype(int)[:real]
        np.add.at(table, (label, guess), 1)
    return table


def paint(table, names, path):
    """The confusion matrix as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 4.5))
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=45)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")
    for (row, column), n in np.ndenumerate(table):
        axes.text(column, row, n, ha="center", va="center", color="darkorange")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, help="a folder with one for each class")
    parser.add_argument("--out", default=Path("."), type=Path, help="for the results")
    parser.add_argument("--epochs", default=8, type=int)
    parser.add_argument("--count", default=200, type=int, help="pictures of each shape")
    parser.add_argument("--batch", default=32, type=int)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.images is None:
        args.images = args.out / "shapes"
        draw_folder(args.images, args.count)
    prefix, images = str(args.out / "images"), str(args.images)
    names = list(im2rec.list_images(images, True, [".jpg", ".jpeg", ".png"])[1])
    im2rec.main(["--list", "--recursive", "--train-ratio", "0.8", prefix, images])
    im2rec.main(["--resize", "56", prefix, images])

    mx.random.seed(1)
    net = network(len(names))
    training = batches(
        f"{prefix}_train", args.batch, shuffle=True, rand_crop=True, rand_mirror=True
    )
    train(net, training, args.epochs)
    testing = batches(f"{prefix}_val", args.batch, round_batch=False)
    table = confusion(net, testing, len(names))
    paint(table, names, args.out / "confusion.png")
    net.save_parameters(str(args.out / "images.params"))
    print(f"test accuracy {100 * table.trace() / table.sum():.1f} %")


if __name__ == "__main__":
    main()
