// MakeLoss: its input is a loss, so the gradient begins here.

#include <algorithm>
#include <cstring>

#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Normalization { kBatch, kNull, kValid };

struct MakeLossParams {
  float grad_scale = 1;
  float valid_thresh = 0;
  Normalization normalization = Normalization::kNull;
};
using P = MakeLossParams;

bool Infer(const P&, Specs& in, Specs& out) {
  return Unify(in[0].shape, out[0].shape);
}

void Forward(const P&, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  if (x.ptr != y.ptr) std::memcpy(y.ptr, x.ptr, static_cast<size_t>(x.bytes()));
}

// grad_scale everywhere, over the batch or over the number of x above valid_thresh.
Values Gradient(const P& p, const GradArgs& g) {
  const Spec& x = g.in_spec(0);
  double scale = p.grad_scale;
  if (p.normalization == Normalization::kBatch && x.shape.rank() > 0) {
    scale /= static_cast<double>(std::max<int64_t>(x.shape[0], 1));
  }
  const Value flat = full(x, scale, g.dout(0).array().device());
  if (p.normalization != Normalization::kValid) return {flat};
  const Value valid = sum(cast(g.in(0) > p.valid_thresh, DType::kFloat32));
  const Value count = cast(maximum(valid, 1.0), x.dtype);
  return {flat / reshape(count, Shape::Filled(x.shape.rank(), 1))};
}

SampleInput Fixed(Shape shape) {
  SampleInput s = Normal(std::move(shape));
  s.differentiable = false;
  return s;
}

const OpDef& make_loss = Register<P>({
    .name = "MakeLoss",
    .doc = "Gives x as a loss: the gradient is grad_scale, whatever comes from above.",
    .inputs = {{"data", Types::kFloats, "x, of any shape."}},
    .params = {{"grad_scale", &P::grad_scale, "The gradient."},
               {"valid_thresh", &P::valid_thresh, "What counts as valid is above."},
               {"normalization",
                &P::normalization,
                {"batch", "null", "valid"},
                "Divides by the batch, by nothing, or by the number of valid x."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const P& p) -> Uses {
      return {.in = p.normalization == Normalization::kValid ? 1u : 0u};
    },
    .cpu = {{"plain", Forward}},
    .in_place = {{0, 0}},
    .samples = {{{Fixed({3, 4})}, {.grad_scale = 2}},
                {{Fixed({3, 4})}, {.normalization = Normalization::kBatch}},
                {{Fixed({3, 4})},
                 {.valid_thresh = 0.1f, .normalization = Normalization::kValid}}},
});

}  // namespace
}  // namespace plait
