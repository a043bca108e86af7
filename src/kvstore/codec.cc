// Codec: plain, narrow, 2-bit and 1-bit elements.

#include "kvstore/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace plait {
namespace {

constexpr int64_t kTile = 4 * kUnit;  // elements summed at once, in the L1 cache

template <typename T>
using Wide = Accumulate<T>;

// --- 2 bits: 11 is +t, 10 is -t, 00 is 0; the first element in the upper bits. The
// bytes are filled up to whole words of 4.

template <typename T>
void EncodeTwoBit(const T* x, Wide<T>* residual, uint8_t* codes, int64_t n,
                  Wide<T> threshold) {
  std::memset(codes, 0, static_cast<size_t>((n + 15) / 16 * 4));
  for (int64_t i = 0; i < n; ++i) {
    Wide<T> r = residual[i] + static_cast<Wide<T>>(x[i]);
    unsigned bits = 0;
    if (r >= threshold) {
      bits = 3;
      r -= threshold;
    } else if (r <= -threshold) {
      bits = 2;
      r += threshold;
    }
    residual[i] = r;
    codes[i / 4] = static_cast<uint8_t>(codes[i / 4] | bits << (6 - 2 * (i % 4)));
  }
}

template <typename W>
void AddTwoBit(const uint8_t* codes, W* sum, int64_t n, W threshold) {
  const W values[4] = {0, 0, -threshold, threshold};
  for (int64_t i = 0; i < n; ++i)
    sum[i] += values[codes[i / 4] >> (6 - 2 * (i % 4)) & 3];
}

// --- 1 bit: for each unit a float32 scale, the mean magnitude, and the signs.

constexpr int64_t kScale = sizeof(float);

template <typename T>
void EncodeOneBit(const T* x, Wide<T>* residual, uint8_t* codes, int64_t n) {
  for (int64_t first = 0; first < n; first += kUnit) {
    const int64_t m = std::min(kUnit, n - first);
    Wide<T> total = 0;
    for (int64_t i = 0; i < m; ++i) {
      residual[i] += static_cast<Wide<T>>(x[i]);
      total += std::abs(residual[i]);
    }
    const auto scale = static_cast<float>(total / static_cast<Wide<T>>(m));
    std::memcpy(codes, &scale, kScale);
    uint8_t* signs = codes + kScale;
    std::memset(signs, 0, static_cast<size_t>((m + 7) / 8));
    for (int64_t i = 0; i < m; ++i) {
      const bool up = residual[i] >= 0;
      signs[i / 8] = static_cast<uint8_t>(signs[i / 8] | unsigned{up} << (7 - i % 8));
      residual[i] -= static_cast<Wide<T>>(up ? scale : -scale);
    }
    x += m;
    residual += m;
    codes = signs + (m + 7) / 8;
  }
}

template <typename W>
void AddOneBit(const uint8_t* codes, W* sum, int64_t n) {
  for (int64_t first = 0; first < n; first += kUnit) {
    const int64_t m = std::min(kUnit, n - first);
    float scale;
    std::memcpy(&scale, codes, kScale);
    const uint8_t* signs = codes + kScale;
    for (int64_t i = 0; i < m; ++i) {
      const bool up = (signs[i / 8] >> (7 - i % 8) & 1) != 0;
      sum[i] += static_cast<W>(up ? scale : -scale);
    }
    sum += m;
    codes = signs + (m + 7) / 8;
  }
}

// --- Values of another dtype.

template <typename T, typename W>
void AddValues(const void* codes, W* sum, int64_t n) {
  const T* x = static_cast<const T*>(codes);
  for (int64_t i = 0; i < n; ++i)
    sum[i] = static_cast<W>(sum[i] + static_cast<W>(x[i]));
}

template <typename T>
void AddPart(const Codec& codec, const char* part, int64_t first, Wide<T>* sum,
             int64_t n) {
  using W = Wide<T>;
  const char* at = part + codec.Bytes(first);  // `first` is a multiple of kUnit
  const auto* codes = reinterpret_cast<const uint8_t*>(at);
  switch (codec.compression.kind) {
    case Compression::Kind::kNone:
      return AddValues<T>(at, sum, n);
    case Compression::Kind::kNarrow:
      return codec.compression.narrow == DType::kFloat16
                 ? AddValues<Float16>(at, sum, n)
                 : AddValues<Bfloat16>(at, sum, n);
    case Compression::Kind::kTwoBit:
      if constexpr (std::is_floating_point_v<W>) {
        AddTwoBit<W>(codes, sum, n, static_cast<W>(codec.compression.threshold));
      }
      return;
    case Compression::Kind::kOneBit:
      if constexpr (std::is_floating_point_v<W>) AddOneBit<W>(codes, sum, n);
      return;
  }
}

template <typename T, typename N>
void Narrow(const T* x, N* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) codes[i] = N(static_cast<float>(x[i]));
}

}  // namespace

Compression Compression::FromName(const std::string& type, double threshold) {
  if (type == "none") return {};
  if (type == "bfloat16") return {Kind::kNarrow, DType::kBfloat16, threshold};
  if (type == "float16") return {Kind::kNarrow, DType::kFloat16, threshold};
  if (type == "1bit") return {Kind::kOneBit, DType::kUnknown, threshold};
  Check(type == "2bit", "gradient compression: got the type '", type,
        "'; one of 2bit, 1bit, bfloat16, float16 was expected");
  Check(threshold > 0 && std::isfinite(threshold),
        "gradient compression: got the threshold ", threshold,
        "; a number above 0 was expected");
  return {Kind::kTwoBit, DType::kUnknown, threshold};
}

Codec Codec::Of(DType dtype, const Compression& compression) {
  Codec codec{dtype, compression};
  if (codec.plain()) return codec;
  if (compression.kind == Compression::Kind::kNarrow) {
    // Nothing is gained by what is no wider; whole numbers stay whole.
    if (!IsFloat(dtype) || SizeOf(dtype) <= 2) codec.compression = {};
    return codec;
  }
  Check(IsFloat(dtype), ErrorKind::kType, "gradient compression: got ", Name(dtype),
        " gradients; a floating dtype was expected");
  return codec;
}

uint8_t Codec::Form() const {
  const bool half = compression.narrow == DType::kFloat16;
  return static_cast<uint8_t>(
      1 + static_cast<int>(dtype) + 16 * static_cast<int>(compression.kind) +
      (half && compression.kind == Compression::Kind::kNarrow ? 64 : 0));
}

std::string Codec::FormName(uint8_t form) {
  const int kind = (form - 1) / 16 % 4, dtype = (form - 1) % 16;
  const std::string name(dtype < kNumDTypes ? Name(static_cast<DType>(dtype))
                                            : "no dtype");
  static constexpr const char* kKinds[] = {"", " as ", " as 2bit", " as 1bit"};
  return name + kKinds[kind] + (kind != 1 ? "" : form > 64 ? "float16" : "bfloat16");
}

DType Codec::residual_dtype() const {
  return dtype == DType::kFloat64 ? dtype : DType::kFloat32;
}

int64_t Codec::Bytes(int64_t elements) const {
  switch (compression.kind) {
    case Compression::Kind::kNone:
      return elements * static_cast<int64_t>(SizeOf(dtype));
    case Compression::Kind::kNarrow:
      return elements * 2;
    case Compression::Kind::kTwoBit:
      return (elements + 15) / 16 * 4;
    case Compression::Kind::kOneBit: {
      const int64_t rest = elements % kUnit;
      return elements / kUnit * (kScale + kUnit / 8) +
             (rest > 0 ? kScale + (rest + 7) / 8 : 0);
    }
  }
  return 0;
}

void Codec::Encode(const void* x, void* residual, void* codes, int64_t n) const {
  VisitFloat(dtype, [&]<typename T>() {
    const T* values = static_cast<const T*>(x);
    auto* rest = static_cast<Wide<T>*>(residual);
    auto* bytes = static_cast<uint8_t*>(codes);
    switch (compression.kind) {
      case Compression::Kind::kNone:
        return;
      case Compression::Kind::kNarrow:
        return compression.narrow == DType::kFloat16
                   ? Narrow(values, static_cast<Float16*>(codes), n)
                   : Narrow(values, static_cast<Bfloat16*>(codes), n);
      case Compression::Kind::kTwoBit:
        return EncodeTwoBit(values, rest, bytes, n,
                            static_cast<Wide<T>>(compression.threshold));
      case Compression::Kind::kOneBit:
        return EncodeOneBit(values, rest, bytes, n);
    }
  });
}

void Codec::Sum(std::span<const void* const> parts, void* y, int64_t n) const {
  if (plain() && dtype == DType::kFloat32 && parts.size() == 2) {
    const auto* a = static_cast<const float*>(parts[0]);
    const auto* b = static_cast<const float*>(parts[1]);
    auto* sum = static_cast<float*>(y);
    for (int64_t i = 0; i < n; ++i) sum[i] = 0.0F + a[i] + b[i];
    return;
  }
  VisitDType(dtype, [&]<typename T>() {
    Wide<T> sum[kTile];
    for (int64_t first = 0; first < n; first += kTile) {
      const int64_t m = std::min(kTile, n - first);
      std::fill_n(sum, m, Wide<T>(0));
      for (const void* part : parts) {
        AddPart<T>(*this, static_cast<const char*>(part), first, sum, m);
      }
      T* out = static_cast<T*>(y) + first;
      for (int64_t i = 0; i < m; ++i) out[i] = static_cast<T>(sum[i]);
    }
  });
}

}  // namespace plait
