// Convolution of blocked arrays of half types: the choice of a kernel, and what is
// widened.

#include "cpu/half_conv.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

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

constexpr DType kBf16 = DType::kBfloat16;
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
  template <typename T>
  Widened(const T* from, int64_t n)
      : scratch_(from == nullptr ? 0 : Scratch::Bytes<float>(n)),
        data_(from == nullptr ? nullptr : scratch_.As<float>()) {
    if (from != nullptr) ConvertAll(from, scratch_.As<float>(), n);
  }
  const float* data() const { return data_; }

 private:
  const Scratch scratch_;
  const float* data_;
};

// Pixels of a strip: with its results it fills a part of a second-level cache.
int64_t StripPixels(const ConvProblem& p) {
  const int64_t channels = Filled(p.in_channels) + Filled(p.out_channels);
  return std::clamp<int64_t>((1 << 17) / channels, 48, 192);
}
bool HasWideStrips(const ConvProblem& p, const HalfConv& how) {
  return how.wide.kind == BlockedConv::kPixels && p.stride[1] == 1 &&
         p.stride[2] == 1 &&
         p.batch * (p.InSize() / StripPixels(p) + 1) >= ComputeThreads();
}

// Filters that were packed as floats.
template <typename T>
const float* AsFloats(const T* packed) {
  return reinterpret_cast<const float*>(packed);
}

bool Fits(const ConvProblem& p, ConvPass pass, HalfConv& how) {
  if (!onednn::HasConv(p, kBf16, pass, kDirect)) return false;
  const ConvLayouts l = onednn::PreferredLayouts(p, kBf16, pass, kDirect);
  const auto blocked = onednn::BlockedLayout(ChannelBlock());
  how.plain_x = l.x.plain() && p.in_channels <= 4 && pass != ConvPass::kBackwardData;
  if (!(l.y == blocked) || !(l.x == blocked || how.plain_x)) return false;
  if (pass == ConvPass::kBackwardWeight) return true;
  const onednn::ConvDims dims(p);
  how.packed = static_cast<int64_t>(
      onednn::LayoutBytes(l.weight, dims.Weight(), kBf16) / sizeof(Bfloat16));
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
template <typename T>
class Packed {
 public:
  Packed(const ConvProblem& p, ConvPass pass, const HalfConv& how, HalfFilters<T> w)
      : scratch_(w.packed ? 0 : Scratch::Bytes<T>(how.packed)),
        data_(w.packed ? w.packed : scratch_.As<T>()) {
    if (!w.packed) PackHalfFilters(p, pass, how, w.plain, scratch_.As<T>());
  }
  const T* data() const { return data_; }

 private:
  const Scratch scratch_;
  const T* data_;
};

// What a kernel has left to do: another array and bounds.
template <typename T>
void FinishAll(int64_t n, const HalfFinish<T>& f, T* y) {
  if (f.other == nullptr && !f.bounded) return;
  constexpr int64_t kTogether = 1 << 10;
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    float sum[kTogether], other[kTogether];
    for (int64_t i = begin; i < end; i += kTogether) {
      const int64_t count = std::min(kTogether, end - i);
      Convert(y + i, kDTypeOf<T>, sum, DType::kFloat32, count);
      if (f.other != nullptr) {
        Convert(f.other + i, kDTypeOf<T>, other, DType::kFloat32, count);
        for (int64_t k = 0; k < count; ++k) sum[k] += other[k];
      }
      for (int64_t k = 0; f.bounded && k < count; ++k) {
        float v = sum[k];
        v = v < f.low ? f.low : v;
        sum[k] = v > f.high ? f.high : v;
      }
      Convert(sum, DType::kFloat32, y + i, kDTypeOf<T>, count);
    }
  });
}

// By way of floats, some pixels at a time: windows of one pixel at stride 1.
template <typename T>
void WideStrips(const ConvProblem& p, ConvPass pass, const HalfConv& how, const T* x,
                const float* packed, const HalfFinish<T>& finish, const float* bias,
                T* y) {
  const bool forward = pass == ConvPass::kForward;
  const int64_t block = ChannelBlock(), pixels = p.InSize();
  const int64_t in = Filled(p.in_channels), out = Filled(p.out_channels);
  const int64_t xs = forward ? in : out, ys = forward ? out : in;
  const int64_t strip = StripPixels(p), strips = (pixels + strip - 1) / strip;
  ParallelFor(p.batch * strips, 1, [&](int64_t first, int64_t last) {
    const ScopedComputeThreads alone(1);
    const Scratch floats(Scratch::Bytes<float>(strip * (xs + 2 * ys)));
    float *const xf = floats.As<float>(), *const yf = xf + strip * xs,
                 *const of = yf + strip * ys;
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = pixels * (i % strips) / strips,
                    n = pixels * (i % strips + 1) / strips - begin;
      // Calls f(place in the array, place in the copy, elements) for each block.
      const auto blocks = [&](int64_t channels, auto&& f) {
        for (int64_t b = 0; b < channels / block; ++b)
          f(((i / strips * (channels / block) + b) * pixels + begin) * block,
            b * n * block, n * block);
      };
      const auto widen = [&](const T* from, float* to) {
        return [=](int64_t at, int64_t place, int64_t count) {
          Convert(from + at, kDTypeOf<T>, to + place, DType::kFloat32, count);
        };
      };
      blocks(xs, widen(x, xf));
      if (finish.other != nullptr) blocks(ys, widen(finish.other, of));
      ConvProblem part = p;
      part.batch = 1;
      part.in = {1, 1, n};
      if (forward) {
        BlockedConvForward(part, how.wide, xf, {nullptr, packed},
                           {.bias = bias,
                            .other = finish.other != nullptr ? of : nullptr,
                            .bounded = finish.bounded,
                            .low = finish.low,
                            .high = finish.high},
                           yf);
      } else {
        BlockedConvBackwardData(part, how.wide, xf, {nullptr, packed}, yf);
      }
      blocks(ys, [&](int64_t at, int64_t place, int64_t count) {
        Convert(yf + place, DType::kFloat32, y + at, kDTypeOf<T>, count);
      });
    }
  });
}

}  // namespace

const char* NameOf(HalfConv::Kind kind) {
  static constexpr const char* kNames[] = {"onednn", "winograd", "pixels", "wide",
                                           "sums"};
  return kNames[kind];
}

std::vector<HalfConv> HalfConvWays(const ConvProblem& p, ConvPass pass, DType dtype) {
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
  const bool products = dtype == kBf16 && half::HasProducts();
  if (products && HasHalfPixelConv(p, pass))
    add(HalfConv::kPixels, false, HalfPixelFilterSize(p, pass));
  if (wide->kind == BlockedConv::kWinograd)
    add(HalfConv::kWinograd, false, wide->packed * kRatio);
  if (products && pass == ConvPass::kBackwardWeight && HasHalfWeightConv(p))
    add(HalfConv::kSums, wide->plain_x, 0);
  HalfConv direct = how;
  if (products && Fits(p, pass, direct)) ways.push_back(direct);
  add(HalfConv::kWide, wide->plain_x, wide->packed * kRatio);
  ways.back().layout = wide->layout;
  return ways;
}

std::optional<HalfConv> FindHalfConv(const ConvProblem& p, ConvPass pass, DType dtype) {
  const std::vector<HalfConv> ways = HalfConvWays(p, pass, dtype);
  if (ways.empty()) return {};
  return ways[0];
}

// What the kernels of bfloat16 alone need.
template <typename T>
constexpr bool kIsBf16 = std::is_same_v<T, Bfloat16>;

template <typename T>
void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const T* weight, T* packed) {
  if constexpr (kIsBf16<T>) {
    if (how.kind == HalfConv::kPixels)
      return PackHalfPixelFilters(p, pass, weight, packed);
    if (how.kind == HalfConv::kOneDnn) {
      const onednn::ConvDims dims(p);
      return onednn::Reorder(dims.Weight(), {}, kBf16, weight,
                             onednn::PreferredLayouts(p, kBf16, pass, kDirect).weight,
                             kBf16, packed);
    }
  }
  float* const floats = reinterpret_cast<float*>(packed);
  if (how.kind == HalfConv::kWinograd) return WinogradFilters(p, pass, weight, floats);
  const Widened wide(weight, WeightSize(p));
  PackFilters(p, pass, how.wide, wide.data(), floats);
}

template <typename T>
void HalfConvForward(const ConvProblem& p, const HalfConv& how, const T* x,
                     HalfFilters<T> w, const HalfFinish<T>& finish, T* y) {
  const bool relu = finish.bounded && finish.low == 0 && std::isinf(finish.high);
  const Widened bias(how.kind == HalfConv::kOneDnn ? nullptr : finish.bias,
                     p.out_channels);
  if (how.kind == HalfConv::kWinograd) {
    WinogradForward<T>(p, x, w.plain, AsFloats(w.packed), bias.data(), finish.other,
                       relu, y);
    HalfFinish<T> rest = finish;
    rest.other = nullptr;
    rest.bounded &= !relu;
    return FinishAll(p.batch * YOfImage(p), rest, y);
  }
  const Packed<T> packed(p, ConvPass::kForward, how, w);
  if constexpr (kIsBf16<T>) {
    if (how.kind == HalfConv::kOneDnn) {
      const ConvLayouts layouts =
          onednn::PreferredLayouts(p, kBf16, ConvPass::kForward, kDirect);
      return InParts(p, how.plain_x, sizeof(Bfloat16),
                     [&](const ConvProblem& part, int64_t xs, int64_t ys) {
                       onednn::ConvForward(part, kBf16, kDirect, layouts, x + xs,
                                           packed.data(), finish.bias, false, y + ys);
                       HalfFinish<T> rest = finish;
                       if (finish.other != nullptr) rest.other += ys;
                       FinishAll(part.batch * YOfImage(p), rest, y + ys);
                     });
    }
    if (how.kind == HalfConv::kPixels)
      return HalfPixelConv(p, ConvPass::kForward, x, packed.data(), finish, bias.data(),
                           y);
  }
  if (HasWideStrips(p, how))
    return WideStrips(p, ConvPass::kForward, how, x, AsFloats(packed.data()), finish,
                      bias.data(), y);
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

template <typename T>
void HalfConvBackwardData(const ConvProblem& p, const HalfConv& how, const T* dy,
                          HalfFilters<T> w, T* dx) {
  constexpr ConvPass kPass = ConvPass::kBackwardData;
  if (how.kind == HalfConv::kWinograd)
    return WinogradBackwardData<T>(p, dy, w.plain, AsFloats(w.packed), dx);
  const Packed<T> packed(p, kPass, how, w);
  if constexpr (kIsBf16<T>) {
    if (how.kind == HalfConv::kPixels)
      return HalfPixelConv(p, kPass, dy, packed.data(), {}, nullptr, dx);
    if (how.kind == HalfConv::kOneDnn) {
      const ConvLayouts layouts = onednn::PreferredLayouts(p, kBf16, kPass, kDirect);
      return InParts(p, false, sizeof(Bfloat16),
                     [&](const ConvProblem& part, int64_t xs, int64_t ys) {
                       onednn::ConvBackwardData(part, kBf16, kDirect, layouts, dy + ys,
                                                packed.data(), dx + xs);
                     });
    }
  }
  if (HasWideStrips(p, how))
    return WideStrips<T>(p, kPass, how, dy, AsFloats(packed.data()), {}, nullptr, dx);
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

template <typename T>
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how, const T* x,
                            const T* dy, T* dweight) {
  const int64_t size = WeightSize(p);
  if constexpr (kIsBf16<T>) {
    if (how.kind == HalfConv::kSums)
      return HalfWeightConv(p, how.plain_x, x, dy, dweight);
    if (how.kind == HalfConv::kOneDnn) {
      constexpr ConvPass kPass = ConvPass::kBackwardWeight;
      // All images at once: sums of parts would be rounded for each of them.
      ConvLayouts layouts = onednn::PreferredLayouts(p, kBf16, kPass, kDirect);
      layouts.weight = {};  // the result is plain
      return onednn::ConvBackwardWeight(p, kBf16, kDirect, layouts, x, dy, dweight,
                                        nullptr);
    }
  }
  if (how.kind == HalfConv::kWinograd)
    return WinogradBackwardWeight<T>(p, x, dy, dweight, nullptr);
  const Scratch sums(Scratch::Bytes<float>(2 * size));
  float *const sum = sums.As<float>(), *const one = sum + size;
  InParts(p, how.plain_x, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const Widened xf(x + xs, part.batch * XOfImage(p, how.plain_x)),
                dyf(dy + ys, part.batch * YOfImage(p));
            const bool first = ys == 0;
            BlockedConvBackwardWeight(part, how.wide, xf.data(), dyf.data(),
                                      first ? sum : one);
            if (first) return;
            ParallelFor(size, 1 << 14, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) sum[i] += one[i];
            });
          });
  ConvertAll(sum, dweight, size);
}

#else
std::optional<HalfConv> FindHalfConv(const ConvProblem&, ConvPass, DType) {
  return {};
}
std::vector<HalfConv> HalfConvWays(const ConvProblem&, ConvPass, DType) {
  return {};
}
const char* NameOf(HalfConv::Kind) {
  return "";
}
template <typename T>
void PackHalfFilters(const ConvProblem&, ConvPass, const HalfConv&, const T*, T*) {}
template <typename T>
void HalfConvForward(const ConvProblem&, const HalfConv&, const T*, HalfFilters<T>,
                     const HalfFinish<T>&, T*) {}
template <typename T>
void HalfConvBackwardData(const ConvProblem&, const HalfConv&, const T*, HalfFilters<T>,
                          T*) {}
template <typename T>
void HalfConvBackwardWeight(const ConvProblem&, const HalfConv&, const T*, const T*,
                            T*) {}
#endif

template void PackHalfFilters(const ConvProblem&, ConvPass, const HalfConv&,
                              const Bfloat16*, Bfloat16*);
template void HalfConvForward(const ConvProblem&, const HalfConv&, const Bfloat16*,
                              HalfFilters<Bfloat16>, const HalfFinish<Bfloat16>&,
                              Bfloat16*);
template void HalfConvBackwardData(const ConvProblem&, const HalfConv&, const Bfloat16*,
                                   HalfFilters<Bfloat16>, Bfloat16*);
template void HalfConvBackwardWeight(const ConvProblem&, const HalfConv&,
                                     const Bfloat16*, const Bfloat16*, Bfloat16*);
template void PackHalfFilters(const ConvProblem&, ConvPass, const HalfConv&,
                              const Float16*, Float16*);
template void HalfConvForward(const ConvProblem&, const HalfConv&, const Float16*,
                              HalfFilters<Float16>, const HalfFinish<Float16>&,
                              Float16*);
template void HalfConvBackwardData(const ConvProblem&, const HalfConv&, const Float16*,
                                   HalfFilters<Float16>, Float16*);
template void HalfConvBackwardWeight(const ConvProblem&, const HalfConv&,
                                     const Float16*, const Float16*, Float16*);

}  // namespace plait::cpu
