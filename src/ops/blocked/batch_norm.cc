// Batch normalisation and its gradient on blocked arrays, for graphs.

#include "ops/nn/batch_norm.h"

#include <cmath>
#include <vector>

#include "cpu/blocked.h"
#include "graph/blocked_form.h"
#include "ops/blocked/types.h"
#include "ops/infer.h"
#include "ops/nn/normalize.h"

namespace plait {
namespace {

struct BlockedNormParams {
  BatchNormParams norm;
  int64_t channels = 0;
  bool relu = false;  // rectifies y; the gradient: of both
};
using P = BlockedNormParams;

// Checks x as far as it is known, and that the others have an element a channel.
bool Relate(const P& p, Shape& x, std::span<Spec> vectors, const char* op) {
  Check(p.channels > 0, op, ": channels is ", p.channels,
        "; a positive number was expected");
  Check(Assign(x, Shape::Filled(5, kUnknownSize)), op, ": data is ", x,
        "; (batch, blocks, height, width, block) was expected");
  for (Spec& v : vectors)
    Check(Assign(v.shape, {p.channels}), op, ": an array of the channels is ", v.shape,
          "; (", p.channels, ",) was expected");
  if (x[4] == kUnknownSize) return true;
  Check(x[4] == 8 || x[4] == 16, op, ": data is ", x,
        "; blocks of 8 or 16 were expected");
  int64_t blocks = (p.channels + x[4] - 1) / x[4];
  return UnifySize(x[1], blocks);
}

bool InferForward(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const auto rest = [](Specs& s) { return std::span(s.begin() + 1, s.end()); };
  return Relate(p, in[0].shape, rest(in), "_blocked_batch_norm") &&
         Relate(p, out[0].shape, rest(out), "_blocked_batch_norm") &&
         Unify(in[0].shape, out[0].shape);
}
bool InferBackward(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_batch_norm_backward";
  const size_t arrays = p.relu ? 3 : 2;  // dy, x, y
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < arrays; ++i)
      if (!Unify(in[i].shape, out[0].shape)) return false;
  }
  return Relate(p, in[0].shape, std::span(in.begin() + arrays, in.end()), kOp) &&
         Relate(p, out[0].shape, std::span(out.begin() + 1, out.end()), kOp);
}

// Arrays may be bfloat16; what has an element a channel is float32 then.
template <size_t kArrays>
void InferTypes(const P& p, Specs& in, Specs& out) {
  const size_t arrays = kArrays + (kArrays > 1 && p.relu ? 1 : 0);
  DType x = out[0].dtype;
  for (size_t i = 0; i < arrays; ++i)
    if (x == DType::kUnknown) x = in[i].dtype;
  if (x == DType::kUnknown) return;
  out[0].dtype = x;
  const DType stats = StatsDType(x);
  for (size_t i = 0; i < in.size(); ++i) {
    const DType wanted = i < arrays ? x : stats;
    Check(in[i].dtype == DType::kUnknown || in[i].dtype == wanted, ErrorKind::kType,
          "_blocked_batch_norm: input ", i, " is ", in[i].dtype, "; ", wanted,
          " was expected");
    in[i].dtype = wanted;
  }
  for (size_t i = 1; i < out.size(); ++i) out[i].dtype = stats;
}

const char* Declines(const P&, const Specs& in, const Specs&) {
  return IsBlockedType(in[0].dtype) ? nullptr : "not float32 or a half type";
}

cpu::BlockedArray ArrayOf(const P& p, const Shape& x) {
  return {x[0], p.channels, x[2] * x[3], x[4]};
}

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &gamma = args.in[1];
  const cpu::BlockedArray a = ArrayOf(p, x.shape());
  const BatchNormParams& n = p.norm;
  float *mean = args.out[1].data<float>(), *inverse = args.out[2].data<float>();
  float *moving_mean = args.in[3].data<float>(), *moving_var = args.in[4].data<float>();
  if (args.training && n.fix_gamma) std::fill_n(gamma.data<float>(), p.channels, 1.0f);
  const float* g = n.fix_gamma ? nullptr : gamma.data<const float>();
  const float eps = static_cast<float>(n.eps);
  if (args.training && !n.use_global_stats) {
    if (a.batch * a.size == 0) return;
    std::vector<float> var(static_cast<size_t>(p.channels));
    VisitBlocked(x.dtype, [&]<typename T>() {
      cpu::BlockedNormForward(a, n.eps, x.data<const T>(), g,
                              args.in[2].data<const float>(), p.relu, mean, var.data(),
                              args.out[0].data<T>());
    });
    for (int64_t c = 0; c < p.channels; ++c) {
      inverse[c] =
          static_cast<float>(1 / std::sqrt(static_cast<double>(var[c]) + n.eps));
      moving_mean[c] = moving_mean[c] * n.momentum + mean[c] * (1 - n.momentum);
      moving_var[c] = moving_var[c] * n.momentum + var[c] * (1 - n.momentum);
    }
    return;
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] = moving_mean[c];
    inverse[c] = 1 / std::sqrt(moving_var[c] + eps);
  }
  VisitBlocked(x.dtype, [&]<typename T>() {
    cpu::BlockedNormApply(a, x.data<const T>(), g, args.in[2].data<const float>(), mean,
                          inverse, p.relu, args.out[0].data<T>());
  });
}

void Backward(const P& p, const KernelArgs& args) {
  const int at = p.relu ? 3 : 2;
  const cpu::BlockedArray a = ArrayOf(p, args.in[0].shape());
  float* dgamma = args.out[1].data<float>();
  VisitBlocked(args.in[0].dtype, [&]<typename T>() {
    cpu::BlockedNormBackward(
        a, args.in[0].data<const T>(), p.relu ? args.in[2].data<const T>() : nullptr,
        args.in[1].data<const T>(),
        p.norm.fix_gamma ? nullptr : args.in[at].data<const float>(),
        args.in[at + 1].data<const float>(), args.in[at + 2].data<const float>(),
        args.out[0].data<T>(), dgamma, args.out[2].data<float>());
  });
  if (p.norm.fix_gamma) std::fill_n(dgamma, p.channels, 0.0f);
}

double Cost(const P&, const Specs& in, const Specs&) {
  return 8.0 * static_cast<double>(in[0].shape.size());
}

SampleInput Given(SampleInput s) {
  s.differentiable = false;
  return s;
}
std::vector<SampleInput> Inputs(Shape x, int64_t channels) {
  return {Normal(std::move(x)), Uniform({channels}, 0.5, 1.5), Normal({channels}),
          Given(Normal({channels})), Given(Uniform({channels}, 0.5, 1.5))};
}

const OpDef& forward_op = Register<P>({
    .name = "_blocked_batch_norm",
    .doc = "BatchNorm of blocks of channels; see _block.",
    .inputs = {{"data", Types::kFloats},
               {"gamma", Types::kFloats},
               {"beta", Types::kFloats},
               {"moving_mean", Types::kFloats},
               {"moving_var", Types::kFloats}},
    .outputs = {{"output"}, {"mean"}, {"var"}},
    .params = {{"channels", &P::channels, "Channels without the filling."}},
    .mutates = {3, 4},
    .writes =
        [](const P& p, int input, bool training) {
          return training && (input > 2 ? !p.norm.use_global_stats
                                        : p.norm.fix_gamma && input == 1);
        },
    .types = InferTypes<1>,
    .infer = InferForward,
    .cpu = {{"blocked", Forward, Declines}},
    .uses_training = true,
    .cost = Cost,
    .samples = {{Inputs({2, 1, 3, 2, 8}, 5), {{.fix_gamma = false}, 5, false}, true},
                {Inputs({2, 1, 3, 2, 8}, 5), {{}, 5, true}, true},
                {Inputs({2, 2, 3, 1, 16}, 32), {{.fix_gamma = false}, 32, true}}},
});

const OpDef& backward_op = Register<P>({
    .name = "_blocked_batch_norm_backward",
    .doc = "The gradient of _blocked_batch_norm: dx, dgamma and dbeta.",
    .inputs = {{"dy", Types::kFloats},
               {"data", Types::kFloats},
               {"output", Types::kFloats, "What was rectified."},
               {"gamma", Types::kFloats},
               {"mean", Types::kFloats},
               {"third", Types::kFloats}},
    .outputs = {{"dx"}, {"dgamma"}, {"dbeta"}},
    .params = {{"channels", &P::channels, "Channels without the filling."}},
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, p.relu, true, true, true};
    },
    .types = InferTypes<2>,
    .infer = InferBackward,
    .cpu = {{"blocked", Backward, Declines}},
    .cost = Cost,
    .samples = {{{Normal({2, 1, 3, 2, 8}), Normal({2, 1, 3, 2, 8}), Normal({5}),
                  Normal({5}), Uniform({5}, 1, 2)},
                 {{.fix_gamma = false}, 5, false}},
                {{Normal({2, 1, 3, 2, 8}), Normal({2, 1, 3, 2, 8}),
                  Normal({2, 1, 3, 2, 8}), Normal({5}), Normal({5}),
                  Uniform({5}, 1, 2)},
                 {{}, 5, true}}},
});

// ---------------------------------------------------------------- rules

[[maybe_unused]] const bool kRules = [] {
  AddFinishRule("_blocked_batch_norm",
                [](const void* params, const BlockedFinish& finish) -> ParamsRef {
                  P p = *static_cast<const P*>(params);
                  if (p.relu || finish.other || !finish.bounded || finish.low != 0 ||
                      !std::isinf(finish.high))
                    return {};
                  p.relu = true;
                  return MakeParams(std::move(p));
                });
  AddFinishRule("_blocked_batch_norm_backward",
                [](const void* params, const BlockedFinish& finish) -> ParamsRef {
                  P p = *static_cast<const P*>(params);
                  if (p.relu || !finish.masked) return {};
                  p.relu = true;
                  return MakeParams(std::move(p));
                });
  AddBlockedRule("BatchNorm",
                 [](const void* params, const Specs& in, const Specs&,
                    int64_t) -> std::optional<BlockedForm> {
                   const auto& norm = *static_cast<const BatchNormParams*>(params);
                   const Shape& x = in[0].shape;
                   if (x.rank() != 4 || norm.axis != 1 || !IsBlockedType(in[0].dtype) ||
                       in[1].dtype != DType::kFloat32 || norm.gives_variance())
                     return {};
                   return BlockedForm{.op = &forward_op,
                                      .params = MakeParams(P{norm, x[1], false}),
                                      .blocked_in = 1,
                                      .blocked_out = 1};
                 });
  AddBlockedRule("_backward_Normalize",
                 [](const void* params, const Specs& in, const Specs&,
                    int64_t) -> std::optional<BlockedForm> {
                   const auto& norm = *static_cast<const Norm*>(params);
                   const Shape& x = in[0].shape;
                   if (x.rank() != 4 || norm.stats_axes != 0b10 ||
                       norm.affine_axes != 0b10 || norm.third_is_std ||
                       norm.sizes[1] != x[1] || !IsBlockedType(in[0].dtype) ||
                       in[2].dtype != DType::kFloat32)
                     return {};
                   P p{{.eps = norm.eps, .fix_gamma = norm.fix_gamma}, x[1], false};
                   return BlockedForm{.op = &backward_op,
                                      .params = MakeParams(std::move(p)),
                                      .blocked_in = 0b11,
                                      .blocked_out = 1};
                 });
  return true;
}();

}  // namespace
}  // namespace plait
