// Convolution of blocked arrays of half types: a table of the ways, and the choice of
// one.

#include "cpu/half_conv.h"

#include <cmath>
#include <type_traits>

#include "cpu/half_parts.h"
#include "cpu/half_target.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/half_conv.h"
#endif

namespace plait::cpu {
namespace {

using half::AsFloats;

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

// One kind. `fit` says whether there is such a kernel for a pass, and fills in what
// depends on the problem; how.wide is known. A pass that a kind never has is null.
template <typename T>
struct HalfWay {
  bool (*fit)(const ConvProblem& p, ConvPass pass, HalfConv& how) = nullptr;
  decltype(&PackHalfFilters<T>) pack = nullptr;
  decltype(&HalfConvForward<T>) forward = nullptr;
  decltype(&HalfConvBackwardData<T>) backward_data = nullptr;
  decltype(&HalfConvBackwardWeight<T>) backward_weight = nullptr;
};

// Floats in the memory of packed elements.
constexpr int64_t kRatio = sizeof(float) / sizeof(Bfloat16);

template <typename T>
constexpr HalfWay<T> kWinograd = {
    .fit =
        [](const ConvProblem&, ConvPass, HalfConv& how) {
          how.packed = how.wide.packed * kRatio;
          return how.wide.kind == BlockedConv::kWinograd;
        },
    .pack =
        [](const ConvProblem& p, ConvPass pass, const HalfConv&, const T* weight,
           T* packed) {
          WinogradFilters(p, pass, weight, reinterpret_cast<float*>(packed));
        },
    .forward =
        [](const ConvProblem& p, const HalfConv&, const T* x, HalfFilters<T> w,
           const HalfFinish<T>& finish, T* y) {
          const bool relu =
              finish.bounded && finish.low == 0 && std::isinf(finish.high);
          const half::Widened bias(finish.bias, p.out_channels);
          WinogradForward<T>(p, x, w.plain, AsFloats(w.packed), bias.data(),
                             finish.other, relu, y);
          HalfFinish<T> rest = finish;
          rest.other = nullptr;
          rest.bounded &= !relu;
          half::FinishAll(p.batch * YOfImage(p), rest, y);
        },
    .backward_data =
        [](const ConvProblem& p, const HalfConv&, const T* dy, HalfFilters<T> w,
           T* dx) { WinogradBackwardData<T>(p, dy, w.plain, AsFloats(w.packed), dx); },
    .backward_weight =
        [](const ConvProblem& p, const HalfConv&, const T* x, const T* dy, T* dweight) {
          WinogradBackwardWeight<T>(p, x, dy, dweight, nullptr);
        },
};

template <typename T>
constexpr HalfWay<T> kWide = {
    .fit =
        [](const ConvProblem&, ConvPass, HalfConv& how) {
          how.plain_x = how.wide.plain_x;
          how.packed = how.wide.packed * kRatio;
          how.layout = how.wide.layout;
          return true;
        },
    .pack =
        [](const ConvProblem& p, ConvPass pass, const HalfConv& how, const T* weight,
           T* packed) {
          const half::Widened wide(weight, p.WeightSize());
          PackFilters(p, pass, how.wide, wide.data(), reinterpret_cast<float*>(packed));
        },
    .forward =
        [](const ConvProblem& p, const HalfConv& how, const T* x, HalfFilters<T> w,
           const HalfFinish<T>& finish, T* y) {
          const Packed<T> packed(p, ConvPass::kForward, how, w);
          half::WideForward(p, how, x, AsFloats(packed.data()), finish, y);
        },
    .backward_data =
        [](const ConvProblem& p, const HalfConv& how, const T* dy, HalfFilters<T> w,
           T* dx) {
          const Packed<T> packed(p, ConvPass::kBackwardData, how, w);
          half::WideBackwardData(p, how, dy, AsFloats(packed.data()), dx);
        },
    .backward_weight = half::WideBackwardWeight<T>,
};

#if defined(__x86_64__)
constexpr HalfWay<Bfloat16> kPixels = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, HalfConv& how) {
          if (!half::HasProducts() || !HasHalfPixelConv(p, pass)) return false;
          how.packed = HalfPixelFilterSize(p, pass);
          return true;
        },
    .pack = [](const ConvProblem& p, ConvPass pass, const HalfConv&,
               const Bfloat16* weight,
               Bfloat16* packed) { PackHalfPixelFilters(p, pass, weight, packed); },
    .forward =
        [](const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
           HalfFilters<Bfloat16> w, const HalfFinish<Bfloat16>& finish, Bfloat16* y) {
          const half::Widened bias(finish.bias, p.out_channels);
          const Packed<Bfloat16> packed(p, ConvPass::kForward, how, w);
          HalfPixelConv(p, ConvPass::kForward, x, packed.data(), finish, bias.data(),
                        y);
        },
    .backward_data =
        [](const ConvProblem& p, const HalfConv& how, const Bfloat16* dy,
           HalfFilters<Bfloat16> w, Bfloat16* dx) {
          const Packed<Bfloat16> packed(p, ConvPass::kBackwardData, how, w);
          HalfPixelConv(p, ConvPass::kBackwardData, dy, packed.data(), {}, nullptr, dx);
        },
};

constexpr HalfWay<Bfloat16> kSums = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, HalfConv& how) {
          how.plain_x = how.wide.plain_x;
          return half::HasProducts() && pass == ConvPass::kBackwardWeight &&
                 HasHalfWeightConv(p);
        },
    .backward_weight =
        [](const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
           const Bfloat16* dy,
           Bfloat16* dweight) { HalfWeightConv(p, how.plain_x, x, dy, dweight); },
};
#else
constexpr HalfWay<Bfloat16> kPixels = {}, kSums = {};
#endif

#if defined(PLAIT_USE_ONEDNN) && defined(__x86_64__)
constexpr HalfWay<Bfloat16> kOneDnn = {
    .fit =
        [](const ConvProblem& p, ConvPass pass, HalfConv& how) {
          return half::HasProducts() && onednn::FitHalfConv(p, pass, how);
        },
    .pack = onednn::PackHalfFilters,
    .forward =
        [](const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
           HalfFilters<Bfloat16> w, const HalfFinish<Bfloat16>& finish, Bfloat16* y) {
          const Packed<Bfloat16> packed(p, ConvPass::kForward, how, w);
          onednn::HalfConvForward(p, how, x, packed.data(), finish, y);
        },
    .backward_data =
        [](const ConvProblem& p, const HalfConv& how, const Bfloat16* dy,
           HalfFilters<Bfloat16> w, Bfloat16* dx) {
          const Packed<Bfloat16> packed(p, ConvPass::kBackwardData, how, w);
          onednn::HalfConvBackwardData(p, dy, packed.data(), dx);
        },
    .backward_weight = onednn::HalfConvBackwardWeight,
};
#else
constexpr HalfWay<Bfloat16> kOneDnn = {};
#endif

template <typename T>
const HalfWay<T>& WayOf(HalfConv::Kind kind) {
  static constexpr HalfWay<T> kNone = {};
  switch (kind) {
    case HalfConv::kWinograd:
      return kWinograd<T>;
    case HalfConv::kWide:
      return kWide<T>;
    default:
      break;
  }
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (kind == HalfConv::kOneDnn) return kOneDnn;
    return kind == HalfConv::kPixels ? kPixels : kSums;
  }
  return kNone;
}

template <typename T>
std::vector<HalfConv> WaysOf(const ConvProblem& p, ConvPass pass) {
  std::vector<HalfConv> ways;
  const std::optional<BlockedConv> wide = FindBlockedConv(p, pass);
  if (!wide) return ways;
  for (HalfConv::Kind kind : {HalfConv::kPixels, HalfConv::kWinograd, HalfConv::kSums,
                              HalfConv::kOneDnn, HalfConv::kWide}) {
    HalfConv how;
    how.kind = kind;
    how.gains = wide->gains;
    how.wide = *wide;
    const auto fit = WayOf<T>(kind).fit;
    if (fit != nullptr && fit(p, pass, how)) ways.push_back(how);
  }
  return ways;
}

}  // namespace

const char* NameOf(HalfConv::Kind kind) {
  static constexpr const char* kNames[] = {"onednn", "winograd", "pixels", "wide",
                                           "sums"};
  return kNames[kind];
}

std::vector<HalfConv> HalfConvWays(const ConvProblem& p, ConvPass pass, DType dtype) {
  return dtype == DType::kBfloat16 ? WaysOf<Bfloat16>(p, pass)
                                   : WaysOf<Float16>(p, pass);
}

std::optional<HalfConv> FindHalfConv(const ConvProblem& p, ConvPass pass, DType dtype) {
  const std::vector<HalfConv> ways = HalfConvWays(p, pass, dtype);
  if (ways.empty()) return {};
  return ways[0];
}

template <typename T>
void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const T* weight, T* packed) {
  WayOf<T>(how.kind).pack(p, pass, how, weight, packed);
}

template <typename T>
void HalfConvForward(const ConvProblem& p, const HalfConv& how, const T* x,
                     HalfFilters<T> w, const HalfFinish<T>& finish, T* y) {
  WayOf<T>(how.kind).forward(p, how, x, w, finish, y);
}

template <typename T>
void HalfConvBackwardData(const ConvProblem& p, const HalfConv& how, const T* dy,
                          HalfFilters<T> w, T* dx) {
  WayOf<T>(how.kind).backward_data(p, how, dy, w, dx);
}

template <typename T>
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how, const T* x,
                            const T* dy, T* dweight) {
  WayOf<T>(how.kind).backward_weight(p, how, x, dy, dweight);
}

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
