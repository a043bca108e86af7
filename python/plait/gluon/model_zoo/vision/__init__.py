"""Networks for images: 224x224 RGB (inception 299), normalised by ImageNet's mean and
std.
"""

from . import alexnet as _alexnet  # noqa: F401  (the name is the function from here on)
from . import googlenet as _googlenet  # noqa: F401  (so is this one)
from .alexnet import *  # noqa: F403
from .densenet import *  # noqa: F403
from .googlenet import *  # noqa: F403
from .inception import *  # noqa: F403
from .mobilenet import *  # noqa: F403
from .resnet import *  # noqa: F403
from .resnext import *  # noqa: F403
from .squeezenet import *  # noqa: F403
from .vgg import *  # noqa: F403


def _table():
    """Model name -> function."""
    functions = globals()
    names = ["alexnet", "googlenet", "inception_bn"]
    names += ["densenet%d" % n for n in (121, 161, 169, 201)]
    names += ["resnet%d_v%d" % (n, v) for v in (1, 2) for n in (18, 34, 50, 101, 152)]
    names += ["vgg%d%s" % (n, s) for s in ("", "_bn") for n in (11, 13, 16, 19)]
    names += ["resnext%s" % s for s in ("50_32x4d", "101_32x4d", "101_64x4d")]
    table = {name: functions[name] for name in names}
    table["inceptionv3"] = functions["inception_v3"]
    for version in ("1.0", "1.1"):
        table["squeezenet" + version] = functions[
            "squeezenet" + version.replace(".", "_")
        ]
    for width in ("1.0", "0.75", "0.5", "0.25"):
        suffix = width.replace(".", "_")
        table["mobilenet" + width] = functions["mobilenet" + suffix]
        table["mobilenetv2_" + width] = functions["mobilenet_v2_" + suffix]
    return table


def get_model(name, **kwargs):
    """A network by name; kwargs: pretrained, classes, ctx, root, prefix, ..."""
    table = _table()
    name = name.lower()
    if name not in table:
        raise ValueError(
            "Model %s is not supported. Available options are\n\t%s"
            % (name, "\n\t".join(sorted(table)))
        )
    return table[name](**kwargs)
