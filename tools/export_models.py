"""Exports networks of the model zoo for other languages: NAME-symbol.json, and with
--params NAME-0000.params.

usage: python tools/export_models.py FOLDER [--params] [--classes N] [NAME...]

Without names, all networks of gluon.model_zoo.vision. The parameters are those of a
local file, where get_model(NAME, pretrained=True) finds one, and else random ones.
"""

import argparse
from pathlib import Path

import plait as mx
from plait import nd
from plait.gluon.model_zoo import vision


def image_size(name):
    """The height and width of the images that a network is made for."""
    return 299 if name == "inceptionv3" else 224


def network(name, classes):
    """A network with its prefix, so that names do not depend on what was made before;
    pretrained where a file is there."""
    options = {"prefix": name.replace(".", "_") + "_"}
    if classes is not None:
        return vision.get_model(name, classes=classes, **options)
    try:
        return vision.get_model(name, pretrained=True, **options)
    except FileNotFoundError:
        return vision.get_model(name, **options)


def export(name, folder, params, classes):
    net = network(name, classes)
    path = folder / name
    if not params:
        net(mx.sym.var("data")).save("%s-symbol.json" % path)
        return
    if any(p._data is None for p in net.collect_params().values()):
        net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.zeros((1, 3, image_size(name), image_size(name))))
    net.export(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--params", action="store_true", help="parameters too")
    parser.add_argument("--classes", type=int, help="outputs of the last layer")
    options = parser.parse_intermixed_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or sorted(vision._table()):
        export(name, options.folder, options.params, options.classes)
        print(options.folder / (name + "-symbol.json"))


if __name__ == "__main__":
    main()
