"""One call for many parameters: the seam to the core's fused update operators."""

from .. import ndarray as nd


def _interleave(*lists):
    """w0, g0, s0, w1, g1, s1, ... from the lists of w, g and s."""
    return [array for group in zip(*lists) for array in group]


def sgd(weights, grads, momenta, masters, lrs, wds, **options):
    """SGD on dense arrays. momenta None: without; masters: float32 copies, or None."""
    name = "multi_%ssgd_%supdate" % (
        "mp_" if masters else "",
        "mom_" if momenta else "",
    )
    lists = [x for x in (weights, grads, momenta, masters) if x]
    getattr(nd, name)(
        *_interleave(*lists),
        out=weights,
        num_weights=len(weights),
        lrs=lrs,
        wds=wds,
        **options,
    )


def adam(weights, grads, means, variances, lrs, wds, **options):
    """Adam; the rates already contain the bias correction."""
    update = nd.adam_update
    for w, g, m, v, lr, wd in zip(weights, grads, means, variances, lrs, wds):
        update(w, g, m, v, out=w, lr=lr, wd=wd, **options)


def lamb(weights, grads, means, variances, masters, lrs, **options):
    """LAMB on dense arrays; masters: float32 copies, or None."""
    internal = nd._internal
    update = internal._multi_mp_lamb_update if masters else internal._multi_lamb_update
    lists = [x for x in (weights, grads, means, variances, masters) if x]
    update(
        *_interleave(*lists),
        out=weights,
        num_tensors=len(weights),
        learning_rates=lrs,
        **options,
    )
