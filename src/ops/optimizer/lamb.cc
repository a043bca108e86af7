// LAMB: Adam's direction, with a step in proportion to the weight's norm.

#include <cmath>

#include "cpu/scratch.h"
#include "ops/optimizer/norms.h"
#include "ops/optimizer/update.h"

namespace plait {
namespace {

struct DirectionParams {
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-6f;
  int t = 1;
  bool bias_correction = true;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

const Shape kShape{3, 4};

// G = clip(s g); m and v follow G and G^2; the direction is m^ / (sqrt(v^) + eps) + wd
// w with bias-corrected m^ and v^.
Pw Direction(const DirectionParams& p, PwCall& c, int master) {
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const double b1 = p.beta1, b2 = p.beta2;
  Pw m = Wide(c.in(2)) * b1 + g * (1 - b1);
  Pw v = Wide(c.in(3)) * b2 + square(g) * (1 - b2);
  UpdateState(c, 2, m);
  UpdateState(c, 3, v);
  if (p.bias_correction) {
    m = m / (1 - std::pow(b1, p.t));
    v = v / (1 - std::pow(b2, p.t));
  }
  return m / (sqrt(v) + p.epsilon) + Weight(c, master) * p.wd;
}

std::vector<Param<DirectionParams>> DirectionParamList() {
  using P = DirectionParams;
  return {{"beta1", &P::beta1, "Decay of mean."},
          {"beta2", &P::beta2, "Decay of var."},
          {"epsilon", &P::epsilon, "Added to the root of var."},
          Required("t", &P::t, "Number of this step, from 1."),
          {"bias_correction", &P::bias_correction, "Corrects mean and var."},
          Required("wd", &P::wd, "Weight decay, part of the direction."),
          {"rescale_grad", &P::rescale_grad, "Multiplies the gradient."},
          {"clip_gradient", &P::clip_gradient,
           "Bound of the scaled gradient; negative: none."}};
}

std::vector<InputDef> DirectionInputs(bool master) {
  std::vector<InputDef> rows = {
      {"weight", Types::kFloats, "The weight."},
      {"grad", Types::kFloats, "Its gradient."},
      {"mean", Types::kFloats, "Moving mean of gradients, updated."},
      {"var", Types::kFloats, "Moving mean of their squares, updated."}};
  if (master) rows.push_back({"weight32", Types::kFloats, "The weight in float32."});
  return rows;
}

const OpDef& phase1 = Register<DirectionParams>({
    .name = "lamb_update_phase1",
    .doc = "The direction of LAMB's step; its norm and the weight's make the step.",
    .inputs = DirectionInputs(false),
    .params = DirectionParamList(),
    .mutates = {2, 3},
    .pointwise =
        [](const DirectionParams& p, PwCall& c) {
          c.Return(Cast(Direction(p, c, -1), c.in(0).dtype()));
        },
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.t = 3, .wd = 0.1f}},
                {{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.bias_correction = false, .clip_gradient = 0.4f}}},
});

// The direction stays float32.
void Phase1Types(const DirectionParams& p, Specs& in, Specs& out) {
  MixedTypes(p, in, out);
  out[0].dtype = DType::kFloat32;
}

const OpDef& mp_phase1 = Register<DirectionParams>({
    .name = "mp_lamb_update_phase1",
    .doc =
        "lamb_update_phase1 with a float32 copy of the weight; the result is float32.",
    .inputs = DirectionInputs(true),
    .params = DirectionParamList(),
    .mutates = {2, 3},
    .types = Phase1Types,
    .pointwise = [](const DirectionParams& p,
                    PwCall& c) { c.Return(Direction(p, c, 4)); },
    .large = true,
    .samples = {{{Half(Normal(kShape)), Half(Normal(kShape)), Normal(kShape),
                  State(kShape), Normal(kShape)},
                 {.t = 3, .wd = 0.1f}}},
});

struct StepParams {
  float lr = 0;
  float lower_bound = -1, upper_bound = -1;
};

// w -= lr r1 / r2 g, with r1 kept in its bounds; the ratio is 1 where a norm is 0.
void Step(const StepParams& p, PwCall& c, int master) {
  Pw r1 = Wide(c.in(2));
  const Pw r2 = Wide(c.in(3));
  if (p.lower_bound >= 0) r1 = maximum(r1, p.lower_bound);
  if (p.upper_bound >= 0) r1 = minimum(r1, p.upper_bound);
  const Pw ratio = where(Call(Fn::kLogicalAnd, r1, r2), r1 / r2, 1);
  ReturnWeight(c, master, Weight(c, master) - ratio * p.lr * Wide(c.in(1)));
}

std::vector<Param<StepParams>> StepParamList() {
  using P = StepParams;
  return {
      Required("lr", &P::lr, "The learning rate."),
      {"lower_bound", &P::lower_bound, "Least norm of the weight; negative: none."},
      {"upper_bound", &P::upper_bound, "Largest norm of the weight; negative: none."}};
}

std::vector<InputDef> StepInputs(bool master) {
  std::vector<InputDef> rows = {{"weight", Types::kFloats, "The weight."},
                                {"g", Types::kFloats, "The direction."},
                                {"r1", Types::kFloats, "Norm of the weight, (1,)."},
                                {"r2", Types::kFloats, "Norm of the direction, (1,)."}};
  if (master) rows.push_back({"weight32", Types::kFloats, "In float32, updated."});
  return rows;
}

const OpDef& phase2 = Register<StepParams>({
    .name = "lamb_update_phase2",
    .doc = "weight -= lr r1 / r2 g.",
    .inputs = StepInputs(false),
    .params = StepParamList(),
    .pointwise = [](const StepParams& p, PwCall& c) { Step(p, c, -1); },
    .samples = {{{Normal(kShape), Normal(kShape), Numbers({1}, {2}), Numbers({1}, {3})},
                 {.lr = 0.1f, .lower_bound = 0.5f, .upper_bound = 1.5f}},
                {{Normal(kShape), Normal(kShape), Numbers({1}, {2}), Numbers({1}, {0})},
                 {.lr = 0.1f}}},
});

void Phase2Types(const StepParams&, Specs& in, Specs& out) {
  out[0].dtype = in[0].dtype;
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i].dtype == DType::kUnknown) in[i].dtype = DType::kFloat32;
    Check(in[i].dtype == DType::kFloat32, ErrorKind::kType,
          "mp_lamb_update_phase2: array ", i, " is ", in[i].dtype,
          "; float32 was expected");
  }
}

const OpDef& mp_phase2 = Register<StepParams>({
    .name = "mp_lamb_update_phase2",
    .doc = "lamb_update_phase2 with a float32 copy of the weight.",
    .inputs = StepInputs(true),
    .params = StepParamList(),
    .mutates = {4},
    .types = Phase2Types,
    .pointwise = [](const StepParams& p, PwCall& c) { Step(p, c, 4); },
    .samples = {{{Half(Normal(kShape)), Normal(kShape), Numbers({1}, {2}),
                  Numbers({1}, {3}), Normal(kShape)},
                 {.lr = 0.1f}}},
});

// ---------------------------------------------------------------- several weights

struct MultiLambParams {
  std::vector<double> learning_rates, wds;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-6f;
  float rescale_grad = 1;
  float lower_bound = -1, upper_bound = -1;
  float clip_gradient = -1;
  bool bias_correction = true;
  Shape step_count;
  int num_tensors = 1;
};

template <bool kMaster>
void MultiTypes(const MultiLambParams& p, Specs& in, Specs& out) {
  GroupTypes(p.num_tensors, kMaster ? 5 : 4, kMaster, in, out);
}

template <bool kMaster>
bool MultiInfer(const MultiLambParams& p, Specs& in, Specs& out) {
  const int n = p.num_tensors;
  constexpr const char* kName =
      kMaster ? "_multi_mp_lamb_update" : "_multi_lamb_update";
  Check(static_cast<int>(p.learning_rates.size()) == n &&
            static_cast<int>(p.wds.size()) == n && p.step_count.rank() == n,
        kName, ": got ", p.learning_rates.size(), " learning_rates, ", p.wds.size(),
        " wds and ", p.step_count.rank(), " step_counts for ", n,
        " weights; as many were expected");
  return InferGroups(kName, n, kMaster ? 5 : 4, 0, in, out);
}

// The direction goes to scratch memory, between the two passes over the arrays.
template <bool kMaster>
void MultiForward(const MultiLambParams& p, const KernelArgs& args) {
  constexpr int kStride = kMaster ? 5 : 4;
  constexpr int kWeight = kMaster ? 4 : 0;
  for (int g = 0; g < p.num_tensors; ++g) {
    const std::span<const View> in = args.in.subspan(g * kStride, kStride);
    const Shape &shape = in[0].shape(), one{1};
    const DType wide = IsHalf(in[0].dtype) ? DType::kFloat32 : in[0].dtype;
    const cpu::Scratch scratch(static_cast<size_t>(shape.size()) * SizeOf(wide));
    const View direction{scratch.As<void>(), &shape, wide};
    const DirectionParams first{.beta1 = p.beta1,
                                .beta2 = p.beta2,
                                .epsilon = p.epsilon,
                                .t = static_cast<int>(p.step_count[g]),
                                .bias_correction = p.bias_correction,
                                .wd = static_cast<float>(p.wds[g]),
                                .rescale_grad = p.rescale_grad,
                                .clip_gradient = p.clip_gradient};
    const float r1 = static_cast<float>(std::sqrt(SumOfSquares(in[kWeight])));
    RunExpression(in, {&direction, 1}, shape, [&](PwCall& c) {
      c.Return(Cast(Direction(first, c, kMaster ? 4 : -1), wide));
    });
    const float r2 = static_cast<float>(std::sqrt(SumOfSquares(direction)));
    const StepParams second{static_cast<float>(p.learning_rates[g]), p.lower_bound,
                            p.upper_bound};
    SmallVector<View, 8> arrays{in[0],
                                direction,
                                {const_cast<float*>(&r1), &one, DType::kFloat32},
                                {const_cast<float*>(&r2), &one, DType::kFloat32}};
    if (kMaster) arrays.push_back(in[4]);
    RunExpression(arrays, args.out.subspan(g, 1), shape,
                  [&](PwCall& c) { Step(second, c, kMaster ? 4 : -1); });
  }
}

std::vector<Param<MultiLambParams>> MultiParamList() {
  using P = MultiLambParams;
  return {Required("learning_rates", &P::learning_rates, "One for each weight."),
          {"beta1", &P::beta1, "Decay of mean."},
          {"beta2", &P::beta2, "Decay of var."},
          {"epsilon", &P::epsilon, "Added to the root of var."},
          Required("wds", &P::wds, "A weight decay for each weight."),
          {"rescale_grad", &P::rescale_grad, "Multiplies the gradients."},
          {"lower_bound", &P::lower_bound, "Least norm of a weight; negative: none."},
          {"upper_bound", &P::upper_bound, "Largest norm of a weight; negative: none."},
          {"clip_gradient", &P::clip_gradient,
           "Bound of the scaled gradients; negative: none."},
          {"bias_correction", &P::bias_correction, "Corrects mean and var."},
          Required("step_count", &P::step_count, "Number of this step of each weight."),
          {"num_tensors", &P::num_tensors, "Number of weights."}};
}

Sample<MultiLambParams> MultiSample(bool master) {
  Sample<MultiLambParams> sample;
  sample.params = {.learning_rates = {0.1, 0.2},
                   .wds = {0, 0.1},
                   .upper_bound = 2,
                   .step_count = {1, 4},
                   .num_tensors = 2};
  for (const Shape& shape : {kShape, Shape{5}}) {
    for (int i = 0; i < 2; ++i) {
      sample.inputs.push_back(master ? Half(Normal(shape)) : Normal(shape));
    }
    sample.inputs.push_back(Normal(shape));
    sample.inputs.push_back(State(shape));
    if (master) sample.inputs.push_back(Normal(shape));
  }
  return sample;
}

const OpDef& multi_lamb = Register<MultiLambParams>({
    .name = "_multi_lamb_update",
    .doc = "LAMB for several weights; the arrays of each weight stand together.",
    .inputs = {{"data", Types::kFloats, "weight, grad, mean, var of each weight."}},
    .params = MultiParamList(),
    .variable_inputs = true,
    .num_outputs = [](const MultiLambParams& p) { return p.num_tensors; },
    .mutates = {2, 3},
    .group = 4,
    .types = MultiTypes<false>,
    .infer = MultiInfer<false>,
    .cpu = {{"plain", MultiForward<false>}},
    .in_place = {{0, 0}},
    .samples = {MultiSample(false)},
});

const OpDef& multi_mp_lamb = Register<MultiLambParams>({
    .name = "_multi_mp_lamb_update",
    .doc = "_multi_lamb_update with float32 copies of the weights.",
    .inputs = {{"data", Types::kFloats,
                "weight, grad, mean, var, weight32 of each weight."}},
    .params = MultiParamList(),
    .variable_inputs = true,
    .num_outputs = [](const MultiLambParams& p) { return p.num_tensors; },
    .mutates = {2, 3, 4},
    .group = 5,
    .types = MultiTypes<true>,
    .infer = MultiInfer<true>,
    .cpu = {{"plain", MultiForward<true>}},
    .in_place = {{0, 0}},
    .samples = {MultiSample(true)},
});

}  // namespace
}  // namespace plait
