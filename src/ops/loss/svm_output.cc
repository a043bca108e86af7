// SVMOutput: scores whose gradient is that of a hinge loss, one against all.

#include <cstring>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct SvmOutputParams {
  float margin = 1;
  float regularization_coefficient = 1;
  bool use_linear = false;
};
using P = SvmOutputParams;

void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  out[0].dtype = x;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = x;
}

bool Infer(const P&, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() >= 1, "SVMOutput: x is a scalar; (batch, classes) was expected");
  Shape label = x;
  label.Erase(x.rank() - 1);
  Check(Unify(in[1].shape, label), "SVMOutput: label ", in[1].shape, " does not fit x ",
        x, "; ", label, " was expected");
  return true;
}

void Forward(const P&, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  if (x.ptr != y.ptr) std::memcpy(y.ptr, x.ptr, static_cast<size_t>(x.bytes()));
}

// With s = x of the label's class and -x of the others, dx is the derivative of
// max(0, margin - s), or of its square.
void Backward(const P& p, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t classes = shape.back(), rows = shape.size(0, shape.rank() - 1);
  const View& label = args.in[1];
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const A margin = static_cast<A>(p.margin);
    const A c = static_cast<A>(p.regularization_coefficient);
    ParallelFor(rows, 64, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t k = VisitDType(label.dtype, [&]<typename L>() {
          return static_cast<int64_t>(label.data<const L>()[i]);
        });
        for (int64_t j = 0; j < classes; ++j) {
          const A x = static_cast<A>(args.in[0].data<const T>()[i * classes + j]);
          const A side = j == k ? 1 : -1, gap = margin - side * x;
          const A slope = gap > 0 ? (p.use_linear ? A{1} : 2 * gap) : A{0};
          args.out[0].data<T>()[i * classes + j] = static_cast<T>(-side * slope * c);
        }
      }
    });
  });
}

Values Gradient(const P& p, const GradArgs& g);

std::vector<Sample<P>> Samples() {
  SampleInput x = Normal({4, 3});
  x.differentiable = false;
  const SampleInput label = Integers({4}, 0, 3);
  return {{{x, label}},
          {{x, label},
           {.margin = 0.5f, .regularization_coefficient = 2, .use_linear = true}}};
}

const OpDef& svm_output = Register<P>({
    .name = "SVMOutput",
    .doc = "Gives x; the gradient is that of a squared (or linear) hinge loss of every "
           "class against the others.",
    .inputs = {{"data", Types::kFloats, "Scores of shape (batch, classes)."},
               {"label", Types::kAny, "Class numbers of shape (batch,)."}},
    .params = {{"margin", &P::margin, "Scores beyond it give no loss."},
               {"regularization_coefficient", &P::regularization_coefficient,
                "Multiplies the gradient."},
               {"use_linear", &P::use_linear, "The hinge loss is not squared."}},
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b10, .out = 0b1},
    .cpu = {{"plain", Forward}},
    .in_place = {{0, 0}},
    .samples = Samples(),
});

const OpDef& backward_op = Register<P>({
    .name = "_backward_SVMOutput",
    .doc = "The gradient of SVMOutput from its scores and labels.",
    .inputs = {{"output", Types::kFloats}, {"label", Types::kAny}},
    .types = InferTypes,
    .infer = Infer,
    .cpu = {{"plain", Backward}},
    .in_place = {{0, 0}},
    .samples = Samples(),
});

Values Gradient(const P& p, const GradArgs& g) {
  const Value inputs[] = {g.out(0), g.in(1)};
  return {ApplyOne(backward_op, MakeParams(P(p)), inputs), {}};
}

}  // namespace
}  // namespace plait
