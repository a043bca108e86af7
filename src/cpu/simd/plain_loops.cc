// The table's plain loops: one element at a time, for every function and type.

#include <cstring>
#include <utility>

#include "cpu/plain_words.h"
#include "cpu/simd/kernels.h"

namespace plait::cpu::internal {
namespace {

template <typename T>
T At(const void* data, int64_t i, unsigned splat) {
  return static_cast<const T*>(data)[splat & 1 ? 0 : i];
}

template <typename T, Fn kFn>
void StepLoop(const void* x, const void* y, const void* z, void* out, int64_t n,
              unsigned splat) {
  constexpr int kArity = kFn == Fn::kWhere ? 3 : kFn >= Fn::kAdd ? 2 : 1;
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const T a = At<T>(x, i, splat);
    const T b = kArity > 1 ? At<T>(y, i, splat >> 1) : T{};
    const T c = kArity > 2 ? At<T>(z, i, splat >> 2) : T{};
    to[i] = plain::Word<T>(kFn, a, b, c);
  }
}

template <typename To, typename From, DType kDType = DType::kUnknown>
void CastLoop(const void* x, const void*, const void*, void* out, int64_t n,
              unsigned splat) {
  To* to = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = plain::Cast<To>(kDType, At<From>(x, i, splat));
  }
}

void CastToHalf(const void* x, const void*, const void*, void* out, int64_t n,
                unsigned splat) {
  float* to = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = plain::RoundToOdd(At<double>(x, i, splat));
  }
}

// Between memory (S) and the compute type (T).
template <typename S, typename T>
void LoadLoop(const void* x, const void*, const void*, void* out, int64_t n,
              unsigned splat) {
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(At<S>(x, i, splat));
}
template <typename S, typename T>
void StoreLoop(const void* x, const void*, const void*, void* out, int64_t n,
               unsigned splat) {
  S* to = static_cast<S*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<S>(At<T>(x, i, splat));
}
template <typename S, typename T>
void NarrowLoop(const void* x, const void*, const void*, void* out, int64_t n,
                unsigned splat) {
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<T>(static_cast<S>(At<T>(x, i, splat)));
  }
}

template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;

constexpr Fn kFnOf[] = {Fn::kAdd, Fn::kMul, Fn::kMaximum, Fn::kMinimum};

template <typename T, Fn kFn>
void Rows(const void* x, int64_t rows, int64_t length, void* acc) {
  const T* from = static_cast<const T*>(x);
  Wide<T>* to = static_cast<Wide<T>*>(acc);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < length; ++i) {
      to[r] = plain::Word<Wide<T>>(kFn, to[r], *from++, {});
    }
  }
}

template <typename T, Fn kFn>
void AccumulateWide(const void*, const void* y, const void*, void* out, int64_t n,
                    unsigned) {
  Wide<T>* to = static_cast<Wide<T>*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = plain::Word<Wide<T>>(kFn, to[i], At<T>(y, i, 0), {});
  }
}

template <typename T>
void FillType(Kernels& k) {
  constexpr int kC = static_cast<int>(std::is_same_v<T, float>     ? Compute::kF32
                                      : std::is_same_v<T, double>  ? Compute::kF64
                                      : std::is_same_v<T, int32_t> ? Compute::kI32
                                      : std::is_same_v<T, int64_t> ? Compute::kI64
                                                                   : Compute::kU64);
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((k.step[kC][I] =
          std::is_floating_point_v<T> || !Info(static_cast<Fn>(I)).float_only
              ? StepLoop<T, static_cast<Fn>(I)>
              : StepLoop<T, Fn::kCopy>),
     ...);
  }
  (std::make_index_sequence<kNumFns>());
  k.cast[kC][0] = CastLoop<float, T>;
  k.cast[kC][1] = CastLoop<double, T>;
  k.cast[kC][2] = CastLoop<int32_t, T>;
  k.cast[kC][3] = CastLoop<int64_t, T>;
  k.cast[kC][4] = CastLoop<uint64_t, T>;
  k.not_zero[kC] = CastLoop<int32_t, T, DType::kBool>;
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((k.rows[I][kC] = Rows<T, kFnOf[I]>), ...);
    ((k.accumulate_wide[I][kC] = AccumulateWide<T, kFnOf[I]>), ...);
  }
  (std::make_index_sequence<kNumReductions>());
}

template <typename S, typename T>
void FillDType(Kernels& k) {
  constexpr int kD = static_cast<int>(kDTypeOf<S>);
  k.load[kD] = LoadLoop<S, T>;
  k.store[kD] = StoreLoop<S, T>;
  k.narrow[kD] = std::is_same_v<S, T> ? nullptr : NarrowLoop<S, T>;
}

}  // namespace

void FillPlain(Kernels& k) {
  FillType<float>(k);
  FillType<double>(k);
  FillType<int32_t>(k);
  FillType<int64_t>(k);
  FillType<uint64_t>(k);
  k.cast_to_half = CastToHalf;
  FillDType<float, float>(k);
  FillDType<double, double>(k);
  FillDType<Float16, float>(k);
  FillDType<Bfloat16, float>(k);
  FillDType<bool, int32_t>(k);
  FillDType<int8_t, int32_t>(k);
  FillDType<int16_t, int32_t>(k);
  FillDType<int32_t, int32_t>(k);
  FillDType<uint8_t, int32_t>(k);
  FillDType<uint16_t, int32_t>(k);
  FillDType<uint32_t, int64_t>(k);
  FillDType<int64_t, int64_t>(k);
  FillDType<uint64_t, uint64_t>(k);
}

}  // namespace plait::cpu::internal
