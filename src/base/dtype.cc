// DType names, promotion, and float16 conversion in plain integer arithmetic.

#include "base/dtype.h"

namespace plait {
namespace {

constexpr std::string_view kNames[kNumDTypes] = {
    "float32", "float64", "float16", "uint8",  "int32",  "int8",     "int64",
    "bool",    "int16",   "uint16",  "uint32", "uint64", "bfloat16",
};

bool IsUnsigned(DType d) {
  return d == DType::kUint8 || d == DType::kUint16 || d == DType::kUint32 ||
         d == DType::kUint64;
}

DType SignedOfSize(size_t bytes) {
  switch (bytes) {
    case 1:
      return DType::kInt8;
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    default:
      return DType::kInt64;
  }
}

}  // namespace

std::string_view Name(DType dtype) {
  return dtype == DType::kUnknown ? "unknown" : kNames[static_cast<int>(dtype)];
}

DType ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  if (name == "float") return DType::kFloat32;
  if (name == "double") return DType::kFloat64;
  if (name == "half") return DType::kFloat16;
  if (name == "int") return DType::kInt32;
  if (name == "bool_") return DType::kBool;
  Fail(ErrorKind::kType, "dtype: ", name,
       " is not known; one of float32, float64, float16, bfloat16, int8, int16, int32, "
       "int64, uint8, uint16, uint32, uint64, bool was expected");
}

DType Promote(DType a, DType b) {
  if (a == b || b == DType::kUnknown) return a;
  if (a == DType::kUnknown) return b;
  if (b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (IsFloat(a) && IsFloat(b)) {
    if (SizeOf(a) == SizeOf(b)) return DType::kFloat32;  // float16 with bfloat16
    return SizeOf(a) > SizeOf(b) ? a : b;
  }
  if (IsFloat(a)) return a;  // as in deep learning: the float type wins
  if (IsFloat(b)) return b;
  if (IsUnsigned(a) == IsUnsigned(b)) return SizeOf(a) >= SizeOf(b) ? a : b;
  const DType u = IsUnsigned(a) ? a : b, s = IsUnsigned(a) ? b : a;
  if (SizeOf(s) > SizeOf(u)) return s;
  return SignedOfSize(SizeOf(u) * 2);
}

uint16_t Float16::FromFloat(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const uint32_t magnitude = u & 0x7fffffff;
  if (magnitude >= 0x47800000) {  // 65536 and above, infinity, NaN
    if (magnitude > 0x7f800000)
      return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x1ff));
    return static_cast<uint16_t>(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {  // below 2^-14: a denormal half
    // Adding 0.5 puts the bits of the result at the low end, rounded to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

float Float16::ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f)
    return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace plait
