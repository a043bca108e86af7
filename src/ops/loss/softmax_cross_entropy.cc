// softmax_cross_entropy: the summed loss of a batch of scores.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

void InferTypes(const NoParams&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  out[0].dtype = x;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = x;
}

bool Infer(const NoParams&, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &label = in[1].shape;
  Check(Assign(x, Shape::Filled(2, kUnknownSize)) && Assign(label, {kUnknownSize}) &&
            UnifySize(x[0], label[0]),
        "softmax_cross_entropy: x ", x, " and label ", label,
        " do not match; (batch, classes) and (batch,) were expected");
  return Assign(out[0].shape, {1});
}

// Probabilities below 1e-8 count as 1e-8, as a label out of range does.
void Forward(const NoParams&, const KernelArgs& args) {
  const int64_t rows = args.in[0].shape()[0], n = args.in[0].shape()[1];
  const double most = -std::log(1e-8);
  double total = 0;
  VisitFloat(args.in[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    for (int64_t i = 0; i < rows; ++i) {
      const T* x = args.in[0].data<const T>() + i * n;
      const int64_t k = VisitDType(args.in[1].dtype, [&]<typename L>() {
        return static_cast<int64_t>(args.in[1].data<const L>()[i]);
      });
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < n; ++j) top = std::max(top, double(static_cast<A>(x[j])));
      for (int64_t j = 0; j < n; ++j)
        sum += std::exp(double(static_cast<A>(x[j])) - top);
      const bool in_range = k >= 0 && k < n;
      const double loss =
          in_range ? std::log(sum) + top - double(static_cast<A>(x[k])) : most;
      total += loss > most ? most : loss;
    }
    args.out[0].data<T>()[0] = static_cast<T>(static_cast<A>(total));
  });
}

// dx = (softmax(x) - onehot(label)) dy.
Values Gradient(const NoParams&, const GradArgs& g) {
  const Spec& x = g.in_spec(0);
  const Value hot = Make("one_hot", {g.in(1)},
                         {{"depth", Attr(x.shape[1])}, {"dtype", Attr(x.dtype)}});
  return {(Make("softmax", {g.in(0)}) - hot) * reshape(g.dout(0), {1, 1}), {}};
}

const OpDef& softmax_cross_entropy = Register<NoParams>({
    .name = "softmax_cross_entropy",
    .doc = "The sum over the batch of -log(softmax(x)[label]).",
    .inputs = {{"data", Types::kFloats, "Scores of shape (batch, classes)."},
               {"label", Types::kAny, "Class numbers of shape (batch,)."}},
    .outputs = {{"output", Types::kFloats, "One number, of shape (1,)."}},
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Forward}},
    .cost = [](const NoParams&, const Specs& in,
               const Specs&) { return 30.0 * static_cast<double>(in[0].shape.size()); },
    .samples = {{{Normal({4, 3}), Integers({4}, 0, 3)}}},
});

}  // namespace
}  // namespace plait
