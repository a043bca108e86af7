"""plait-im2rec: lists of images, and record files of them.

The options are those of MXNet's im2rec.py, and so are the lists and records. A run that
was interrupted goes on where it was. Images that cannot be read are left out, and named
at the end.
"""

import argparse
import collections
import itertools
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from . import _plait, recordio
from .error import MXNetError


def list_images(root, recursive, exts):
    """([number, path under root, label] of every image, {folder: label})."""
    exts = tuple(ext.lower() for ext in exts)
    found, folders = [], {}
    if not recursive:
        walk = [(root, [], sorted(os.listdir(root)))]
    else:
        walk = os.walk(root, followlinks=True)
    for path, below, names in walk:
        below.sort()
        for name in sorted(names):
            full = os.path.join(path, name)
            if os.path.splitext(name)[1].lower() in exts and os.path.isfile(full):
                label = folders.setdefault(path, len(folders)) if recursive else 0
                found.append([len(found), os.path.relpath(full, root), label])
    return found, {os.path.relpath(k, root): v for k, v in folders.items()}


def write_list(path, images):
    """Writes a .lst file."""
    with open(path, "w") as file:
        for number, name, label in images:
            file.write("%d\t%f\t%s\n" % (number, label, name))


def make_lists(args):
    """Writes the .lst files: one, or for each chunk those of train, val and test."""
    images, folders = list_images(args.root, args.recursive, args.exts)
    for folder, label in folders.items():
        print(folder, label)
    if args.shuffle:
        random.Random(100).shuffle(images)
    size = -(-len(images) // args.chunks)
    for i in range(args.chunks):
        chunk = images[i * size : (i + 1) * size]
        prefix = args.prefix + ("_%d" % i if args.chunks > 1 else "")
        if args.train_ratio == 1.0:
            write_list(prefix + ".lst", chunk)
            continue
        train, test = int(size * args.train_ratio), int(size * args.test_ratio)
        if args.test_ratio:
            write_list(prefix + "_test.lst", chunk[:test])
        if args.train_ratio + args.test_ratio < 1.0:
            write_list(prefix + "_val.lst", chunk[test + train :])
        write_list(prefix + "_train.lst", chunk[test : test + train])


def read_list(path):
    """[(number, path, labels)] of a .lst file; lines that are wrong are named."""
    images = []
    with open(path) as file:
        for line_number, line in enumerate(file, 1):
            fields = [field.strip() for field in line.strip().split("\t")]
            if fields == [""]:
                continue
            try:
                if len(fields) < 3:
                    raise ValueError("%d fields" % len(fields))
                labels = [float(field) for field in fields[1:-1]]
                recordio.exact_label(labels, text=True)
                images.append((int(fields[0]), fields[-1], labels))
            except ValueError as error:
                print(
                    "%s: line %d is left out: %s" % (path, line_number, error),
                    file=sys.stderr,
                )
    return images


def make_record(args, image):
    """The record of an image of a list, or the error that it has none."""
    number, name, labels = image
    try:
        with open(os.path.join(args.root, name), "rb") as file:
            content = file.read()
        if not args.pass_through:
            content = _plait.recode_image(
                content,
                args.color,
                args.center_crop,
                args.resize,
                args.encoding,
                args.quality,
                args.exact,
            )
        label = labels if args.pack_label and len(labels) > 1 else labels[0]
        return recordio.pack(recordio.IRHeader(0, label, number, 0), content)
    except (OSError, MXNetError) as error:
        return error


# So many images of a list are one task of a thread.
_TOGETHER = 4


def make_records(args, images):
    """(records or errors, what interrupted): those before an interruption count."""
    records = []
    for image in images:
        try:
            records.append(make_record(args, image))
        except BaseException as error:
            return records, error
    return records, None


class Progress:
    """A line with count, rate and time to go: over and over on a terminal, else now and
    then.
    """

    def __init__(self, total, done):
        self._total = total
        self._first = done
        self._start = self._last = time.monotonic()
        self._live = sys.stderr.isatty()

    def show(self, done, broken, last=False):
        """Shows the state, unless that was done a moment ago."""
        now = time.monotonic()
        if not last and now - self._last < (0.2 if self._live else 10):
            return
        self._last = now
        rate = (done - self._first) / max(now - self._start, 1e-9)
        left = int((self._total - done) / rate) if rate else 0
        share = done / self._total if self._total else 1
        bar = "=" * int(30 * share)
        text = "[%-30s] %d/%d, %.0f images/s, %d:%02d:%02d left, %d broken" % (
            bar,
            done,
            self._total,
            rate,
            left // 3600,
            left // 60 % 60,
            left % 60,
            broken,
        )
        end = "\n" if last or not self._live else ""
        print(("\r" if self._live else "") + text, end=end, file=sys.stderr, flush=True)


class Packing:
    """Writes PREFIX.rec and PREFIX.idx of a list. Until they are whole they are called
    PREFIX.rec.part and PREFIX.idx.part, with the options of the run beside them.
    """

    def __init__(self, args, path):
        self._args = args
        self._base = os.path.splitext(path)[0]
        self._part = self._base + ".rec.part", self._base + ".idx.part"
        self._note = self._base + ".rec.part.json"
        self._images = read_list(path)
        names = (
            "pass_through resize center_crop quality color encoding pack_label exact"
        )
        self._run = {
            "options": {name: getattr(args, name) for name in names.split()},
            "root": args.root,
            "images": len(self._images),
            "list": os.path.getmtime(path),
        }

    def _resumed(self):
        """How many images of the list an interrupted run is through with."""
        try:
            with open(self._note) as file:
                if json.load(file) != self._run:
                    return 0
            with open(self._part[1]) as file:
                lines = file.read().split("\n")[:-1]  # the last one may be half
        except (OSError, ValueError):
            return 0
        places = {number: i for i, (number, _, _) in enumerate(self._images)}
        reader = recordio.MXRecordIO(self._part[0], "r").handle
        while lines:
            try:
                key, offset = map(int, lines[-1].split("\t"))
                if reader.read(offset) is not None and key in places:
                    break
            except (MXNetError, ValueError):
                pass
            lines.pop()
        if not lines:
            return 0
        os.truncate(self._part[0], reader.tell())
        with open(self._part[1], "w", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        return places[key] + 1

    def run(self):
        """Packs; returns [(path, error)] of the images that are left out."""
        done = self._resumed()
        if done:
            print("Going on after %d images" % done, file=sys.stderr)
        with open(self._note, "w") as file:
            json.dump(self._run, file)
        writer = recordio.MXIndexedRecordIO(
            self._part[1], self._part[0], "a" if done else "w"
        )
        broken = []
        try:
            self._write(writer, done, broken)
        finally:
            writer.close()
        for part, name in zip(self._part, (".rec", ".idx")):
            os.replace(part, self._base + name)
        os.remove(self._note)
        return broken

    def _write(self, writer, done, broken):
        threads = self._args.num_thread
        progress = Progress(len(self._images), done)
        waiting = collections.deque()
        coming = iter(self._images[done:])
        flushed = time.monotonic()
        with ThreadPoolExecutor(threads) as pool:
            try:
                while True:
                    while len(waiting) < 2 * threads:
                        images = list(itertools.islice(coming, _TOGETHER))
                        if not images:
                            break
                        work = pool.submit(make_records, self._args, images)
                        waiting.append((images, work))
                    if not waiting:
                        break
                    images, work = waiting.popleft()
                    records, interruption = work.result()
                    for image, record in zip(images, records):
                        if isinstance(record, Exception):
                            broken.append((image[1], record))
                        else:
                            writer.write_idx(image[0], record)
                    done += len(records)
                    if interruption is not None:
                        raise interruption
                    if time.monotonic() - flushed > 2:
                        writer.flush()
                        flushed = time.monotonic()
                    progress.show(done, len(broken))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        progress.show(done, len(broken), last=True)


def lists_of(prefix):
    """The .lst files whose paths begin with a prefix, which may also be a folder."""
    folders = [os.path.dirname(prefix)] + [prefix] * os.path.isdir(prefix)
    paths = (os.path.join(f, name) for f in folders for name in sorted(os.listdir(f)))
    return [p for p in paths if p.startswith(prefix) and p.endswith(".lst")]


def parse(arguments):
    """The options, with full paths."""
    parser = argparse.ArgumentParser(
        prog="plait-im2rec",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Makes lists of images (--list), or record files of such lists.",
    )
    add = parser.add_argument
    add("prefix", help="path of the .lst, .rec and .idx files without the ending")
    add("root", help="folder of the images")
    add = parser.add_argument_group("lists").add_argument
    add("--list", action="store_true", help="make a list instead of records")
    add("--exts", nargs="+", default=[".jpeg", ".jpg", ".png"], help="image files")
    add("--chunks", type=int, default=1, help="number of lists")
    add("--train-ratio", type=float, default=1.0, help="share for training")
    add("--test-ratio", type=float, default=0, help="share for testing")
    add(
        "--recursive",
        action="store_true",
        help="go into folders; each has a label of its own",
    )
    add("--no-shuffle", dest="shuffle", action="store_false", help="keep the order")
    add = parser.add_argument_group("records").add_argument
    add("--pass-through", action="store_true", help="pack the files as they are")
    add("--resize", type=int, default=0, help="pixels of the shorter edge; 0: as it is")
    add("--center-crop", action="store_true", help="pack the middle square")
    add("--quality", type=int, default=95, help="JPEG: 1-100; PNG: compression, 1-9")
    add(
        "--num-thread",
        type=int,
        default=_plait.available_threads(),
        help="threads; they do not change the order",
    )
    add(
        "--color",
        type=int,
        default=1,
        choices=[-1, 0, 1],
        help="1: colour, 0: gray, -1: as it is",
    )
    add("--encoding", default=".jpg", choices=[".jpg", ".png"], help="format")
    add("--pack-label", action="store_true", help="pack all labels, not the first only")
    add(
        "--exact",
        action="store_true",
        help="decode JPEGs at full size before --resize, also where a half would do",
    )
    args = parser.parse_args(arguments)
    for name in ("chunks", "num_thread"):
        if getattr(args, name) < 1:
            parser.error("--%s must be at least 1" % name.replace("_", "-"))
    if args.encoding == ".png" and args.quality > 9 and not args.pass_through:
        args.quality = 9 if args.quality != 95 else 3
    args.prefix = os.path.abspath(args.prefix)
    args.root = os.path.abspath(args.root)
    return args


def main(arguments=None):
    """The program; returns its exit status."""
    args = parse(arguments)
    if not os.path.isdir(args.root):
        print("plait-im2rec: %s is no folder" % args.root, file=sys.stderr)
        return 2
    if args.list:
        make_lists(args)
        return 0
    lists = lists_of(args.prefix)
    if not lists:
        print("plait-im2rec: no list begins with %s" % args.prefix, file=sys.stderr)
        return 2
    for path in lists:
        print("Creating .rec file from", path)
        broken = Packing(args, path).run()
        for name, error in broken:
            print("left out: %s: %s" % (name, error), file=sys.stderr)
        if broken:
            print("%d images were left out" % len(broken), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
