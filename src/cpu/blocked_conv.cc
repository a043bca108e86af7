// Convolution of blocked arrays: a table of the ways, and calls of them.

#include "cpu/blocked_conv.h"

#include <cmath>

#include "cpu/blocked.h"
#include "cpu/blocked_parts.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/blocked_conv.h"
#endif

namespace plait::cpu {
namespace {

// The filters in the order of a pass: those given, or packed here.
class Packed {
 public:
  Packed(const ConvProblem& p, ConvPass pass, const BlockedConv& how, Filters w)
      : scratch_(w.packed ? 0 : Scratch::Bytes<float>(how.packed)),
        data_(w.packed ? w.packed : scratch_.As<float>()) {
    if (!w.packed) PackFilters(p, pass, how, w.plain, scratch_.As<float>());
  }
  const float* data() const { return data_; }

 private:
  const Scratch scratch_;
  const float* data_;
};

// One kind. `fit` says whether there is such a kernel for a pass, and fills in what
// depends on the problem. A pass that a kind never has is null, and all of a kind that
// was not compiled.
struct Way {
  bool (*fit)(const ConvProblem& p, ConvPass pass, BlockedConv& how) = nullptr;
  decltype(&PackFilters) pack = nullptr;
  decltype(&BlockedConvForward) forward = nullptr;
  decltype(&BlockedConvBackwardData) backward_data = nullptr;
  decltype(&BlockedConvBackwardWeight) backward_weight = nullptr;
};

constexpr Way kWinograd = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, BlockedConv& how) {
          if (!HasWinograd(p)) return false;
          if (pass != ConvPass::kBackwardWeight) {
            how.packed =
                static_cast<int64_t>(WinogradFilterBytes(p, pass) / sizeof(float));
          }
          return true;
        },
    .pack = [](const ConvProblem& p, ConvPass pass, const BlockedConv&,
               const float* weight,
               float* packed) { WinogradFilters(p, pass, weight, packed); },
    .forward =
        [](const ConvProblem& p, const BlockedConv&, const float* x, Filters w,
           const ConvFinish& finish, float* y) {
          const bool relu = finish.bounded && finish.low == 0;
          WinogradForward<float>(p, x, w.plain, w.packed, finish.bias, finish.other,
                                 relu, y);
          ConvFinish rest = finish;
          rest.other = nullptr;
          rest.bounded &= !(relu && std::isinf(finish.high));
          FinishAll(p.batch * YOfImage(p), rest, y);
        },
    .backward_data =
        [](const ConvProblem& p, const BlockedConv&, const float* dy, Filters w,
           float* dx) { WinogradBackwardData<float>(p, dy, w.plain, w.packed, dx); },
    .backward_weight =
        [](const ConvProblem& p, const BlockedConv&, const float* x, const float* dy,
           float* dweight) {
          WinogradBackwardWeight<float>(p, x, dy, dweight, nullptr);
        },
};

constexpr Way kPixels = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, BlockedConv& how) {
          if (!HasPixelConv(p, pass)) return false;
          how.packed = PixelFilterSize(p, pass);
          return true;
        },
    .pack = [](const ConvProblem& p, ConvPass pass, const BlockedConv&,
               const float* weight,
               float* packed) { PackPixelFilters(p, pass, weight, packed); },
    .forward =
        [](const ConvProblem& p, const BlockedConv& how, const float* x, Filters w,
           const ConvFinish& finish, float* y) {
          const Packed packed(p, ConvPass::kForward, how, w);
          PixelConv(p, ConvPass::kForward, x, packed.data(), finish, y);
        },
    .backward_data =
        [](const ConvProblem& p, const BlockedConv& how, const float* dy, Filters w,
           float* dx) {
          const Packed packed(p, ConvPass::kBackwardData, how, w);
          PixelConv(p, ConvPass::kBackwardData, dy, packed.data(), {}, dx);
        },
};

constexpr Way kDepthwise = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, BlockedConv& how) {
          if (!HasDepthwiseConv(p, pass)) return false;
          how.packed = DepthwiseFilterSize(p);
          return true;
        },
    .pack = [](const ConvProblem& p, ConvPass, const BlockedConv&, const float* weight,
               float* packed) { PackDepthwiseFilters(p, weight, packed); },
    .forward =
        [](const ConvProblem& p, const BlockedConv& how, const float* x, Filters w,
           const ConvFinish& finish, float* y) {
          const Packed packed(p, ConvPass::kForward, how, w);
          DepthwiseConv(p, x, packed.data(), finish, y);
        },
};

constexpr Way kWindows = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, BlockedConv& how) {
          how.plain_x = p.in_channels <= 4;
          if (!HasWindowConv(p, pass, how.plain_x)) return false;
          how.packed = WindowFilterSize(p, how.plain_x);
          return true;
        },
    .pack = [](const ConvProblem& p, ConvPass, const BlockedConv& how,
               const float* weight,
               float* packed) { PackWindowFilters(p, how.plain_x, weight, packed); },
    .forward =
        [](const ConvProblem& p, const BlockedConv& how, const float* x, Filters w,
           const ConvFinish& finish, float* y) {
          const Packed packed(p, ConvPass::kForward, how, w);
          WindowConv(p, how.plain_x, x, packed.data(), finish, y);
        },
};

#ifdef PLAIT_USE_ONEDNN
constexpr Way kOneDnn = {
    .fit = onednn::FitBlockedConv,
    .pack = onednn::PackBlockedFilters,
    .forward =
        [](const ConvProblem& p, const BlockedConv& how, const float* x, Filters w,
           const ConvFinish& finish, float* y) {
          const Packed packed(p, ConvPass::kForward, how, w);
          onednn::BlockedConvForward(p, how, x, packed.data(), finish, y);
        },
    .backward_data =
        [](const ConvProblem& p, const BlockedConv& how, const float* dy, Filters w,
           float* dx) {
          const Packed packed(p, ConvPass::kBackwardData, how, w);
          onednn::BlockedConvBackwardData(p, how, dy, packed.data(), dx);
        },
    .backward_weight = onednn::BlockedConvBackwardWeight,
};
#else
constexpr Way kOneDnn = {};
#endif

const Way& WayOf(BlockedConv::Kind kind) {
  // In the order of BlockedConv::Kind.
  static constexpr const Way* kWays[] = {&kOneDnn, &kWinograd, &kPixels, &kDepthwise,
                                         &kWindows};
  return *kWays[kind];
}

// The multiplications that filled-up blocks cost, by those that are needed.
double Waste(const ConvProblem& p) {
  if (p.groups > 1) return 1;
  const int64_t in = p.in_channels <= 4 ? p.in_channels : FilledChannels(p.in_channels);
  return static_cast<double>(in * FilledChannels(p.out_channels)) /
         static_cast<double>(p.in_channels * p.out_channels);
}

}  // namespace

std::optional<BlockedConv> MakeBlockedConv(const ConvProblem& p, ConvPass pass,
                                           BlockedConv::Kind kind) {
  if (ChannelBlock() == 0 || p.rank != 2 || p.Work() == 0) return {};
  const Way& way = WayOf(kind);
  BlockedConv how;
  how.kind = kind;
  how.gains = Waste(p) <= 1.3;
  if (way.fit == nullptr || !way.fit(p, pass, how)) return {};
  return how;
}

void PackFilters(const ConvProblem& p, ConvPass pass, const BlockedConv& how,
                 const float* weight, float* packed) {
  WayOf(how.kind).pack(p, pass, how, weight, packed);
}

void BlockedConvForward(const ConvProblem& p, const BlockedConv& how, const float* x,
                        Filters w, const ConvFinish& finish, float* y) {
  WayOf(how.kind).forward(p, how, x, w, finish, y);
}

void BlockedConvBackwardData(const ConvProblem& p, const BlockedConv& how,
                             const float* dy, Filters w, float* dx) {
  WayOf(how.kind).backward_data(p, how, dy, w, dx);
}

void BlockedConvBackwardWeight(const ConvProblem& p, const BlockedConv& how,
                               const float* x, const float* dy, float* dweight) {
  WayOf(how.kind).backward_weight(p, how, x, dy, dweight);
}

}  // namespace plait::cpu
