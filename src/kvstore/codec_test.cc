// Codec: bits as MXNet has them, and errors that are made good.

#include "kvstore/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kvstore/testing.h"

namespace plait {
namespace {

TEST(Codec, TwoBitWordsAreThoseOfMxnet) {
  const Codec codec = Codec::Of(DType::kFloat32, Compression::FromName("2bit", 0.5));
  const std::vector<float> x{0.5f, -0.5f, 0.1f, 2.0f, -0.4f, -3.0f};
  std::vector<float> rest{0, 0, 0, 0, -0.1f, 0};
  std::vector<uint8_t> codes(static_cast<size_t>(codec.Bytes(6)), 0xff);
  ASSERT_EQ(codes.size(), 4u);
  codec.Encode(x.data(), rest.data(), codes.data(), 6);
  // + - 0 +   - -
  EXPECT_EQ(codes, (std::vector<uint8_t>{0b11100011, 0b10100000, 0, 0}));
  EXPECT_EQ(rest, (std::vector<float>{0, 0, 0.1f, 1.5f, 0, -2.5f}));
  std::vector<float> y(6);
  const void* parts[] = {codes.data(), codes.data()};
  codec.Sum(parts, y.data(), 6);
  EXPECT_EQ(y, (std::vector<float>{1, -1, 0, 1, -1, -1}));
}

template <typename T>
void CheckFeedback(const char* kind, double tolerance) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 0.3);
  for (const int64_t n : {1, 15, 16, 17, 255, 256, 257, 1000}) {
    const Codec codec = Codec::Of(kDTypeOf<T>, Compression::FromName(kind, 0.5));
    std::vector<double> rest64(static_cast<size_t>(n), 0);
    std::vector<float> rest32(static_cast<size_t>(n), 0);
    void* rest = codec.residual_dtype() == DType::kFloat64
                     ? static_cast<void*>(rest64.data())
                     : static_cast<void*>(rest32.data());
    std::vector<double> given(static_cast<size_t>(n), 0), said(given);
    std::vector<T> x(static_cast<size_t>(n)), y(x);
    for (int step = 0; step < 10; ++step) {
      for (int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<T>(static_cast<float>(normal(random)));
        given[i] += static_cast<double>(static_cast<Accumulate<T>>(x[i]));
      }
      std::vector<uint8_t> codes(static_cast<size_t>(codec.Bytes(n)));
      codec.Encode(x.data(), rest, codes.data(), n);
      const void* parts[] = {codes.data()};
      codec.Sum(parts, y.data(), n);
      for (int64_t i = 0; i < n; ++i)
        said[i] += static_cast<double>(static_cast<Accumulate<T>>(y[i]));
    }
    for (int64_t i = 0; i < n; ++i) {
      const double kept =
          rest == rest64.data() ? rest64[i] : static_cast<double>(rest32[i]);
      ASSERT_NEAR(given[i], said[i] + kept, tolerance) << kind << ' ' << n << ' ' << i;
    }
  }
}

TEST(Codec, WhatIsNotSaidIsKept) {
  for (const char* kind : {"2bit", "1bit"}) {
    CheckFeedback<float>(kind, 1e-5);
    CheckFeedback<double>(kind, 1e-6);
    CheckFeedback<Float16>(kind, 2e-2);
    CheckFeedback<Bfloat16>(kind, 1e-1);
  }
}

TEST(Codec, NarrowValuesAreRoundedOnceAndSummedWide) {
  const Codec codec =
      Codec::Of(DType::kFloat32, Compression::FromName("bfloat16", 0.5));
  const std::vector<float> x{1.0f, 1.00390625f, -3.0f};
  std::vector<uint8_t> codes(static_cast<size_t>(codec.Bytes(3)));
  EXPECT_EQ(codes.size(), 6u);
  codec.Encode(x.data(), nullptr, codes.data(), 3);
  std::vector<float> y(3);
  const void* parts[] = {codes.data(), codes.data(), codes.data()};
  codec.Sum(parts, y.data(), 3);
  EXPECT_EQ(y, (std::vector<float>{3, 3, -9}));
}

TEST(Codec, RefusesWhatItCannotDo) {
  EXPECT_NE(ErrorOf([] { Compression::FromName("3bit", 0.5); }).find("'3bit'"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] { Compression::FromName("2bit", 0); }).find("threshold 0"),
            std::string::npos);
  EXPECT_NE(ErrorOf([] {
              Codec::Of(DType::kInt32, Compression::FromName("2bit", 1));
            }).find("int32"),
            std::string::npos);
  EXPECT_TRUE(Codec::Of(DType::kInt32, Compression::FromName("bfloat16", 1)).plain());
}

}  // namespace
}  // namespace plait
