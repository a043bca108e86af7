// Dropout: zeros at random, and the rest scaled up.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/random.h"
#include "graph/math.h"
#include "ops/expression.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Mode { kAlways, kTraining };

struct DropoutParams {
  float p = 0.5f;
  Mode mode = Mode::kTraining;
  Shape axes;
  std::optional<bool> cudnn_off = false;
};
using P = DropoutParams;

bool Active(const P& p, bool training) {
  return p.p > 0 && (training || p.mode == Mode::kAlways);
}

double Scale(const P& p) {
  return p.p < 1 ? 1 / (1 - static_cast<double>(p.p)) : 0;
}

// What half types are scaled in, to be rounded once.
DType Wide(DType dtype) {
  return IsHalf(dtype) ? DType::kFloat32 : dtype;
}

// The mask has one byte for each element, or for each slice along `axes`.
void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  out[0].dtype = x;
  out[1].dtype = DType::kUint8;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.p >= 0 && p.p <= 1, "Dropout: p is ", p.p,
        "; a number in [0, 1] was expected");
  if (!Unify(in[0].shape, out[0].shape)) return false;
  Shape mask = in[0].shape;
  if (!mask.rank_known()) return true;
  for (int64_t axis : p.axes) mask[NormalizeAxis(axis, mask.rank(), "Dropout")] = 1;
  return Assign(out[1].shape, mask);
}

// mask[i] is 1 with chance 1 - p.
void Draw(const P& p, RandomStream stream, uint8_t* mask, int64_t n) {
  constexpr int64_t kChunk = 16384;
  const auto below = static_cast<uint64_t>((1 - static_cast<double>(p.p)) * 0x1p32);
  ParallelFor((n + kChunk - 1) / kChunk, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kChunk, end = std::min(last * kChunk, n);
    if (below >> 32 != 0) {  // p vanishes beside 1
      std::fill(mask + begin, mask + end, uint8_t{1});
    } else {
      cpu::FillBelow(stream, begin, static_cast<uint32_t>(below), mask + begin,
                     end - begin);
    }
  });
}

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0], &mask = args.out[1];
  if (!Active(p, args.training)) {
    if (x.ptr != y.ptr) std::memcpy(y.ptr, x.ptr, static_cast<size_t>(x.bytes()));
    return;
  }
  Draw(p, args.random, mask.data<uint8_t>(), mask.size());
  const View in[] = {x, mask};
  RunExpression(in, {&y, 1}, x.shape(), [&](PwCall& c) {
    const Pw kept = Cast(c.in(0), Wide(x.dtype)) * Scale(p);
    c.Return(Cast(where(c.in(1), kept, 0), x.dtype));
  });
}

Values Gradient(const P& p, const GradArgs& g) {
  const Value dy = g.dout(0);
  if (!Active(p, g.training)) return {dy};
  const DType wide = Wide(dy.dtype());
  return {cast(cast(dy, wide) * (cast(g.out(1), wide) * Scale(p)), dy.dtype())};
}

const OpDef& dropout = Register<P>({
    .name = "Dropout",
    .aliases = {"_npx_dropout"},
    .doc = "In training, sets elements to zero with chance p and divides the others by "
           "1 - p.",
    .inputs = {{"data", Types::kFloats, "x, of any shape."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"mask", Types::kAny, "Which elements were kept."}},
    .params = {{"p", &P::p, "The chance of zero."},
               {"mode", &P::mode, {"always", "training"}, "When it is active."},
               {"axes", &P::axes, "Axes along which elements share their fate."},
               {"cudnn_off", &P::cudnn_off, "For GPUs."}},
    .visible_outputs = [](const P&) { return 1; },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b10},
    .cpu = {{"plain", Forward}},
    .random = true,
    .draws = Active,
    .uses_training = true,
    .cost = [](const P&, const Specs& in,
               const Specs&) { return 30.0 * static_cast<double>(in[0].shape.size()); },
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4})}, {.p = 0.5f}},
                {{Normal({3, 4})}, {.p = 0.0f}, true},
                {{Normal({3, 40})}, {.p = 0.3f}, true},
                {{Normal({4, 3, 5})}, {.p = 0.4f, .mode = Mode::kAlways, .axes = {1}}}},
});

}  // namespace
}  // namespace plait
