// Adam and AdamW.

#include <algorithm>

#include "ops/optimizer/update.h"

namespace plait {
namespace {

struct AdamParams {
  float lr = 0;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  bool lazy_update = true;
};

const Shape kShape{3, 4};

// G = clip(s g + wd w); m and v follow G and G^2; w -= lr m / (sqrt(v) + eps).
void Adam(const AdamParams& p, PwCall& c) {
  const Pw w = Wide(c.in(0));
  Pw g = Wide(c.in(1)) * p.rescale_grad;
  if (p.wd != 0) g = g + w * p.wd;
  g = Clip(g, p.clip_gradient);
  const double b1 = p.beta1, b2 = p.beta2;
  const Pw m = Wide(c.in(2)) * b1 + g * (1 - b1);
  const Pw v = Wide(c.in(3)) * b2 + square(g) * (1 - b2);
  UpdateState(c, 2, m);
  UpdateState(c, 3, v);
  ReturnWeight(c, -1, w - m * p.lr / (sqrt(v) + p.epsilon));
}

const OpDef& adam_update = Register<AdamParams>({
    .name = "adam_update",
    .aliases = {"_sparse_adam_update"},
    .doc = "Adam; the bias correction is part of lr.",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"mean", Types::kFloats, "Moving mean of gradients, updated."},
               {"var", Types::kFloats, "Moving mean of their squares, updated."}},
    .params = {Required("lr", &AdamParams::lr, "The learning rate."),
               {"beta1", &AdamParams::beta1, "Decay of mean."},
               {"beta2", &AdamParams::beta2, "Decay of var."},
               {"epsilon", &AdamParams::epsilon, "Added to the root of var."},
               {"wd", &AdamParams::wd, "Weight decay, inside of the clipping."},
               {"rescale_grad", &AdamParams::rescale_grad, "Multiplies the gradient."},
               {"clip_gradient", &AdamParams::clip_gradient,
                "Bound of the gradient; negative: none."},
               {"lazy_update", &AdamParams::lazy_update,
                "With row-sparse gradients, updates only their rows."}},
    .mutates = {2, 3},
    .pointwise = Adam,
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .wd = 0.01f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .beta1 = 0.8f, .clip_gradient = 0.3f}}},
});

struct AdamWParams {
  float lr = 0;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float wd = 0;
  float eta = 0;
  float clip_gradient = -1;
};

// w -= eta (lr m / (sqrt(v) + eps) + wd w). `scale`, the last array, rescales the
// gradient; where it is 0, infinite or NaN nothing changes at all.
void AdamW(const AdamWParams& p, PwCall& c, int scale, int master) {
  const Pw s = Wide(c.in(scale));
  const Pw works = Call(Fn::kLogicalAnd, isfinite(s), s);
  const Pw w = Weight(c, master);
  const Pw g = Clip(Wide(c.in(1)) * s, p.clip_gradient);
  const double b1 = p.beta1, b2 = p.beta2;
  const Pw m0 = Wide(c.in(2)), v0 = Wide(c.in(3));
  const Pw m = where(works, m0 * b1 + g * (1 - b1), m0);
  const Pw v = where(works, v0 * b2 + square(g) * (1 - b2), v0);
  UpdateState(c, 2, m);
  UpdateState(c, 3, v);
  const Pw step = m * p.lr / (sqrt(v) + p.epsilon) + w * p.wd;
  ReturnWeight(c, master, where(works, w - step * p.eta, w));
}

std::vector<InputDef> AdamWInputs(bool master) {
  std::vector<InputDef> rows = {
      {"weight", Types::kFloats, "The weight."},
      {"grad", Types::kFloats, "Its gradient."},
      {"mean", Types::kFloats, "Moving mean of gradients, updated."},
      {"var", Types::kFloats, "Moving mean of their squares, updated."}};
  if (master) rows.push_back({"weight32", Types::kFloats, "In float32, updated."});
  rows.push_back({"rescale_grad", Types::kFloats,
                  "Multiplies the gradient; 0, inf and NaN skip the update."});
  return rows;
}

template <typename P>
std::vector<Param<P>> CommonParams() {
  return {
      {"beta1", &P::beta1, "Decay of mean."},
      {"beta2", &P::beta2, "Decay of var."},
      {"epsilon", &P::epsilon, "Added to the root of var."},
      {"clip_gradient", &P::clip_gradient, "Bound of the gradient; negative: none."}};
}

std::vector<Param<AdamWParams>> AdamWParamList() {
  std::vector<Param<AdamWParams>> rows = CommonParams<AdamWParams>();
  rows.push_back(Required("lr", &AdamWParams::lr, "The learning rate."));
  rows.push_back({"wd", &AdamWParams::wd, "Weight decay, outside of the gradient."});
  rows.push_back(Required("eta", &AdamWParams::eta, "Multiplies the whole step."));
  return rows;
}

// rescale_grad may have another dtype than the weight.
void AdamWTypes(const AdamWParams& p, Specs& in, Specs& out) {
  const Spec scale = in.back();
  in.pop_back();
  if (in.size() == 5) {
    MixedTypes(p, in, out);
  } else {
    for (const Spec& s : in) {
      Check(s.dtype == in[0].dtype, ErrorKind::kType, "_adamw_update: weight is ",
            in[0].dtype, " and another array ", s.dtype, "; one dtype was expected");
    }
    out[0].dtype = in[0].dtype;
  }
  in.push_back(scale);
}

const AdamWParams kAdamWSample{
    .lr = 0.1f, .wd = 0.1f, .eta = 0.5f, .clip_gradient = 0.8f};

const OpDef& adamw_update = Register<AdamWParams>({
    .name = "_adamw_update",
    .doc = "Adam with decoupled weight decay.",
    .inputs = AdamWInputs(false),
    .params = AdamWParamList(),
    .mutates = {2, 3},
    .types = AdamWTypes,
    .pointwise = [](const AdamWParams& p, PwCall& c) { AdamW(p, c, 4, -1); },
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape),
                  Numbers({1}, {0.5})},
                 kAdamWSample}},
});

const OpDef& mp_adamw_update = Register<AdamWParams>({
    .name = "_mp_adamw_update",
    .doc = "_adamw_update with a float32 copy of the weight.",
    .inputs = AdamWInputs(true),
    .params = AdamWParamList(),
    .mutates = {2, 3, 4},
    .types = AdamWTypes,
    .pointwise = [](const AdamWParams& p, PwCall& c) { AdamW(p, c, 5, 4); },
    .large = true,
    .samples = {{{Half(Normal(kShape)), Half(Normal(kShape)), Normal(kShape),
                  State(kShape), Normal(kShape), Numbers({1}, {0.5})},
                 kAdamWSample}},
});

struct MultiAdamWParams {
  std::vector<double> lrs, wds, etas;
  float beta1 = 0.9f, beta2 = 0.999f;
  float epsilon = 1e-8f;
  float clip_gradient = -1;
  int num_weights = 1;
};

template <bool kMaster>
void MultiTypes(const MultiAdamWParams& p, Specs& in, Specs& out) {
  GroupTypes(p.num_weights, kMaster ? 5 : 4, kMaster, in, out);
}

template <bool kMaster>
bool MultiInfer(const MultiAdamWParams& p, Specs& in, Specs& out) {
  const auto n = static_cast<size_t>(std::max(p.num_weights, 0));
  constexpr const char* kName =
      kMaster ? "_multi_mp_adamw_update" : "_multi_adamw_update";
  Check(p.lrs.size() == n && p.wds.size() == n && p.etas.size() == n, kName, ": got ",
        p.lrs.size(), " lrs, ", p.wds.size(), " wds and ", p.etas.size(), " etas for ",
        n, " weights; as many were expected");
  if (!in.empty() && in.back().shape.known()) {
    Check(in.back().shape.size() == 1, kName, ": rescale_grad has shape ",
          in.back().shape, "; one number was expected");
  }
  return InferGroups(kName, p.num_weights, kMaster ? 5 : 4, 1, in, out);
}

template <bool kMaster>
void MultiForward(const MultiAdamWParams& p, const KernelArgs& args) {
  RunGroups(args, kMaster ? 5 : 4, true, [&](int g, PwCall& c) {
    const AdamWParams one{.lr = static_cast<float>(p.lrs[g]),
                          .beta1 = p.beta1,
                          .beta2 = p.beta2,
                          .epsilon = p.epsilon,
                          .wd = static_cast<float>(p.wds[g]),
                          .eta = static_cast<float>(p.etas[g]),
                          .clip_gradient = p.clip_gradient};
    AdamW(one, c, kMaster ? 5 : 4, kMaster ? 4 : -1);
  });
}

std::vector<Param<MultiAdamWParams>> MultiParamList() {
  using P = MultiAdamWParams;
  std::vector<Param<P>> rows = CommonParams<P>();
  rows.push_back(Required("lrs", &P::lrs, "A learning rate for each weight."));
  rows.push_back(Required("wds", &P::wds, "A weight decay for each weight."));
  rows.push_back(Required("etas", &P::etas, "A factor of the step for each weight."));
  rows.push_back({"num_weights", &P::num_weights, "Number of weights."});
  return rows;
}

Sample<MultiAdamWParams> MultiSample(bool master) {
  Sample<MultiAdamWParams> sample;
  sample.params = {
      .lrs = {0.1, 0.2}, .wds = {0, 0.1}, .etas = {1, 0.5}, .num_weights = 2};
  for (const Shape& shape : {kShape, Shape{5}}) {
    for (int i = 0; i < 2; ++i) {
      sample.inputs.push_back(master ? Half(Normal(shape)) : Normal(shape));
    }
    sample.inputs.push_back(Normal(shape));
    sample.inputs.push_back(State(shape));
    if (master) sample.inputs.push_back(Normal(shape));
  }
  sample.inputs.push_back(Numbers({1}, {0.5}));
  return sample;
}

const OpDef& multi_adamw_update = Register<MultiAdamWParams>({
    .name = "_multi_adamw_update",
    .doc = "AdamW for several weights; the arrays of each weight stand together.",
    .inputs = {{"data", Types::kFloats,
                "weight, grad, mean, var of each weight, then rescale_grad."}},
    .params = MultiParamList(),
    .variable_inputs = true,
    .num_outputs = [](const MultiAdamWParams& p) { return p.num_weights; },
    .mutates = {2, 3},
    .group = 4,
    .types = MultiTypes<false>,
    .infer = MultiInfer<false>,
    .cpu = {{"plain", MultiForward<false>}},
    .in_place = {{0, 0}},
    .samples = {MultiSample(false)},
});

const OpDef& multi_mp_adamw_update = Register<MultiAdamWParams>({
    .name = "_multi_mp_adamw_update",
    .doc = "_multi_adamw_update with float32 copies of the weights.",
    .inputs =
        {{"data", Types::kFloats,
          "weight, grad, mean, var, weight32 of each weight, then rescale_grad."}},
    .params = MultiParamList(),
    .variable_inputs = true,
    .num_outputs = [](const MultiAdamWParams& p) { return p.num_weights; },
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
