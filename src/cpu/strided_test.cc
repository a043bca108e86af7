// CopyStrided against a plain loop over indices.

#include "cpu/strided.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "base/parallel.h"

namespace plait::cpu {
namespace {

template <typename T>
void PlainCopy(const Shape& sizes, T* dst, const Strides& d, const T* src,
               const Strides& s) {
  for (int64_t i = 0; i < sizes.size(); ++i) {
    int64_t rest = i, to = 0, from = 0;
    for (int k = sizes.rank() - 1; k >= 0; --k) {
      to += rest % sizes[k] * d[k];
      from += rest % sizes[k] * s[k];
      rest /= sizes[k];
    }
    dst[to] = src[from];
  }
}

template <typename T>
void CheckTransposes() {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    Shape shape = Shape::Filled(rank, 1);
    for (int64_t& n : shape) n = 1 + random() % (rank > 2 ? 21 : 70);
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const Strides all = RowMajor(shape);
    Shape sizes = shape;
    Strides src = all;
    for (int k = 0; k < rank; ++k) {
      sizes[k] = shape[order[k]];
      src[k] = all[order[k]];
    }
    std::vector<T> x(shape.size()), got(shape.size()), want(shape.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i * 31 + 5);
    CopyStrided(sizes, got.data(), RowMajor(sizes), x.data(), src, sizeof(T));
    PlainCopy(sizes, want.data(), RowMajor(sizes), x.data(), src);
    ASSERT_EQ(got, want) << "shape " << shape << " sizes " << sizes;
  }
}

TEST(CopyStrided, TransposesEveryElementSize) {
  CheckTransposes<uint8_t>();
  CheckTransposes<uint16_t>();
  CheckTransposes<uint32_t>();
  CheckTransposes<uint64_t>();
}

TEST(CopyStrided, GivesTheSameOnSeveralThreads) {
  const ScopedComputeThreads two(2);
  CheckTransposes<uint32_t>();
  const Shape sizes{3, 1000, 70};
  std::vector<uint32_t> x(sizes.size()), got(x.size()), want(x.size());
  std::iota(x.begin(), x.end(), 0u);
  const Strides src{70000, 1, 1000};
  CopyStrided(sizes, got.data(), RowMajor(sizes), x.data(), src, 4);
  PlainCopy(sizes, want.data(), RowMajor(sizes), x.data(), src);
  EXPECT_EQ(got, want);
  std::vector<uint32_t> line(1 << 18);
  CopyStrided({1 << 18}, line.data(), {1}, x.data() + (1 << 16), {0}, 4);
  EXPECT_EQ(line, std::vector<uint32_t>(1 << 18, 1u << 16));
}

TEST(CopyStrided, ReversesBroadcastsAndScatters) {
  std::vector<uint16_t> x{1, 2, 3, 4, 5, 6}, y(6);
  CopyStrided({2, 3}, y.data(), {3, 1}, x.data() + 2, {3, -1}, 2);
  EXPECT_EQ(y, (std::vector<uint16_t>{3, 2, 1, 6, 5, 4}));
  CopyStrided({2, 3}, y.data(), {3, 1}, x.data(), {0, 1}, 2);
  EXPECT_EQ(y, (std::vector<uint16_t>{1, 2, 3, 1, 2, 3}));
  std::vector<uint16_t> z(12, 9);
  CopyStrided({6}, z.data(), {2}, x.data(), {1}, 2);
  EXPECT_EQ(z, (std::vector<uint16_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9}));
}

TEST(CopyStrided, CopiesScalarsAndNothing) {
  uint64_t x = 3, y = 0;
  CopyStrided({}, &y, {}, &x, {}, 8);
  EXPECT_EQ(y, 3u);
  CopyStrided({0, 4}, &y, {4, 1}, nullptr, {4, 1}, 8);
  EXPECT_EQ(y, 3u);
}

}  // namespace
}  // namespace plait::cpu
