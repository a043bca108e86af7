"""A small GPT learns a text letter by letter, then writes on from a prompt.

Any text file will do (--text); without one, this project's design pages are read.
The network sees --context letters at a time and learns to tell each next one. To write,
it keeps keys and values of what it has read, so that a letter costs one step.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon.model_zoo import text

ROOT = Path(__file__).resolve().parent.parent


def read(path):
    """The text, its letters, and the text as numbers of letters."""
    files = [path] if path else sorted(ROOT.glob("docs/design/*.md"))
    words = "".join(f.read_text(errors="replace") for f in files)
    letters = sorted(set(words))
    number = {letter: i for i, letter in enumerate(letters)}
    return words, letters, np.array([number[c] for c in words], dtype="int32")


def batches(data, size, context, random):
    """Endless batches: letters (size, context), and each one's next."""
    while True:
        at = random.randint(0, len(data) - context, size)
        rows = np.stack([data[i : i + context + 1] for i in at])
        yield nd.array(rows[:, :-1]), nd.array(rows[:, 1:])


def mean_loss(net, loss, data, args):
    """Of some batches that are the same each time."""
    source = batches(data, args.batch, args.context, np.random.RandomState(0))
    parts = [loss(net(x), y).mean() for (x, y), _ in zip(source, range(8))]
    return float(sum(parts).asscalar()) / len(parts)


def train(net, data, args):
    held_out = max(len(data) // 20, 2 * args.context)
    learn, test = data[:-held_out], data[-held_out:]
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    schedule = mx.lr_scheduler.CosineScheduler(
        args.steps, base_lr=args.rate, final_lr=args.rate / 10, warmup_steps=20
    )
    options = {"learning_rate": args.rate, "lr_scheduler": schedule}
    trainer = gluon.Trainer(net.collect_params(), "adam", options)
    source = batches(learn, args.batch, args.context, np.random.RandomState(1))
    begin = time.time()
    for step in range(1, args.steps + 1):
        x, y = next(source)
        with autograd.record():
            error = loss(net(x), y)
        error.backward()
        trainer.step(args.batch)
        if step % max(1, args.steps // 10) == 0:
            letters = step * x.size / (time.time() - begin)
            print(
                f"step {step:5}  loss {float(error.mean().asscalar()):.3f}  "
                f"{letters:,.0f} letters/s",
                flush=True,
            )
    print(f"test loss {mean_loss(net, loss, test, args):.3f} nats a letter")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file to learn")
    parser.add_argument("--steps", default=600, type=int)
    parser.add_argument("--batch", default=32, type=int)
    parser.add_argument("--context", default=64, type=int)
    parser.add_argument("--units", default=128, type=int)
    parser.add_argument("--layers", default=4, type=int)
    parser.add_argument("--heads", default=4, type=int)
    parser.add_argument("--rate", default=3e-3, type=float)
    parser.add_argument("--dropout", default=0.0, type=float)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--length", default=400, type=int, help="letters to write")
    parser.add_argument("--temperature", default=0.7, type=float)
    parser.add_argument("--out", type=Path, help="a folder for the trained network")
    args = parser.parse_args()
    mx.random.seed(1)

    words, letters, data = read(args.text)
    if len(data) < 4 * args.context:
        parser.error(f"a text of {len(data)} letters; --context {args.context} is long")
    net = text.GPTModel(
        len(letters), args.layers, args.units, args.heads,
        max_length=args.context, dropout=args.dropout,
        weight_initializer=mx.init.Normal(args.units**-0.5),
    )  # fmt: skip
    net.initialize()
    net.hybridize(static_alloc=True)
    print(f"{len(words):,} letters, {len(letters)} different ones")
    train(net, data, args)

    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        net.export(str(args.out / "gpt"))
        (args.out / "letters.txt").write_text("".join(letters))
    # As much as the network has positions for at a time.
    prompt = [letters.index(c) for c in args.prompt if c in letters] or [0]
    made = list(prompt)
    while len(made) < len(prompt) + args.length:
        seen = made[-args.context // 2 :]
        n = min(args.context - len(seen), len(prompt) + args.length - len(made))
        more = net.generate(seen, n, args.temperature, seed=len(made))
        made += more[0].asnumpy().astype(int).tolist()
    print("".join(letters[i] for i in made))


if __name__ == "__main__":
    main()
