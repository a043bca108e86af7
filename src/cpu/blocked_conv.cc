// Convolution of blocked arrays: calls of the kernels, large batches in parts.

#include "cpu/blocked_conv.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {

#ifdef PLAIT_USE_ONEDNN
namespace {

using onednn::ConvLayouts;

constexpr DType kType = DType::kFloat32;

int64_t Blocks(int64_t channels, int64_t block) {
  return (channels + block - 1) / block;
}

// What was computed is rectified while it is in the last cache: large batches are
// worked on in parts.
int64_t PartOf(const ConvProblem& p) {
  constexpr double kInCache = 16 << 20;
  const double sample =
      sizeof(float) *
      static_cast<double>(p.in_channels * p.InSize() + p.out_channels * p.OutSize());
  int64_t step =
      std::clamp<int64_t>(static_cast<int64_t>(kInCache / sample), 1, p.batch);
  while (p.batch % step != 0) --step;
  return step;
}

// The multiplications that filled-up blocks cost, by those that are needed.
double Waste(const ConvProblem& p, int64_t block) {
  if (p.groups > 1) return 1;
  const int64_t in =
      p.in_channels <= 4 ? p.in_channels : Blocks(p.in_channels, block) * block;
  return static_cast<double>(in * Blocks(p.out_channels, block) * block) /
         static_cast<double>(p.in_channels * p.out_channels);
}

template <typename F>
void InParts(const ConvProblem& p, const BlockedConv& how, F&& run) {
  const int64_t block = ChannelBlock();
  const int64_t x = how.plain_x ? p.in_channels * p.InSize()
                                : Blocks(p.in_channels, block) * block * p.InSize();
  const int64_t y = Blocks(p.out_channels, block) * block * p.OutSize();
  ConvProblem part = p;
  part.batch = PartOf(p);
  for (int64_t n = 0; n < p.batch; n += part.batch) run(part, n * x, n * y);
}

ConvLayouts LayoutsOf(const ConvProblem& p, ConvPass pass) {
  ConvProblem part = p;
  part.batch = PartOf(p);
  return onednn::PreferredLayouts(part, kType, pass, ConvAlgorithm::kDirect);
}

bool Fits(const ConvProblem& p, ConvPass pass, BlockedConv& how, int64_t block) {
  ConvProblem part = p;
  part.batch = PartOf(p);
  if (!onednn::HasConv(part, kType, pass, ConvAlgorithm::kDirect)) return false;
  const ConvLayouts l =
      onednn::PreferredLayouts(part, kType, pass, ConvAlgorithm::kDirect);
  const auto blocked = onednn::BlockedLayout(block);
  how.plain_x = l.x.plain() && p.in_channels <= 4 && pass != ConvPass::kBackwardData;
  return l.y == blocked && (l.x == blocked || how.plain_x);
}

}  // namespace

std::optional<BlockedConv> MakeBlockedConv(const ConvProblem& p, ConvPass pass,
                                           BlockedConv::Kind kind) {
  const int64_t block = ChannelBlock();
  if (block == 0 || p.rank != 2 || p.Work() == 0) return {};
  BlockedConv how;
  how.kind = kind;
  how.gains = Waste(p, block) <= 1.3;
  const bool reads = pass != ConvPass::kBackwardWeight;  // filters
  switch (kind) {
    case BlockedConv::kWinograd:
      if (!HasWinograd(p)) return {};
      if (reads)
        how.packed = static_cast<int64_t>(WinogradFilterBytes(p, pass) / sizeof(float));
      return how;
    case BlockedConv::kPixels:
      if (!HasPixelConv(p, pass)) return {};
      how.packed = PixelFilterSize(p, pass);
      return how;
    case BlockedConv::kDepthwise:
      if (!HasDepthwiseConv(p, pass)) return {};
      how.packed = DepthwiseFilterSize(p);
      return how;
    case BlockedConv::kWindows:
      how.plain_x = p.in_channels <= 4;
      if (!HasWindowConv(p, pass, how.plain_x)) return {};
      how.packed = WindowFilterSize(p, how.plain_x);
      return how;
    case BlockedConv::kOneDnn:
      break;
  }
  if (!Fits(p, pass, how, block)) return {};
  if (reads) {
    const onednn::ConvDims dims(p);
    const onednn::LayoutDesc layout = LayoutsOf(p, pass).weight;
    how.packed = static_cast<int64_t>(
        onednn::LayoutBytes(layout, dims.Weight(), kType) / sizeof(float));
    how.layout = layout.id;
  }
  return how;
}

void PackFilters(const ConvProblem& p, ConvPass pass, const BlockedConv& how,
                 const float* weight, float* packed) {
  if (how.kind == BlockedConv::kWinograd)
    return WinogradFilters(p, pass, weight, packed);
  if (how.kind == BlockedConv::kPixels)
    return PackPixelFilters(p, pass, weight, packed);
  if (how.kind == BlockedConv::kDepthwise)
    return PackDepthwiseFilters(p, weight, packed);
  if (how.kind == BlockedConv::kWindows)
    return PackWindowFilters(p, how.plain_x, weight, packed);
  const onednn::ConvDims dims(p);
  onednn::Reorder(dims.Weight(), {}, kType, weight, LayoutsOf(p, pass).weight, kType,
                  packed);
}

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

// Floats of y, the filling of blocks included.
int64_t YSize(const ConvProblem& p) {
  const int64_t block = ChannelBlock();
  return p.batch * Blocks(p.out_channels, block) * block * p.OutSize();
}

// What a kernel has left to do (the bias is in the sums). Every element is stored, so
// that vectors can do it.
void FinishAll(int64_t n, const ConvFinish& f, float* y) {
  if (f.other == nullptr && !f.bounded) return;
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; f.other != nullptr && i < end; ++i) y[i] += f.other[i];
    for (int64_t i = begin; f.bounded && i < end; ++i) {
      float v = y[i];
      v = v < f.low ? f.low : v;
      y[i] = v > f.high ? f.high : v;
    }
  });
}

}  // namespace

void BlockedConvForward(const ConvProblem& p, const BlockedConv& how, const float* x,
                        Filters w, const ConvFinish& finish, float* y) {
  const bool relu = finish.bounded && finish.low == 0;
  if (how.kind == BlockedConv::kWinograd) {
    WinogradForward<float>(p, x, w.plain, w.packed, finish.bias, finish.other, relu, y);
    ConvFinish rest = finish;
    rest.other = nullptr;
    rest.bounded &= !(relu && std::isinf(finish.high));
    return FinishAll(YSize(p), rest, y);
  }
  const Packed packed(p, ConvPass::kForward, how, w);
  if (how.kind == BlockedConv::kPixels)
    return PixelConv(p, ConvPass::kForward, x, packed.data(), finish, y);
  if (how.kind == BlockedConv::kDepthwise)
    return DepthwiseConv(p, x, packed.data(), finish, y);
  if (how.kind == BlockedConv::kWindows)
    return WindowConv(p, how.plain_x, x, packed.data(), finish, y);
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kForward);
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    onednn::ConvForward(part, kType, ConvAlgorithm::kDirect, layouts, x + xs,
                        packed.data(), finish.bias, false, y + ys);
    ConvFinish rest = finish;
    if (finish.other != nullptr) rest.other += ys;
    FinishAll(YSize(part), rest, y + ys);
  });
}

void BlockedConvBackwardData(const ConvProblem& p, const BlockedConv& how,
                             const float* dy, Filters w, float* dx) {
  if (how.kind == BlockedConv::kWinograd)
    return WinogradBackwardData<float>(p, dy, w.plain, w.packed, dx);
  const Packed packed(p, ConvPass::kBackwardData, how, w);
  if (how.kind == BlockedConv::kPixels)
    return PixelConv(p, ConvPass::kBackwardData, dy, packed.data(), {}, dx);
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardData);
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    onednn::ConvBackwardData(part, kType, ConvAlgorithm::kDirect, layouts, dy + ys,
                             packed.data(), dx + xs);
  });
}

void BlockedConvBackwardWeight(const ConvProblem& p, const BlockedConv& how,
                               const float* x, const float* dy, float* dweight) {
  if (how.kind == BlockedConv::kWinograd)
    return WinogradBackwardWeight<float>(p, x, dy, dweight, nullptr);
  ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardWeight);
  layouts.weight = {};  // the result is plain
  const int64_t size = p.out_channels * (p.in_channels / p.groups) * p.KernelSize();
  const Scratch scratch(PartOf(p) < p.batch ? Scratch::Bytes<float>(size) : 0);
  bool first = true;
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    float* to = first ? dweight : scratch.As<float>();
    onednn::ConvBackwardWeight(part, kType, ConvAlgorithm::kDirect, layouts, x + xs,
                               dy + ys, to, nullptr);
    if (!first) {
      ParallelFor(size, 1 << 15, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) dweight[i] += to[i];
      });
    }
    first = false;
  });
}
#else
std::optional<BlockedConv> MakeBlockedConv(const ConvProblem&, ConvPass,
                                           BlockedConv::Kind) {
  return {};
}
void PackFilters(const ConvProblem&, ConvPass, const BlockedConv&, const float*,
                 float*) {}
void BlockedConvForward(const ConvProblem&, const BlockedConv&, const float*, Filters,
                        const ConvFinish&, float*) {}
void BlockedConvBackwardData(const ConvProblem&, const BlockedConv&, const float*,
                             Filters, float*) {}
void BlockedConvBackwardWeight(const ConvProblem&, const BlockedConv&, const float*,
                               const float*, float*) {}
#endif

}  // namespace plait::cpu
