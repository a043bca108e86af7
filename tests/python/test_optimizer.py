"""Optimizers against their formulas in NumPy; schedulers; rates and multipliers."""

import math

import numpy as np
import pytest

import plait as mx
from plait import _plait, nd

LR, WD, CLIP, SCALE = 0.1, 0.05, 0.4, 0.5


def clip(x):
    return np.clip(x, -CLIP, CLIP)


def sgd(w, g, s, t, mu=0.9):
    s["m"] = mu * s["m"] - LR * (clip(SCALE * g) + WD * w)
    return w + s["m"]


def plain_sgd(w, g, s, t):
    return w - LR * (clip(SCALE * g) + WD * w)


def nag(w, g, s, t, mu=0.9):
    step = clip(SCALE * g) + WD * w
    new = w + mu * (mu * s["m"] - LR * step) - LR * step
    # As in MXNet, the decay of the momentum sees the weight already updated.
    s["m"] = mu * s["m"] - LR * (clip(SCALE * g) + WD * new)
    return new


def signum(w, g, s, t):
    s["m"] = 0.9 * s["m"] - 0.1 * (WD * w + clip(SCALE * g))
    return (1 - LR * 0.02) * w + LR * np.sign(s["m"])


def adam(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g * g
    rate = LR * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return w - rate * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def adamw(w, g, s, t):
    g = clip(SCALE * g)
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g * g
    rate = LR * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return w - rate * (s["m"] / (np.sqrt(s["v"]) + 1e-6) + WD * w)


def adamax(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = np.maximum(0.999 * s["v"], np.abs(g))
    return w - LR / (1 - 0.9**t) * s["m"] / s["v"]


def nadam(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    now = 0.9 * (1 - 0.5 * 0.96 ** (t * 0.004))
    after = 0.9 * (1 - 0.5 * 0.96 ** ((t + 1) * 0.004))
    s["p"] = s.get("p", 1.0) * now
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g * g
    step = (1 - now) * g / (1 - s["p"]) + after * s["m"] / (1 - s["p"] * after)
    return w - LR * step / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8)


def adagrad(w, g, s, t):
    g = clip(SCALE * g)
    s["v"] = s["v"] + g * g
    return w - LR * (g / np.sqrt(s["v"] + 1e-7) + WD * w)


def adadelta(w, g, s, t):
    g = clip(SCALE * g)
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    step = np.sqrt(s["m"] + 1e-5) / np.sqrt(s["v"] + 1e-5) * g
    s["m"] = 0.9 * s["m"] + 0.1 * step * step
    return w - step - WD * w


def rmsprop(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    return w - LR * g / np.sqrt(s["v"] + 1e-8)


def rmsprop_centered(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    s["v"] = 0.9 * s["v"] + 0.1 * g * g
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["d"] = 0.9 * s.get("d", 0) - LR * g / np.sqrt(s["v"] - s["m"] ** 2 + 1e-8)
    return w + s["d"]


def ftrl(w, g, s, t):
    g = clip(SCALE * g)
    s["m"] = s["m"] + g - (np.sqrt(s["v"] + g * g) - np.sqrt(s["v"])) * w / LR
    s["v"] = s["v"] + g * g
    step = (np.sign(s["m"]) * 0.01 - s["m"]) / ((1 + np.sqrt(s["v"])) / LR + WD)
    return np.where(np.abs(s["m"]) > 0.01, step, 0)


def ftml(w, g, s, t):
    g = clip(SCALE * g + WD * w)
    s["v"] = 0.999 * s["v"] + 0.001 * g * g
    d = (1 - 0.6**t) / LR * (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8)
    s["z"] = 0.6 * s.get("z", 0) + 0.4 * g - (d - 0.6 * s["m"]) * w
    s["m"] = d
    return -s["z"] / d


def dcasgd(w, g, s, t):
    g = clip(SCALE * g)
    before = s.get("w", w)
    s["m"] = 0.9 * s["m"] - LR * (g + WD * w + 0.04 * g * g * (w - before))
    s["w"] = w
    return w + s["m"]


def lamb(w, g, s, t):
    g = clip(SCALE * g)
    s["m"] = 0.9 * s["m"] + 0.1 * g
    s["v"] = 0.999 * s["v"] + 0.001 * g * g
    m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
    step = m / (np.sqrt(v) + 1e-6) + WD * w
    return w - LR * np.linalg.norm(w) / np.linalg.norm(step) * step


def lars(w, g, s, t):
    # The norm is that of the scaled gradient before clipping.
    norm = SCALE * np.linalg.norm(g) + WD * np.linalg.norm(w)
    rate = LR * 0.001 * np.linalg.norm(w) / norm
    s["m"] = 0.9 * s["m"] - rate * (clip(SCALE * g) + WD * w)
    return w + s["m"]


CASES = {
    "sgd": (sgd, {"momentum": 0.9}),
    "ccsgd": (plain_sgd, {}),
    "nag": (nag, {"momentum": 0.9}),
    "signum": (signum, {"wd_lh": 0.02}),
    "adam": (adam, {}),
    "adamw": (adamw, {}),
    "adamax": (adamax, {}),
    "nadam": (nadam, {}),
    "adagrad": (adagrad, {}),
    "adadelta": (adadelta, {}),
    "rmsprop": (rmsprop, {}),
    "RMSProp": (rmsprop_centered, {"centered": True}),
    "ftrl": (ftrl, {}),
    "ftml": (ftml, {}),
    "dcasgd": (dcasgd, {"momentum": 0.9}),
    "lamb": (lamb, {}),
    "lars": (lars, {"momentum": 0.9}),
}
COMMON = {"learning_rate": LR, "wd": WD, "clip_gradient": CLIP, "rescale_grad": SCALE}


def shapes_and_steps(steps=4):
    shapes = [(3, 4), (5,)]
    weights = [np.random.normal(size=s) for s in shapes]
    grads = [[np.random.normal(size=s) for s in shapes] for _ in range(steps)]
    return weights, grads


@pytest.mark.parametrize("name", sorted(CASES))
def test_updates_follow_the_formula(name):
    formula, options = CASES[name]
    optimizer = mx.optimizer.create(name, **COMMON, **options)
    weights, grads = shapes_and_steps()
    if name == "nadam":  # its momentum schedule is shared, so one weight at a time
        weights, grads = weights[:1], [g[:1] for g in grads]
    arrays = [nd.array(w) for w in weights]
    updater = mx.optimizer.get_updater(optimizer)
    expected = [w.copy() for w in weights]
    states = [{"m": np.zeros_like(w), "v": np.zeros_like(w)} for w in weights]
    for t, step in enumerate(grads, 1):
        updater(list(range(len(arrays))), [nd.array(g) for g in step], list(arrays))
        for i, g in enumerate(step):
            expected[i] = formula(expected[i], g, states[i], t)
    for array, value in zip(arrays, expected):
        np.testing.assert_allclose(array.asnumpy(), value, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CASES))
def test_many_at_once_equal_one_by_one(name):
    _, options = CASES[name]
    weights, grads = shapes_and_steps()
    together = [nd.array(w) for w in weights]
    alone = [nd.array(w) for w in weights]
    first, second = (
        mx.optimizer.get_updater(mx.optimizer.create(name, **COMMON, **options))
        for _ in range(2)
    )
    for step in grads:
        first([0, 1], [nd.array(g) for g in step], list(together))
        for i, g in enumerate(step):
            second(i, nd.array(g), alone[i])
    for a, b in zip(together, alone):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6, atol=1e-7)


def test_known_values():
    w = nd.array([1.0])
    optimizer = mx.optimizer.Adam(learning_rate=0.001)
    optimizer.update(0, w, nd.array([0.1]), optimizer.create_state(0, w))
    assert w.asscalar() == pytest.approx(0.999, abs=1e-7)
    w = nd.array([1.0])
    mx.optimizer.SGD(learning_rate=0.1, wd=0.1).update(0, w, nd.array([0.0]), None)
    assert w.asscalar() == pytest.approx(0.99)


def test_sgld_adds_noise_of_the_right_size():
    w = nd.zeros((20000,))
    mx.optimizer.SGLD(learning_rate=0.04).update(0, w, nd.zeros((20000,)), None)
    values = w.asnumpy()
    assert abs(values.mean()) < 0.01 and abs(values.std() - 0.2) < 0.01


def test_group_adagrad_has_one_history_for_each_row():
    w, g = nd.ones((2, 3)), nd.array([[1.0, 2, 3], [0, 0, 0]])
    optimizer = mx.optimizer.create("groupadagrad", learning_rate=1.0)
    state = optimizer.create_state(0, w)
    optimizer.update(0, w, g, state)
    assert state.shape == (2, 1)
    h = (1 + 4 + 9) / 3 + 1e-5
    expected = 1 - np.array([[1, 2, 3], [0, 0, 0]]) / math.sqrt(h)
    np.testing.assert_allclose(w.asnumpy()[0], expected[0], rtol=1e-5)
    with pytest.raises(ValueError, match="two axes"):
        optimizer.create_state(1, nd.ones((3,)))


def test_lbsgd_steps_once_for_several_gradients():
    optimizer = mx.optimizer.LBSGD(
        batch_scale=2, warmup_epochs=0, learning_rate=1.0, momentum=0.0
    )
    w = nd.array([1.0])
    optimizer.update(0, w, nd.array([1.0]), None)
    assert w.asscalar() == 1
    optimizer.update(0, w, nd.array([3.0]), None)
    assert w.asscalar() == 1 - 2 * 2  # the mean gradient, times the scale


def test_master_weights_of_half_precision():
    for name in ("sgd", "adam", "nag", "lamb"):
        optimizer = mx.optimizer.create(name, multi_precision=True, learning_rate=1e-4)
        w = nd.ones((4,), dtype="float16")
        state = optimizer.create_state_multi_precision(0, w)
        for _ in range(5):
            grad = nd.ones((4,), dtype="float16")
            optimizer.update_multi_precision(0, w, grad, state)
        master = state[1] if name in ("sgd", "nag") else state[0]
        assert master.dtype == np.float32 and master.asnumpy()[0] < 1
        assert (w.asnumpy() == master.asnumpy().astype("float16")).all()


def test_a_subclass_with_its_own_update_is_used_for_lists_too():
    class Half(mx.optimizer.Adam):
        def update(self, index, weight, grad, state):
            weight[:] = weight / 2

    weights = [nd.array([2.0]), nd.array([4.0])]
    updater = mx.optimizer.get_updater(Half())
    updater([0, 1], [nd.zeros((1,)), nd.zeros((1,))], weights)
    assert [w.asscalar() for w in weights] == [1, 2]


def test_subclasses_change_what_they_override():
    class Doubled(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            super().update(index, weight, 2 * grad, state)

    class Slow(mx.optimizer.SGD):
        def _get_lr(self, index):
            return super()._get_lr(index) / 10

    class FromOnes(mx.optimizer.SGD):
        def create_state(self, index, weight):
            return nd.ones_like(weight)

    for klass, expected in ((Doubled, 0.8), (Slow, 0.99), (FromOnes, 1.8)):
        momentum = 0.9 if klass is FromOnes else 0.0
        for half in (False, True):
            optimizer = klass(
                learning_rate=0.1, momentum=momentum, multi_precision=half
            )
            dtype = "float16" if half else "float32"
            weights = [nd.ones((2,), dtype=dtype), nd.ones((3,), dtype=dtype)]
            grads = [nd.ones_like(w) for w in weights]
            mx.optimizer.get_updater(optimizer)([0, 1], grads, weights)
            for w in weights:
                np.testing.assert_allclose(w.asnumpy(), expected, rtol=1e-3)


def test_attributes_count_from_the_next_update_on():
    optimizer = mx.optimizer.SGD(learning_rate=1.0)
    w, g = nd.array([1.0]), nd.array([0.5])
    optimizer.update(0, w, g, None)
    optimizer.lr, optimizer.rescale_grad, optimizer.clip_gradient = 0.1, 4.0, 1.0
    optimizer.update(0, w, g, None)
    assert w.asscalar() == pytest.approx(1 - 0.5 - 0.1)


def test_defaults_are_those_of_the_core():
    def attributes(thing, names):
        return {name: getattr(thing, name) for name in names}

    for name in _plait.rule_names():
        optimizer = mx.optimizer.create(name)
        defaults = _plait.kind_defaults("rule", name)
        changing = {"init_updates"} & set(defaults)
        names = set(defaults) - changing
        assert attributes(optimizer, names) == {n: defaults[n] for n in names}, name


def test_wrong_arrays_are_refused():
    optimizer = mx.optimizer.Adam()
    w = nd.ones((2,))
    state = optimizer.create_state(0, w)
    with pytest.raises(ValueError, match=r"grad has shape \(3,\)"):
        optimizer.update(0, w, nd.ones((3,)), state)
    with pytest.raises(TypeError, match="grad float64; equal dtypes"):
        optimizer.update(0, w, nd.ones((2,), dtype="float64"), state)
    with pytest.raises(TypeError, match="got 2 arrays; 4 were expected"):
        optimizer.update(0, w, nd.ones((2,)), None)
    with pytest.raises(TypeError, match="a state holds a str"):
        optimizer.update(0, w, nd.ones((2,)), ("mean", "variance"))
    assert w.asnumpy().tolist() == [1, 1]


def test_registry():
    with pytest.raises(ValueError, match="Cannot find optimizer nothing"):
        mx.optimizer.create("nothing")

    @mx.optimizer.register
    class PlaitTestOptimizer(mx.optimizer.Optimizer):
        pass

    made = mx.optimizer.create("plaittestoptimizer")
    assert isinstance(made, PlaitTestOptimizer)
    with pytest.warns(UserWarning, match="overriding existing"):
        mx.optimizer.register(type("PlaitTestOptimizer", (mx.optimizer.Optimizer,), {}))
    with pytest.raises(NotImplementedError):
        made.update(0, None, None, None)


def test_counts_are_kept_by_index_and_device():
    optimizer = mx.optimizer.SGD(begin_num_update=10)
    optimizer._update_count([0, 0, 1])
    assert optimizer._index_update_count == {0: 12, 1: 11}
    assert optimizer.num_update == 12
    optimizer._set_current_context(1)
    optimizer._update_count(0)
    assert optimizer._index_update_count == {0: 11} and optimizer.num_update == 12


def test_rates_and_decays_by_name():
    names = {0: "a_weight", 1: "a_bias", 2: "a_gamma"}
    optimizer = mx.optimizer.SGD(param_idx2name=names, wd=0.1, learning_rate=1.0)
    assert optimizer._get_wds([0, 1, 2]) == [0.1, 0, 0.1]
    optimizer.set_lr_mult({0: 0.5, "a_bias": 2.0})
    optimizer.set_wd_mult({"a_bias": 3.0})
    assert optimizer._get_lrs([0, 1, 2]) == [0.5, 2, 1]
    assert optimizer._get_wds([0, 1, 2]) == pytest.approx([0.1, 0.3, 0.1])
    lars_optimizer = mx.optimizer.LARS(param_idx2name=names, wd=0.1)
    assert lars_optimizer._get_wds([0, 2]) == [0.1, 0]


def test_fixed_gammas_of_a_symbol_are_not_decayed():
    data = mx.sym.Variable("data")
    fixed = mx.sym.BatchNorm(data, name="fixed")
    free = mx.sym.BatchNorm(fixed, name="free", fix_gamma=False)
    names = dict(enumerate(free.list_arguments()))
    optimizer = mx.optimizer.SGD(sym=free, param_idx2name=names, wd=0.1)
    decays = dict(zip(names.values(), optimizer._get_wds(list(names))))
    assert decays["fixed_gamma"] == 0 and decays["free_gamma"] == 0.1
    optimizer.set_wd_mult({"fixed_gamma": 2.0})
    assert optimizer._get_wds(list(names))[1] == 0.2


def test_scheduler_and_rate_together_warn():
    schedule = mx.lr_scheduler.FactorScheduler(step=10, base_lr=0.5)
    with pytest.warns(UserWarning, match="overwritten"):
        mx.optimizer.SGD(learning_rate=0.25, lr_scheduler=schedule)
    assert schedule.base_lr == 0.25


def test_schedules():
    S = mx.lr_scheduler
    factor = S.FactorScheduler(step=10, factor=0.1, stop_factor_lr=1e-3, base_lr=1.0)
    assert [factor(n) for n in (0, 10, 11, 20, 21)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01]
    )
    assert factor(1000) == 1e-3
    multi = S.MultiFactorScheduler(step=[5, 8], factor=0.5, base_lr=1.0)
    assert [multi(n) for n in (5, 6, 8, 9, 100)] == [1, 0.5, 0.5, 0.25, 0.25]
    poly = S.PolyScheduler(max_update=100, base_lr=2.0, pwr=2, final_lr=1.0)
    assert [poly(n) for n in (0, 50, 100, 200)] == [2, 1.25, 1, 1]
    cosine = S.CosineScheduler(max_update=100, base_lr=1.0, final_lr=0.0)
    assert [cosine(n) for n in (0, 50, 100)] == pytest.approx([1, 0.5, 0], abs=1e-12)


def test_warm_up():
    schedule = mx.lr_scheduler.CosineScheduler(
        20, base_lr=1.0, warmup_steps=10, warmup_begin_lr=0.5
    )
    assert [schedule(n) for n in (0, 5, 10)] == pytest.approx([0.5, 0.75, 1])
    constant = mx.lr_scheduler.FactorScheduler(
        5, base_lr=1.0, warmup_steps=10, warmup_begin_lr=0.1, warmup_mode="constant"
    )
    assert constant(9) == 0.1


@pytest.mark.parametrize(
    "make",
    [
        lambda S: S.FactorScheduler(step=0),
        lambda S: S.FactorScheduler(step=1, factor=1.5),
        lambda S: S.MultiFactorScheduler(step=[3, 2]),
        lambda S: S.MultiFactorScheduler(step=[0, 2]),
        lambda S: S.PolyScheduler(max_update=0),
        lambda S: S.LRScheduler(base_lr=0.1, warmup_begin_lr=1),
        lambda S: S.LRScheduler(warmup_steps=-1),
        lambda S: S.LRScheduler(warmup_mode="odd"),
    ],
)
def test_wrong_schedules_are_refused(make):
    with pytest.raises(ValueError):
        make(mx.lr_scheduler)


def test_one_call_updates_more_weights_than_a_few_hundred():
    n = 600
    weights = [nd.full((2,), i) for i in range(n)]
    momenta = [nd.zeros((2,)) for _ in range(n)]
    arrays = [
        a for w, m in zip(weights, momenta, strict=True) for a in (w, nd.ones(2), m)
    ]
    nd.multi_sgd_mom_update(
        *arrays, out=weights, lrs=[0.5] * n, wds=[0] * n, momentum=0.9, num_weights=n
    )
    assert [w.asnumpy()[0] for w in weights] == [i - 0.5 for i in range(n)]
    assert all(m.asnumpy()[1] == -0.5 for m in momenta)
    nd.reset_arrays(*arrays, num_arrays=len(arrays))
    assert not any(a.asnumpy().any() for a in arrays)


def test_a_scheduler_goes_before_the_rate_of_ftrl():
    schedule = mx.lr_scheduler.FactorScheduler(step=10, base_lr=0.5)
    assert mx.optimizer.Ftrl(lr_scheduler=schedule).learning_rate == 0.5
    assert mx.optimizer.Ftrl(learning_rate=0.2).learning_rate == 0.2
