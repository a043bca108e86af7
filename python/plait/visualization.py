"""Pictures of symbols: a table of layers, and a graph for Graphviz."""

import json
import os
import re
import shutil
import subprocess
import warnings

import numpy as np

from .error import MXNetError, MXNetTypeError, MXNetValueError
from .symbol import Symbol

__all__ = ["print_summary", "plot_network"]


class _Graph:
    """The nodes of a symbol's JSON, with shapes and dtypes where inputs' are given."""

    def __init__(self, symbol, what, shape=None, dtype=None):
        if not isinstance(symbol, Symbol):
            raise MXNetTypeError(
                "%s: got a %s; expected a Symbol" % (what, type(symbol).__name__)
            )
        content = json.loads(symbol.tojson())
        self.nodes = content["nodes"]
        ends = content.get("node_row_ptr") or range(len(self.nodes) + 1)
        self._counts = [b - a for a, b in zip(ends, ends[1:])]
        self._internals = symbol.get_internals()
        self.shapes = self.dtypes = None
        if shape is not None:
            self.shapes = self._of_outputs(what, "infer_shape", shape)
        if dtype is not None:
            self.dtypes = self._of_outputs(what, "infer_type", dtype)

    def _of_outputs(self, what, infer, given):
        """For each node the list of its visible outputs' shapes or dtypes."""
        found = getattr(self._internals, infer)(**given)[1]
        if found is None:
            raise MXNetValueError(
                "%s: %s of %s are not enough to know all others"
                % (what, infer[len("infer_") :] + "s", ", ".join(given) or "no input")
            )
        pairs = list(zip(self._internals.list_outputs(), found))
        result = []
        for number, node in enumerate(self.nodes):
            own = [pairs.pop(0)[1]]
            while pairs and len(own) < self._counts[number]:
                # Hidden outputs are not listed; the next name may be the next node's.
                following = self.nodes[number + 1 : number + 2]
                if not pairs[0][0].startswith(node["name"] + "_") or (
                    following and _names_output(following[0], pairs[0][0])
                ):
                    break
                own.append(pairs.pop(0)[1])
            result.append(own)
        return result

    def inputs(self, node):
        """(number, node, output) of each input."""
        return [(e[0], self.nodes[e[0]], e[1]) for e in node["inputs"]]


def _names_output(node, name):
    """Whether `name` is the first output of a node."""
    own = node["name"]
    return name == own if node["op"] == "null" else name == own + "_output"


def _is_label(name):
    return name.endswith("label")


# The table.

_COLUMNS = ("Layer (type)", "Output Shape", "Param #", "Previous Layer")


def _row(fields, positions):
    line = ""
    for field, end in zip(fields, positions):
        line = (line + str(field))[: end - 1].ljust(end)
    return line.rstrip()


def print_summary(symbol, shape=None, line_length=120, positions=(0.44, 0.64, 0.74, 1)):
    """Prints a line for each layer: its output's shape, parameters, and inputs.

    shape: a dict from the names of inputs to shapes; without it shapes and most counts
    are not known. The first axis of shapes, the batch, is left out. A parameter counts
    where it is used first; auxiliary states do not count.
    """
    graph = _Graph(symbol, "print_summary", shape)
    if positions[-1] <= 1:
        positions = [int(line_length * p) for p in positions]
    inputs = set(shape or ()) | set(symbol.list_auxiliary_states())
    counted, total = set(), 0
    print("_" * line_length)
    print(_row(_COLUMNS, positions))
    print("=" * line_length)
    for number, node in enumerate(graph.nodes):
        if node["op"] == "null" and number > 0:
            continue
        size = 0
        for source, origin, _ in graph.inputs(node):
            name = origin["name"]
            if origin["op"] != "null" or source in counted or name in inputs:
                continue
            if not _is_label(name):
                counted.add(source)
                size += _size_of(graph, node, source, origin)
        total += size
        out = graph.shapes[number][0][1:] if graph.shapes else ()
        previous = [
            origin["name"]
            for source, origin, _ in graph.inputs(node)
            if origin["op"] != "null" or source == 0
        ] or [""]
        label = "%s(%s)" % (node["name"], node["op"])
        shown = "x".join(map(str, out))
        print(_row((label, shown, size, previous[0]), positions))
        for name in previous[1:]:
            print(_row(("", "", "", name), positions))
        last = number == len(graph.nodes) - 1
        print(("=" if last else "_") * line_length)
    print("Total params: %d" % total)
    print("_" * line_length)


def _size_of(graph, node, source, origin):
    """How many elements a parameter has; 0 where nothing tells."""
    if graph.shapes:
        return int(np.prod(graph.shapes[source][0]))
    attrs = node.get("attrs", {})
    if node["op"] == "Embedding" and origin["name"].endswith("_weight"):
        return int(attrs["input_dim"]) * int(attrs["output_dim"])
    if origin["name"].endswith("_bias"):
        return int(attrs.get("num_hidden", attrs.get("num_filter", 0)))
    return 0


# The graph.

# Fill colours by kind of operator; inputs first, anything else last.
_COLOURS = {
    "null": "#8dd3c7",
    "Convolution": "#fb8072",
    "Deconvolution": "#fb8072",
    "FullyConnected": "#fb8072",
    "Activation": "#ffffb3",
    "LeakyReLU": "#ffffb3",
    "BatchNorm": "#bebada",
    "Pooling": "#80b1d3",
    "Concat": "#fdb462",
    "Flatten": "#fdb462",
    "Reshape": "#fdb462",
    "SoftmaxOutput": "#b3de69",
    "softmax": "#b3de69",
}
_OTHER = "#fccde5"
_TEXT = {"fontname": "Helvetica", "fontsize": "11"}
_BOX = {
    "shape": "box",
    "style": "rounded,filled",
    "color": "#808080",
    "width": "1.5",  # at least: longer texts widen the box
    "height": "0.6",
    **_TEXT,
}
_WEIGHTS = re.compile(
    r"_(weight|bias|beta|gamma|(moving|running)_(var|mean)|parameters)$"
)


def _numbers(attrs, key, default):
    return "x".join(re.findall(r"\d+", attrs.get(key, ""))) or default


def _label(node):
    """What stands in a node's box."""
    op, attrs = node["op"], node.get("attrs", {})
    if op in ("Convolution", "Deconvolution"):
        kernel, stride = _numbers(attrs, "kernel", "?"), _numbers(attrs, "stride", "1")
        return "%s\n%s/%s, %s" % (op, kernel, stride, attrs.get("num_filter", "?"))
    if op == "Pooling":
        kernel, stride = (
            _numbers(attrs, "kernel", "all"),
            _numbers(attrs, "stride", "1"),
        )
        kind = attrs.get("pool_type", "max")
        return "Pooling\n%s, %s/%s" % (kind, kernel, stride)
    if op == "FullyConnected":
        return "FullyConnected\n%s" % attrs.get("num_hidden", "?")
    if op in ("Activation", "LeakyReLU"):
        return "%s\n%s" % (op, attrs.get("act_type", "leaky"))
    if op == "Custom":
        return attrs.get("op_type", node["name"])
    return node["name"]


def plot_network(
    symbol,
    title="plot",
    save_format="pdf",
    shape=None,
    dtype=None,
    node_attrs=None,
    hide_weights=True,
):
    """The graph of a symbol as a Digraph, with inputs at the bottom.

    shape and dtype: dicts by names of inputs; edges then show what flows along them.
    node_attrs: Graphviz attributes of the boxes. The Digraph has .source, .render() and
    .svg(); the latter two need Graphviz's program `dot`.
    """
    graph = _Graph(symbol, "plot_network", shape, dtype)
    names = [node["name"] for node in graph.nodes]
    if len(set(names)) < len(names):
        repeated = sorted({n for n in names if names.count(n) > 1})
        warnings.warn(
            "There are multiple variables with the same name in your graph, this may "
            "result in cyclic graph. Repeated names: " + ",".join(repeated),
            RuntimeWarning,
            stacklevel=2,
        )
    plain = {**_BOX, **(node_attrs or {})}
    dot = Digraph(title, save_format)
    hidden = set()
    for number, node in enumerate(graph.nodes):
        attrs = {**plain, "fillcolor": _COLOURS.get(node["op"], _OTHER)}
        if node["op"] == "null":
            if hide_weights and _WEIGHTS.search(node["name"]):
                hidden.add(number)
                continue
            attrs.update(shape="oval", style="filled")
        dot.node(node["name"], _label(node), **attrs)
    for node in graph.nodes:
        for source, origin, output in graph.inputs(node):
            if source not in hidden:
                attrs = {"dir": "back", "arrowtail": "open", **_TEXT}
                attrs["label"] = _edge_label(graph, source, output)
                dot.edge(node["name"], origin["name"], **attrs)
    return dot


def _edge_label(graph, source, output):
    label = ""
    if graph.shapes:
        label = "x".join(map(str, graph.shapes[source][output][1:]))
    if graph.dtypes:
        label += "(%s)" % np.dtype(graph.dtypes[source][output]).name
    return label


def _quoted(text):
    text = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"%s"' % text


class Digraph:
    """A directed graph in Graphviz's language, which is written here; only drawing
    needs the program `dot`.
    """

    def __init__(self, name="plot", format="pdf"):
        self.name = name
        self.format = format
        self.body = []

    def node(self, name, label=None, **attrs):
        """Adds a node."""
        attrs = {"label": label, **attrs} if label is not None else attrs
        self.body.append("\t%s%s" % (_quoted(name), self._attributes(attrs)))

    def edge(self, tail_name, head_name, label=None, **attrs):
        """Adds an edge."""
        attrs = {"label": label, **attrs} if label is not None else attrs
        ends = "%s -> %s" % (_quoted(tail_name), _quoted(head_name))
        self.body.append("\t%s%s" % (ends, self._attributes(attrs)))

    @staticmethod
    def _attributes(attrs):
        if not attrs:
            return ""
        pairs = ["%s=%s" % (k, _quoted(v)) for k, v in sorted(attrs.items())]
        return " [%s]" % " ".join(pairs)

    @property
    def source(self):
        """The graph as text in Graphviz's language."""
        return "digraph %s {\n%s\n}\n" % (_quoted(self.name), "\n".join(self.body))

    def __str__(self):
        return self.source

    def save(self, filename=None, directory=None):
        """Writes the source to NAME.gv; gives the path."""
        path = os.path.join(directory or "", filename or self.name + ".gv")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.source)
        return path

    def pipe(self, format=None):
        """The drawing as bytes, in any format that `dot` knows."""
        dot = shutil.which("dot")
        if dot is None:
            raise MXNetError(
                "plot_network: drawing needs Graphviz's program dot, which was not "
                "found; install graphviz, or use .source"
            )
        done = subprocess.run(
            [dot, "-T" + (format or self.format)],
            input=self.source.encode(),
            capture_output=True,
        )
        if done.returncode:
            raise MXNetError(
                "plot_network: dot failed: %s" % done.stderr.decode(errors="replace")
            )
        return done.stdout

    def svg(self):
        """The drawing as SVG text."""
        return self.pipe("svg").decode()

    _repr_image_svg_xml = svg  # what notebooks show

    def render(
        self, filename=None, directory=None, view=False, cleanup=False, format=None
    ):
        """Writes the source to NAME and the drawing to NAME.FORMAT, whose path it
        gives. cleanup=True removes the source; view=True opens the drawing.
        """
        kind = format or self.format
        path = self.save(filename, directory)
        drawing = "%s.%s" % (path, kind)
        with open(drawing, "wb") as f:
            f.write(self.pipe(kind))
        if cleanup:
            os.remove(path)
        if view:
            subprocess.Popen(["xdg-open", drawing])
        return drawing

    def view(self, filename=None, directory=None, cleanup=False):
        """Renders and opens the drawing."""
        return self.render(filename, directory, view=True, cleanup=cleanup)
