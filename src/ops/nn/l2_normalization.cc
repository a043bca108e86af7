// L2Normalization: x divided by its Euclidean norm.

#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Mode { kChannel, kInstance, kSpatial };

struct L2NormalizationParams {
  float eps = 1e-10f;
  Mode mode = Mode::kInstance;
};
using P = L2NormalizationParams;

// The shape of the norms: over all of a sample, its channels, or its space.
Shape NormShape(const P& p, const Shape& x) {
  switch (p.mode) {
    case Mode::kInstance:
      return {x[0]};
    case Mode::kSpatial:
      return {x[0], x[1]};
    case Mode::kChannel:
      break;
  }
  Shape s = x;
  s[1] = 1;
  return s;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  const int least = p.mode == Mode::kInstance ? 1 : 3;
  Check(x.rank() >= least, "L2Normalization: x ", x, " has too few axes; at least ",
        least, " were expected");
  return Assign(out[1].shape, NormShape(p, x));
}

void Plain(const P& p, const KernelArgs& args) {
  const Shape& x = args.in[0].shape();
  int64_t outer = x[0], n = x.size(1, x.rank()), inner = 1;
  if (p.mode == Mode::kSpatial) {
    outer = x[0] * x[1];
    n = x.size(2, x.rank());
  } else if (p.mode == Mode::kChannel) {
    n = x[1];
    inner = x.size(2, x.rank());
  }
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(outer * inner, 1, [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        const int64_t at = s / inner * n * inner + s % inner;
        const T* src = args.in[0].data<const T>() + at;
        T* dst = args.out[0].data<T>() + at;
        double total = p.eps;
        for (int64_t i = 0; i < n; ++i) {
          const double v = static_cast<double>(static_cast<A>(src[i * inner]));
          total += v * v;
        }
        const A norm = static_cast<A>(std::sqrt(total));
        args.out[1].data<T>()[s] = static_cast<T>(norm);
        for (int64_t i = 0; i < n; ++i) {
          dst[i * inner] = static_cast<T>(static_cast<A>(src[i * inner]) / norm);
        }
      }
    });
  });
}

// y = x / n: dx = (dy - y sum(y dy)) / n + y dn.
Values Gradient(const P& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  Shape shape = x;
  ReduceAxes axes{.keepdims = true};
  for (int i = 1; i < x.rank(); ++i) {
    const bool over =
        p.mode == Mode::kInstance || (p.mode == Mode::kChannel) == (i == 1);
    if (!over) continue;
    shape[i] = 1;
    axes.axes.push_back(i);
  }
  const Value &y = g.out(0), norm = reshape(g.out(1), shape);
  Value dx;
  if (g.has_dout(0)) {
    const Value dy = g.dout(0);
    const Value along = axes.axes.empty() ? y * dy : sum(y * dy, axes);
    dx = (dy - y * along) / norm;
  }
  if (g.has_dout(1)) {
    const Value term = y * reshape(g.dout(1), shape);
    dx = dx ? dx + term : term;
  }
  return {dx};
}

const OpDef& l2_normalization = Register<P>({
    .name = "L2Normalization",
    .doc =
        "Divides x by sqrt(sum(x^2) + eps), taken over a sample, its channels or its "
        "space.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"norm", Types::kFloats, "The norms."}},
    .params = {{"eps", &P::eps, "Added under the root."},
               {"mode",
                &P::mode,
                {"channel", "instance", "spatial"},
                "Over which axes the norm is taken."}},
    .visible_outputs = [](const P&) { return 1; },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b11},
    .cpu = {{"plain", Plain}},
    .samples = {{{Normal({2, 3, 2})}},
                {{Normal({2, 3, 4})}, {.mode = Mode::kChannel}},
                {{Normal({2, 2, 3, 2})}, {.eps = 0.1f, .mode = Mode::kSpatial}}},
});

}  // namespace
}  // namespace plait
