// BatchNorm: normalisation of every channel over the batch and space.

#include "ops/nn/batch_norm.h"

#include <cmath>

#include "graph/math.h"
#include "ops/expression.h"
#include "ops/infer.h"
#include "ops/nn/normalize.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

using P = BatchNormParams;

// Statistics and parameters of half types are float32.
void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  if (x == DType::kUnknown) return;
  out[0].dtype = x;
  const DType stats = StatsDType(x);
  constexpr const char* kNames[] = {"", "gamma", "beta", "moving_mean", "moving_var"};
  for (size_t i = 1; i < in.size(); ++i) {
    Check(in[i].dtype == DType::kUnknown || in[i].dtype == stats, ErrorKind::kType,
          "BatchNorm: ", kNames[i], " is ", in[i].dtype, "; ", stats,
          " was expected for data of ", x);
    in[i].dtype = stats;
  }
  out[1].dtype = out[2].dtype = stats;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  const int axis = NormalizeAxis(p.axis, x.rank(), "BatchNorm");
  Shape channels{x[axis]};
  constexpr const char* kNames[] = {"", "gamma", "beta", "moving_mean", "moving_var"};
  for (size_t i = 1; i < in.size(); ++i) {
    Check(Unify(in[i].shape, channels), "BatchNorm: ", kNames[i], " ", in[i].shape,
          " does not fit x ", x, " and axis ", axis, "; ", channels, " was expected");
  }
  return Unify(out[1].shape, channels) && Unify(out[2].shape, channels);
}

Norm NormOf(const P& p, const Shape& x) {
  const int axis = p.axis < 0 ? p.axis + x.rank() : p.axis;
  return {.sizes = {x.size(0, axis), x[axis], x.size(axis + 1, x.rank()), 1},
          .stats_axes = 0b10,
          .affine_axes = 0b10,
          .fix_gamma = p.fix_gamma,
          .eps = p.eps};
}

template <typename A>
void FollowMoments(const P& p, const View& mean, const std::vector<A>& variance,
                   const KernelArgs& args) {
  const A momentum = static_cast<A>(p.momentum);
  A *moving_mean = args.in[3].data<A>(), *moving_var = args.in[4].data<A>();
  for (size_t c = 0; c < variance.size(); ++c) {
    const A m = mean.data<A>()[c], var = variance[c];
    moving_mean[c] = moving_mean[c] * momentum + m * (1 - momentum);
    moving_var[c] = moving_var[c] * momentum + var * (1 - momentum);
  }
}

// In training the batch's own statistics are used, and the moving ones follow them.
// kNormalise computes them and y, kApply y from those that are given.
template <auto kNormalise, auto kApply>
void Forward(const P& p, const KernelArgs& args) {
  const Norm norm = NormOf(p, args.in[0].shape());
  const View &x = args.in[0], &gamma = args.in[1], &beta = args.in[2];
  const View &y = args.out[0], &mean = args.out[1], &inverse = args.out[2];
  const bool own = args.training && !p.use_global_stats;
  // A decayed gamma is not what is computed with; what is saved shall be.
  if (args.training && p.fix_gamma) FillValue(gamma, 1);
  if (own && norm.Count(0b101) == 0) return;
  VisitStats(mean.dtype, [&]<typename A>() {
    const int64_t channels = norm.sizes[1];
    if (own) {
      std::vector<A> variance(static_cast<size_t>(channels));
      kNormalise(norm, x, gamma, beta, y, mean, inverse, variance.data());
      FollowMoments(p, mean, variance, args);
      if (p.gives_variance()) {
        std::copy(variance.begin(), variance.end(), inverse.data<A>());
      }
      return;
    }
    const A eps = static_cast<A>(p.eps);
    for (int64_t c = 0; c < channels; ++c) {
      mean.data<A>()[c] = args.in[3].data<A>()[c];
      inverse.data<A>()[c] = A(1) / std::sqrt(args.in[4].data<A>()[c] + eps);
    }
    kApply(norm, x, gamma, beta, mean, inverse, y);
    if (p.gives_variance()) {
      std::copy_n(args.in[4].data<A>(), channels, inverse.data<A>());
    }
  });
}

// 1 / sqrt(variance + eps), as the forward pass used it.
Value Inverse(const P& p, const GradArgs& g) {
  return p.gives_variance() ? rsqrt(g.out(2) + p.eps) : g.out(2);
}

template <auto kStats, auto kApply>
void InTwoSteps(const Norm& norm, const View& x, const View& gamma, const View& beta,
                const View& y, const View& mean, const View& third, void* variance) {
  kStats(norm, x, mean, third, variance);
  kApply(norm, x, gamma, beta, mean, third, y);
}

constexpr auto FusedForward = Forward<FusedNormForward, FusedNormApply>;
constexpr auto RunsForward =
    Forward<InTwoSteps<RunsNormStats, RunsNormApply>, RunsNormApply>;
constexpr auto PlainForward =
    Forward<InTwoSteps<PlainNormStats, PlainNormApply>, PlainNormApply>;

const char* FusedDeclines(const P& p, const Specs& in, const Specs&) {
  return FusedNormDeclines(NormOf(p, in[0].shape), in[0].dtype, in[1].dtype);
}

// With the moving statistics, y is linear in x.
Values GlobalGradient(const P& p, const GradArgs& g) {
  const Norm norm = NormOf(p, g.in_spec(0).shape);
  const DType dtype = g.in_spec(0).dtype, stats = StatsDType(dtype);
  const Shape channels = norm.Only(norm.affine_axes), &vector = g.in_spec(1).shape;
  const auto wide = [&](const Value& v) {
    const Value r = reshape(v, norm.sizes);
    return dtype == stats ? r : cast(r, stats);
  };
  const Value dy = wide(g.dout(0)), r = reshape(Inverse(p, g), channels);
  const Value scale = p.fix_gamma ? r : r * reshape(g.in(1), channels);
  const Value dx = reshape(dy * scale, g.in_spec(0).shape);
  Values result(5);
  result[0] = dtype == stats ? dx : cast(dx, dtype);
  if (!p.fix_gamma && g.wants(1)) {
    const Value hat = (wide(g.in(0)) - reshape(g.out(1), channels)) * r;
    result[1] = reshape(sum_to(dy * hat, channels), vector);
  }
  if (g.wants(2)) result[2] = reshape(sum_to(dy, channels), vector);
  return result;
}

Values Gradient(const P& p, const GradArgs& g) {
  if (!g.training || p.use_global_stats) return GlobalGradient(p, g);
  const Values d = NormBackward(NormOf(p, g.in_spec(0).shape), g.dout(0), g.in(0),
                                g.in(1), g.out(1), Inverse(p, g));
  return {d[0], d[1], d[2], {}, {}};
}

SampleInput Aux(SampleInput s) {
  s.differentiable = false;
  return s;
}

std::vector<SampleInput> Inputs(Shape x, int64_t channels) {
  return {Normal(std::move(x)), Uniform({channels}, 0.5, 1.5), Normal({channels}),
          Aux(Normal({channels})), Aux(Uniform({channels}, 0.5, 1.5))};
}

std::vector<Param<P>> CommonParams() {
  return {{"eps", &P::eps, "Added to the variance."},
          {"momentum", &P::momentum,
           "moving = moving * momentum + batch * (1 - momentum)."},
          {"fix_gamma", &P::fix_gamma, "gamma counts as 1 and gets no gradient."},
          {"use_global_stats", &P::use_global_stats,
           "Uses the moving statistics in training too."},
          {"output_mean_var", &P::output_mean_var, "Shows mean and var."}};
}

std::vector<Param<P>> AllParams() {
  std::vector<Param<P>> rows = CommonParams();
  rows.push_back({"axis", &P::axis, "The axis of the channels."});
  rows.push_back({"cudnn_off", &P::cudnn_off, "For GPUs."});
  rows.push_back({"min_calib_range", &P::min_calib_range, "For quantisation."});
  rows.push_back({"max_calib_range", &P::max_calib_range, "For quantisation."});
  return rows;
}

// What the operators of this file have in common.
OpSpec<P> Spec(const char* name, const char* doc, std::vector<Param<P>> params) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kFloats, "x, with channels along `axis`."},
                 {"gamma", Types::kFloats, "Scale of each channel."},
                 {"beta", Types::kFloats, "Offset of each channel."},
                 {"moving_mean", Types::kFloats, "Moving average of the means."},
                 {"moving_var", Types::kFloats, "Moving average of the variances."}},
      .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                  {"mean", Types::kFloats, "The means that were used."},
                  {"var", Types::kFloats,
                   "1 / sqrt(variance + eps); of SyncBatchNorm, the variances."}},
      .params = std::move(params),
      .visible_outputs = [](const P& p) { return p.output_mean_var ? 3 : 1; },
      .mutates = {3, 4},
      .writes =
          [](const P& p, int input, bool training) {
            return training &&
                   (input > 2 ? !p.use_global_stats : p.fix_gamma && input == 1);
          },
      .types = InferTypes,
      .infer = Infer,
      .gradient = Gradient,
      .uses = {.in = 0b11, .out = 0b110},
      .cpu = {{"fused", FusedForward, FusedDeclines},
              {"runs", RunsForward},
              {"plain", PlainForward}},
      .uses_training = true,
      .cost =
          [](const P&, const Specs& in, const Specs&) {
            return 8.0 * static_cast<double>(in[0].shape.size());
          },
      .samples = {{Inputs({4, 3, 2, 2}, 3), {.fix_gamma = false}, true},
                  {Inputs({4, 3, 2, 2}, 3), {}, true},
                  {Inputs({4, 3, 2, 2}, 3), {.fix_gamma = false}}},
  };
}

const OpDef& batch_norm = []() -> const OpDef& {
  OpSpec<P> spec =
      Spec("BatchNorm",
           "Normalises every channel to mean beta and standard deviation gamma, over "
           "the batch in training, by the moving statistics otherwise.",
           AllParams());
  spec.aliases = {"_npx_batch_norm", "BatchNorm_v1"};
  const std::vector<Sample<P>> more = {
      {Inputs({4, 3}, 3), {.eps = 1e-5, .fix_gamma = false}, true},
      {Inputs({2, 3, 4}, 4), {.fix_gamma = false, .axis = -1}, true},
      {Inputs({4, 3, 2}, 3), {.fix_gamma = false, .use_global_stats = true}, true}};
  spec.samples.insert(spec.samples.end(), more.begin(), more.end());
  return Register<P>(std::move(spec));
}();

// There is one device, so the batch is all of it.
const OpDef& sync_batch_norm = []() -> const OpDef& {
  std::vector<Param<P>> params = CommonParams();
  params.push_back({"ndev", &P::ndev, "Number of devices that share a batch."});
  params.push_back(
      Required("key", &P::key, "Names the layer, the same on all devices."));
  OpSpec<P> spec =
      Spec("_contrib_SyncBatchNorm", "BatchNorm over the batches of all devices.",
           std::move(params));
  for (bool training : {true, false}) {
    spec.samples.push_back(
        {Inputs({4, 3, 2, 2}, 3), {.fix_gamma = false, .key = "layer"}, training});
  }
  return Register<P>(std::move(spec));
}();

template <auto kForward>
void ForwardRelu(const P& p, const KernelArgs& args) {
  kForward(p, args);
  const View& y = args.out[0];
  RunExpression({&y, 1}, {&y, 1}, y.shape(),
                [](PwCall& c) { c.Return(Call(Fn::kRelu, c.in(0))); });
}

// dy passes where y is positive; then as BatchNorm.
Values ReluGradient(const P& p, const GradArgs& g) {
  const Value dy = g.dout(0) * (g.out(0) > 0.0);
  const Value heads[] = {dy, Value(), Value()};
  GradArgs inner = g;
  inner.head_gradients = heads;
  return Gradient(p, inner);
}

const OpDef& batch_norm_relu = []() -> const OpDef& {
  OpSpec<P> spec =
      Spec("_contrib_BatchNormWithReLU", "relu(BatchNorm(x)).", AllParams());
  spec.gradient = ReluGradient;
  spec.uses = {.in = 0b11, .out = 0b111};
  spec.cpu = {{"fused", ForwardRelu<FusedForward>, FusedDeclines},
              {"runs", ForwardRelu<RunsForward>},
              {"plain", ForwardRelu<PlainForward>}};
  return Register<P>(std::move(spec));
}();

}  // namespace
}  // namespace plait
