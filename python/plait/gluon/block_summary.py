"""Block.summary(): a table of layers, output shapes and parameter counts."""

from .. import ndarray as nd


def _shape_text(values):
    """The shapes of nested arrays, as text."""

    def shapes(value):
        if isinstance(value, (list, tuple)):
            return [shapes(v) for v in value]
        return value.shape if isinstance(value, nd.NDArray) else value

    found = shapes(values)
    return str(found)[1:-1] if isinstance(found, list) else str(found)


def print_summary(block, inputs):
    """Runs the block once with hooks on every layer and prints what they saw."""
    from .nn.basic_layers import HybridSequential, Sequential

    rows = [("Input", _shape_text(list(inputs)), 0)]
    counts = {"all": 0, "trainable": 0, "shared": 0}
    seen, handles = set(), []

    def note(layer, _, outputs):
        total = 0
        for param in layer.params.values():
            size = param.data().size
            total += size
            counts["trainable"] += size if param.grad_req != "null" else 0
            counts["shared"] += size if param in seen else 0
            seen.add(param)
        counts["all"] += total
        rows.append(
            ("%s-%d" % (type(layer).__name__, len(rows)), _shape_text(outputs), total)
        )

    def watch(layer):
        assert not getattr(layer, "_active", False), (
            '"%s" must not be hybridized to print summary.' % layer.name
        )
        if not isinstance(layer, (Sequential, HybridSequential)):
            handles.append(layer.register_forward_hook(note))

    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    _print(rows, counts)


def _print(rows, counts):
    line = "{:>20}  {:>42} {:>15}"
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for row in rows:
        print(line.format(*row))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print("   Total params: %d" % counts["all"])
    print("   Trainable params: %d" % counts["trainable"])
    print("   Non-trainable params: %d" % (counts["all"] - counts["trainable"]))
    print("Shared params in forward computation graph: %d" % counts["shared"])
    print("Unique parameters in model: %d" % (counts["all"] - counts["shared"]))
    print("-" * 80)
