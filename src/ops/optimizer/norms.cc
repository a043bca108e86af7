// Operators over many arrays at once: norms, LARS' rates, finiteness, zeroing.

#include "ops/optimizer/norms.h"

#include <cmath>
#include <cstring>

#include "cpu/pointwise.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

// Reduces one expression of the array to a number, in float (float64 for float64).
template <typename F>
double ReduceArray(const View& x, Reduction reduction, F&& build) {
  PointwiseProgram program;
  program.num_inputs = 1;
  program.inputs[0] = x.dtype;
  const Pw value(&program, {PointwiseArg::kInput, 0}, x.dtype);
  const DType wide = x.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  program.outputs[0] = build(Cast(value, wide)).arg();
  program.num_outputs = 1;
  const Shape space{x.size()};
  const cpu::PointwiseInput input{x.ptr, &space};
  double result = 0;
  float narrow = 0;
  const bool is_double = wide == DType::kFloat64;
  cpu::ReducePointwise(program, space, {&input, 1}, reduction, 1, 1,
                       is_double ? static_cast<void*>(&result) : &narrow);
  return is_double ? result : narrow;
}

bool AllFinite(const View& x) {
  return x.size() == 0 ||
         ReduceArray(x, Reduction::kMin, [](const Pw& v) { return isfinite(v); }) != 0;
}

struct CountParams {
  int num_arrays = 1;
};
struct FiniteParams {
  int num_arrays = 1;
  bool init_output = true;
};

void FloatOutput(const auto&, Specs&, Specs& out) {
  for (Spec& s : out) s.dtype = DType::kFloat32;
}

template <typename P>
void CheckCount(const char* op, const P& p, const Specs& in) {
  Check(static_cast<int>(in.size()) == p.num_arrays, op, ": got ", in.size(),
        " arrays and num_arrays ", p.num_arrays, "; as many were expected");
}

void SumSq(const CountParams&, const KernelArgs& args) {
  for (size_t i = 0; i < args.in.size(); ++i) {
    args.out[0].data<float>()[i] = static_cast<float>(SumOfSquares(args.in[i]));
  }
}

const OpDef& multi_sum_sq = Register<CountParams>({
    .name = "multi_sum_sq",
    .doc = "The sum of squares of each array.",
    .inputs = {{"data", Types::kFloats, "Arrays of any shapes."}},
    .outputs = {{"output", Types::kFloats, "One float32 number for each array."}},
    .params = {Required("num_arrays", &CountParams::num_arrays, "Number of arrays.")},
    .variable_inputs = true,
    .count_param = "num_arrays",
    .types = FloatOutput<CountParams>,
    .infer =
        [](const CountParams& p, Specs& in, Specs& out) {
          CheckCount("multi_sum_sq", p, in);
          return Assign(out[0].shape, {static_cast<int64_t>(in.size())});
        },
    .cpu = {{"plain", SumSq}},
    .samples = {{{Normal({3, 4}), Normal({5}), Normal({0})}, {3}}},
});

struct LarsParams {
  float eta = 0, eps = 0;
  float rescale_grad = 1;
};

// lr eta |w| / (s |g| + wd |w| + eps) where both norms are positive, else lr.
void Lars(const LarsParams& p, PwCall& c) {
  const Pw &lr = c.in(0), &wd = c.in(3);
  const Pw w = sqrt(c.in(1));
  const Pw scaled = lr * p.eta * w / (sqrt(c.in(2)) * p.rescale_grad + wd * w + p.eps);
  c.Return(where(Call(Fn::kLogicalAnd, w > 0, c.in(2) > 0), scaled, lr));
}

const OpDef& multi_lars = Register<LarsParams>({
    .name = "multi_lars",
    .doc = "Learning rates of LARS from the sums of squares of weights and gradients.",
    .inputs = {{"lrs", Types::kFloats, "Learning rates."},
               {"weights_sum_sq", Types::kFloats, "Sums of squares of the weights."},
               {"grads_sum_sq", Types::kFloats, "Sums of squares of the gradients."},
               {"wds", Types::kFloats, "Weight decays."}},
    .params = {Required("eta", &LarsParams::eta, "LARS' coefficient."),
               Required("eps", &LarsParams::eps, "Added to the divisor."),
               {"rescale_grad", &LarsParams::rescale_grad, "Scale of the gradients."}},
    .pointwise = Lars,
    .samples = {{{Uniform({3}, 0.1, 1), Numbers({3}, {1, 0, 4}),
                  Numbers({3}, {2, 1, 0}), Uniform({3}, 0, 0.1)},
                 {.eta = 0.1f, .eps = 1e-3f, .rescale_grad = 0.5f}}},
});

// Without init_output, a zero that stands in the output stays.
void Finite(const FiniteParams& p, const KernelArgs& args) {
  float& result = *args.out[0].data<float>();
  if (p.init_output) result = 1;
  for (const View& x : args.in) {
    if (result != 0 && !AllFinite(x)) result = 0;
  }
}

bool InferFinite(const FiniteParams&, Specs&, Specs& out) {
  return Assign(out[0].shape, {1});
}

const OpDef& all_finite = Register<FiniteParams>({
    .name = "all_finite",
    .doc = "1 if every number of the array is finite, else 0.",
    .inputs = {{"data", Types::kFloats, "An array of any shape."}},
    .outputs = {{"output", Types::kFloats, "float32 of shape (1,)."}},
    .params = {{"init_output", &FiniteParams::init_output,
                "False: the result is combined with what the output holds."}},
    .types = FloatOutput<FiniteParams>,
    .infer = InferFinite,
    .cpu = {{"plain", Finite}},
    .samples = {{{Normal({3, 4})}}, {{Numbers({2}, {1, INFINITY})}}},
});

const OpDef& multi_all_finite = Register<FiniteParams>({
    .name = "multi_all_finite",
    .doc = "1 if every number of all arrays is finite, else 0.",
    .inputs = {{"data", Types::kFloats, "Arrays of any shapes."}},
    .outputs = {{"output", Types::kFloats, "float32 of shape (1,)."}},
    .params = {{"num_arrays", &FiniteParams::num_arrays, "Number of arrays."},
               {"init_output", &FiniteParams::init_output,
                "False: the result is combined with what the output holds."}},
    .variable_inputs = true,
    .count_param = "num_arrays",
    .types = FloatOutput<FiniteParams>,
    .infer =
        [](const FiniteParams& p, Specs& in, Specs& out) {
          CheckCount("multi_all_finite", p, in);
          return InferFinite(p, in, out);
        },
    .cpu = {{"plain", Finite}},
    .samples = {{{Normal({3, 4}), Normal({2})}, {2}},
                {{Normal({3}), Numbers({2}, {1, NAN})}, {2}}},
});

const OpDef& reset_arrays = Register<CountParams>({
    .name = "reset_arrays",
    .doc = "Fills every array with zeros.",
    .inputs = {{"data", Types::kAny, "Arrays of any shapes, updated."}},
    .outputs = {},
    .params = {Required("num_arrays", &CountParams::num_arrays, "Number of arrays.")},
    .variable_inputs = true,
    .count_param = "num_arrays",
    .mutates = {0},
    .group = 1,
    .types = [](const CountParams&, Specs&, Specs&) {},
    .infer =
        [](const CountParams& p, Specs& in, Specs&) {
          CheckCount("reset_arrays", p, in);
          return true;
        },
    .cpu = {{"plain",
             [](const CountParams&, const KernelArgs& args) {
               for (const View& x : args.in) {
                 std::memset(x.ptr, 0, static_cast<size_t>(x.bytes()));
               }
             }}},
    .samples = {{{Normal({3, 4}), Normal({5})}, {2}}},
});

}  // namespace

double SumOfSquares(const View& x) {
  return ReduceArray(x, Reduction::kSum, [](const Pw& v) { return square(v); });
}

}  // namespace plait
