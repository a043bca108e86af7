// Tests of dtypes: names, promotion, and the two half-precision types.

#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plait {
namespace {

DType At(int i) {
  return static_cast<DType>(i);
}

TEST(DType, NamesGoBothWays) {
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_EQ(ParseDType(Name(At(i))), At(i));
    EXPECT_GT(SizeOf(At(i)), 0u);
  }
  EXPECT_THROW(ParseDType("float31"), Error);
  EXPECT_THROW(ParseDType(""), Error);
}

TEST(DType, SizesAreThoseOfTheCTypes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    VisitDType(At(i), [&]<typename T>() {
      EXPECT_EQ(sizeof(T), SizeOf(At(i)));
      EXPECT_EQ(kDTypeOf<T>, At(i));
    });
  }
  EXPECT_THROW(VisitDType(DType::kUnknown, []<typename T>() {}), Error);
  EXPECT_THROW(VisitFloat(DType::kInt32, []<typename T>() {}), Error);
}

TEST(Promote, IsSymmetricAndKeepsEqualTypes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_EQ(Promote(At(i), At(i)), At(i));
    for (int j = 0; j < kNumDTypes; ++j) {
      EXPECT_EQ(Promote(At(i), At(j)), Promote(At(j), At(i)));
    }
  }
}

TEST(Promote, FindsATypeThatHoldsBoth) {
  EXPECT_EQ(Promote(DType::kUint8, DType::kInt8), DType::kInt16);
  EXPECT_EQ(Promote(DType::kUint32, DType::kInt64), DType::kInt64);
  EXPECT_EQ(Promote(DType::kBool, DType::kUint16), DType::kUint16);
  EXPECT_EQ(Promote(DType::kInt32, DType::kInt64), DType::kInt64);
  EXPECT_EQ(Promote(DType::kFloat16, DType::kBfloat16), DType::kFloat32);
  EXPECT_EQ(Promote(DType::kFloat32, DType::kFloat64), DType::kFloat64);
}

TEST(Float16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Float16::ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Float16::ToFloat(Float16::FromFloat(value))));
    } else {
      EXPECT_EQ(Float16::FromFloat(value), bits);
    }
  }
}

// Half way between two neighbours goes to the even one; beside it, to the nearer.
TEST(Float16, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = Float16::ToFloat(static_cast<uint16_t>(bits));
    const float high = Float16::ToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;  // exact
    EXPECT_EQ(Float16::FromFloat(middle), bits + (bits & 1));
    EXPECT_EQ(Float16::FromFloat(std::nextafter(middle, low)), bits);
    EXPECT_EQ(Float16::FromFloat(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Float16, KeepsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16::FromFloat(infinity), 0x7c00);
  EXPECT_EQ(Float16::FromFloat(-infinity), 0xfc00);
  EXPECT_EQ(Float16::FromFloat(65519.0f), 0x7bff);  // the largest, 65504
  EXPECT_EQ(Float16::FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Float16::FromFloat(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(Float16::ToFloat(Float16::FromFloat(NAN))));
}

TEST(Bfloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(Bfloat16::FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(Bfloat16::FromFloat(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(Bfloat16::FromFloat(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(Bfloat16::FromFloat(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  // A NaN whose only bits are in the lower half must not turn into infinity.
  EXPECT_TRUE(std::isnan(float{Bfloat16(std::bit_cast<float>(0x7f800001u))}));
  EXPECT_EQ(Bfloat16::FromFloat(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace plait
