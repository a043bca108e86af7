// Hard cases of the operators that choose elements by indices.

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/index/scatter.h"

namespace plait {
namespace {

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

// The message of the error that reading x throws, which must be of kind kIndex.
std::string IndexError(const Value& x) {
  try {
    x.array().WaitToRead();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kIndex);
    return e.what();
  }
  return "none";
}

using Floats = std::vector<float>;

TEST(Take, AddsUpDuplicatesInItsGradient) {
  const Value dy = Array<float>({3, 2}, {1, 1, 1, 1, 1, 1});
  const Value index = Array<float>({3}, {0, 0, 2});
  const Value dx = Make("_backward_take", {dy, index}, {{"size", Attr(3)}});
  EXPECT_EQ(Read<float>(dx), (Floats{2, 2, 0, 0, 1, 1}));
}

TEST(Take, GradientOfManyDuplicatesKeepsItsDigits) {
  const int64_t n = 200000;
  const Value dy = Array<float>({n}, Floats(n, 0.1f));
  const Value index = Array<int32_t>({n}, std::vector<int32_t>(n, 1));
  const Value dx = Make("_backward_take", {dy, index}, {{"size", Attr(2)}});
  EXPECT_EQ(Read<float>(dx), (Floats{0, static_cast<float>(n * double{0.1f})}));
}

TEST(Take, GradientInHalvesAddsInFloat) {
  const std::vector<Float16> ones(3000, Float16(1.0f));
  const Value dy = Array<Float16>({3000}, ones);
  const Value index = Array<int32_t>({3000}, std::vector<int32_t>(3000, 0));
  const Value dx = Make("_backward_take", {dy, index}, {{"size", Attr(1)}});
  EXPECT_EQ(static_cast<float>(Read<Float16>(dx)[0]), 3000.0f);
}

TEST(Take, GradientDoesNotDependOnThreads) {
  std::mt19937 random(1);
  // Places below `used` get something.
  for (const auto& [outer, n, inner, m, used] :
       {std::array<int64_t, 5>{1, 50, 7, 20000, 50},
        {3, 9, 1, 5000, 9},
        {2, 3000, 33, 700, 3000},
        {2, 3000, 600, 900, 3000},
        {2, 3000, 16, 9000, 1},  // all to one place
        {2, 3000, 16, 9000, 900},
        {2, 3000, 16, 9000, 2900},
        {1, 5, 2, 1, 5},
        {2, 4, 3, 0, 4}}) {
    // What was in memory before must not stay where nothing is sent to.
    Floats x(outer * m * inner), serial(outer * n * inner, NAN), threaded = serial;
    std::normal_distribution<float> normal;
    for (float& v : x) v = normal(random);
    std::vector<int64_t> target(m);
    for (int64_t& t : target) t = static_cast<int64_t>(random() % used);
    const AxisSplit split{outer, n, inner};
    ScatterAdd(DType::kFloat32, split, m, target.data(), x.data(), serial.data());
    {
      const ScopedComputeThreads threads(3);
      ScatterAdd(DType::kFloat32, split, m, target.data(), x.data(), threaded.data());
    }
    EXPECT_EQ(serial, threaded);
    std::vector<double> expected(serial.size());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < m; ++j)
        for (int64_t i = 0; i < inner; ++i)
          expected[(o * n + target[j]) * inner + i] += x[(o * m + j) * inner + i];
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(serial[i], expected[i], 1e-5 + 1e-6 * std::abs(expected[i]));
  }
}

TEST(Take, ModesSayWhatIndicesOutOfRangeMean) {
  const Value x = Array<int16_t>({3}, {10, 11, 12});
  const Value index = Array<float>({4}, {-1, 1.9f, 3, NAN});
  using Shorts = std::vector<int16_t>;
  EXPECT_EQ(Read<int16_t>(Make("take", {x, index})), (Shorts{10, 11, 12, 10}));
  const Value wrapped =
      Make("take", {x, Array<int64_t>({3}, {-1, 4, -7})}, {{"mode", Attr("wrap")}});
  EXPECT_EQ(Read<int16_t>(wrapped), (Shorts{12, 11, 12}));
  const Value raised =
      Make("take", {x, Array<int64_t>({2}, {2, 3})}, {{"mode", Attr("raise")}});
  EXPECT_NE(IndexError(raised).find("take: index 3 is out of range for axis 0 of size "
                                    "3; 0 <= index < 3 was expected"),
            std::string::npos);
}

TEST(Take, FromAnEmptyAxisIsAnError) {
  const Value x = Array<float>({0, 2}, {});
  const Value y = Make("take", {x, Array<float>({1}, {0})});
  EXPECT_NE(IndexError(y).find("axis 0 has no element"), std::string::npos);
}

TEST(Take, ReachesBeyondTwoToTheTwentyFour) {
  const int64_t n = (1 << 24) + 3;
  std::vector<uint8_t> data(n, 1);
  data[n - 2] = 7;
  const Value y = Make("take", {Array<uint8_t>({n}, data),
                                Array<int64_t>({1}, std::vector<int64_t>{n - 2})});
  EXPECT_EQ(Read<uint8_t>(y), std::vector<uint8_t>{7});
}

TEST(Embedding, ClipsIndices) {
  const Value weight = Array<float>({2, 2}, {1, 2, 3, 4});
  const Value y = Make("Embedding", {Array<float>({3}, {-1, 1, 1e30f}), weight},
                       {{"input_dim", Attr(2)}, {"output_dim", Attr(2)}});
  EXPECT_EQ(Read<float>(y), (Floats{1, 2, 3, 4, 3, 4}));
}

TEST(Pick, ClipsOrWraps) {
  const Value x = Array<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Value index = Array<float>({2}, {-1, 1000});
  EXPECT_EQ(Read<float>(Make("pick", {x, index})), (Floats{1, 8}));
  EXPECT_EQ(Read<float>(Make("pick", {x, index}, {{"mode", Attr("wrap")}})),
            (Floats{4, 5}));
}

TEST(GatherNd, CountsFromTheEndAndChecks) {
  const Value x = Array<float>({2, 2}, {0, 1, 2, 3});
  const Value index = Array<float>({2, 3}, {1, 1, 0, 0, 1, -1});
  EXPECT_EQ(Read<float>(Make("gather_nd", {x, index})), (Floats{2, 3, 1}));
  const Value bad = Make("gather_nd", {x, Array<float>({2, 1}, {0, -3})});
  EXPECT_NE(IndexError(bad).find("gather_nd: index -3 is out of range for axis 1 of "
                                 "size 2; -2 <= index < 2 was expected"),
            std::string::npos);
}

TEST(GatherNd, GradientAddsUpDuplicates) {
  const Value dx =
      Make("_backward_gather_nd",
           {Array<float>({3}, {2, 3, 1}), Array<float>({2, 3}, {1, 1, 0, 1, 1, 0})},
           {{"shape", Attr(Shape{2, 2})}});
  EXPECT_EQ(Read<float>(dx), (Floats{1, 0, 0, 5}));
}

TEST(ScatterNd, TheLastOfEqualPointsStays) {
  const Value y = Make("scatter_nd",
                       {Array<float>({3}, {2, 3, 1}), Array<float>({1, 3}, {1, 1, 0})},
                       {{"shape", Attr(Shape{3})}});
  EXPECT_EQ(Read<float>(y), (Floats{1, 3, 0}));
  const Value bad =
      Make("scatter_nd", {Array<float>({1}, {2}), Array<float>({1, 1}, {3})},
           {{"shape", Attr(Shape{3})}});
  EXPECT_NE(IndexError(bad).find("scatter_nd: index 3 is out of range"),
            std::string::npos);
}

TEST(ScatterSetNd, KeepsTheRest) {
  const Value y = Make("_scatter_set_nd",
                       {Array<int64_t>({3}, {5, 6, 7}), Array<int64_t>({1}, {9}),
                        Array<int32_t>({1, 1}, {-2})},
                       {{"shape", Attr(Shape{3})}});
  EXPECT_EQ(Read<int64_t>(y), (std::vector<int64_t>{5, 9, 7}));
}

TEST(OneHot, MarksNothingForIndicesOutOfRange) {
  const Value y = Make("one_hot", {Array<float>({3}, {1, -1, 2})},
                       {{"depth", Attr(2)}, {"dtype", Attr("int32")}});
  EXPECT_EQ(Read<int32_t>(y), (std::vector<int32_t>{0, 1, 0, 0, 0, 0}));
}

TEST(SequenceLast, OfNothingIsEmpty) {
  const Value y = Make("SequenceLast", {Array<float>({1, 0, 0}, {})});
  EXPECT_EQ(y.shape(), (Shape{0, 0}));
}

TEST(SequenceReverse, LeavesThePadding) {
  const Value y =
      Make("SequenceReverse",
           {Array<float>({3, 2}, {1, 2, 3, 4, 5, 6}), Array<float>({2}, {2, 3})},
           {{"use_sequence_length", Attr(true)}});
  EXPECT_EQ(Read<float>(y), (Floats{3, 6, 1, 4, 5, 2}));
}

TEST(Ravel, IsExactInInt64) {
  const Value places = Array<int64_t>({2}, {(int64_t{1} << 40) + 12345, 7});
  const Shape shape{1 << 20, 1 << 12, 1 << 10};
  const Value at = Make("_unravel_index", {places}, {{"shape", Attr(shape)}});
  EXPECT_EQ(at.shape(), (Shape{3, 2}));
  EXPECT_EQ(Read<int64_t>(Make("_ravel_multi_index", {at}, {{"shape", Attr(shape)}})),
            Read<int64_t>(places));
}

TEST(AllClose, KnowsNaNAndInfinity) {
  const auto close = [](Floats a, Floats b, bool equal_nan) {
    const int64_t n = static_cast<int64_t>(a.size());
    return Read<uint8_t>(Make("_contrib_allclose",
                              {Array<float>({n}, a), Array<float>({n}, b)},
                              {{"equal_nan", Attr(equal_nan)}}))[0];
  };
  EXPECT_EQ(close({1, NAN}, {1, NAN}, true), 1);
  EXPECT_EQ(close({1, NAN}, {1, NAN}, false), 0);
  EXPECT_EQ(close({1, INFINITY}, {1, INFINITY}, true), 1);
  EXPECT_EQ(close({1}, {INFINITY}, true), 0);
  EXPECT_EQ(close({1}, {1.1f}, true), 0);
}

}  // namespace
}  // namespace plait
