// reverse: the elements in opposite order along axes.

#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct ReverseParams {
  Shape axis;
};

uint64_t Mask(const ReverseParams& p, int rank) {
  uint64_t mask = 0;
  for (int64_t axis : p.axis)
    mask |= uint64_t{1} << NormalizeAxis(axis, rank, "reverse");
  return mask;
}

void Run(const ReverseParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  if (x.size() == 0) return;
  const Shape& shape = x.shape();
  const cpu::Strides forward = cpu::RowMajor(shape);
  cpu::Strides strides = forward;
  const uint64_t mask = Mask(p, shape.rank());
  int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!(mask >> i & 1)) continue;
    offset += (shape[i] - 1) * forward[i];
    strides[i] = -forward[i];
  }
  cpu::CopyStrided(shape, args.out[0].ptr, forward, At(x, offset), strides,
                   SizeOf(x.dtype));
}

[[maybe_unused]] const OpDef& reverse = Register<ReverseParams>({
    .name = "reverse",
    .aliases = {"flip"},
    .doc = "x in the opposite order along some axes.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<ReverseParams>("axis", &ReverseParams::axis,
                                       "The axis or axes.")},
    .infer =
        [](const ReverseParams& p, Specs& in, Specs& out) {
          if (!SameShape(p, in, out)) return false;
          if (in[0].shape.rank_known()) Mask(p, in[0].shape.rank());
          return true;
        },
    .gradient = [](const ReverseParams& p, const GradArgs& g) -> Values {
      return {Make("reverse", {g.dout(0)}, {{"axis", Attr(p.axis)}})};
    },
    .cpu = {{"plain", Run}},
    .samples = {{{Normal({2, 3})}, {{0}}},
                {{Normal({2, 3, 4})}, {{-1, 0}}},
                {{Normal({0, 3})}, {{0}}}},
});

}  // namespace
}  // namespace plait
