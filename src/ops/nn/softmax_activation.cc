// SoftmaxActivation: softmax over all of a sample, or over its channels.

#include "graph/math.h"
#include "graph/op.h"
#include "ops/nn/softmax.h"

namespace plait {
namespace {

enum class Mode { kChannel, kInstance };

struct SoftmaxActivationParams {
  Mode mode = Mode::kInstance;
};
using P = SoftmaxActivationParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const int need = p.mode == Mode::kChannel ? 2 : 1;
  Check(!in[0].shape.rank_known() || in[0].shape.rank() >= need,
        "SoftmaxActivation: x ", in[0].shape, " has too few axes; at least ", need,
        " were expected");
  return true;
}

void Forward(const P& p, const KernelArgs& args) {
  const Shape& x = args.in[0].shape();
  SoftmaxProblem problem{x[0], x.size(1, x.rank()), 1};
  if (p.mode == Mode::kChannel) problem = SoftmaxAlong(x, 1);
  Softmax(problem, args.in[0], args.out[0]);
}

Values Gradient(const P& p, const GradArgs& g) {
  const Value &y = g.out(0), &dy = g.dout(0);
  std::vector<int64_t> axes{1};
  if (p.mode == Mode::kInstance) {
    axes.clear();
    for (int i = 1; i < g.out_spec(0).shape.rank(); ++i) axes.push_back(i);
    if (axes.empty()) return {zeros_like(dy)};
  }
  return {y * (dy - sum(y * dy, {.axes = axes, .keepdims = true}))};
}

const OpDef& softmax_activation = Register<P>({
    .name = "SoftmaxActivation",
    .doc = "Softmax over all elements of a sample (instance) or over axis 1 (channel).",
    .inputs = {{"data", Types::kFloats, "Scores of shape (batch, ...)."}},
    .params = {{"mode", &P::mode, {"channel", "instance"}, "What sums to one."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b1},
    .cpu = {{"plain", Forward}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 3, 2})}}, {{Normal({2, 3, 4})}, {Mode::kChannel}}},
});

}  // namespace
}  // namespace plait
