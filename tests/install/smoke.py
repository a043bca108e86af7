"""What an installed Plait must do with the NumPy beside it (tools/try_wheel.sh)."""

import tempfile

import numpy as np

import plait as mx

assert "site-packages" in mx.__file__, mx.__file__

x = mx.nd.array(np.arange(6).reshape(2, 3))
x.attach_grad()
with mx.autograd.record():
    y = (x * x).sum()
y.backward()
assert (x.grad.asnumpy() == 2 * np.arange(6).reshape(2, 3)).all()
assert (np.from_dlpack(x) == x.asnumpy()).all()
assert (mx.nd.array(x.asnumpy()) + np.float32(1)).sum().asscalar() == 21

with tempfile.TemporaryDirectory() as folder:
    mx.nd.save(f"{folder}/x.params", {"x": x})
    assert (mx.nd.load(f"{folder}/x.params")["x"].asnumpy() == x.asnumpy()).all()

print(f"plait {mx.__version__} from a wheel works with NumPy {np.__version__}")
