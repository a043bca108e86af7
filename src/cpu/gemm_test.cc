// Gemm: against a plain loop in float64, over dtypes, transposes, sizes and strides.

#include "cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"
#include "cpu/gemm_kernel.h"

namespace plait::cpu {
namespace {

struct Case {
  bool trans_a, trans_b;
  int64_t m, n, k;
  double alpha = 1, beta = 0;
  int64_t gap = 0;  // elements between stored rows
};

template <typename T>
struct Matrices {
  Matrices(const Case& c, uint32_t seed)
      : lda((c.trans_a ? c.m : c.k) + c.gap),
        ldb((c.trans_b ? c.k : c.n) + c.gap),
        ldc(c.n + c.gap),
        a(lda * (c.trans_a ? c.k : c.m) + 1),
        b(ldb * (c.trans_b ? c.n : c.k) + 1),
        c(ldc * c.m + 1) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> draw(std::is_unsigned_v<T> ? 0 : -8, 8);
    const double scale = std::is_integral_v<T> ? 1 : 0.125;
    const auto number = [&] { return static_cast<T>(float(draw(random) * scale)); };
    for (T& x : a) x = number();
    for (T& x : b) x = number();
    for (T& x : this->c) x = number();
  }
  int64_t lda, ldb, ldc;
  std::vector<T> a, b, c;
};

// All inputs are small multiples of 1/8, so sums are exact in float and double.
template <typename T>
std::vector<T> Expected(const Case& p, const Matrices<T>& x) {
  std::vector<T> c = x.c;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < p.k; ++q) {
        const T a = p.trans_a ? x.a[q * x.lda + i] : x.a[i * x.lda + q];
        const T b = p.trans_b ? x.b[j * x.ldb + q] : x.b[q * x.ldb + j];
        sum += static_cast<double>(a) * static_cast<double>(b);
      }
      T& out = c[i * x.ldc + j];
      const double old = p.beta == 0 ? 0 : p.beta * static_cast<double>(out);
      const double value = p.alpha * sum + old;
      if constexpr (std::is_integral_v<T>) {
        out = static_cast<T>(static_cast<int64_t>(value));
      } else if constexpr (std::is_arithmetic_v<T>) {
        out = static_cast<T>(value);
      } else {
        out = static_cast<T>(static_cast<float>(value));
      }
    }
  }
  return c;
}

template <typename T>
void Expect(const Case& p, int threads = 1) {
  SCOPED_TRACE(testing::Message()
               << Name(kDTypeOf<T>) << " " << p.trans_a << p.trans_b << " " << p.m
               << "x" << p.n << "x" << p.k << " gap " << p.gap << " beta " << p.beta);
  const ScopedComputeThreads scope(threads);
  Matrices<T> x(p, 7);
  const std::vector<T> expected = Expected(p, x);
  Gemm(p.trans_a, p.trans_b, p.m, p.n, p.k, p.alpha, x.a.data(), x.lda, x.b.data(),
       x.ldb, p.beta, x.c.data(), x.ldc);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(static_cast<double>(x.c[i]), static_cast<double>(expected[i]))
        << "element " << i;
  }
}

template <typename T>
class GemmTyped : public testing::Test {};
using AllTypes =
    testing::Types<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                   uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(GemmTyped, AllTypes);

TYPED_TEST(GemmTyped, EqualsThePlainLoopForSmallSizesAndAllTransposes) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int64_t m : {1, 2, 5, 13}) {
        for (const int64_t n : {1, 3, 16, 37}) {
          for (const int64_t k : {0, 1, 4, 19}) {
            Expect<TypeParam>({ta, tb, m, n, k});
            Expect<TypeParam>({ta, tb, m, n, k, 2, 1, 3});
          }
        }
      }
    }
  }
}

TYPED_TEST(GemmTyped, EqualsThePlainLoopForMediumSizesAndTwoThreads) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Expect<TypeParam>({ta, tb, 65, 70, 67}, 2);
      Expect<TypeParam>({ta, tb, 31, 129, 300, 1, 1, 5}, 2);
    }
  }
}

// C starts as garbage; with a bias and relu.
template <typename T>
void ExpectWithBias(const Case& p, int threads = 1) {
  SCOPED_TRACE(testing::Message() << Name(kDTypeOf<T>) << " " << p.trans_a << p.trans_b
                                  << " " << p.m << "x" << p.n << "x" << p.k);
  const ScopedComputeThreads scope(threads);
  const Matrices<T> x(p, 7);
  Matrices<T> rows = x;
  const std::vector<T> bias(x.c.begin(), x.c.begin() + p.n);
  for (int64_t i = 0; i < p.m; ++i)
    std::copy(bias.begin(), bias.end(), rows.c.begin() + i * x.ldc);
  Case with = p;
  for (const bool has_bias : {false, true}) {
    with.beta = has_bias ? 1 : 0;
    const std::vector<T> expected = Expected(with, rows);
    for (const bool relu : {false, true}) {
      std::vector<T> c = x.c;
      GemmBias(p.trans_a, p.trans_b, p.m, p.n, p.k, x.a.data(), x.lda, x.b.data(),
               x.ldb, has_bias ? bias.data() : nullptr, relu, c.data(), x.ldc);
      for (int64_t i = 0; i < p.m; ++i) {
        for (int64_t j = 0; j < p.n; ++j) {
          const double e = static_cast<double>(expected[i * x.ldc + j]);
          ASSERT_EQ(static_cast<double>(c[i * x.ldc + j]), relu && e < 0 ? 0 : e)
              << i << ' ' << j;
        }
      }
    }
  }
}

TYPED_TEST(GemmTyped, AddsABiasAndTakesTheRelu) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int64_t m : {1, 5, 33}) {
        for (const int64_t n : {1, 3, 16, 37}) {
          for (const int64_t k : {0, 4, 130})
            ExpectWithBias<TypeParam>({ta, tb, m, n, k});
        }
      }
      ExpectWithBias<TypeParam>({ta, tb, 31, 129, 300, 1, 0, 5}, 2);
    }
  }
}

TEST(Gemm, AddsABiasOnEveryTarget) {
  ForEachTarget([] {
    for (const bool tb : {false, true}) {
      ExpectWithBias<float>({false, tb, 40, 37, 600});
      ExpectWithBias<float>({false, tb, 1, 37, 60});
      ExpectWithBias<double>({false, tb, 40, 37, 60, 1, 0, 3});
      ExpectWithBias<float>({false, tb, 130, 140, 160}, 2);
    }
  });
}

TEST(Gemm, EqualsThePlainLoopForLargeSizes) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int threads : {1, 2, 3}) {
        Expect<float>({ta, tb, 150, 161, 530, 1, 1}, threads);
        Expect<double>({ta, tb, 150, 161, 530, 0.5, 0, 7}, threads);
        Expect<Bfloat16>({ta, tb, 150, 161, 530, 1, 0, 1}, threads);
      }
      Expect<double>({ta, tb, 17, 1100, 64, 1, 0});
      Expect<float>({ta, tb, 2000, 1, 700, 1, 0}, 2);
      Expect<double>({ta, tb, 1, 2000, 700, 1, 1}, 2);
      Expect<double>({ta, tb, 128, 128, 256, 1, 0}, 2);  // rows a power of two apart
    }
  }
}

// The own kernel, whatever Gemm would choose.
template <typename T>
void ExpectOwn(const Case& p, int threads) {
  SCOPED_TRACE(testing::Message() << Name(kDTypeOf<T>) << " " << p.trans_a << p.trans_b
                                  << " " << p.m << "x" << p.n << "x" << p.k);
  const ScopedComputeThreads scope(threads);
  const Matrices<T> x(p, 7);
  std::vector<T> c = x.c;
  OwnGemm(GemmProblem<T>{p.trans_a, p.trans_b, p.m, p.n, p.k, T(p.alpha), x.a.data(),
                         x.lda, x.b.data(), x.ldb, T(p.beta), c.data(), x.ldc});
  EXPECT_EQ(c, Expected(p, x));
}

TEST(Gemm, OwnKernelTakesLongSumsInPiecesFewRowsInPlaceAndShortSumsByRows) {
  ForEachTarget([] {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        ExpectOwn<float>({ta, tb, 101, 70, 1030, 1, 0, 3}, 2);
        ExpectOwn<double>({ta, tb, 110, 40, 1030, -1, 1}, 1);
        ExpectOwn<float>({ta, tb, 20, 130, 1100, 1, 1, 1}, 1);
        ExpectOwn<float>({ta, tb, 210, 270, 20, -1, 0}, 2);
        ExpectOwn<double>({ta, tb, 130, 300, 100, 0.5, 1, 5}, 1);
        ExpectOwn<float>({ta, tb, 24, 30, 1100, 1, 0, 2}, 1);  // rows of B as of panels
      }
    }
  });
}

// What the portable build runs at every size, also where oneDNN is there.
TEST(Gemm, AFewRowsTimesALargeTransposeEqualThePlainLoop) {
  for (const int64_t m : {1, 2, 3, 5, 16, 32}) {
    for (const int64_t k : {1030, 2048}) {
      Expect<float>({false, true, m, 1031, k, 1, 0, 3}, 2);
      Expect<float>({false, true, m, 1100, k, 0.5, 1, 0}, 3);
      ExpectWithBias<float>({false, true, m, 1025, k}, 2);
    }
  }
}

TEST(Gemm, OwnKernelEqualsThePlainLoopForLargeFloats) {
  ForEachTarget([] {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Case p{ta, tb, 250, 1300, 270, 1, 1};
        Matrices<float> x(p, 3);
        const std::vector<float> expected = Expected(p, x);
        const ScopedComputeThreads scope(2);
        OwnGemm(GemmProblem<float>{ta, tb, p.m, p.n, p.k, 1, x.a.data(), x.lda,
                                   x.b.data(), x.ldb, 1, x.c.data(), x.ldc});
        EXPECT_EQ(x.c, expected);
      }
    }
  });
}

TEST(Gemm, EqualsThePlainLoopOnEveryInstructionSet) {
  ForEachTarget([] {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const int64_t n : {1, 3, 8, 29, 64}) {
          Expect<float>({ta, tb, 7, n, 11, 2, 1, 1});
          Expect<double>({ta, tb, 14, n, 300, 1, 0, 0});
          Expect<double>({ta, tb, 101, n, 300, 1, 1, 2}, 2);
          Expect<float>({ta, tb, n, 90, 90, 1, 0, 0}, 2);
        }
      }
    }
  });
}

template <typename T>
void ExpectSameBits(const Case& c) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  std::vector<T> a(c.m * c.k), b(c.k * c.n), one(c.m * c.n), many(c.m * c.n);
  for (T& x : a) x = draw(random);
  for (T& x : b) x = draw(random);
  GemmProblem<T> p{c.trans_a, c.trans_b, c.m, c.n, c.k, 1, a.data()};
  p.lda = c.trans_a ? c.m : c.k;
  p.b = b.data();
  p.ldb = c.trans_b ? c.k : c.n;
  p.ldc = c.n;
  p.c = one.data();
  OwnGemm(p);
  for (const int threads : {2, 3, 8}) {
    const ScopedComputeThreads scope(threads);
    p.c = many.data();
    OwnGemm(p);
    EXPECT_EQ(one, many) << c.m << 'x' << c.n << 'x' << c.k << ", " << threads;
  }
}

TEST(Gemm, ResultOfOwnKernelIsTheSameForAnyNumberOfThreads) {
  for (const Case& c : std::vector<Case>{{false, false, 333, 517, 401},
                                         {false, true, 33, 32, 2049},
                                         {false, true, 32, 32, 4100},
                                         {true, false, 24, 96, 1025},
                                         {true, false, 97, 97, 1025},
                                         {false, false, 129, 63, 1025}}) {
    ExpectSameBits<float>(c);
    ExpectSameBits<double>(c);
  }
}

TEST(Gemm, IgnoresWhatCHoldsWhenBetaIsZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : {3, 40, 200}) {
    std::vector<float> a(n * n, 1), c(n * n, nan);
    Gemm(false, false, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    for (const float x : c) ASSERT_EQ(x, static_cast<float>(n));
    std::fill(c.begin(), c.end(), nan);
    Gemm(false, true, n, n, int64_t{0}, 1, a.data(), n, a.data(), n, 0, c.data(), n);
    for (const float x : c) ASSERT_EQ(x, 0);
  }
}

TEST(Gemm, Bfloat16MatricesGiveFloats) {
  const Case p{false, true, 40, 50, 70, 1, 0, 3};
  for (const double beta : {0.0, 1.0, 0.5}) {
    const Matrices<Bfloat16> x(p, 5);
    std::vector<float> c(x.c.size(), 2), expected = c;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = beta * 2;
        for (int64_t q = 0; q < p.k; ++q) {
          sum += double{x.a[i * x.lda + q]} * x.b[j * x.ldb + q];
        }
        expected[i * x.ldc + j] = static_cast<float>(sum);
      }
    }
    GemmToFloat(false, true, p.m, p.n, p.k, 1, x.a.data(), x.lda, x.b.data(), x.ldb,
                beta, c.data(), x.ldc);
    EXPECT_EQ(c, expected);
  }
}

TEST(Gemm, Bfloat16EqualsThePlainLoopInPanelsOfEverySize) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const int64_t m : {9, 12, 25, 131}) {
        for (const int64_t n : {9, 31, 32, 49, 300}) {
          Expect<Bfloat16>({ta, tb, m, n, 33});
          Expect<Bfloat16>({ta, tb, m, n, 64, 2, 1, 3}, 2);
        }
      }
      // Sums in pieces.
      Expect<Bfloat16>({ta, tb, 30, 45, 4097, 1, 1, 1});
      Expect<Bfloat16>({ta, tb, 13, 300, 8200}, 2);
    }
  }
}

TEST(Gemm, DoesNothingForAnEmptyResult) {
  float c = 5;
  Gemm<float>(false, false, 0, 4, 4, 1, nullptr, 4, nullptr, 4, 0, &c, 4);
  Gemm<float>(false, false, 4, 0, 4, 1, nullptr, 4, nullptr, 4, 0, &c, 4);
  EXPECT_EQ(c, 5);
}

TEST(Gemm, PassesNanAndInfinityOn) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {inf, 0, 0, NAN}, b = {1, 2, 3, 4};
  std::vector<float> c(4);
  Gemm(false, false, 2, 2, 2, 1, a.data(), 2, b.data(), 2, 0, c.data(), 2);
  EXPECT_EQ(c[0], inf);
  EXPECT_EQ(c[1], inf);
  EXPECT_TRUE(std::isnan(c[2]));
  EXPECT_TRUE(std::isnan(c[3]));
}

TEST(Gemm, IntegersWrap) {
  const std::vector<int8_t> a = {100, 100}, b = {2, 3};
  std::vector<int8_t> c(1);
  Gemm(false, false, 1, 1, 2, 1, a.data(), 2, b.data(), 1, 0, c.data(), 1);
  EXPECT_EQ(c[0], static_cast<int8_t>(500));
  const std::vector<uint16_t> big = {65535};
  std::vector<uint16_t> product(1);
  Gemm(false, false, 1, 1, 1, 1, big.data(), 1, big.data(), 1, 0, product.data(), 1);
  EXPECT_EQ(product[0], 1);
}

TEST(Gemm, HalvesAddUpInFloat) {
  const int64_t k = 4096;
  const std::vector<Float16> ones(k, Float16(1.0f));
  Float16 half;
  Gemm(false, false, 1, 1, k, 1, ones.data(), k, ones.data(), 1, 0, &half, 1);
  EXPECT_EQ(static_cast<float>(half), 4096.0f);
  const std::vector<Bfloat16> parts(k, Bfloat16(1.0f));
  float sum = 0.5f;
  GemmToFloat(false, true, 1, 1, k - 1, 1, parts.data(), k, parts.data(), k, 2, &sum,
              1);
  EXPECT_EQ(sum, 4096.0f);
}

TEST(Gemm, BatchEqualsOneByOneAndMayShareAMatrix) {
  for (const int64_t n : {4, 33, 160}) {
    for (const int threads : {1, 2}) {
      const ScopedComputeThreads scope(threads);
      const int64_t batch = n == 160 ? 1 : 7, size = n * n;
      std::vector<float> a(batch * size), b(size), c(batch * size), one(size);
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
      GemmBatch(batch, false, true, n, n, n, 1, a.data(), n, size, b.data(), n, 0, 0,
                c.data(), n, size);
      for (int64_t i = 0; i < batch; ++i) {
        Gemm(false, true, n, n, n, 1, &a[i * size], n, b.data(), n, 0, one.data(), n);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), &c[i * size]));
      }
    }
  }
  GemmBatch<float>(0, false, false, 2, 2, 2, 1, nullptr, 2, 4, nullptr, 2, 4, 0,
                   nullptr, 2, 4);
}

}  // namespace
}  // namespace plait::cpu
