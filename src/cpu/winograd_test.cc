// Winograd's convolution against the plain loop in float64.

#include "cpu/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked_for_test.h"
#include "cpu/conv_cases_for_test.h"
#include "cpu/each_target_for_test.h"
#include "cpu/scratch.h"

namespace plait::cpu {
namespace {

ConvProblem Padded(ConvProblem p, int64_t top, int64_t bottom, int64_t left,
                   int64_t right) {
  p.pad_low = {0, top, left};
  p.pad_high = {0, bottom, right};
  return p;
}

std::vector<ConvProblem> Problems() {
  const auto plain = [](int64_t n, int64_t ic, int64_t h, int64_t w, int64_t oc,
                        int64_t pad) { return Plain(n, ic, h, w, oc, 3, 1, pad); };
  return {plain(1, 1, 3, 3, 1, 0),
          plain(1, 1, 1, 1, 1, 1),
          plain(1, 16, 8, 8, 16, 1),
          plain(2, 32, 14, 14, 48, 1),
          plain(3, 17, 7, 7, 33, 1),
          plain(2, 5, 9, 13, 7, 2),
          plain(1, 3, 30, 31, 20, 0),
          plain(1, 32, 28, 28, 64, 1),
          plain(5, 40, 6, 5, 8, 1),
          plain(1, 70, 10, 11, 90, 1),
          Padded(plain(2, 9, 10, 12, 18, 0), 0, 2, 1, 0),
          Padded(plain(1, 20, 5, 4, 12, 0), 2, 1, 0, 2)};
}

struct Case {
  explicit Case(const ConvProblem& problem) : p(problem), b(p) {}
  std::vector<float> Filters(ConvPass pass) const {
    std::vector<float> u(WinogradFilterBytes(p, pass) / sizeof(float), NAN);
    WinogradFilters(p, pass, b.weight.data(), u.data());
    return u;
  }
  Doubles Expected(bool bias) const {
    Doubles y(b.dy.size());
    for (size_t i = 0; bias && i < y.size(); ++i) {
      y[i] = b.bias[static_cast<int64_t>(i) / p.OutSize() % p.out_channels];
    }
    ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
      y[o] += double{b.x[x]} * b.weight[w];
    });
    return y;
  }
  ConvProblem p;
  Buffers<float> b;
};

constexpr double kTolerance = 5e-6;

// Calls make(case) for each problem, and what it returns for each target and some
// numbers of threads.
template <typename F>
void ForEachCase(F&& make) {
  for (const ConvProblem& p : Problems()) {
    SCOPED_TRACE(testing::Message()
                 << "n " << p.batch << " ic " << p.in_channels << " oc "
                 << p.out_channels << " in " << p.in[1] << "x" << p.in[2] << " pad "
                 << p.pad_low[1] << "," << p.pad_low[2]);
    ASSERT_TRUE(HasWinograd(p));
    const Case c(p);
    const auto run = make(c);
    ForEachTarget([&] {
      for (const int threads : {1, 3}) {
        const ScopedComputeThreads scope(threads);
        run();
      }
    });
  }
}

Doubles Relu(Doubles values) {
  for (double& v : values) v = std::max(0.0, v);
  return values;
}

TEST(Winograd, ForwardEqualsThePlainLoop) {
  ForEachCase([](const Case& c) {
    const Doubles plain = c.Expected(false), biased = c.Expected(true);
    Doubles sum = biased;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += c.b.dy[i];
    return [=, &c] {
      const Blocked x = BlockedX(c.p, c.b.x);
      Blocked y = BlockedY(c.p, c.b.dy);
      const auto u = c.Filters(ConvPass::kForward);
      const float* const bias = c.b.bias.data();
      // The sum may be the result itself.
      WinogradForward<float>(c.p, x.data(), nullptr, u.data(), bias, y.data(), true,
                             y.data());
      ExpectNear(y.Plain(), Relu(sum), kTolerance, "relu(y + bias + sum)");
      y.ExpectZerosBeyondTheChannels();

      y.Fill(NAN);
      WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, false,
                             y.data());
      ExpectNear(y.Plain(), plain, kTolerance, "y");
      y.ExpectZerosBeyondTheChannels();

      y.Fill(NAN);
      WinogradForward<float>(c.p, x.data(), nullptr, u.data(), bias, nullptr, true,
                             y.data());
      ExpectNear(y.Plain(), Relu(biased), kTolerance, "relu(y + bias)");

      std::vector<float> plain_y(c.b.dy.size(), NAN);
      WinogradForward<float>(c.p, c.b.x.data(), nullptr, u.data(), bias, nullptr, true,
                             plain_y.data(), ImageLayout::kPlain);
      EXPECT_EQ(plain_y, y.Plain());
    };
  });
}

TEST(Winograd, BackwardDataEqualsThePlainLoop) {
  ForEachCase([](const Case& c) {
    Doubles expected(c.b.x.size());
    ForEachProduct(c.p, [&](int64_t x, int64_t w, int64_t o) {
      expected[x] += double{c.b.dy[o]} * c.b.weight[w];
    });
    return [=, &c] {
      const Blocked dy = BlockedY(c.p, c.b.dy);
      Blocked dx = BlockedX(c.p, c.b.x);
      dx.Fill(NAN);
      const auto u = c.Filters(ConvPass::kBackwardData);
      WinogradBackwardData<float>(c.p, dy.data(), nullptr, u.data(), dx.data());
      ExpectNear(dx.Plain(), expected, kTolerance, "dx");
      dx.ExpectZerosBeyondTheChannels();

      std::vector<float> plain_dx(c.b.x.size(), NAN);
      WinogradBackwardData<float>(c.p, c.b.dy.data(), nullptr, u.data(),
                                  plain_dx.data(), ImageLayout::kPlain);
      EXPECT_EQ(plain_dx, dx.Plain());
    };
  });
}

TEST(Winograd, BackwardWeightEqualsThePlainLoop) {
  ForEachCase([](const Case& c) {
    Doubles weight(c.b.weight.size()), bias(c.b.bias.size());
    ForEachProduct(c.p, [&](int64_t x, int64_t w, int64_t o) {
      weight[w] += double{c.b.dy[o]} * c.b.x[x];
    });
    for (size_t i = 0; i < c.b.dy.size(); ++i) {
      bias[static_cast<int64_t>(i) / c.p.OutSize() % c.p.out_channels] += c.b.dy[i];
    }
    return [=, &c] {
      const Blocked x = BlockedX(c.p, c.b.x), dy = BlockedY(c.p, c.b.dy);
      std::vector<float> dw(weight.size(), NAN), db(bias.size(), NAN);
      WinogradBackwardWeight<float>(c.p, x.data(), dy.data(), dw.data(), db.data());
      ExpectNear(dw, weight, kTolerance, "dweight");
      ExpectNear(db, bias, kTolerance, "dbias");
      std::vector<float> plain_dw(weight.size(), NAN), plain_db(bias.size(), NAN);
      WinogradBackwardWeight<float>(c.p, c.b.x.data(), c.b.dy.data(), plain_dw.data(),
                                    plain_db.data(), ImageLayout::kPlain);
      EXPECT_EQ(plain_dw, dw);
      EXPECT_EQ(plain_db, db);
      std::fill(dw.begin(), dw.end(), NAN);
      WinogradBackwardWeight<float>(c.p, x.data(), dy.data(), dw.data(), nullptr);
      ExpectNear(dw, weight, kTolerance, "dweight without dbias");
    };
  });
}

TEST(Winograd, BackwardWeightOfManyTilesAndFiltersEqualsTheOneInFloat64) {
  for (const ConvProblem& p :
       {Plain(3, 3, 90, 91, 5, 3, 1, 1), Plain(3, 150, 38, 38, 200, 3, 1, 1)}) {
    const Case c(p);
    const Doubles plain_x(c.b.x.begin(), c.b.x.end());
    const Doubles plain_dy(c.b.dy.begin(), c.b.dy.end());
    Doubles weight(c.b.weight.size());
    ConvBackwardWeight<double>(p, plain_x.data(), plain_dy.data(), weight.data(),
                               nullptr, ConvAlgorithm::kGemm);
    const Blocked x = BlockedX(p, c.b.x), dy = BlockedY(p, c.b.dy);
    std::vector<float> dw(weight.size(), NAN), first;
    for (const int threads : {1, 3, 4, 9}) {
      const ScopedComputeThreads scope(threads);
      WinogradBackwardWeight<float>(p, x.data(), dy.data(), dw.data(), nullptr);
      ExpectNear(dw, weight, kTolerance, "dweight");
      if (first.empty()) first = dw;
      EXPECT_EQ(first, dw) << threads;
    }
  }
}

TEST(Winograd, Float64EqualsThePlainLoop) {
  for (const ConvProblem& p : Problems()) {
    ForEachTarget([&] {
      for (const int threads : {1, 3})
        ExpectAllPasses<double>(p, ConvAlgorithm::kWinograd, 2e-14, threads);
    });
  }
}

TEST(Winograd, GivesTheSameBitsForAnyNumberOfThreads) {
  const Case c(Plain(3, 40, 30, 30, 50, 3, 1, 1));
  const Blocked x = BlockedX(c.p, c.b.x);
  const auto u = c.Filters(ConvPass::kForward);
  Blocked expected = BlockedY(c.p, c.b.dy), y = expected;
  WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, false,
                         expected.data());
  const Blocked dy = expected;
  std::vector<float> expected_dw(c.b.weight.size()), dw = expected_dw, db(50), db1(50);
  WinogradBackwardWeight<float>(c.p, x.data(), dy.data(), expected_dw.data(),
                                db1.data());
  for (const int threads : {2, 3, 7, 40}) {
    const ScopedComputeThreads scope(threads);
    y.Fill(NAN);
    WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, false,
                           y.data());
    EXPECT_TRUE(expected == y) << threads;
    WinogradBackwardWeight<float>(c.p, x.data(), dy.data(), dw.data(), db.data());
    EXPECT_EQ(expected_dw, dw);
    EXPECT_EQ(db1, db);
  }
}

TEST(Winograd, FiltersThatAreNotKeptGiveTheSameBits) {
  ForEachTarget([] {
    // With filters that are few, and many for few and for more tiles.
    for (const ConvProblem& p :
         {Plain(1, 40, 30, 30, 50, 3, 1, 1), Plain(1, 180, 6, 7, 190, 3, 1, 1),
          Plain(1, 190, 64, 70, 180, 3, 1, 1)}) {
      const Case c(p);
      const Blocked x = BlockedX(p, c.b.x), dy = BlockedY(p, c.b.dy);
      Blocked y = dy, expected = dy, dx = x, expected_dx = x;
      WinogradForward<float>(p, x.data(), nullptr, c.Filters(ConvPass::kForward).data(),
                             nullptr, nullptr, false, expected.data());
      WinogradBackwardData<float>(p, dy.data(), nullptr,
                                  c.Filters(ConvPass::kBackwardData).data(),
                                  expected_dx.data());
      for (const int threads : {1, 2, 5}) {
        const ScopedComputeThreads scope(threads);
        y.Fill(NAN);
        dx.Fill(NAN);
        WinogradForward<float>(p, x.data(), c.b.weight.data(), nullptr, nullptr,
                               nullptr, false, y.data());
        WinogradBackwardData<float>(p, dy.data(), c.b.weight.data(), nullptr,
                                    dx.data());
        EXPECT_TRUE(y == expected) << threads;
        EXPECT_TRUE(dx == expected_dx) << threads;
      }
    }
  });
}

TEST(Winograd, LargeResultsAreWrittenAsSmallOnesAre) {
  const Case c(Plain(1, 1, 530, 530, 16, 3, 1, 1));
  const Blocked x = BlockedX(c.p, c.b.x);
  const Blocked like = BlockedY(c.p, c.b.dy);
  const auto u = c.Filters(ConvPass::kForward);
  // Aligned, so that it may go past the caches.
  const Scratch y(like.Bytes());
  WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, false,
                         y.As<float>());
  ExpectNear(like.Plain(y.As<float>()), c.Expected(false), kTolerance, "y");
}

// The rounding error of sums of 512 * 9 products, over the largest result.
TEST(Winograd, ErrorsOfManyChannelsStayNearThoseOfADirectSum) {
  const Case c(Plain(1, 512, 12, 12, 32, 3, 1, 1));
  const Blocked x = BlockedX(c.p, c.b.x);
  Blocked y = BlockedY(c.p, c.b.dy);
  const auto u = c.Filters(ConvPass::kForward);
  WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, false,
                         y.data());
  ExpectNear(y.Plain(), c.Expected(false), 3e-6, "y");
}

TEST(Winograd, ReluKeepsNan) {
  ForEachTarget([] {
    const Case c(Plain(1, 3, 20, 20, 4, 3, 1, 1));
    std::vector<float> plain = c.b.x;
    plain[0] = NAN;
    const Blocked x = BlockedX(c.p, plain);
    Blocked y = BlockedY(c.p, c.b.dy);
    const auto u = c.Filters(ConvPass::kForward);
    WinogradForward<float>(c.p, x.data(), nullptr, u.data(), nullptr, nullptr, true,
                           y.data());
    const auto got = y.Plain();
    EXPECT_TRUE(std::isnan(got[0]));
    EXPECT_FALSE(std::isnan(got[19]));  // another tile
    y.ExpectZerosBeyondTheChannels();
  });
}

TEST(Winograd, DeclinesWhatItDoesNotDo) {
  EXPECT_TRUE(HasWinograd(Plain(1, 4, 8, 8, 4, 3, 1, 2)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 8, 8, 4, 5)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 8, 8, 4, 3, 2)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 8, 8, 4, 3, 1, 0, 2)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 8, 8, 4, 3, 1, 1, 1, 2)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 8, 8, 4, 3, 1, 3)));
  EXPECT_FALSE(HasWinograd(Plain(0, 4, 8, 8, 4, 3)));
  EXPECT_FALSE(HasWinograd(Plain(1, 4, 2, 8, 4, 3)));
}

}  // namespace
}  // namespace plait::cpu
