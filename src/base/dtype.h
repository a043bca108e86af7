// DType: the element types, their numbers in files, and the half-precision types.

#ifndef PLAIT_BASE_DTYPE_H_
#define PLAIT_BASE_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string_view>

#include "base/error.h"

namespace plait {

// The numbers are those of MXNet's files and C interface.
enum class DType : int8_t {
  kUnknown = -1,
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kUint8 = 3,
  kInt32 = 4,
  kInt8 = 5,
  kInt64 = 6,
  kBool = 7,
  kInt16 = 8,
  kUint16 = 9,
  kUint32 = 10,
  kUint64 = 11,
  kBfloat16 = 12,
};
inline constexpr int kNumDTypes = 13;

// IEEE binary16, stored only: arithmetic happens in float.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) : bits(FromFloat(value)) {}
  operator float() const { return ToFloat(bits); }
  static uint16_t FromFloat(float value);  // ties to even
  static float ToFloat(uint16_t bits);
};

// The upper half of a binary32, rounded to nearest even; NaN stays NaN.
struct Bfloat16 {
  uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) : bits(FromFloat(value)) {}
  operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  static uint16_t FromFloat(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 0x40);
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
};

// Bytes of one element; 0 for kUnknown.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t kSize[kNumDTypes] = {4, 8, 2, 1, 4, 1, 8, 1, 2, 2, 4, 8, 2};
  return dtype == DType::kUnknown ? 0 : kSize[static_cast<int>(dtype)];
}

constexpr bool IsFloat(DType d) {
  return d == DType::kFloat32 || d == DType::kFloat64 || d == DType::kFloat16 ||
         d == DType::kBfloat16;
}
constexpr bool IsHalf(DType d) {
  return d == DType::kFloat16 || d == DType::kBfloat16;
}
constexpr bool IsInteger(DType d) {
  return d != DType::kUnknown && !IsFloat(d) && d != DType::kBool;
}

std::string_view Name(DType dtype);       // "float32"
DType ParseDType(std::string_view name);  // throws kType for an unknown name
DType Promote(DType a, DType b);          // NumPy's rules; bf16 with f16 is float32
inline std::ostream& operator<<(std::ostream& out, DType d) {
  return out << Name(d);
}

template <typename T>
struct DTypeOfImpl;
template <DType D>
struct CTypeOfImpl;
template <DType D, typename T>
struct DTypePair {};
#define PLAIT_DTYPE_PAIR(T, D)               \
  template <>                                \
  struct DTypeOfImpl<T> {                    \
    static constexpr DType value = DType::D; \
  };                                         \
  template <>                                \
  struct CTypeOfImpl<DType::D> {             \
    using type = T;                          \
  };
PLAIT_DTYPE_PAIR(float, kFloat32)
PLAIT_DTYPE_PAIR(double, kFloat64)
PLAIT_DTYPE_PAIR(Float16, kFloat16)
PLAIT_DTYPE_PAIR(Bfloat16, kBfloat16)
PLAIT_DTYPE_PAIR(int8_t, kInt8)
PLAIT_DTYPE_PAIR(int16_t, kInt16)
PLAIT_DTYPE_PAIR(int32_t, kInt32)
PLAIT_DTYPE_PAIR(int64_t, kInt64)
PLAIT_DTYPE_PAIR(uint8_t, kUint8)
PLAIT_DTYPE_PAIR(uint16_t, kUint16)
PLAIT_DTYPE_PAIR(uint32_t, kUint32)
PLAIT_DTYPE_PAIR(uint64_t, kUint64)
PLAIT_DTYPE_PAIR(bool, kBool)
#undef PLAIT_DTYPE_PAIR

template <typename T>
inline constexpr DType kDTypeOf = DTypeOfImpl<T>::value;

// The type in which values of T are added up: float for the halves, else T itself.
template <typename T>
struct AccumulateType {
  using type = T;
};
template <>
struct AccumulateType<Float16> {
  using type = float;
};
template <>
struct AccumulateType<Bfloat16> {
  using type = float;
};
template <typename T>
using Accumulate = typename AccumulateType<T>::type;

// Calls f.operator()<T>() with the C++ type of `dtype`:
//   VisitDType(d, [&]<typename T>() { Fill(static_cast<T*>(data), n); });
template <typename F>
decltype(auto) VisitDType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kFloat16:
      return f.template operator()<Float16>();
    case DType::kBfloat16:
      return f.template operator()<Bfloat16>();
    case DType::kInt8:
      return f.template operator()<int8_t>();
    case DType::kInt16:
      return f.template operator()<int16_t>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUint8:
      return f.template operator()<uint8_t>();
    case DType::kUint16:
      return f.template operator()<uint16_t>();
    case DType::kUint32:
      return f.template operator()<uint32_t>();
    case DType::kUint64:
      return f.template operator()<uint64_t>();
    case DType::kBool:
      return f.template operator()<bool>();
    case DType::kUnknown:
      break;
  }
  Fail(ErrorKind::kType, "dtype: unknown");
}

// The same for operators that move elements and do not look into them: one
// instance for each element size instead of one for each dtype.
template <typename F>
decltype(auto) VisitSize(DType dtype, F&& f) {
  switch (SizeOf(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
  }
  Fail(ErrorKind::kType, "dtype: unknown");
}

// The same for the four floating types only.
template <typename F>
decltype(auto) VisitFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kFloat16:
      return f.template operator()<Float16>();
    case DType::kBfloat16:
      return f.template operator()<Bfloat16>();
    default:
      break;
  }
  Fail(ErrorKind::kType, "dtype: ", dtype, "; a floating type was expected");
}

}  // namespace plait

#endif  // PLAIT_BASE_DTYPE_H_
