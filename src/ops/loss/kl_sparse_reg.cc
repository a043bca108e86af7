// IdentityAttachKLSparseReg: the identity, with a penalty on the mean activation.

#include <cstring>
#include <vector>

#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct KlSparseRegParams {
  float sparseness_target = 0.1f;
  float penalty = 0.001f;
  float momentum = 0.9f;
};
using P = KlSparseRegParams;

// The second output, hidden, is the moving average as the gradient sees it.
bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.sparseness_target > 0 && p.sparseness_target < 1,
        "IdentityAttachKLSparseReg: sparseness_target is ", p.sparseness_target,
        "; a number between 0 and 1 was expected");
  if (!Unify(in[0].shape, out[0].shape)) return false;
  Shape& x = in[0].shape;
  Check(Assign(x, Shape::Filled(2, kUnknownSize)), "IdentityAttachKLSparseReg: x ", x,
        "; (batch, units) was expected");
  Check(Assign(in[1].shape, {x[1]}), "IdentityAttachKLSparseReg: moving_avg ",
        in[1].shape, " does not fit x ", x, "; one number for each unit was expected");
  return Assign(out[1].shape, {x[1]});
}

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &average = args.in[1];
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  if (args.training && rows > 0) {
    VisitFloat(x.dtype, [&]<typename T>() {
      using A = Accumulate<T>;
      std::vector<double> sums(static_cast<size_t>(n));
      for (int64_t i = 0; i < rows * n; ++i) {
        sums[i % n] += static_cast<double>(static_cast<A>(x.data<const T>()[i]));
      }
      for (int64_t j = 0; j < n; ++j) {
        const A before = static_cast<A>(average.data<T>()[j]), m = p.momentum;
        const A mean = static_cast<A>(sums[j] / static_cast<double>(rows));
        average.data<T>()[j] = static_cast<T>(m * before + (1 - m) * mean);
      }
    });
  }
  std::memcpy(args.out[1].ptr, average.ptr, static_cast<size_t>(average.bytes()));
  if (x.ptr != args.out[0].ptr) {
    std::memcpy(args.out[0].ptr, x.ptr, static_cast<size_t>(x.bytes()));
  }
}

// dx = dy + penalty ((1 - t) / (1 - a) - t / a), with the moving average a and target
// t.
Values Gradient(const P& p, const GradArgs& g) {
  const double t = p.sparseness_target;
  const Value& a = g.out(1);
  const Value term = ((1 - t) / (1.0 - a) - t / a) * p.penalty;
  return {g.dout(0) + term, {}};
}

SampleInput Fixed(SampleInput s) {
  s.differentiable = false;
  return s;
}

const OpDef& kl_sparse_reg = Register<P>({
    .name = "IdentityAttachKLSparseReg",
    .doc = "Gives x; the gradient also pulls the mean of each unit, which must be "
           "between 0 and 1, towards sparseness_target.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, units), in (0, 1)."},
               {"moving_avg", Types::kFloats,
                "Mean of each unit, updated in training."}},
    .outputs = {{"output", Types::kFloats, "x."}, {"average", Types::kFloats}},
    .params = {{"sparseness_target", &P::sparseness_target, "The mean wanted."},
               {"penalty", &P::penalty, "Weight of the penalty."},
               {"momentum", &P::momentum, "Decay of the moving average."}},
    .visible_outputs = [](const P&) { return 1; },
    .mutates = {1},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b10},
    .cpu = {{"plain", Forward}},
    .uses_training = true,
    .in_place = {{0, 0}},
    .samples = {{{Fixed(Uniform({4, 3}, 0.1, 0.9)), Fixed(Uniform({3}, 0.2, 0.8))}},
                {{Fixed(Uniform({4, 3}, 0.1, 0.9)), Fixed(Uniform({3}, 0.2, 0.8))},
                 {.penalty = 0.1f},
                 true}},
});

}  // namespace
}  // namespace plait
