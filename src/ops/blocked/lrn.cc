// LRN and the sums of its gradient on blocked arrays, for graphs.

#include "ops/nn/lrn.h"

#include "cpu/blocked.h"
#include "graph/blocked_form.h"
#include "graph/piece_form.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct BlockedLrnParams {
  LrnParams lrn;
  int64_t channels = 0;
};
using P = BlockedLrnParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.lrn.nsize > 0 && p.lrn.nsize % 2 == 1, "_blocked_lrn: nsize is ", p.lrn.nsize,
        "; an odd number was expected");
  const Shape& x = in[0].shape;
  Check(!x.known() || (x.rank() == 5 && (x[4] == 8 || x[4] == 16) && p.channels > 0 &&
                       x[1] == (p.channels + x[4] - 1) / x[4]),
        "_blocked_lrn: data is ", x, " with channels ", p.channels,
        "; (batch, blocks, height, width, block) was expected");
  return Unify(in[0].shape, out[0].shape);
}

template <bool kNormalise>
void Run(const P& p, const KernelArgs& args) {
  const Shape& x = args.in[0].shape();
  if (x.size() == 0) return;
  cpu::LocalResponse r{.window = p.lrn.nsize, .normalise = kNormalise};
  if (kNormalise) {
    r.scale = p.lrn.alpha / static_cast<float>(p.lrn.nsize);
    r.k = p.lrn.knorm;
    r.beta = p.lrn.beta;
  }
  cpu::BlockedChannelWindows({x[0], p.channels, x[2] * x[3], x[4]}, r,
                             args.in[0].data<const float>(), args.out[0].data<float>());
}

OpSpec<P> SpecOf(const char* name, const char* doc) {
  OpSpec<P> spec{.name = name, .doc = doc};
  spec.inputs = {{"data", Types::kFloats}};
  spec.params = {Required<P>("channels", &P::channels, "Channels of the plain array.")};
  spec.infer = Infer;
  spec.cost = [](const P& p, const Specs& in, const Specs&) {
    return (5.0 + p.lrn.nsize) * static_cast<double>(in[0].shape.size());
  };
  spec.in_place = {{0, 0}};
  return spec;
}
const char* Declines(const P&, const Specs& in, const Specs&) {
  return in[0].dtype == DType::kFloat32 ? nullptr : "not float32";
}

const OpDef& lrn_op = []() -> const OpDef& {
  OpSpec<P> spec = SpecOf("_blocked_lrn", "LRN of blocks of channels.");
  spec.cpu = {{"blocked", Run<true>, Declines}};
  spec.samples = {
      {{Normal({1, 1, 3, 4, 8})}, {{.alpha = 0.5f, .nsize = 3}, 8}},
      {{Normal({2, 2, 3, 1, 16})}, {{.alpha = 0.1f, .beta = 0.5f, .nsize = 5}, 32}}};
  return Register<P>(std::move(spec));
}();
const OpDef& sum_op = []() -> const OpDef& {
  OpSpec<P> spec = SpecOf("_blocked_channel_window_sum",
                          "_channel_window_sum of blocks of channels.");
  spec.cpu = {{"blocked", Run<false>, Declines}};
  spec.samples = {{{Normal({1, 1, 3, 4, 8})}, {{.nsize = 3}, 8}}};
  return Register<P>(std::move(spec));
}();

[[maybe_unused]] const bool kRules = [] {
  for (const bool normalise : {false, true}) {
    AddBlockedRule(
        normalise ? "LRN" : "_channel_window_sum",
        [normalise](const void* params, const Specs& in, const Specs&,
                    int64_t) -> std::optional<BlockedForm> {
          const Shape& x = in[0].shape;
          if (in[0].dtype != DType::kFloat32 || x.rank() != 4 || x.size() == 0)
            return {};
          const auto& p = *static_cast<const LrnParams*>(params);
          return BlockedForm{.op = normalise ? &lrn_op : &sum_op,
                             .params = MakeParams(P{p, x[1]}),
                             .blocked_in = 1,
                             .blocked_out = 1};
        });
    AddPieceRule(normalise ? "_blocked_lrn" : "_blocked_channel_window_sum",
                 [](const ParamsRef& params, const Specs&, const Specs&,
                    int64_t) -> std::optional<PieceForm> {
                   return PieceForm{.params = params, .sliced_in = 1, .sliced_out = 1};
                 });
  }
  return true;
}();

}  // namespace
}  // namespace plait
