// Blocked arrays: our own convolutions, normalisation and pooling against plain ones.

#include "cpu/blocked.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/blocked_conv.h"
#include "cpu/blocked_direct.h"
#include "cpu/blocked_for_test.h"
#include "cpu/conv_cases_for_test.h"
#include "cpu/each_target_for_test.h"
#include "cpu/norm.h"

namespace plait::cpu {
namespace {

constexpr double kTolerance = 2e-6;

Doubles Expected(const ConvProblem& p, const Buffers<float>& b, bool bias) {
  Doubles y(b.dy.size());
  for (size_t i = 0; bias && i < y.size(); ++i)
    y[i] = b.bias[static_cast<int64_t>(i) / p.OutSize() % p.out_channels];
  ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
    y[o] += double{b.x[x]} * b.weight[w];
  });
  return y;
}

// Without anything, with a bias, and with a bias, another array and bounds.
template <typename Run>
void ExpectForward(const ConvProblem& p, Run&& run) {
  SCOPED_TRACE(testing::Message()
               << "n " << p.batch << " ic " << p.in_channels << " oc " << p.out_channels
               << " in " << p.in[1] << "x" << p.in[2] << " k " << p.kernel[2] << " s "
               << p.stride[2] << " pad " << p.pad_low[2]);
  const Buffers<float> b(p);
  const Doubles plain = Expected(p, b, false), biased = Expected(p, b, true);
  Doubles bounded = biased;
  for (size_t i = 0; i < bounded.size(); ++i)
    bounded[i] = std::min(std::max(bounded[i] + double{b.dy[i]}, -0.25), 0.5);
  ForEachTarget([&] {
    const Blocked x = BlockedX(p, b.x), other = BlockedY(p, b.dy);
    for (const int threads : {1, 3}) {
      const ScopedComputeThreads scope(threads);
      Blocked y = BlockedY(p, b.dy);
      y.Fill(NAN);
      run(b, x, ConvFinish{}, y);
      ExpectNear(y.Plain(), plain, kTolerance, "y");
      y.ExpectZerosBeyondTheChannels();
      run(b, x, ConvFinish{.bias = b.bias.data()}, y);
      ExpectNear(y.Plain(), biased, kTolerance, "y with bias");
      y.ExpectZerosBeyondTheChannels();
      run(b, x,
          ConvFinish{.bias = b.bias.data(),
                     .other = other.data(),
                     .bounded = true,
                     .low = -0.25,
                     .high = 0.5},
          y);
      // Sums are up to 20 times larger than the bounds.
      ExpectNear(y.Plain(), bounded, 20 * kTolerance, "bounded y");
      Blocked same = other;
      run(b, x,
          ConvFinish{.bias = b.bias.data(),
                     .other = same.data(),
                     .bounded = true,
                     .low = -0.25,
                     .high = 0.5},
          same);
      EXPECT_TRUE(same == y) << "where y is what is added";
    }
  });
}

TEST(PixelConv, ForwardEqualsThePlainLoop) {
  for (const ConvProblem& p :
       {Plain(1, 1, 1, 1, 1, 1), Plain(2, 16, 5, 7, 32, 1), Plain(3, 17, 7, 7, 33, 1),
        Plain(1, 70, 13, 3, 5, 1), Plain(2, 300, 4, 5, 90, 1),
        Plain(1, 24, 20, 20, 40, 1), Plain(2, 20, 9, 8, 18, 1, 2),
        Plain(1, 33, 7, 7, 16, 1, 3)}) {
    ASSERT_TRUE(HasPixelConv(p, ConvPass::kForward));
    ExpectForward(p, [&](const Buffers<float>& b, const Blocked& x,
                         const ConvFinish& finish, Blocked& y) {
      std::vector<float> packed(PixelFilterSize(p, ConvPass::kForward), NAN);
      PackPixelFilters(p, ConvPass::kForward, b.weight.data(), packed.data());
      PixelConv(p, ConvPass::kForward, x.data(), packed.data(), finish, y.data());
    });
  }
}

TEST(PixelConv, DataGradientEqualsThePlainLoop) {
  for (const ConvProblem& p : {Plain(2, 16, 5, 7, 32, 1), Plain(3, 17, 7, 7, 33, 1),
                               Plain(1, 5, 13, 3, 70, 1)}) {
    const Buffers<float> b(p);
    Doubles expected(b.x.size());
    ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
      expected[x] += double{b.dy[o]} * b.weight[w];
    });
    ForEachTarget([&] {
      const ConvPass pass = ConvPass::kBackwardData;
      std::vector<float> packed(PixelFilterSize(p, pass), NAN);
      PackPixelFilters(p, pass, b.weight.data(), packed.data());
      Blocked dx = BlockedX(p, b.x);
      dx.Fill(NAN);
      PixelConv(p, pass, BlockedY(p, b.dy).data(), packed.data(), {}, dx.data());
      ExpectNear(dx.Plain(), expected, kTolerance, "dx");
    });
  }
  EXPECT_FALSE(HasPixelConv(Plain(2, 20, 9, 8, 18, 1, 2), ConvPass::kBackwardData));
  EXPECT_FALSE(HasPixelConv(Plain(2, 20, 9, 8, 18, 1, 1, 1), ConvPass::kForward));
  EXPECT_FALSE(HasPixelConv(Plain(2, 20, 9, 8, 18, 3), ConvPass::kForward));
}

TEST(DepthwiseConv, EqualsThePlainLoop) {
  const auto depthwise = [](int64_t n, int64_t c, int64_t h, int64_t w, int64_t k,
                            int64_t stride, int64_t pad) {
    return Plain(n, c, h, w, c, k, stride, pad, 1, c);
  };
  for (const ConvProblem& p :
       {depthwise(1, 2, 3, 3, 3, 1, 1), depthwise(2, 17, 7, 7, 3, 1, 1),
        depthwise(1, 32, 14, 15, 5, 1, 2), depthwise(1, 20, 9, 8, 3, 2, 1),
        depthwise(2, 33, 6, 30, 3, 1, 0), depthwise(1, 16, 60, 61, 3, 1, 1),
        depthwise(1, 8, 2, 2, 5, 1, 2)}) {
    ASSERT_TRUE(HasDepthwiseConv(p, ConvPass::kForward));
    ExpectForward(p, [&](const Buffers<float>& b, const Blocked& x,
                         const ConvFinish& finish, Blocked& y) {
      std::vector<float> packed(DepthwiseFilterSize(p), NAN);
      PackDepthwiseFilters(p, b.weight.data(), packed.data());
      DepthwiseConv(p, x.data(), packed.data(), finish, y.data());
    });
  }
}

TEST(WindowConv, EqualsThePlainLoop) {
  for (const ConvProblem& p :
       {Plain(1, 16, 7, 7, 32, 3, 1, 1), Plain(2, 17, 7, 7, 33, 3, 1, 1),
        Plain(1, 33, 14, 15, 16, 5, 1, 2), Plain(1, 20, 9, 8, 50, 3, 2, 1),
        Plain(2, 33, 6, 30, 7, 3, 1, 0), Plain(1, 16, 20, 21, 64, 3, 1, 2, 2),
        Plain(1, 130, 2, 2, 70, 5, 1, 2), Plain(1, 5, 40, 70, 20, 4, 3, 1),
        Plain(3, 200, 5, 5, 40, 1, 1, 0), Plain(1, 8, 90, 200, 8, 3, 1, 1)}) {
    ASSERT_TRUE(HasWindowConv(p, ConvPass::kForward, false));
    ExpectForward(p, [&](const Buffers<float>& b, const Blocked& x,
                         const ConvFinish& finish, Blocked& y) {
      std::vector<float> packed(WindowFilterSize(p, false), NAN);
      PackWindowFilters(p, false, b.weight.data(), packed.data());
      WindowConv(p, false, x.data(), packed.data(), finish, y.data());
    });
  }
}

TEST(WindowConv, ReadsPlainImages) {
  for (const ConvProblem& p :
       {Plain(1, 3, 30, 41, 20, 7, 2, 3), Plain(2, 1, 9, 9, 33, 3, 1, 1),
        Plain(1, 4, 60, 55, 64, 11, 4, 2), Plain(2, 2, 8, 100, 16, 5, 3, 0)}) {
    ASSERT_TRUE(HasWindowConv(p, ConvPass::kForward, true));
    ExpectForward(p, [&](const Buffers<float>& b, const Blocked&,
                         const ConvFinish& finish, Blocked& y) {
      std::vector<float> packed(WindowFilterSize(p, true), NAN);
      PackWindowFilters(p, true, b.weight.data(), packed.data());
      WindowConv(p, true, b.x.data(), packed.data(), finish, y.data());
    });
  }
  EXPECT_FALSE(HasWindowConv(Plain(1, 5, 9, 9, 8, 3), ConvPass::kForward, true));
  EXPECT_FALSE(HasWindowConv(Plain(1, 5, 9, 9, 8, 3), ConvPass::kBackwardData, false));
}

TEST(BlockedConv, AddsWhatYItselfHolds) {
  for (const ConvProblem& p : {Plain(2, 33, 7, 8, 40, 3), Plain(3, 300, 6, 5, 33, 1),
                               Plain(2, 20, 9, 8, 18, 1, 2)}) {
    const Buffers<float> b(p);
    for (const BlockedConv& how : BlockedConvWays(p, ConvPass::kForward)) {
      if (how.plain_x) continue;
      SCOPED_TRACE(NameOf(how.kind));
      const Blocked x = BlockedX(p, b.x), other = BlockedY(p, b.dy);
      Blocked y = other, same = other;
      ConvFinish finish{.bias = b.bias.data(), .other = other.data()};
      BlockedConvForward(p, how, x.data(), {b.weight.data(), nullptr}, finish,
                         y.data());
      finish.other = same.data();
      BlockedConvForward(p, how, x.data(), {b.weight.data(), nullptr}, finish,
                         same.data());
      EXPECT_TRUE(same == y);
    }
  }
}

TEST(PixelConv, KeepsNanWhereItIs) {
  const ConvProblem p = Plain(1, 8, 3, 3, 8, 1);
  Buffers<float> b(p);
  b.x[4] = NAN;
  std::vector<float> packed(PixelFilterSize(p, ConvPass::kForward));
  PackPixelFilters(p, ConvPass::kForward, b.weight.data(), packed.data());
  Blocked y = BlockedY(p, b.dy);
  const ConvFinish relu{
      .bounded = true, .low = 0, .high = std::numeric_limits<float>::infinity()};
  PixelConv(p, ConvPass::kForward, BlockedX(p, b.x).data(), packed.data(), relu,
            y.data());
  const std::vector<float> plain = y.Plain();
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(std::isnan(plain[i]), i % 9 == 4);
}

// ---------------------------------------------------------------- normalisation

TEST(BlockedChannelWindows, EqualPlainSums) {
  constexpr int64_t kBatch = 2, kChannels = 21, kSize = 6;
  const ConvProblem p = Plain(kBatch, kChannels, 2, 3, 1, 1);
  const Buffers<float> b(p);
  for (const int64_t window : {1, 5, 43}) {
    for (const float beta : {0.75f, 0.4f}) {
      Doubles sums(b.x.size()), normal(b.x.size());
      for (int64_t i = 0; i < static_cast<int64_t>(b.x.size()); ++i) {
        const int64_t c = i / kSize % kChannels;
        double squares = 0;
        for (int64_t k = -window / 2; k <= window / 2; ++k) {
          if (c + k < 0 || c + k >= kChannels) continue;
          const double v = b.x[i + k * kSize];
          sums[i] += v;
          squares += v * v;
        }
        normal[i] = b.x[i] * std::pow(2 + 0.3f * squares, -double{beta});
      }
      ForEachTarget([&] {
        const BlockedArray a{kBatch, kChannels, kSize, FloatLanes()};
        Blocked y = BlockedX(p, b.x);
        BlockedChannelWindows(a, {.window = window}, y.data(), y.data());
        ExpectNear(y.Plain(), sums, 2e-6, "sums");
        y.ExpectZerosBeyondTheChannels();
        y = BlockedX(p, b.x);
        BlockedChannelWindows(
            a,
            {.window = window, .normalise = true, .scale = 0.3f, .k = 2, .beta = beta},
            y.data(), y.data());
        ExpectNear(y.Plain(), normal, 2e-6, "normalised");
        y.ExpectZerosBeyondTheChannels();
      });
    }
  }
}

TEST(BlockedNorm, EqualsPlainNormalisation) {
  constexpr int64_t kBatch = 3, kChannels = 21, kSize = 35;
  constexpr double kEps = 1e-3;
  std::mt19937 random(3);
  std::normal_distribution<float> draw(5, 2);
  const auto numbers = [&](int64_t n) {
    std::vector<float> v(n);
    for (float& x : v) x = draw(random);
    return v;
  };
  const int64_t total = kBatch * kChannels * kSize;
  const std::vector<float> x = numbers(total), dy = numbers(total),
                           gamma = numbers(kChannels), beta = numbers(kChannels);
  const NormGroups groups{kChannels, kBatch, kChannels * kSize, kSize, kChannels, 1};
  std::vector<float> mean(kChannels), var(kChannels), y(total), dx(total),
      dgamma(kChannels), dbeta(kChannels), inverse(kChannels);
  NormForward(groups, kEps, x.data(), gamma.data(), beta.data(), mean.data(),
              var.data(), y.data());
  for (int64_t c = 0; c < kChannels; ++c)
    inverse[c] = static_cast<float>(1 / std::sqrt(double{var[c]} + kEps));
  // What relu passes on.
  std::vector<float> passed = dy;
  for (int64_t i = 0; i < total; ++i)
    if (!(y[i] > 0)) passed[i] = 0;
  NormBackward(groups, passed.data(), x.data(), gamma.data(), mean.data(),
               inverse.data(), dx.data(), dgamma.data(), dbeta.data());
  const auto doubles = [](const std::vector<float>& v) {
    return Doubles(v.begin(), v.end());
  };
  for (const int64_t block : {8, 16}) {
    const BlockedArray a{kBatch, kChannels, kSize, block};
    const auto blocked = [&](const std::vector<float>& plain) {
      std::vector<float> b(kBatch * a.blocks() * kSize * block, NAN);
      BlockChannels(a, plain.data(), b.data());
      return b;
    };
    const auto plain = [&](const std::vector<float>& b) {
      std::vector<float> p(total, NAN);
      UnblockChannels(a, b.data(), p.data());
      return p;
    };
    ForEachTarget([&] {
      std::vector<float> bx = blocked(x), by(bx.size()), bdx(bx.size()), m(kChannels),
                         v(kChannels), dg(kChannels), db(kChannels);
      BlockedNormForward(a, kEps, bx.data(), gamma.data(), beta.data(), false, m.data(),
                         v.data(), by.data());
      ExpectNear(m, doubles(mean), 1e-6, "mean");
      ExpectNear(v, doubles(var), 1e-6, "variance");
      ExpectNear(plain(by), doubles(y), 1e-6, "y");
      BlockedNormApply(a, bx.data(), gamma.data(), beta.data(), mean.data(),
                       inverse.data(), true, by.data());
      Doubles rectified = doubles(y);
      for (double& value : rectified) value = std::max(value, 0.0);
      ExpectNear(plain(by), rectified, 1e-6, "relu(y)");
      BlockedNormBackward(a, blocked(dy).data(), by.data(), bx.data(), gamma.data(),
                          mean.data(), inverse.data(), bdx.data(), dg.data(),
                          db.data());
      ExpectNear(plain(bdx), doubles(dx), 1e-5, "dx");
      ExpectNear(dg, doubles(dgamma), 1e-5, "dgamma");
      ExpectNear(db, doubles(dbeta), 1e-5, "dbeta");
    });
  }
}

// ---------------------------------------------------------------- pooling

TEST(BlockedPool, EqualsPlainPooling) {
  constexpr int64_t kChannels = 11;
  for (const auto& [kernel, stride, pad] :
       {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {5, 3, 0}}) {
    PoolPlanes p{2 * kChannels, 9, 12, 0, 0, kernel, kernel, stride, stride, pad, pad};
    p.out_h = (p.h + 2 * pad - kernel) / stride + 1;
    p.out_w = (p.w + 2 * pad - kernel) / stride + 1;
    std::mt19937 random(5);
    std::uniform_int_distribution<int> draw(-4, 4);  // there are equal maxima
    const auto numbers = [&](int64_t n) {
      std::vector<float> v(n);
      for (float& x : v) x = static_cast<float>(draw(random));
      return v;
    };
    const int64_t in = p.planes * p.h * p.w, out = p.planes * p.out_h * p.out_w;
    const std::vector<float> x = numbers(in), dy = numbers(out);
    std::vector<float> y(out), dx(in), mean(out), dmean(in);
    MaxPool(p, x.data(), y.data());
    MaxPoolBackward(p, dy.data(), x.data(), dx.data());
    SumPool(p, true, false, x.data(), mean.data());
    SumPoolBackward(p, true, false, dy.data(), dmean.data());
    const auto doubles = [](const std::vector<float>& v) {
      return Doubles(v.begin(), v.end());
    };
    for (const int64_t block : {8, 16}) {
      const BlockedArray a{2, kChannels, p.h * p.w, block},
          b{2, kChannels, p.out_h * p.out_w, block};
      PoolPlanes q = p;
      q.planes = 2 * a.blocks();
      const auto blocked = [](const BlockedArray& array, const std::vector<float>& v) {
        std::vector<float> to(array.batch * array.blocks() * array.size * array.block);
        BlockChannels(array, v.data(), to.data());
        return to;
      };
      const auto plain = [](const BlockedArray& array, const std::vector<float>& v) {
        std::vector<float> to(array.batch * array.channels * array.size);
        UnblockChannels(array, v.data(), to.data());
        return to;
      };
      ForEachTarget([&] {
        const std::vector<float> bx = blocked(a, x), bdy = blocked(b, dy);
        std::vector<float> by(bdy.size(), NAN), bdx(bx.size(), NAN);
        std::vector<uint8_t> index(by.size());
        BlockedMaxPool(q, block, bx.data(), by.data());
        ExpectNear(plain(b, by), doubles(y), 0, "max");
        BlockedPoolIndex(q, block, bx.data(), by.data(), index.data());
        BlockedPoolIndexBackward(q, block, bdy.data(), index.data(), bdx.data());
        ExpectNear(plain(a, bdx), doubles(dx), 0, "by index");
        BlockedMaxPoolBackward(q, block, bdy.data(), bx.data(), bdx.data());
        ExpectNear(plain(a, bdx), doubles(dx), 0, "max backward");
        BlockedSumPool(q, block, true, false, bx.data(), by.data());
        ExpectNear(plain(b, by), doubles(mean), 1e-6, "mean");
        BlockedSumPoolBackward(q, block, true, false, bdy.data(), bdx.data());
        ExpectNear(plain(a, bdx), doubles(dmean), 1e-6, "mean backward");
      });
    }
  }
}

}  // namespace
}  // namespace plait::cpu
