// The order of elements: NaN, ties, every dtype, rows that are long, and many.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/index/order.h"

namespace plait {
namespace {

using Longs = std::vector<int64_t>;

template <typename T>
Value Array(const Shape& shape, const std::vector<T>& data) {
  return Value(NDArray::FromHost(data.data(), shape, kDTypeOf<T>));
}

template <typename T>
std::vector<T> Read(const Value& x) {
  EXPECT_EQ(x.dtype(), kDTypeOf<T>);
  x.array().WaitToRead();
  std::vector<T> data(static_cast<size_t>(x.array().size()));
  x.array().CopyToHost(data.data());
  return data;
}

// The first k indices of one row, by stable sorting.
template <typename T>
Longs Expected(const std::vector<T>& row, int64_t k, bool ascending) {
  Longs order(row.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const auto a = static_cast<Accumulate<T>>(row[i]);
    const auto b = static_cast<Accumulate<T>>(row[j]);
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return ascending ? b_nan && !a_nan : a_nan && !b_nan;
    return ascending ? a < b : b < a;
  });
  order.resize(k);
  return order;
}

template <typename T>
Longs Order(const std::vector<T>& row, int64_t k, bool ascending) {
  const Shape shape{static_cast<int64_t>(row.size())};
  const View x{const_cast<T*>(row.data()), &shape, kDTypeOf<T>};
  Longs result;
  ForEachOrder(
      x, {1, shape[0], 1}, k, ascending,
      [&](int64_t, int64_t, const int64_t* order) { result.assign(order, order + k); });
  return result;
}

TEST(TopK, CountsNaNAsLargest) {
  std::vector<float> x(2504);
  for (int i = 0; i < 4; ++i) x[i] = NAN;
  for (int i = 4; i < 2504; ++i) x[i] = static_cast<float>(i - 4);
  const Value y = Make("topk", {Array<float>({2504}, x)},
                       {{"k", Attr(6)}, {"dtype", Attr("int32")}});
  EXPECT_EQ(Read<int32_t>(y), (std::vector<int32_t>{0, 1, 2, 3, 2503, 2502}));
}

TEST(TopK, TakesTheLowerIndexOfEqualOnes) {
  const Value x = Array<float>({5}, {1, 0.0f, 1, -0.0f, 1});
  const auto first = [&](bool ascending) {
    return Read<float>(
        Make("topk", {x}, {{"k", Attr(4)}, {"is_ascend", Attr(ascending)}}));
  };
  EXPECT_EQ(first(false), (std::vector<float>{0, 2, 4, 1}));
  EXPECT_EQ(first(true), (std::vector<float>{1, 3, 0, 2}));
}

TEST(TopK, MarksWithAMask) {
  const Value x = Array<float>({2, 3}, {3, 1, 2, 4, 5, 6});
  const Value y = Make("topk", {x}, {{"k", Attr(2)}, {"ret_typ", Attr("mask")}});
  EXPECT_EQ(Read<float>(y), (std::vector<float>{1, 0, 1, 0, 1, 1}));
}

TEST(TopK, SendsItsGradientToWhereValuesCameFrom) {
  const Value x = Array<float>({2, 3}, {3, 1, 2, 4, 5, 6});
  const Values y = MakeAll("topk", {x}, {{"k", Attr(2)}, {"ret_typ", Attr("both")}});
  EXPECT_EQ(Read<float>(y[0]), (std::vector<float>{3, 2, 6, 5}));
  EXPECT_EQ(Read<float>(y[1]), (std::vector<float>{0, 2, 2, 1}));
}

TEST(TopK, IndicesAreExactBeyondTwoToTheTwentyFour) {
  const int64_t n = (1 << 24) + 2;
  std::vector<int8_t> data(n, 0);
  data[n - 1] = 3;
  const Value x = Array<int8_t>({n}, data);
  EXPECT_EQ(Read<int64_t>(Make("topk", {x}, {{"dtype", Attr("int64")}})),
            Longs{16777217});
  EXPECT_THROW(Make("topk", {x}), Error);  // float32 does not hold them
}

TEST(TopK, RefusesMoreThanThereAre) {
  const Value x = Array<float>({3}, {1, 2, 3});
  EXPECT_THROW(Make("topk", {x}, {{"k", Attr(4)}}), Error);
  EXPECT_THROW(Make("topk", {x}, {{"axis", Attr(1)}}), Error);
  EXPECT_THROW(Make("argsort", {Array<uint8_t>({300}, std::vector<uint8_t>(300))},
                    {{"dtype", Attr("uint8")}}),
               Error);
}

TEST(Order, IsThatOfStableSortingInEveryDType) {
  std::mt19937 random(3);
  for (int d = 0; d < kNumDTypes; ++d) {
    VisitDType(static_cast<DType>(d), [&]<typename Type>() {
      // A vector of bool has no memory to look at.
      using T = std::conditional_t<std::is_same_v<Type, bool>, uint8_t, Type>;
      for (int64_t n : {1, 2, 17, 1000, 3000}) {
        std::vector<T> x(n);
        for (T& v : x) {
          // Few values: many are equal. Some are huge.
          const auto small = static_cast<int>(random() % 200) - 100;
          v = static_cast<T>(static_cast<Accumulate<T>>(small));
          if constexpr (sizeof(T) > 1 && std::is_integral_v<T>) {
            if (random() % 4 == 0) v = static_cast<T>(uint64_t{random()} << 31);
          } else if constexpr (!std::is_integral_v<T>) {
            if (random() % 9 == 0) v = static_cast<T>(NAN);
            if (random() % 9 == 0) v = static_cast<T>(-INFINITY);
            if (random() % 9 == 0) v = static_cast<T>(-0.0f);
          }
        }
        for (const bool ascending : {true, false}) {
          for (int64_t k : {int64_t{0}, std::min<int64_t>(n, 3), n / 2, n}) {
            ASSERT_EQ(Order(x, k, ascending), Expected(x, k, ascending))
                << static_cast<DType>(d) << ' ' << n << ' ' << k << ' ' << ascending;
          }
        }
      }
    });
  }
}

TEST(ArgSort, RowsOfABigBatchArePermutations) {
  std::mt19937 random(4);
  std::vector<float> x(64 * 2048);
  for (float& v : x) v = static_cast<float>(random());
  const auto order = Read<float>(Make("argsort", {Array<float>({64, 2048}, x)}));
  for (int row = 0; row < 64; ++row) {
    std::vector<char> seen(2048);
    for (int i = 0; i < 2048; ++i) {
      const int at = static_cast<int>(order[row * 2048 + i]);
      EXPECT_FALSE(seen[at]);
      seen[at] = true;
      if (i > 0) {
        const int before = static_cast<int>(order[row * 2048 + i - 1]);
        EXPECT_LE(x[row * 2048 + before], x[row * 2048 + at]);
      }
    }
  }
}

TEST(Sort, KeepsTheBitsOfWhatItSorts) {
  const Value x = Array<float>({5}, {0.0f, NAN, -0.0f, -INFINITY, INFINITY});
  const auto y = Read<float>(Make("sort", {x}));
  EXPECT_EQ(y[0], -INFINITY);
  EXPECT_FALSE(std::signbit(y[1]));
  EXPECT_TRUE(std::signbit(y[2]));
  EXPECT_EQ(y[3], INFINITY);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST(Sort, WorksAlongAnyAxis) {
  const Value x = Array<int32_t>({2, 2, 2}, {8, 7, 6, 5, 4, 3, 2, 1});
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(Read<int32_t>(Make("sort", {x}, {{"axis", Attr(0)}})),
            (Ints{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_EQ(Read<int32_t>(Make("sort", {x}, {{"axis", Attr(1)}})),
            (Ints{6, 5, 8, 7, 2, 1, 4, 3}));
  EXPECT_EQ(Read<int32_t>(Make("sort", {x}, {{"axis", AttrValue{}}})),
            (Ints{1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace plait
