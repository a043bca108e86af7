// Convolution of blocked arrays of bfloat16: the choice of a kernel, and what is
// widened.

#include "cpu/half_conv.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/half_target.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {

#ifdef PLAIT_USE_ONEDNN
namespace {

using onednn::ConvLayouts;

constexpr DType kType = DType::kBfloat16;
constexpr auto kDirect = ConvAlgorithm::kDirect;

int64_t Filled(int64_t channels) {
  const int64_t block = ChannelBlock();
  return (channels + block - 1) / block * block;
}
int64_t XOfImage(const ConvProblem& p, bool plain) {
  return (plain ? p.in_channels : Filled(p.in_channels)) * p.InSize();
}
int64_t YOfImage(const ConvProblem& p) {
  return Filled(p.out_channels) * p.OutSize();
}
int64_t WeightSize(const ConvProblem& p) {
  return p.out_channels * (p.in_channels / p.groups) * p.KernelSize();
}

template <typename From, typename To>
void ConvertAll(const From* from, To* to, int64_t n) {
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    Convert(from + begin, kDTypeOf<From>, to + begin, kDTypeOf<To>, end - begin);
  });
}

// An array as floats; null stays null.
class Widened {
 public:
  Widened(const Bfloat16* from, int64_t n)
      : scratch_(from == nullptr ? 0 : Scratch::Bytes<float>(n)),
        data_(from == nullptr ? nullptr : scratch_.As<float>()) {
    if (from != nullptr) ConvertAll(from, scratch_.As<float>(), n);
  }
  const float* data() const { return data_; }

 private:
  const Scratch scratch_;
  const float* data_;
};

// Filters that were packed as floats.
const float* AsFloats(const Bfloat16* packed) {
  return reinterpret_cast<const float*>(packed);
}

bool Fits(const ConvProblem& p, ConvPass pass, HalfConv& how) {
  if (!onednn::HasConv(p, kType, pass, kDirect)) return false;
  const ConvLayouts l = onednn::PreferredLayouts(p, kType, pass, kDirect);
  const auto blocked = onednn::BlockedLayout(ChannelBlock());
  how.plain_x = l.x.plain() && p.in_channels <= 4 && pass != ConvPass::kBackwardData;
  if (!(l.y == blocked) || !(l.x == blocked || how.plain_x)) return false;
  if (pass == ConvPass::kBackwardWeight) return true;
  const onednn::ConvDims dims(p);
  how.packed = static_cast<int64_t>(
      onednn::LayoutBytes(l.weight, dims.Weight(), kType) / sizeof(Bfloat16));
  how.layout = l.weight.id;
  return true;
}

// Calls run(part of the batch, offset of x, offset of y); a part has about a cache's
// size in elements of `bytes` bytes.
template <typename F>
void InParts(const ConvProblem& p, bool plain_x, size_t bytes, F&& run) {
  constexpr int64_t kInCache = 16 << 20;
  const int64_t x = XOfImage(p, plain_x), y = YOfImage(p);
  const int64_t step =
      std::clamp<int64_t>(kInCache / static_cast<int64_t>(bytes) / (x + y), 1, p.batch);
  for (int64_t n = 0; n < p.batch; n += step) {
    ConvProblem part = p;
    part.batch = std::min(step, p.batch - n);
    run(part, n * x, n * y);
  }
}

// The filters in the order of a pass: those given, or packed here.
class Packed {
 public:
  Packed(const ConvProblem& p, ConvPass pass, const HalfConv& how, HalfFilters w)
      : scratch_(w.packed ? 0 : Scratch::Bytes<Bfloat16>(how.packed)),
        data_(w.packed ? w.packed : scratch_.As<Bfloat16>()) {
    if (!w.packed) PackHalfFilters(p, pass, how, w.plain, scratch_.As<Bfloat16>());
  }
  const Bfloat16* data() const { return data_; }

 private:
  const Scratch scratch_;
  const Bfloat16* data_;
};

// What a kernel has left to do: another array and bounds.
void FinishAll(int64_t n, const HalfFinish& f, Bfloat16* y) {
  if (f.other == nullptr && !f.bounded) return;
  constexpr int64_t kTogether = 1 << 10;
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    float sum[kTogether], other[kTogether];
    for (int64_t i = begin; i < end; i += kTogether) {
      const int64_t count = std::min(kTogether, end - i);
      Convert(y + i, kType, sum, DType::kFloat32, count);
      if (f.other != nullptr) {
        Convert(f.other + i, kType, other, DType::kFloat32, count);
        for (int64_t k = 0; k < count; ++k) sum[k] += other[k];
      }
      for (int64_t k = 0; f.bounded && k < count; ++k) {
        float v = sum[k];
        v = v < f.low ? f.low : v;
        sum[k] = v > f.high ? f.high : v;
      }
      Convert(sum, DType::kFloat32, y + i, kType, count);
    }
  });
}

}  // namespace

const char* NameOf(HalfConv::Kind kind) {
  static constexpr const char* kNames[] = {"onednn", "winograd", "pixels", "wide",
                                           "sums"};
  return kNames[kind];
}

std::vector<HalfConv> HalfConvWays(const ConvProblem& p, ConvPass pass) {
  // Where there are no products of bfloat16, plain arrays do as well.
  if (!half::HasProducts()) return {};
  const std::optional<BlockedConv> wide = FindBlockedConv(p, pass);
  if (!wide) return {};
  HalfConv how;
  how.gains = wide->gains;
  how.wide = *wide;
  std::vector<HalfConv> ways;
  const auto add = [&](HalfConv::Kind kind, bool plain_x, int64_t packed) {
    ways.push_back(how);
    ways.back().kind = kind;
    ways.back().plain_x = plain_x;
    ways.back().packed = packed;
  };
  constexpr int64_t kRatio = sizeof(float) / sizeof(Bfloat16);
  const bool winograd = wide->kind == BlockedConv::kWinograd;
  if (HasHalfPixelConv(p, pass))
    add(HalfConv::kPixels, false, HalfPixelFilterSize(p, pass));
  if (winograd) add(HalfConv::kWinograd, false, wide->packed * kRatio);
  if (pass == ConvPass::kBackwardWeight && HasHalfWeightConv(p))
    add(HalfConv::kSums, wide->plain_x, 0);
  HalfConv direct = how;
  if (Fits(p, pass, direct)) ways.push_back(direct);
  add(HalfConv::kWide, wide->plain_x, wide->packed * kRatio);
  return ways;
}

std::optional<HalfConv> FindHalfConv(const ConvProblem& p, ConvPass pass) {
  const std::vector<HalfConv> ways = HalfConvWays(p, pass);
  if (ways.empty()) return {};
  return ways[0];
}

void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const Bfloat16* weight, Bfloat16* packed) {
  if (how.kind == HalfConv::kPixels)
    return PackHalfPixelFilters(p, pass, weight, packed);
  if (how.kind == HalfConv::kOneDnn) {
    const onednn::ConvDims dims(p);
    return onednn::Reorder(dims.Weight(), {}, kType, weight,
                           onednn::PreferredLayouts(p, kType, pass, kDirect).weight,
                           kType, packed);
  }
  if (how.kind == HalfConv::kWinograd)
    return WinogradFilters(p, pass, weight, reinterpret_cast<float*>(packed));
  const Widened floats(weight, WeightSize(p));
  PackFilters(p, pass, how.wide, floats.data(), reinterpret_cast<float*>(packed));
}

void HalfConvForward(const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
                     HalfFilters w, const HalfFinish& finish, Bfloat16* y) {
  const bool relu = finish.bounded && finish.low == 0 && std::isinf(finish.high);
  const Widened bias(how.kind == HalfConv::kOneDnn ? nullptr : finish.bias,
                     p.out_channels);
  if (how.kind == HalfConv::kWinograd) {
    WinogradForward<Bfloat16>(p, x, w.plain, AsFloats(w.packed), bias.data(),
                              finish.other, relu, y);
    HalfFinish rest = finish;
    rest.other = nullptr;
    rest.bounded &= !relu;
    return FinishAll(p.batch * YOfImage(p), rest, y);
  }
  const Packed packed(p, ConvPass::kForward, how, w);
  if (how.kind == HalfConv::kOneDnn) {
    const ConvLayouts layouts =
        onednn::PreferredLayouts(p, kType, ConvPass::kForward, kDirect);
    return InParts(p, how.plain_x, sizeof(Bfloat16),
                   [&](const ConvProblem& part, int64_t xs, int64_t ys) {
                     onednn::ConvForward(part, kType, kDirect, layouts, x + xs,
                                         packed.data(), finish.bias, false, y + ys);
                     HalfFinish rest = finish;
                     if (finish.other != nullptr) rest.other += ys;
                     FinishAll(part.batch * YOfImage(p), rest, y + ys);
                   });
  }
  if (how.kind == HalfConv::kPixels)
    return HalfPixelConv(p, ConvPass::kForward, x, packed.data(), finish, bias.data(),
                         y);
  InParts(p, how.plain_x, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const int64_t size = part.batch * YOfImage(p);
            const Widened xf(x + xs, part.batch * XOfImage(p, how.plain_x));
            const Widened other(finish.other == nullptr ? nullptr : finish.other + ys,
                                size);
            const Scratch yf(Scratch::Bytes<float>(size));
            BlockedConvForward(part, how.wide, xf.data(),
                               {nullptr, AsFloats(packed.data())},
                               {.bias = bias.data(),
                                .other = other.data(),
                                .bounded = finish.bounded,
                                .low = finish.low,
                                .high = finish.high},
                               yf.As<float>());
            ConvertAll(yf.As<float>(), y + ys, size);
          });
}

void HalfConvBackwardData(const ConvProblem& p, const HalfConv& how, const Bfloat16* dy,
                          HalfFilters w, Bfloat16* dx) {
  constexpr ConvPass kPass = ConvPass::kBackwardData;
  if (how.kind == HalfConv::kWinograd)
    return WinogradBackwardData<Bfloat16>(p, dy, w.plain, AsFloats(w.packed), dx);
  const Packed packed(p, kPass, how, w);
  if (how.kind == HalfConv::kPixels)
    return HalfPixelConv(p, kPass, dy, packed.data(), {}, nullptr, dx);
  if (how.kind == HalfConv::kOneDnn) {
    const ConvLayouts layouts = onednn::PreferredLayouts(p, kType, kPass, kDirect);
    return InParts(p, false, sizeof(Bfloat16),
                   [&](const ConvProblem& part, int64_t xs, int64_t ys) {
                     onednn::ConvBackwardData(part, kType, kDirect, layouts, dy + ys,
                                              packed.data(), dx + xs);
                   });
  }
  InParts(
      p, false, sizeof(float), [&](const ConvProblem& part, int64_t xs, int64_t ys) {
        const int64_t size = part.batch * XOfImage(p, false);
        const Widened dyf(dy + ys, part.batch * YOfImage(p));
        const Scratch dxf(Scratch::Bytes<float>(size));
        BlockedConvBackwardData(part, how.wide, dyf.data(),
                                {nullptr, AsFloats(packed.data())}, dxf.As<float>());
        ConvertAll(dxf.As<float>(), dx + xs, size);
      });
}

void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how,
                            const Bfloat16* x, const Bfloat16* dy, Bfloat16* dweight) {
  constexpr ConvPass kPass = ConvPass::kBackwardWeight;
  const int64_t size = WeightSize(p);
  if (how.kind == HalfConv::kSums)
    return HalfWeightConv(p, how.plain_x, x, dy, dweight);
  if (how.kind == HalfConv::kOneDnn) {
    // All images at once: sums of parts would be rounded for each of them.
    ConvLayouts layouts = onednn::PreferredLayouts(p, kType, kPass, kDirect);
    layouts.weight = {};  // the result is plain
    return onednn::ConvBackwardWeight(p, kType, kDirect, layouts, x, dy, dweight,
                                      nullptr);
  }
  if (how.kind == HalfConv::kWinograd)
    return WinogradBackwardWeight<Bfloat16>(p, x, dy, dweight, nullptr);
  const Scratch sums(Scratch::Bytes<float>(2 * size));
  float *const sum = sums.As<float>(), *const one = sum + size;
  std::fill_n(sum, size, 0.0f);
  InParts(p, how.plain_x, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const Widened xf(x + xs, part.batch * XOfImage(p, how.plain_x)),
                dyf(dy + ys, part.batch * YOfImage(p));
            BlockedConvBackwardWeight(part, how.wide, xf.data(), dyf.data(), one);
            for (int64_t i = 0; i < size; ++i) sum[i] += one[i];
          });
  ConvertAll(sum, dweight, size);
}

#else
std::optional<HalfConv> FindHalfConv(const ConvProblem&, ConvPass) {
  return {};
}
std::vector<HalfConv> HalfConvWays(const ConvProblem&, ConvPass) {
  return {};
}
const char* NameOf(HalfConv::Kind) {
  return "";
}
void PackHalfFilters(const ConvProblem&, ConvPass, const HalfConv&, const Bfloat16*,
                     Bfloat16*) {}
void HalfConvForward(const ConvProblem&, const HalfConv&, const Bfloat16*, HalfFilters,
                     const HalfFinish&, Bfloat16*) {}
void HalfConvBackwardData(const ConvProblem&, const HalfConv&, const Bfloat16*,
                          HalfFilters, Bfloat16*) {}
void HalfConvBackwardWeight(const ConvProblem&, const HalfConv&, const Bfloat16*,
                            const Bfloat16*, Bfloat16*) {}
#endif

}  // namespace plait::cpu
