// SoftmaxOutput: probabilities whose gradient is that of their cross entropy.

#include <algorithm>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/softmax.h"

namespace plait {
namespace {

enum class Normalization { kBatch, kNull, kValid };

struct SoftmaxOutputParams {
  float grad_scale = 1;
  float ignore_label = -1;
  bool multi_output = false;
  bool use_ignore = false;
  bool preserve_shape = false;
  Normalization normalization = Normalization::kNull;
  bool out_grad = false;
  float smooth_alpha = 0;
};
using P = SoftmaxOutputParams;

void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  out[0].dtype = x;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = x;
}

// Labels are probabilities of the shape of x, or class numbers: one for each slice that
// sums to one.
bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  Shape& label = in[1].shape;
  if (!x.rank_known() || x == label) return true;
  Check(x.rank() >= 1, "SoftmaxOutput: x is a scalar; (batch, ...) was expected");
  Shape classes = x;
  if (!p.multi_output) {
    classes.Erase(x.rank() - 1);
    Check(Unify(label, classes), "SoftmaxOutput: label ", label, " does not fit x ", x,
          "; ", classes, ", or the shape of x, was expected");
    return true;
  }
  Check(x.rank() >= 2, "SoftmaxOutput: x ", x,
        " with multi_output; (batch, classes, ...)", " was expected");
  classes.Erase(1);
  if (!x.known()) return true;
  const Shape flat{x[0], x.size(2, x.rank())};
  Shape kept = x;
  kept[1] = 1;
  if (!label.rank_known()) label = flat;
  Check(label == flat || label == classes || label == kept, "SoftmaxOutput: label ",
        label, " does not fit x ", x, "; ", flat, " or ", classes, " was expected");
  return true;
}

bool InferBackward(const P& p, Specs& in, Specs& out) {
  if (p.out_grad && !Unify(in[2].shape, in[0].shape)) return false;
  return Infer(p, in, out);
}

// What sums to one: classes along axis 1, along the last axis, or all of a sample.
SoftmaxProblem ProblemOf(const P& p, const Shape& x) {
  if (p.multi_output) return SoftmaxAlong(x, 1);
  if (p.preserve_shape) return SoftmaxAlong(x, x.rank() - 1);
  return {x[0], x.size(1, x.rank()), 1};
}

void Forward(const P& p, const KernelArgs& args) {
  Softmax(ProblemOf(p, args.in[0].shape()), args.in[0], args.out[0]);
}

// grad_scale over what the normalisation counts. With multi_output, null and batch also
// divide by the size of space.
double ScaleOf(const P& p, const View& label, int64_t inner) {
  double scale = p.grad_scale;
  if (p.multi_output && p.normalization != Normalization::kValid) {
    scale /= static_cast<double>(inner);
  }
  if (p.normalization == Normalization::kBatch) {
    const int64_t batch = p.multi_output ? label.shape()[0] : label.size();
    return scale / static_cast<double>(batch);
  }
  if (p.normalization == Normalization::kNull) return scale;
  const auto ignored = static_cast<int64_t>(p.ignore_label);
  int64_t count = 0;
  VisitDType(label.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < label.size(); ++i) {
      count += static_cast<int64_t>(label.data<const T>()[i]) != ignored;
    }
  });
  return scale / static_cast<double>(std::max<int64_t>(count, 1));
}

// dx = (y - label) grad_scale, with labels as probabilities.
template <typename T>
void FromProbabilities(const P& p, const KernelArgs& args) {
  using A = Accumulate<T>;
  const T* y = args.in[0].data<const T>();
  const bool heads = args.in.size() == 3;
  T* dx = args.out[0].data<T>();
  VisitDType(args.in[1].dtype, [&]<typename L>() {
    const L* label = args.in[1].data<const L>();
    for (int64_t i = 0; i < args.out[0].size(); ++i) {
      A d = (static_cast<A>(y[i]) - static_cast<A>(label[i])) *
            static_cast<A>(p.grad_scale);
      if (heads) d *= static_cast<A>(args.in[2].data<const T>()[i]);
      dx[i] = static_cast<T>(d);
    }
  });
}

// dx = (y - 1[class = label]) scale; label smoothing takes alpha from the label's class
// and shares it among the others.
template <typename T>
void FromClasses(const P& p, const KernelArgs& args) {
  using A = Accumulate<T>;
  const SoftmaxProblem s = ProblemOf(p, args.in[0].shape());
  const View& label = args.in[1];
  const A scale = static_cast<A>(ScaleOf(p, label, s.inner));
  const A alpha = p.multi_output ? A{0} : static_cast<A>(p.smooth_alpha);
  const A others = alpha / static_cast<A>(std::max<int64_t>(s.n - 1, 1));
  const auto ignored = static_cast<int64_t>(p.ignore_label);
  const T* y = args.in[0].data<const T>();
  const T* heads = args.in.size() == 3 ? args.in[2].data<const T>() : nullptr;
  T* dx = args.out[0].data<T>();
  ParallelFor(s.outer * s.inner, 64, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t k = VisitDType(label.dtype, [&]<typename L>() {
        return static_cast<int64_t>(label.data<const L>()[i]);
      });
      const bool skip = p.use_ignore && k == ignored;
      const int64_t at = i / s.inner * s.n * s.inner + i % s.inner;
      for (int64_t c = 0; c < s.n; ++c) {
        const int64_t j = at + c * s.inner;
        A d = static_cast<A>(y[j]) - (c == k ? 1 - alpha : others);
        d = skip ? A{0} : d * scale;
        if (heads) d *= static_cast<A>(heads[j]);
        dx[j] = static_cast<T>(d);
      }
    }
  });
}

void Backward(const P& p, const KernelArgs& args) {
  const bool probabilities = args.in[1].shape() == args.in[0].shape();
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    if (probabilities) {
      FromProbabilities<T>(p, args);
    } else {
      FromClasses<T>(p, args);
    }
  });
}

Values Gradient(const P& p, const GradArgs& g);

std::vector<Param<P>> ParamList() {
  return {
      {"grad_scale", &P::grad_scale, "Multiplies the gradient."},
      {"ignore_label", &P::ignore_label, "A label that stands for none."},
      {"multi_output", &P::multi_output, "Classes are along axis 1, for every place."},
      {"use_ignore", &P::use_ignore, "Labels of ignore_label give no gradient."},
      {"preserve_shape", &P::preserve_shape, "Classes are along the last axis."},
      {"normalization",
       &P::normalization,
       {"batch", "null", "valid"},
       "Divides the gradient by the number of labels, by nothing, or by the number "
       "of labels that are not ignore_label."},
      {"out_grad", &P::out_grad, "Multiplies by the gradient from above."},
      {"smooth_alpha", &P::smooth_alpha, "Smoothing of the labels."}};
}

SampleInput Fixed(SampleInput s) {
  s.differentiable = false;
  return s;
}

// The gradient is not the derivative of the output: nothing here is checked by
// differences.
std::vector<Sample<P>> Samples(bool backward) {
  const auto x = [&](Shape s) {
    return Fixed(backward ? Uniform(std::move(s), 0, 1) : Normal(std::move(s)));
  };
  std::vector<Sample<P>> samples = {
      {{x({4, 3}), Integers({4}, 0, 3)}},
      {{x({4, 3}), Integers({4}, 0, 3)},
       {.grad_scale = 2, .use_ignore = true, .normalization = Normalization::kValid}},
      {{x({4, 3}), x({4, 3})}, {.grad_scale = 0.5f}},
      {{x({2, 3, 4}), Integers({2, 4}, 0, 3)},
       {.ignore_label = 1,
        .multi_output = true,
        .use_ignore = true,
        .normalization = Normalization::kBatch}},
      {{x({2, 3, 2, 2}), Integers({2, 2, 2}, 0, 3)},
       {.multi_output = true, .normalization = Normalization::kValid}},
      {{x({2, 3, 4}), Integers({2, 3}, 0, 4)},
       {.preserve_shape = true,
        .normalization = Normalization::kBatch,
        .smooth_alpha = 0.1f}}};
  return samples;
}

const OpDef& softmax_output = Register<P>({
    .name = "SoftmaxOutput",
    .aliases = {"Softmax"},
    .doc = "Softmax whose gradient is (probabilities - labels), whatever comes from "
           "above.",
    .inputs = {{"data", Types::kFloats, "Scores of shape (batch, classes, ...)."},
               {"label", Types::kAny, "Class numbers, or probabilities like data."}},
    .outputs = {{"output", Types::kFloats, "Probabilities, of the shape of data."}},
    .params = ParamList(),
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b10, .out = 0b1},
    .cpu = {{"plain", Forward}},
    .cost = [](const P&, const Specs& in,
               const Specs&) { return 20.0 * static_cast<double>(in[0].shape.size()); },
    .in_place = {{0, 0}},
    .samples = Samples(false),
});

const OpDef& backward_op = Register<P>({
    .name = "_backward_SoftmaxOutput",
    .doc = "The gradient of SoftmaxOutput from its probabilities and labels.",
    .inputs = {{"output", Types::kFloats},
               {"label", Types::kAny},
               {"head", Types::kFloats}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, p.out_grad};
    },
    .types = InferTypes,
    .infer = InferBackward,
    .cpu = {{"plain", Backward}},
    .in_place = {{0, 0}},
    .samples = Samples(true),
});

Values Gradient(const P& p, const GradArgs& g) {
  SmallVector<Value, 3> inputs{g.out(0), g.in(1)};
  if (p.out_grad) inputs.push_back(g.dout(0));
  return {ApplyOne(backward_op, MakeParams(P(p)), inputs), {}};
}

}  // namespace
}  // namespace plait
