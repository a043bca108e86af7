// LayerNorm, GroupNorm and InstanceNorm: normalisation inside one sample.

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/normalize.h"

namespace plait {
namespace {

enum class Kind { kLayer, kGroup, kInstance };

struct LayerNormParams {
  int axis = -1;
  float eps = 1e-5f;
  bool output_mean_var = false;

  static constexpr Kind kKind = Kind::kLayer;
  static constexpr const char* kName = "LayerNorm";
};
struct GroupNormParams {
  int num_groups = 1;
  float eps = 1e-5f;
  bool output_mean_var = false;

  static constexpr Kind kKind = Kind::kGroup;
  static constexpr const char* kName = "GroupNorm";
};
struct InstanceNormParams {
  float eps = 1e-3f;

  static constexpr Kind kKind = Kind::kInstance;
  static constexpr const char* kName = "InstanceNorm";
};

template <typename P>
void InferTypes(const P&, Specs& in, Specs& out) {
  DType dtype = out[0].dtype;
  for (const Spec& s : in) {
    if (s.dtype != DType::kUnknown) dtype = s.dtype;
  }
  if (dtype == DType::kUnknown) return;
  for (Spec& s : in) {
    Check(s.dtype == DType::kUnknown || s.dtype == dtype, ErrorKind::kType, P::kName,
          ": inputs are ", in[0].dtype, ", ", in[1].dtype, ", ", in[2].dtype,
          "; one dtype for all of them was expected");
    s.dtype = dtype;
  }
  out[0].dtype = dtype;
  out[1].dtype = out[2].dtype = StatsDType(dtype);
}

// gamma and beta of GroupNorm may have one element a channel or one a group.
Norm NormOf(const LayerNormParams& p, const Shape& x, const Shape&) {
  const int axis = p.axis < 0 ? p.axis + x.rank() : p.axis;
  return {.sizes = {x.size(0, axis), x[axis], x.size(axis + 1, x.rank()), 1},
          .stats_axes = 0b101,
          .affine_axes = 0b010,
          .third_is_std = true,
          .eps = p.eps};
}
Norm NormOf(const GroupNormParams& p, const Shape& x, const Shape& gamma) {
  const int64_t groups = p.num_groups;
  const bool each_channel = gamma[0] == x[1] && gamma[0] != groups;
  return {.sizes = {x[0], groups, x[1] / groups, x.size(2, x.rank())},
          .stats_axes = 0b0011,
          .affine_axes = each_channel ? 0b0110 : 0b0010,
          .third_is_std = true,
          .eps = p.eps};
}
Norm NormOf(const InstanceNormParams& p, const Shape& x, const Shape&) {
  return {.sizes = {x[0], x[1], x.size(2, x.rank()), 1},
          .stats_axes = 0b011,
          .affine_axes = 0b010,
          .eps = p.eps};
}

template <typename P>
int AxisOf(const P& p, const Shape& x) {
  if constexpr (P::kKind == Kind::kLayer) {
    return NormalizeAxis(p.axis, x.rank(), P::kName);
  } else {
    const int least = P::kKind == Kind::kGroup ? 3 : 2;
    Check(x.rank() >= least, P::kName, ": x ", x, " has too few axes; at least ", least,
          " were expected");
    return 1;
  }
}

template <typename P>
bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  const int axis = AxisOf(p, x);
  Shape affine{x[axis]}, stats{x[0], x[1]};
  if constexpr (P::kKind == Kind::kLayer) {
    stats = x;
    stats[axis] = 1;
  } else if constexpr (P::kKind == Kind::kGroup) {
    Check(p.num_groups > 0 && (x[1] == kUnknownSize || x[1] % p.num_groups == 0),
          "GroupNorm: x ", x, " and num_groups ", p.num_groups,
          "; a positive number that divides the channels was expected");
    stats[1] = p.num_groups;
    if (in[1].shape != affine) affine[0] = p.num_groups;
  }
  for (int i = 1; i <= 2; ++i) {
    Check(Unify(in[i].shape, affine), P::kName, ": ", i == 1 ? "gamma " : "beta ",
          in[i].shape, " does not fit x ", x, "; ", affine, " was expected");
  }
  return Unify(out[1].shape, stats) && Unify(out[2].shape, stats);
}

template <typename P>
void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &mean = args.out[1], &third = args.out[2];
  const Norm norm = NormOf(p, x.shape(), args.in[1].shape());
  PlainNormStats(norm, x, mean, third);
  PlainNormApply(norm, x, args.in[1], args.in[2], mean, third, args.out[0]);
}

template <typename P>
void RunsForward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &mean = args.out[1], &third = args.out[2];
  const Norm norm = NormOf(p, x.shape(), args.in[1].shape());
  RunsNormStats(norm, x, mean, third);
  RunsNormApply(norm, x, args.in[1], args.in[2], mean, third, args.out[0]);
}
template <typename P>
const char* RunsDeclines(const P& p, const Specs& in, const Specs&) {
  return HasRuns(NormOf(p, in[0].shape, in[1].shape)) ? nullptr : "no contiguous runs";
}

template <typename P>
void FusedForward(const P& p, const KernelArgs& args) {
  FusedNormForward(NormOf(p, args.in[0].shape(), args.in[1].shape()), args.in[0],
                   args.in[1], args.in[2], args.out[0], args.out[1], args.out[2]);
}
template <typename P>
const char* FusedDeclines(const P& p, const Specs& in, const Specs&) {
  return FusedNormDeclines(NormOf(p, in[0].shape, in[1].shape), in[0].dtype,
                           in[1].dtype);
}

// Gradients of mean and std, where they are shown, count as zero.
template <typename P>
Values Gradient(const P& p, const GradArgs& g) {
  const Norm norm = NormOf(p, g.in_spec(0).shape, g.in_spec(1).shape);
  return NormBackward(norm, g.dout(0), g.in(0), g.in(1), g.out(1), g.out(2));
}

template <typename P>
int Visible(const P& p) {
  return p.output_mean_var ? 3 : 1;
}

double Cost(const auto&, const Specs& in, const Specs&) {
  return 8.0 * static_cast<double>(in[0].shape.size());
}

std::vector<InputDef> Inputs(const char* affine) {
  return {{"data", Types::kFloats, "x, of any shape."},
          {"gamma", Types::kFloats, affine},
          {"beta", Types::kFloats, "Offset, like gamma."}};
}

constexpr Uses kUses{.in = 0b11, .out = 0b110};

const OpDef& layer_norm = Register<LayerNormParams>({
    .name = "LayerNorm",
    .aliases = {"_npx_layer_norm"},
    .doc = "Normalises x along one axis to mean beta and standard deviation gamma.",
    .inputs = Inputs("Scale of each element along the axis."),
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"mean", Types::kFloats, "With size 1 along the axis."},
                {"std", Types::kFloats, "sqrt(variance + eps), like mean."}},
    .params = {{"axis", &LayerNormParams::axis, "The axis that is normalised."},
               {"eps", &LayerNormParams::eps, "Added to the variance."},
               {"output_mean_var", &LayerNormParams::output_mean_var,
                "Shows mean and std."}},
    .visible_outputs = Visible<LayerNormParams>,
    .types = InferTypes<LayerNormParams>,
    .infer = Infer<LayerNormParams>,
    .gradient = Gradient<LayerNormParams>,
    .uses = kUses,
    .cpu = {{"fused", FusedForward<LayerNormParams>, FusedDeclines<LayerNormParams>},
            {"runs", RunsForward<LayerNormParams>, RunsDeclines<LayerNormParams>},
            {"plain", Forward<LayerNormParams>}},
    .cost = Cost<LayerNormParams>,
    .samples = {{{Normal({3, 4}), Normal({4}), Normal({4})}},
                {{Normal({2, 5, 3}), Normal({5}), Normal({5})}, {.axis = 1}},
                {{Normal({4, 2}), Normal({4}), Normal({4})}, {.axis = 0, .eps = 0.1f}}},
});

const OpDef& group_norm = Register<GroupNormParams>({
    .name = "GroupNorm",
    .doc = "Normalises groups of channels of every sample.",
    .inputs = Inputs("Scale of each group, or of each channel."),
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"mean", Types::kFloats, "(batch, num_groups)."},
                {"std", Types::kFloats, "sqrt(variance + eps), like mean."}},
    .params = {{"num_groups", &GroupNormParams::num_groups, "Divides the channels."},
               {"eps", &GroupNormParams::eps, "Added to the variance."},
               {"output_mean_var", &GroupNormParams::output_mean_var,
                "Shows mean and std."}},
    .visible_outputs = Visible<GroupNormParams>,
    .types = InferTypes<GroupNormParams>,
    .infer = Infer<GroupNormParams>,
    .gradient = Gradient<GroupNormParams>,
    .uses = kUses,
    .cpu = {{"fused", FusedForward<GroupNormParams>, FusedDeclines<GroupNormParams>},
            {"runs", RunsForward<GroupNormParams>, RunsDeclines<GroupNormParams>},
            {"plain", Forward<GroupNormParams>}},
    .cost = Cost<GroupNormParams>,
    .samples = {{{Normal({2, 4, 3}), Normal({2}), Normal({2})}, {.num_groups = 2}},
                {{Normal({2, 4, 2, 2}), Normal({4}), Normal({4})}, {.num_groups = 2}},
                {{Normal({2, 3, 4}), Normal({1}), Normal({1})}}},
});

const OpDef& instance_norm = Register<InstanceNormParams>({
    .name = "InstanceNorm",
    .doc = "Normalises every channel of every sample.",
    .inputs = Inputs("Scale of each channel."),
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"mean", Types::kFloats, "(batch, channels)."},
                {"var", Types::kFloats, "1 / sqrt(variance + eps), like mean."}},
    .params = {{"eps", &InstanceNormParams::eps, "Added to the variance."}},
    .visible_outputs = [](const InstanceNormParams&) { return 1; },
    .types = InferTypes<InstanceNormParams>,
    .infer = Infer<InstanceNormParams>,
    .gradient = Gradient<InstanceNormParams>,
    .uses = kUses,
    .cpu = {{"fused", FusedForward<InstanceNormParams>,
             FusedDeclines<InstanceNormParams>},
            {"runs", RunsForward<InstanceNormParams>, RunsDeclines<InstanceNormParams>},
            {"plain", Forward<InstanceNormParams>}},
    .cost = Cost<InstanceNormParams>,
    .samples = {{{Normal({2, 3, 4}), Normal({3}), Normal({3})}},
                {{Normal({2, 2, 3, 2}), Normal({2}), Normal({2})}, {.eps = 0.1f}}},
});

}  // namespace
}  // namespace plait
