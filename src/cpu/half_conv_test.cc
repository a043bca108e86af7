// Blocked arrays of bfloat16 against sums in float64: convolution, norms, pooling.

#include "cpu/half_conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/blocked.h"
#include "cpu/conv_cases_for_test.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

template <typename T>
using Halves = std::vector<T>;

// Numbers that T has.
template <typename T>
Halves<T> Random(int64_t n, int seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Halves<T> v(static_cast<size_t>(n));
  for (T& value : v) value = T(draw(random));
  return v;
}
template <typename T>
double Double(T v) {
  return double{static_cast<float>(v)};
}

// Each element is rounded once; sums in float have errors of their own.
template <typename T>
void ExpectRounded(const Halves<T>& got, const Doubles& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::fabs(e));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(Double(got[i]), expected[i],
                std::fabs(expected[i]) / 256 + 2e-5 * largest)
        << what << ", element " << i;
  }
}

template <typename T>
Halves<T> Block(const Halves<T>& plain, int64_t batch, int64_t channels, int64_t size) {
  const BlockedArray a{batch, channels, size, ChannelBlock()};
  Halves<T> b(static_cast<size_t>(batch * a.blocks() * size * a.block), T(NAN));
  BlockChannels(a, plain.data(), b.data());
  return b;
}
template <typename T>
Halves<T> Unblock(const Halves<T>& b, int64_t batch, int64_t channels, int64_t size) {
  const BlockedArray a{batch, channels, size, ChannelBlock()};
  Halves<T> plain(static_cast<size_t>(batch * channels * size), T(NAN));
  UnblockChannels(a, b.data(), plain.data());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = channels; c < a.blocks() * a.block; ++c)
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = (n * a.blocks() + c / a.block) * size + i;
        EXPECT_EQ(Double(b[at * a.block + c % a.block]), 0) << "filling " << c;
      }
  return plain;
}

template <typename T>
struct Case {
  explicit Case(const ConvProblem& problem)
      : p(problem),
        x(Random<T>(p.batch * p.in_channels * p.InSize(), 1)),
        weight(Random<T>(WeightSize(p), 2)),
        bias(Random<T>(p.out_channels, 3)),
        dy(Random<T>(p.batch * p.out_channels * p.OutSize(), 4)) {}
  Halves<T> X(const Halves<T>& plain, bool is_plain) const {
    return is_plain ? plain : Block(plain, p.batch, p.in_channels, p.InSize());
  }
  Halves<T> Y(const Halves<T>& plain) const {
    return Block(plain, p.batch, p.out_channels, p.OutSize());
  }
  Halves<T> PlainX(const Halves<T>& b) const {
    return Unblock(b, p.batch, p.in_channels, p.InSize());
  }
  Halves<T> PlainY(const Halves<T>& b) const {
    return Unblock(b, p.batch, p.out_channels, p.OutSize());
  }
  ConvProblem p;
  Halves<T> x, weight, bias, dy;
};

std::vector<ConvProblem> Problems() {
  return {Plain(1, 16, 1, 1, 16, 1),
          Plain(2, 16, 5, 7, 32, 1),
          Plain(3, 17, 7, 7, 33, 1),
          Plain(2, 600, 4, 5, 90, 1),
          Plain(2, 20, 9, 8, 18, 1, 2),
          Plain(1, 33, 7, 7, 16, 1, 3),
          Plain(2, 32, 14, 14, 48, 3),
          Plain(3, 17, 9, 13, 33, 3, 1, 1),
          Plain(2, 32, 15, 15, 32, 3, 2, 1),
          Plain(2, 3, 20, 20, 32, 7, 2, 3),
          Plain(1, 32, 9, 9, 32, 3, 1, 1, 1, 32),
          Plain(1, 32, 10, 9, 40, 5, 1, 2)};
}

template <typename T>
class HalfConv : public testing::Test {};
using HalfTypes = testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(HalfConv, HalfTypes);

TYPED_TEST(HalfConv, ForwardIsRoundedOnce) {
  using T = TypeParam;
  for (const ConvProblem& p : Problems()) {
    const Case<T> c(p);
    for (const cpu::HalfConv& how : HalfConvWays(p, ConvPass::kForward, kDTypeOf<T>)) {
      SCOPED_TRACE(testing::Message() << "kind " << int{how.kind} << " in "
                                      << p.in_channels << " out " << p.out_channels);
      Doubles plain(c.dy.size()), full(c.dy.size());
      ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
        plain[o] += Double(c.x[x]) * Double(c.weight[w]);
      });
      for (size_t i = 0; i < full.size(); ++i) {
        const int64_t channel = static_cast<int64_t>(i) / p.OutSize() % p.out_channels;
        const double sum = plain[i] + Double(c.bias[channel]) + Double(c.dy[i]);
        full[i] = std::min(std::max(sum, 0.0), 6.0);
      }
      const Halves<T> x = c.X(c.x, how.plain_x), other = c.Y(c.dy);
      Halves<T> packed(static_cast<size_t>(how.packed) + 32);
      // As aligned as floats that lie in it must be.
      T* filters = packed.data();
      while (reinterpret_cast<uintptr_t>(filters) % 64 != 0) ++filters;
      PackHalfFilters(p, ConvPass::kForward, how, c.weight.data(), filters);
      Halves<T> first;
      for (const int threads : {1, 3}) {
        const ScopedComputeThreads scope(threads);
        Halves<T> y(other.size(), T(NAN));
        HalfConvForward<T>(p, how, x.data(), {c.weight.data(), nullptr}, {}, y.data());
        ExpectRounded(c.PlainY(y), plain, "y");
        HalfConvForward<T>(p, how, x.data(), {nullptr, filters},
                           {.bias = c.bias.data(),
                            .other = other.data(),
                            .bounded = true,
                            .low = 0,
                            .high = 6},
                           y.data());
        // Kernels of others round before the rest is added.
        if (how.kind != cpu::HalfConv::kOneDnn)
          ExpectRounded(c.PlainY(y), full, "full y");
        Halves<T> same = other;  // where y is what is added
        HalfConvForward<T>(p, how, x.data(), {nullptr, filters},
                           {.bias = c.bias.data(),
                            .other = same.data(),
                            .bounded = true,
                            .low = 0,
                            .high = 6},
                           same.data());
        EXPECT_EQ(0, std::memcmp(same.data(), y.data(), y.size() * sizeof(T)));
        if (first.empty()) first = y;
        EXPECT_EQ(0, std::memcmp(first.data(), y.data(), y.size() * sizeof(T)));
      }
    }
  }
}

TYPED_TEST(HalfConv, GradientsAreRoundedOnce) {
  using T = TypeParam;
  for (const ConvProblem& p : Problems()) {
    const Case<T> c(p);
    SCOPED_TRACE(testing::Message()
                 << "in " << p.in_channels << " out " << p.out_channels);
    Doubles dx(c.x.size()), dw(c.weight.size());
    ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
      dx[x] += Double(c.dy[o]) * Double(c.weight[w]);
      dw[w] += Double(c.dy[o]) * Double(c.x[x]);
    });
    const Halves<T> dy = c.Y(c.dy);
    for (const cpu::HalfConv& how :
         HalfConvWays(p, ConvPass::kBackwardData, kDTypeOf<T>)) {
      SCOPED_TRACE(NameOf(how.kind));
      Halves<T> got = c.X(c.x, false);
      HalfConvBackwardData<T>(p, how, dy.data(), {c.weight.data(), nullptr},
                              got.data());
      ExpectRounded(c.PlainX(got), dx, "dx");
    }
    for (const cpu::HalfConv& how :
         HalfConvWays(p, ConvPass::kBackwardWeight, kDTypeOf<T>)) {
      SCOPED_TRACE(NameOf(how.kind));
      Halves<T> got(c.weight.size(), T(NAN));
      HalfConvBackwardWeight<T>(p, how, c.X(c.x, how.plain_x).data(), dy.data(),
                                got.data());
      ExpectRounded(got, dw, "dweight");
    }
  }
}

TYPED_TEST(HalfConv, PixelsKeepNanAndRectifyTheRest) {
  using T = TypeParam;
  const ConvProblem p = Plain(1, 16, 3, 3, 16, 1);
  const auto how = FindHalfConv(p, ConvPass::kForward, kDTypeOf<T>);
  if (!how) GTEST_SKIP() << "no blocks here";
  Case<T> c(p);
  c.x[4] = T(NAN);
  Halves<T> y(16 * 9);
  HalfConvForward<T>(
      p, *how, c.X(c.x, false).data(), {c.weight.data(), nullptr},
      {.bounded = true, .low = 0, .high = std::numeric_limits<float>::infinity()},
      y.data());
  const Halves<T> plain = c.PlainY(y);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(std::isnan(Double(plain[i])), i % 9 == 4);
    EXPECT_FALSE(Double(plain[i]) < 0);
  }
}

// Of floats that a half type has, float kernels give what is rounded here.
template <typename T>
class HalfBlocked : public testing::Test {};
TYPED_TEST_SUITE(HalfBlocked, HalfTypes);

TYPED_TEST(HalfBlocked, NormsAndPoolingAreTheFloatOnesRounded) {
  using T = TypeParam;
  constexpr int64_t kChannels = 21, kBatch = 2, kBlock = 16;
  PoolPlanes pool{kBatch * 2, 9, 12, 5, 6, 3, 3, 2, 2, 1, 1};
  const BlockedArray a{kBatch, kChannels, pool.h * pool.w, kBlock};
  const int64_t n = kBatch * a.blocks() * a.size * kBlock;
  const int64_t m = pool.planes * pool.out_h * pool.out_w * kBlock;
  const Halves<T> x = Random<T>(n, 5), dy = Random<T>(n, 6), dpool = Random<T>(m, 7);
  const auto floats = [](const Halves<T>& h) {
    return std::vector<float>(h.begin(), h.end());
  };
  const auto same = [](const Halves<T>& got, const std::vector<float>& wide) {
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(T(wide[i]))) << i;
  };
  const std::vector<float> gamma(kChannels, 1.5f), beta(kChannels, 0.25f);
  ForEachTarget([&] {
    std::vector<float> mean(kChannels), var(kChannels), hmean(kChannels),
        hvar(kChannels), y(n), dx(n), inverse(kChannels), dgamma(kChannels),
        dbeta(kChannels), hgamma(kChannels), hbeta(kChannels);
    Halves<T> hy(n), hdx(n);
    BlockedNormForward(a, 1e-3, floats(x).data(), gamma.data(), beta.data(), true,
                       mean.data(), var.data(), y.data());
    BlockedNormForward(a, 1e-3, x.data(), gamma.data(), beta.data(), true, hmean.data(),
                       hvar.data(), hy.data());
    EXPECT_EQ(mean, hmean);
    EXPECT_EQ(var, hvar);
    same(hy, y);
    for (int64_t c = 0; c < kChannels; ++c) inverse[c] = 1 / std::sqrt(var[c] + 1e-3f);
    BlockedNormBackward(a, floats(dy).data(), floats(hy).data(), floats(x).data(),
                        gamma.data(), mean.data(), inverse.data(), dx.data(),
                        dgamma.data(), dbeta.data());
    BlockedNormBackward(a, dy.data(), hy.data(), x.data(), gamma.data(), mean.data(),
                        inverse.data(), hdx.data(), hgamma.data(), hbeta.data());
    same(hdx, dx);
    EXPECT_EQ(dgamma, hgamma);
    EXPECT_EQ(dbeta, hbeta);

    std::vector<float> py(m);
    Halves<T> hpy(m);
    BlockedMaxPool(pool, kBlock, floats(x).data(), py.data());
    BlockedMaxPool(pool, kBlock, x.data(), hpy.data());
    same(hpy, py);
    BlockedMaxPoolBackward(pool, kBlock, floats(dpool).data(), floats(x).data(),
                           dx.data());
    BlockedMaxPoolBackward(pool, kBlock, dpool.data(), x.data(), hdx.data());
    same(hdx, dx);
    std::vector<uint8_t> index(m);
    BlockedPoolIndex(pool, kBlock, x.data(), hpy.data(), index.data());
    BlockedPoolIndexBackward(pool, kBlock, dpool.data(), index.data(), hdx.data());
    same(hdx, dx);
    BlockedSumPool(pool, kBlock, true, false, floats(x).data(), py.data());
    BlockedSumPool(pool, kBlock, true, false, x.data(), hpy.data());
    same(hpy, py);
    BlockedSumPoolBackward(pool, kBlock, true, false, floats(dpool).data(), dx.data());
    BlockedSumPoolBackward(pool, kBlock, true, false, dpool.data(), hdx.data());
    same(hdx, dx);
  });
}

}  // namespace
}  // namespace plait::cpu
