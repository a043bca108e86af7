// Outputs of regressions: the gradient is that of a loss, whatever comes from above.

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Kind { kLinear, kAbsolute, kLogistic };

struct RegressionParams {
  float grad_scale = 1;
};
using P = RegressionParams;

bool Infer(const P&, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  Shape& label = in[1].shape;
  if (!x.known()) return true;
  // A prediction of one number a sample takes a vector of labels.
  if (!label.rank_known()) {
    label = x.rank() == 2 && x[1] == 1 ? Shape{x[0]} : x;
  }
  if (!label.known()) return Unify(label, in[0].shape);
  const bool batches =
      x.rank() == 0 || label.rank() == 0 ? x.rank() == label.rank() : x[0] == label[0];
  Check(batches && x.size() == label.size(), "regression output: label ", label,
        " does not fit x ", x, "; as many numbers for each sample were expected");
  return true;
}

void Identity(const P&, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  if (x.ptr != y.ptr) std::memcpy(y.ptr, x.ptr, static_cast<size_t>(x.bytes()));
}

void Logistic(const P&, const KernelArgs& args) {
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* x = args.in[0].data<const T>();
    T* y = args.out[0].data<T>();
    ParallelFor(args.out[0].size(), 4096, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        y[i] = static_cast<T>(1 / (1 + std::exp(-static_cast<A>(x[i]))));
      }
    });
  });
}

// dx = (y - label) or its sign, times grad_scale / numbers in a label.
template <Kind K>
Values Gradient(const P& p, const GradArgs& g) {
  const Value& y = g.out(0);
  const Shape& label = g.in_spec(1).shape;
  const Value difference = y - reshape(g.in(1), y.shape());
  const int64_t each = label.rank() > 0 ? label.size(1, label.rank()) : 1;
  return {(K == Kind::kAbsolute ? sign(difference) : difference) *
              (p.grad_scale / static_cast<double>(each)),
          {}};
}

template <Kind K>
const OpDef& Add(const char* name, std::vector<const char*> aliases, const char* doc) {
  const auto fixed = [](Shape shape) {
    SampleInput s = Normal(std::move(shape));
    s.differentiable = false;
    return s;
  };
  return Register<P>({
      .name = name,
      .aliases = std::move(aliases),
      .doc = doc,
      .inputs = {{"data", Types::kFloats, "Predictions, of any shape."},
                 {"label", Types::kFloats, "Targets, as many as predictions."}},
      .params = {{"grad_scale", &P::grad_scale, "Multiplies the gradient."}},
      .infer = Infer,
      .gradient = Gradient<K>,
      .uses = {.in = 0b10, .out = 0b1},
      .cpu = {{"plain", K == Kind::kLogistic ? Logistic : Identity}},
      .in_place = {{0, 0}},
      .samples = {{{fixed({4, 3}), fixed({4, 3})}}, {{fixed({4, 1}), fixed({4})}, {2}}},
  });
}

const OpDef& linear =
    Add<Kind::kLinear>("LinearRegressionOutput", {"_sparse_LinearRegressionOutput"},
                       "Gives x; the gradient is that of half the squared error.");
const OpDef& absolute =
    Add<Kind::kAbsolute>("MAERegressionOutput", {"_sparse_MAERegressionOutput"},
                         "Gives x; the gradient is that of the absolute error.");
const OpDef& logistic = Add<Kind::kLogistic>(
    "LogisticRegressionOutput", {"_sparse_LogisticRegressionOutput"},
    "Gives sigmoid(x); the gradient is that of the cross entropy.");

}  // namespace
}  // namespace plait
