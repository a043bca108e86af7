// Codec: how the elements of an array travel, and how what arrives is summed.
//
// Codes of a part are whole: their length depends on the number of elements only, and a
// cut at a multiple of kUnit elements is a cut between bytes.

#ifndef PLAIT_KVSTORE_CODEC_H_
#define PLAIT_KVSTORE_CODEC_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.h"
#include "kvstore/ranges.h"

namespace plait {

// What set_gradient_compression asks for.
struct Compression {
  enum class Kind : uint8_t { kNone, kNarrow, kTwoBit, kOneBit };
  Kind kind = Kind::kNone;
  DType narrow = DType::kBfloat16;  // kNarrow: the dtype on the wire
  double threshold = 0.5;           // kTwoBit

  // From names as users give them: 2bit, 1bit, bfloat16, float16, none. Throws kValue.
  static Compression FromName(const std::string& type, double threshold);
};

struct Codec {
  DType dtype = DType::kFloat32;
  Compression compression = {};

  // Throws kType where the compression does not take the dtype.
  static Codec Of(DType dtype, const Compression& compression);

  bool plain() const { return compression.kind == Compression::Kind::kNone; }
  // Whether encoding leaves something for the next time.
  bool has_residual() const { return compression.kind >= Compression::Kind::kTwoBit; }
  // float64 for float64, else float32.
  DType residual_dtype() const;
  int64_t Bytes(int64_t elements) const;
  // A number for the dtype and the compression, not 0; ranks compare it.
  uint8_t Form() const;
  static std::string FormName(uint8_t form);

  // Writes the codes of n elements; a residual, where there is one, is first added and
  // then becomes what the codes do not say. REQUIRES: not plain.
  void Encode(const void* x, void* residual, void* codes, int64_t n) const;
  // y = the sum of what all parts say, in their order; halves are summed in float32.
  // y may be one of the plain parts.
  void Sum(std::span<const void* const> parts, void* y, int64_t n) const;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_CODEC_H_
