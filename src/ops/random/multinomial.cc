// _sample_multinomial: indices drawn by weights, with their log-likelihoods on request.

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/random.h"
#include "graph/math.h"

namespace plait {
namespace {

struct MultinomialParams {
  Shape shape;
  bool get_prob = false;
  DType dtype = DType::kInt32;
};

// How many numbers from 0 a dtype holds exactly.
int64_t ExactNumbers(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return (1 << 11) + 1;
    case DType::kBfloat16:
      return (1 << 8) + 1;
    case DType::kFloat32:
      return (1 << 24) + 1;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kUint64:
      return int64_t{1} << 53;
    case DType::kBool:
      return 2;
    default: {
      const auto bits = static_cast<int>(8 * SizeOf(dtype));
      const bool sign =
          dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32;
      return int64_t{1} << (bits - (sign ? 1 : 0));
    }
  }
}

bool Infer(const MultinomialParams& p, Specs& in, Specs& out) {
  if (!in[0].shape.rank_known()) return true;
  Check(in[0].shape.rank() > 0,
        "_sample_multinomial: data has no axis; one of weights was "
        "expected");
  const int64_t weights = in[0].shape[in[0].shape.rank() - 1];
  Check(weights <= ExactNumbers(p.dtype), "_sample_multinomial: data has ", weights,
        " weights; ", p.dtype, " holds indices of at most ", ExactNumbers(p.dtype));
  Shape shape(in[0].shape.begin(), in[0].shape.end() - 1);
  for (int64_t n : p.shape) shape.Append(n);
  if (shape.rank() == 0) shape = {1};  // without NumPy's shapes there are no scalars
  for (Spec& y : out) {
    if (!Unify(y.shape, shape)) return false;
  }
  return true;
}

// The index where the running sum of weights passes `target`; zeros are never chosen.
int64_t Find(const std::vector<double>& sums, double target) {
  int64_t low = 0, high = static_cast<int64_t>(sums.size()) - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sums[middle] > target) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  // The last of all, when it has no weight of its own, is not a choice.
  while (low > 0 && sums[low] == sums[low - 1]) --low;
  return low;
}

void Run(const MultinomialParams& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const int64_t k = x.shape().back(), sets = k > 0 ? x.size() / k : 0;
  const int64_t each = sets > 0 ? y.size() / sets : 0;
  Check(k > 0 || y.size() == 0, "_sample_multinomial: data has no weights to draw by");
  std::vector<double> weights(k), sums(k);
  for (int64_t s = 0; s < sets; ++s) {
    cpu::Convert(static_cast<const char*>(x.ptr) + s * k * SizeOf(x.dtype), x.dtype,
                 weights.data(), DType::kFloat64, k);
    double total = 0;
    for (int64_t i = 0; i < k; ++i) {
      Check(weights[i] >= 0, "_sample_multinomial: weight ", i, " of row ", s, " is ",
            weights[i], "; weights >= 0 were expected");
      sums[i] = total += weights[i];
    }
    Check(total > 0 && std::isfinite(total), "_sample_multinomial: the weights of row ",
          s, " add up to ", total, "; a finite sum > 0 was expected");
    for (int64_t i = s * each; i < (s + 1) * each; ++i) {
      cpu::ElementRandom random(args.random, i);
      const int64_t index = Find(sums, random.NextUniform() * total);
      cpu::Convert(&index, DType::kInt64,
                   static_cast<char*>(y.ptr) + i * SizeOf(y.dtype), y.dtype, 1);
      if (!p.get_prob) continue;
      const View& z = args.out[1];
      const double likelihood = std::log(weights[index] / total);
      cpu::Convert(&likelihood, DType::kFloat64,
                   static_cast<char*>(z.ptr) + i * SizeOf(z.dtype), z.dtype, 1);
    }
  }
}

// d log(w_i) / dw_j = [i = j] / w_i, summed over the draws of a row (REINFORCE).
Values Gradient(const MultinomialParams& p, const GradArgs& g) {
  if (!p.get_prob || !g.has_dout(1)) return {zeros(g.in_spec(0))};
  const Shape& shape = g.in_spec(0).shape;
  const int64_t k = shape.back(), rows = k > 0 ? shape.size() / k : 0;
  const int64_t each = rows > 0 ? g.out_spec(0).shape.size() / rows : 0;
  const Value index = reshape(cast(g.out(0), DType::kInt64), {rows, each});
  const Value hot = Make("one_hot", {index},
                         {{"depth", Attr(k)}, {"dtype", Attr(g.in_spec(0).dtype)}});
  const Value flow = sum(hot * reshape(g.dout(1), {rows, each, 1}), {.axes = {1}});
  return {
      reshape(where(flow, reshape(flow, {rows, k}) / reshape(g.in(0), {rows, k}), flow),
              shape)};
}

[[maybe_unused]] const OpDef& multinomial = Register<MultinomialParams>({
    .name = "_sample_multinomial",
    .aliases = {"sample_multinomial"},
    .doc =
        "Indices drawn by the weights in the last axis, which need not add up to one.",
    .inputs = {{"data", Types::kFloats,
                "Weights >= 0, one row for each distribution."}},
    .outputs = {{"output", Types::kAny, "The indices."},
                {"log_likelihood", Types::kFloats, "Logarithms of their chances."}},
    .params = {{"shape", &MultinomialParams::shape, "Shape of the draws of each row."},
               {"get_prob", &MultinomialParams::get_prob, "Also give log-likelihoods."},
               {"dtype", &MultinomialParams::dtype, "Dtype of the indices."}},
    .num_outputs = [](const MultinomialParams& p) { return p.get_prob ? 2 : 1; },
    .types =
        [](const MultinomialParams& p, Specs& in, Specs& out) {
          out[0].dtype = p.dtype;
          if (p.get_prob) out[1].dtype = in[0].dtype;
        },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 1, .out = 1},
    .cpu = {{"plain", Run}},
    .random = true,
    .may_fail = true,
    .samples = {{{Numbers({2, 3}, {0, 1, 0, 0, 0, 1})}, {}},
                {{Numbers({3}, {0, 0, 1})}, {.shape = {4}}}},
});

}  // namespace
}  // namespace plait
