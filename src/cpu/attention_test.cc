// Attention: forward and backward against plain sums in float64.

#include "cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

using Doubles = std::vector<double>;

// A problem with its arrays; heads before or behind the rows.
struct Case {
  int64_t batch, heads, queries, keys, size, value_size;
  bool causal = false;
  bool rows_first = false;  // (B, T, H, D)
  double scale = 0.3;
  std::vector<int64_t> lengths = {};
  enum Mask { kNone, kAdded, kBool, kHidesSome } mask = kNone;
  double dropout = 0;
};

template <typename S>
constexpr DType TypeOf() {
  if constexpr (std::is_same_v<S, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<S, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<S, Float16>) return DType::kFloat16;
  return DType::kBfloat16;
}

template <typename S>
struct Data {
  std::vector<S> x;
  AttentionRows rows;
  Data(const Case& c, int64_t n, int64_t size, unsigned seed) {
    x.resize(static_cast<size_t>(c.batch * c.heads * n * size));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (S& v : x) v = static_cast<S>(normal(random));
    rows.batch = c.heads * n * size;
    rows.head = c.rows_first ? size : n * size;
    rows.row = c.rows_first ? c.heads * size : size;
    rows.data = x.data();
  }
  double At(int64_t b, int64_t h, int64_t i, int64_t d) const {
    return static_cast<double>(x[b * rows.batch + h * rows.head + i * rows.row + d]);
  }
};

// The mask of (batch, query, key) for all heads.
std::vector<float> MaskOf(const Case& c) {
  std::vector<float> mask(static_cast<size_t>(c.batch * c.queries * c.keys));
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = normal(random);
    if (c.mask == Case::kBool) mask[i] = mask[i] > 0.5f;
    // Whole rows as well.
    if (c.mask == Case::kHidesSome && (i % 3 == 0 || i / c.keys % 4 == 1))
      mask[i] = -std::numeric_limits<float>::infinity();
  }
  return mask;
}

template <typename S>
struct Results {
  Data<S> y, dq, dk, dv;
  explicit Results(const Case& c)
      : y(c, c.queries, c.value_size, 9),
        dq(c, c.queries, c.size, 9),
        dk(c, c.keys, c.size, 9),
        dv(c, c.keys, c.value_size, 9) {}
};

template <typename S>
struct Inputs {
  Data<S> q, k, v, dy;
  std::vector<float> mask;
  std::vector<uint8_t> bools;
  AttentionProblem p;
  explicit Inputs(const Case& c)
      : q(c, c.queries, c.size, 1),
        k(c, c.keys, c.size, 2),
        v(c, c.keys, c.value_size, 3),
        dy(c, c.queries, c.value_size, 4) {
    p = {c.batch,     c.heads, c.queries, c.keys, c.size,  c.value_size,
         TypeOf<S>(), q.rows,  k.rows,    v.rows, c.scale, c.causal};
    if (!c.lengths.empty()) p.lengths = c.lengths.data();
    p.dropout = c.dropout;
    p.random = {3, 5};
    if (c.mask == Case::kNone) return;
    mask = MaskOf(c);
    p.mask = {mask.data(), DType::kFloat32, c.queries * c.keys, 0, c.keys, 1};
    if (c.mask == Case::kBool) {
      bools.assign(mask.begin(), mask.end());
      p.mask.data = bools.data();
      p.mask.dtype = DType::kUint8;
    }
  }
};

template <typename S>
Results<S> RunCase(const Case& c, const Inputs<S>& in, int threads) {
  const ScopedComputeThreads scoped(threads);
  Results<S> r(c);
  Doubles log_sums(static_cast<size_t>(c.batch * c.heads * c.queries));
  AttentionForward(in.p, r.y.rows, log_sums.data());
  AttentionBackward(in.p, r.y.rows, log_sums.data(), in.dy.rows, r.dq.rows, r.dk.rows,
                    r.dv.rows);
  return r;
}

// One head by the definition.
template <typename S>
struct Naive {
  const Case& c;
  const Inputs<S>& in;
  int64_t b, h;
  Doubles w, kept;

  Naive(const Case& c_, const Inputs<S>& in_, int64_t b_, int64_t h_)
      : c(c_), in(in_), b(b_), h(h_) {
    w.resize(static_cast<size_t>(c.queries * c.keys));
    kept.assign(w.size(), 1.0);
    for (int64_t i = 0; i < c.queries; ++i) Weights(i);
  }
  double Score(int64_t i, int64_t j) const {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    if (c.causal && j > i + c.keys - c.queries) return kHidden;
    if (!c.lengths.empty() && j >= c.lengths[b]) return kHidden;
    double s = 0;
    for (int64_t d = 0; d < c.size; ++d) s += in.q.At(b, h, i, d) * in.k.At(b, h, j, d);
    s *= c.scale;
    if (c.mask == Case::kNone) return s;
    const float m = in.mask[(b * c.queries + i) * c.keys + j];
    return c.mask == Case::kBool ? (m != 0 ? s : kHidden) : s + m;
  }
  void Weights(int64_t i) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < c.keys; ++j) top = std::max(top, Score(i, j));
    for (int64_t j = 0; j < c.keys && !std::isinf(top); ++j)
      sum += w[i * c.keys + j] = std::exp(Score(i, j) - top);
    for (int64_t j = 0; j < c.keys && sum > 0; ++j) w[i * c.keys + j] /= sum;
    if (c.dropout == 0) return;
    std::vector<uint32_t> bits(static_cast<size_t>(c.keys));
    FillBits(i, bits);
    for (int64_t j = 0; j < c.keys; ++j) {
      const bool keep = bits[j] < (1 - c.dropout) * 0x1p32;
      kept[i * c.keys + j] = keep ? 1 / (1 - c.dropout) : 0;
    }
  }
  void FillBits(int64_t i, std::vector<uint32_t>& bits) const;

  double Y(int64_t i, int64_t d) const {
    double sum = 0;
    for (int64_t j = 0; j < c.keys; ++j)
      sum += w[i * c.keys + j] * kept[i * c.keys + j] * in.v.At(b, h, j, d);
    return sum;
  }
  // Gradients by the scores.
  Doubles Ds() const {
    Doubles ds(w.size());
    for (int64_t i = 0; i < c.queries; ++i) {
      double delta = 0;
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t j = 0; j < c.keys; ++j) {
          const int64_t at = i * c.keys + j;
          double dw = 0;
          for (int64_t d = 0; d < c.value_size; ++d)
            dw += in.dy.At(b, h, i, d) * in.v.At(b, h, j, d);
          dw *= kept[at];
          if (pass == 0) delta += w[at] * dw;
          if (pass == 1) ds[at] = w[at] * (dw - delta);
        }
      }
    }
    return ds;
  }
};

}  // namespace
}  // namespace plait::cpu

#include "cpu/random.h"

namespace plait::cpu {
namespace {

template <typename S>
void Naive<S>::FillBits(int64_t i, std::vector<uint32_t>& bits) const {
  FillUniformBits(in.p.random, ((b * c.heads + h) * c.queries + i) * c.keys,
                  bits.data(), c.keys);
}

template <typename S>
void ExpectNear(const Data<S>& x, int64_t b, int64_t h, int64_t i, int64_t d,
                double expected, double tolerance, const char* what) {
  const double size = std::max(1.0, std::abs(expected));
  EXPECT_NEAR(x.At(b, h, i, d), expected, tolerance * size)
      << what << " at " << b << ", " << h << ", " << i << ", " << d;
}

template <typename S>
void ExpectHead(const Case& c, const Inputs<S>& in, const Results<S>& r, int64_t b,
                int64_t h, double tolerance) {
  const Naive<S> naive(c, in, b, h);
  const Doubles ds = naive.Ds();
  for (int64_t i = 0; i < c.queries; ++i) {
    for (int64_t d = 0; d < c.value_size; ++d)
      ExpectNear(r.y, b, h, i, d, naive.Y(i, d), tolerance, "y");
    for (int64_t d = 0; d < c.size; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < c.keys; ++j)
        sum += ds[i * c.keys + j] * in.k.At(b, h, j, d) * c.scale;
      ExpectNear(r.dq, b, h, i, d, sum, tolerance, "dq");
    }
  }
  for (int64_t j = 0; j < c.keys; ++j) {
    for (int64_t d = 0; d < c.size; ++d) {
      double sum = 0;
      for (int64_t i = 0; i < c.queries; ++i)
        sum += ds[i * c.keys + j] * in.q.At(b, h, i, d) * c.scale;
      ExpectNear(r.dk, b, h, j, d, sum, tolerance, "dk");
    }
    for (int64_t d = 0; d < c.value_size; ++d) {
      double sum = 0;
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t at = i * c.keys + j;
        sum += naive.w[at] * naive.kept[at] * in.dy.At(b, h, i, d);
      }
      ExpectNear(r.dv, b, h, j, d, sum, tolerance, "dv");
    }
  }
}

template <typename S>
void ExpectNaive(const Case& c, double tolerance) {
  SCOPED_TRACE(::testing::Message()
               << c.batch << ", " << c.heads << ", " << c.queries << " x " << c.keys
               << ", " << c.size << ", " << c.value_size << (c.causal ? " causal" : "")
               << " mask " << c.mask << " dropout " << c.dropout);
  const Inputs<S> in(c);
  const Results<S> r = RunCase(c, in, 1);
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) ExpectHead(c, in, r, b, h, tolerance);
    if (::testing::Test::HasFailure()) return;
  }
}

std::vector<Case> Cases() {
  return {
      {2, 2, 5, 7, 4, 3},
      {1, 1, 1, 1, 1, 1},
      {1, 2, 13, 40, 17, 33},
      {1, 1, 37, 300, 16, 16},
      {1, 2, 30, 30, 8, 8, true},
      {1, 1, 9, 21, 8, 8, true, true},
      {1, 1, 21, 9, 8, 5, true},  // the first queries see nothing
      {2, 3, 20, 30, 24, 40, false, true},
      {3, 1, 6, 50, 8, 8, false, false, 0.5, {0, 17, 90}},
      {2, 1, 40, 40, 8, 8, true, false, -0.5, {33, 2}},
      {2, 2, 12, 35, 8, 8, false, false, 0.4, {}, Case::kAdded},
      {2, 2, 12, 35, 8, 8, true, true, 0.4, {}, Case::kBool},
      {2, 1, 12, 35, 8, 8, false, false, 0.4, {}, Case::kHidesSome},
      {2, 2, 14, 31, 8, 8, true, false, 0.4, {}, Case::kNone, 0.4},
      {1, 1, 4, 9, 8, 8, false, false, 0.4, {}, Case::kNone, 1.0},
      {1, 1, 130, 650, 8, 8, true},
  };
}

TEST(Attention, EqualsPlainSumsInBothPasses) {
  ForEachTarget([] {
    for (const Case& c : Cases()) {
      ExpectNaive<float>(c, 2e-5);
      ExpectNaive<double>(c, 1e-13);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

TEST(Attention, HalvesAreRoundedOnce) {
  for (const Case& c : Cases()) {
    ExpectNaive<Float16>(c, 4e-3);
    ExpectNaive<Bfloat16>(c, 3e-2);
  }
}

template <typename S>
void ExpectSameBits(const Data<S>& x, const Data<S>& y) {
  EXPECT_EQ(x.x, y.x);
}

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Case& c :
       {Case{1, 1, 700, 900, 64, 64, true}, Case{2, 3, 130, 500, 32, 32},
        Case{1, 2, 600, 600, 16, 16, true, false, 0.3, {}, Case::kNone, 0.2}}) {
    const Inputs<float> in(c);
    const Results<float> one = RunCase(c, in, 1), three = RunCase(c, in, 3);
    ExpectSameBits(one.y, three.y);
    ExpectSameBits(one.dq, three.dq);
    ExpectSameBits(one.dk, three.dk);
    ExpectSameBits(one.dv, three.dv);
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  const Case c{1, 1, 10, 20, 8, 8, false, false, 1000};
  const Inputs<float> in(c);
  const Results<float> r = RunCase(c, in, 1);
  for (const float v : r.y.x) EXPECT_TRUE(std::isfinite(v));
  for (const float v : r.dq.x) EXPECT_TRUE(std::isfinite(v));
}

TEST(Attention, NotANumberStaysOne) {
  const Case c{1, 1, 3, 5, 8, 8};
  Inputs<float> in(c);
  in.q.x[9] = std::numeric_limits<float>::quiet_NaN();
  in.p.q.data = in.q.x.data();
  const Results<float> r = RunCase(c, in, 1);
  EXPECT_TRUE(std::isfinite(r.y.x[0]));
  EXPECT_TRUE(std::isnan(r.y.x[8]));
}

TEST(Attention, NothingToDoIsNoError) {
  for (const Case& c : {Case{0, 2, 3, 4, 5, 6}, Case{1, 1, 0, 4, 5, 6}}) {
    const Inputs<float> in(c);
    const Results<float> r = RunCase(c, in, 1);
    for (const float v : r.dk.x) EXPECT_EQ(v, 0);
  }
  const Case none{1, 2, 3, 0, 5, 6};
  const Inputs<float> in(none);
  const Results<float> r = RunCase(none, in, 1);
  for (const float v : r.y.x) EXPECT_EQ(v, 0);
  for (const float v : r.dq.x) EXPECT_EQ(v, 0);
}

}  // namespace
}  // namespace plait::cpu
