// moments: mean and variance along axes.

#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "ops/gradients.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/kernel.h"

namespace plait {
namespace {

struct MomentsParams {
  Shape axes = Shape::Unknown();
  bool keepdims = false;
};

uint64_t Mask(const MomentsParams& p, const Shape& x) {
  return AxisMask(p.axes, false, x.rank(), "moments");
}

bool Infer(const MomentsParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y = ReducedShape(x, Mask(p, x), p.keepdims);
  return Unify(y, out[0].shape) && Unify(out[0].shape, out[1].shape);
}

Pw Wide(std::span<const Pw> in) {
  return Cast(in[0], SumDType(in[0].dtype()));
}
// The mean is taken off first: no small difference of large squares.
Pw SquaredDistance(std::span<const Pw> in) {
  return square(Wide(in) - in[1]);
}

void Run(const MomentsParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const DType wide = SumDType(x.dtype);
  const uint64_t mask = Mask(p, x.shape());
  const double scale = 1 / static_cast<double>(ReducedCount(x.shape(), mask));
  const Shape kept = ReducedShape(x.shape(), mask, true);
  cpu::Scratch mean(kept.size() * SizeOf(wide));
  const ReduceInput input{x.ptr, x.dtype, x.sizes};
  ReduceInto({input}, Wide, Reduction::kSum, mask, scale, mean.As<void>(), wide);
  cpu::Convert(mean.As<void>(), wide, args.out[0].ptr, args.out[0].dtype, kept.size());
  ReduceInto({input, {mean.As<void>(), wide, &kept}}, SquaredDistance, Reduction::kSum,
             mask, scale, args.out[1].ptr, args.out[1].dtype);
}

// dmean / n + 2 dvar (x - mean) / n.
Values Gradient(const MomentsParams& p, const GradArgs& g) {
  const Shape& shape = g.in_spec(0).shape;
  const uint64_t mask = Mask(p, shape);
  const double scale = 1 / static_cast<double>(ReducedCount(shape, mask));
  Value dx;
  if (g.has_dout(0)) dx = Expand(g.dout(0), shape, mask) * scale;
  if (g.has_dout(1)) {
    const Value distance = g.in(0) - Expand(g.out(0), shape, mask);
    const Value part = Expand(g.dout(1), shape, mask) * distance * (2 * scale);
    dx = dx ? dx + part : part;
  }
  return {dx};
}

[[maybe_unused]] const OpDef& moments = Register<MomentsParams>({
    .name = "moments",
    .doc = "The mean and the variance of the elements along axes.",
    .inputs = {{"data", Types::kFloats, "Numbers, of any shape."}},
    .outputs = {{"mean"}, {"var"}},
    .params = {{"axes", &MomentsParams::axes, "The axis or axes; none: all."},
               {"keepdims", &MomentsParams::keepdims,
                "Whether the axes stay, with size 1."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 1, .out = 1},
    .cpu = {{"plain", Run}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 4})}, {.axes = {0, 2}}},
                {{Normal({2, 3, 4})}, {.axes = {-1}, .keepdims = true}}},
});

}  // namespace
}  // namespace plait
