// What operators give in cases that users depend on: edges, NaN, infinities, integers.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/case.h"

namespace plait::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

NDArray A(const Shape& shape, const Numbers& numbers, DType dtype = DType::kFloat32) {
  return ArrayOf(shape, dtype, numbers);
}
NDArray V(const Numbers& numbers, DType dtype = DType::kFloat32) {
  return A({static_cast<int64_t>(numbers.size())}, numbers, dtype);
}

// Calls by name; parameters as text, as in MXNet's files.
using Attrs = std::vector<std::pair<const char*, const char*>>;
Arrays CallAll(const char* name, const std::vector<NDArray>& inputs,
               const Attrs& attrs = {}) {
  const OpDef& op = GetOp(name);
  std::vector<NamedAttr> named;
  for (const auto& [key, text] : attrs) named.push_back({key, {std::string(text)}});
  return Invoke(op, MakeParams(op, named), inputs);
}
NDArray CallOne(const char* name, const std::vector<NDArray>& inputs,
                const Attrs& attrs = {}) {
  return CallAll(name, inputs, attrs)[0];
}

void ExpectNumbers(const NDArray& got, const Shape& shape, const Numbers& numbers) {
  EXPECT_EQ(got.shape(), shape);
  EXPECT_EQ(Difference(Read(got), numbers, 1e-6), "");
}

// Gradients of sum(op(inputs)) with respect to inputs[0].
NDArray GradientOf(const char* name, const std::vector<NDArray>& inputs,
                   const Attrs& attrs = {}) {
  const NDArray& x = inputs[0];
  AttachGrad(x, A(x.shape(), Numbers(x.size(), 0), x.dtype()), GradReq::kWrite);
  Recording() = true;
  const NDArray y = CallOne(name, inputs, attrs);
  Recording() = false;
  Backward({&y, 1}, {}, false, true);
  return GradOf(x);
}

TEST(Meaning, NanCountsAsLargestInEveryOrder) {
  Numbers x(2504, kNan);
  for (int i = 0; i < 2500; ++i) x[4 + i] = i;
  const NDArray top = CallOne("topk", {V(x)}, {{"k", "6"}});
  ExpectNumbers(top, {6}, {0, 1, 2, 3, 2503, 2502});
  const NDArray up = CallOne("argsort", {V({2, kNan, -kInf, kInf, 0})});
  ExpectNumbers(up, {5}, {2, 4, 0, 3, 1});
  const NDArray down = CallOne("sort", {V({2, kNan, 1})}, {{"is_ascend", "False"}});
  ExpectNumbers(down, {3}, {kNan, 2, 1});
}

TEST(Meaning, EqualElementsKeepTheOrderOfTheirIndices) {
  ExpectNumbers(CallOne("argsort", {V({1, 0, 1, 0, 1})}), {5}, {1, 3, 0, 2, 4});
  ExpectNumbers(CallOne("argsort", {V({1, 0, 1, 0, 1})}, {{"is_ascend", "0"}}), {5},
                {0, 2, 4, 1, 3});
  ExpectNumbers(CallOne("argsort", {V({0, -0.0, 0})}), {3}, {0, 1, 2});
}

TEST(Meaning, LongRowsAreSortedAsPermutations) {
  const NDArray x = CallOne("_random_uniform", {}, {{"shape", "(64, 2048)"}});
  const Numbers order = Read(CallOne("argsort", {x}, {{"dtype", "int32"}}));
  for (int row = 0; row < 64; ++row) {
    std::vector<bool> seen(2048);
    for (int i = 0; i < 2048; ++i)
      seen[static_cast<size_t>(order[row * 2048 + i])] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 2048) << "row " << row;
  }
}

TEST(Meaning, IndicesBeyondFloat32AreExactInInt64) {
  const int64_t n = (int64_t{1} << 24) + 2;
  NDArray x = NDArray::Empty({n}, DType::kInt8);
  std::memset(x.data(), 0, static_cast<size_t>(n));
  x.data<int8_t>()[n - 1] = 1;
  ExpectNumbers(CallOne("topk", {x}, {{"dtype", "int64"}}), {1}, {16777217});
  ExpectNumbers(CallOne("argmax", {x}, {{"dtype", "int64"}, {"axis", "0"}}), {1},
                {16777217});
}

TEST(Meaning, ReductionsBeginAtTheEndsOfTheirDType) {
  const NDArray half = V({-3, -1, -2}, DType::kFloat16);
  ExpectNumbers(CallOne("argmax", {half}, {{"axis", "0"}}), {1}, {1});
  ExpectNumbers(CallOne("max", {V({-65504}, DType::kFloat16)}), {1}, {-65504});
  ExpectNumbers(CallOne("max", {V({-128, -100}, DType::kInt8)}), {1}, {-100});
  ExpectNumbers(CallOne("min", {V({255, 254}, DType::kUint8)}), {1}, {254});
}

TEST(Meaning, MaximumIsNanOnEitherSide) {
  const NDArray nan = V({kNan}), three = V({3});
  ExpectNumbers(CallOne("broadcast_maximum", {nan, three}), {1}, {kNan});
  ExpectNumbers(CallOne("broadcast_maximum", {three, nan}), {1}, {kNan});
  ExpectNumbers(CallOne("_minimum_scalar", {nan}, {{"scalar", "3"}}), {1}, {kNan});
  ExpectNumbers(CallOne("max", {V({1, kNan, 5})}), {1}, {kNan});
  ExpectNumbers(CallOne("relu", {V({kNan, -1, 2})}), {3}, {kNan, 0, 2});
}

TEST(Meaning, InfinitiesAddUpToInfinities) {
  const NDArray inf = V({kInf, kInf}), low = V({-kInf, -kInf});
  ExpectNumbers(CallOne("sum", {inf}), {1}, {kInf});
  ExpectNumbers(CallOne("mean", {inf}), {1}, {kInf});
  ExpectNumbers(CallOne("min", {inf}), {1}, {kInf});
  ExpectNumbers(CallOne("max", {low}), {1}, {-kInf});
  ExpectNumbers(CallOne("sum", {V({kInf, -kInf})}), {1}, {kNan});
}

TEST(Meaning, HalvesAddUpInFloat32) {
  ExpectNumbers(CallOne("mean", {A({100}, Numbers(100, 1000), DType::kFloat16)}), {1},
                {1000});
  ExpectNumbers(CallOne("sum", {A({4096}, Numbers(4096, 1), DType::kBfloat16)}), {1},
                {4096});
  ExpectNumbers(CallOne("norm", {A({100}, Numbers(100, 300), DType::kFloat16)}), {1},
                {3000});
  ExpectNumbers(CallOne("add_n", {V({2048}, DType::kFloat16), V({1}, DType::kFloat16),
                                  V({1}, DType::kFloat16)}),
                {1}, {2050});
}

TEST(Meaning, ReductionsTakeADType) {
  const NDArray x = V({10504983, 1, 2, 3, .5, 10});
  const NDArray wide = CallOne("sum", {x}, {{"dtype", "float64"}});
  EXPECT_EQ(wide.dtype(), DType::kFloat64);
  ExpectNumbers(wide, {1}, {10504999.5});
  ExpectNumbers(CallOne("sum", {V({200, 100}, DType::kUint8)}, {{"dtype", "int32"}}),
                {1}, {300});
  ExpectNumbers(CallOne("mean", {V({1, 2}, DType::kInt32)}), {1}, {1});
  ExpectNumbers(CallOne("sum", {V({1, 1, 0}, DType::kBool)}), {1}, {2});
}

TEST(Meaning, ReductionsNameTheirAxes) {
  const NDArray x = A({2, 3}, {1, 2, 3, 4, 5, 6});
  ExpectNumbers(CallOne("sum", {x}), {1}, {21});
  ExpectNumbers(CallOne("sum", {x}, {{"axis", "()"}, {"keepdims", "1"}}), {1, 1}, {21});
  ExpectNumbers(CallOne("sum", {x}, {{"axis", "0"}}), {3}, {5, 7, 9});
  ExpectNumbers(CallOne("sum", {x}, {{"axis", "(-1,)"}}), {2}, {6, 15});
  ExpectNumbers(CallOne("sum", {x}, {{"axis", "0"}, {"exclude", "True"}}), {2},
                {6, 15});
  ExpectNumbers(CallOne("argmax", {A({1, 3}, {1, 2, 3})}, {{"axis", "0"}}), {3},
                {0, 0, 0});
  EXPECT_THROW(CallOne("sum", {x}, {{"axis", "2"}}), Error);
  EXPECT_THROW(CallOne("sum", {x}, {{"axis", "(0, -2)"}}), Error);
}

TEST(Meaning, IntegersNeverPassThroughFloat32) {
  for (const char* name : {"floor", "ceil", "round", "trunc", "fix", "rint", "abs"}) {
    ExpectNumbers(CallOne(name, {V({50000001}, DType::kInt32)}), {1}, {50000001});
  }
  ExpectNumbers(
      CallOne("_plus_scalar", {V({16800001}, DType::kInt32)}, {{"scalar", "2"}}), {1},
      {16800003});
  NDArray x = NDArray::Empty({1}, DType::kInt64);
  *x.data<int64_t>() = 9007199254740993;  // 2^53 + 1, which no double holds
  const NDArray y = CallOne("_minus_scalar", {x}, {{"scalar", "9007199254740992"}});
  ExpectNumbers(y, {1}, {1});
}

TEST(Meaning, IntegerDivisionTruncatesAndNeverTraps) {
  const NDArray x = V({7, -7, 5, -2147483648.0}, DType::kInt32);
  const NDArray y = V({2, 2, 0, -1}, DType::kInt32);
  ExpectNumbers(CallOne("broadcast_div", {x, y}), {4}, {3, -3, 0, -2147483648.0});
  ExpectNumbers(CallOne("broadcast_mod", {x, y}), {4}, {1, 1, 0, 0});
  ExpectNumbers(CallOne("_mod_scalar", {V({7, -7})}, {{"scalar", "-3"}}), {2},
                {-2, -1});
}

TEST(Meaning, ScalarsBesideIntegers) {
  const NDArray x = V({0, 1, 2}, DType::kInt32);
  ExpectNumbers(CallOne("_plus_scalar", {x}, {{"scalar", "1.5"}}), {3}, {1, 2, 3});
  const NDArray wide =
      CallOne("_plus_scalar", {x}, {{"scalar", "1.5"}, {"is_int", "False"}});
  EXPECT_EQ(wide.dtype(), DType::kFloat64);
  ExpectNumbers(wide, {3}, {1.5, 2.5, 3.5});
  // A comparison is one of values.
  ExpectNumbers(CallOne("_lesser_scalar", {x}, {{"scalar", "0.5"}}), {3}, {1, 0, 0});
  ExpectNumbers(CallOne("_equal_scalar", {x}, {{"scalar", "1.5"}}), {3}, {0, 0, 0});
  ExpectNumbers(
      CallOne("_greater_scalar", {V({1, 200}, DType::kUint8)}, {{"scalar", "-1"}}), {2},
      {1, 1});
}

TEST(Meaning, MixedDTypesArePromoted) {
  const NDArray sum =
      CallOne("broadcast_add", {V({1}, DType::kInt32), V({1}, DType::kInt64)});
  EXPECT_EQ(sum.dtype(), DType::kInt64);
  const NDArray equal =
      CallOne("broadcast_equal", {V({0, 1}), V({0, 1}, DType::kInt32)});
  EXPECT_EQ(equal.dtype(), DType::kFloat32);
  ExpectNumbers(equal, {2}, {1, 1});
  // The gradient has the dtype of its input.
  const NDArray dx = GradientOf("broadcast_mul", {V({2}), V({3}, DType::kFloat64)});
  EXPECT_EQ(dx.dtype(), DType::kFloat32);
  ExpectNumbers(dx, {1}, {3});
}

TEST(Meaning, RoundingAtHalves) {
  const NDArray x = V({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5});
  ExpectNumbers(CallOne("round", {x}), {6}, {-3, -2, -1, 1, 2, 3});
  ExpectNumbers(CallOne("rint", {x}), {6}, {-3, -2, -1, 0, 1, 2});
  ExpectNumbers(CallOne("fix", {x}), {6}, {-2, -1, 0, 0, 1, 2});
  ExpectNumbers(CallOne("sign", {V({-2, 0, 3})}), {3}, {-1, 0, 1});
}

TEST(Meaning, ClipKeepsBoundsThatTheDTypeCannotHold) {
  ExpectNumbers(CallOne("clip", {V({0, 100, 255}, DType::kUint8)},
                        {{"a_min", "-5"}, {"a_max", "1000"}}),
                {3}, {0, 100, 255});
  ExpectNumbers(
      CallOne("clip", {V({-3, 0.25, 3, kNan})}, {{"a_min", "-1"}, {"a_max", "1"}}), {4},
      {-1, 0.25, 1, kNan});
  ExpectNumbers(
      GradientOf("clip", {V({-1, 0, 1, 2})}, {{"a_min", "-1"}, {"a_max", "1"}}), {4},
      {1, 1, 1, 0});
}

TEST(Meaning, SlicesFollowPython) {
  const NDArray x = V({0, 1, 2, 3});
  const auto slice = [&](const char* begin, const char* end, const char* step) {
    return CallOne("slice", {x}, {{"begin", begin}, {"end", end}, {"step", step}});
  };
  ExpectNumbers(slice("(2,)", "(-1,)", "(-1,)"), {0}, {});
  ExpectNumbers(slice("(2,)", "(None,)", "(-1,)"), {3}, {2, 1, 0});
  ExpectNumbers(slice("(2,)", "(2,)", "(1,)"), {0}, {});
  ExpectNumbers(slice("(-3,)", "(100,)", "(2,)"), {2}, {1, 3});
  ExpectNumbers(slice("(None,)", "(None,)", "(-2,)"), {2}, {3, 1});
  EXPECT_THROW(slice("(0,)", "(1,)", "(0,)"), Error);
  EXPECT_THROW(slice("(0, 0)", "(1, 1)", "(1, 1)"), Error);
}

TEST(Meaning, ReshapeNeverLosesElements) {
  const NDArray x = CallOne("_arange", {}, {{"start", "10"}});
  EXPECT_THROW(CallOne("Reshape", {x}, {{"shape", "(1, 2)"}}), Error);
  EXPECT_THROW(CallOne("Reshape", {x}, {{"shape", "(3, -1)"}}), Error);
  EXPECT_EQ(CallOne("Reshape", {x}, {{"shape", "(2, -1)"}}).shape(), (Shape{2, 5}));
  EXPECT_THROW(CallOne("_zeros", {}, {{"shape", "(-1,)"}}), Error);
}

TEST(Meaning, LongRangesAreExact) {
  const Numbers x = Read(CallOne("_arange", {}, {{"start", "20000"}}));
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(x[i], i);
  const NDArray far = CallOne("_arange", {},
                              {{"start", "9007199254740992"},
                               {"stop", "9007199254740994"},
                               {"dtype", "int64"}});
  far.WaitToRead();
  ASSERT_EQ(far.size(), 2);
  EXPECT_EQ(far.data<int64_t>()[1], 9007199254740993);
}

TEST(Meaning, SplitAndConcatTakeEmptyPieces) {
  EXPECT_THROW(CallOne("SliceChannel", {A({0, 1}, {})}, {{"num_outputs", "2"}}), Error);
  const Arrays parts =
      CallAll("_split_v2", {V({1, 2, 3})}, {{"indices", "(0, 1, 1)"}, {"axis", "0"}});
  ASSERT_EQ(parts.size(), 3u);
  ExpectNumbers(parts[1], {0}, {});
  ExpectNumbers(CallOne("Concat", {V({1}), V({}), V({2, 3})}, {{"dim", "0"}}), {3},
                {1, 2, 3});
}

TEST(Meaning, AddNMayWriteOverAnInput) {
  const NDArray a = V({1}), b = V({2});
  const NDArray out[] = {a};
  const OpDef& op = GetOp("add_n");
  Invoke(op, op.defaults, std::vector<NDArray>{a, b}, out);
  ExpectNumbers(a, {1}, {3});
}

TEST(Meaning, GradientsOfIndicesAddUp) {
  const NDArray x = A({3, 2}, {1, 2, 3, 4, 5, 6});
  ExpectNumbers(GradientOf("take", {x, V({0, 0, 2})}), {3, 2}, {2, 2, 0, 0, 1, 1});
  ExpectNumbers(GradientOf("gather_nd", {x, A({2, 3}, {0, 0, 2, 1, 1, 0})}), {3, 2},
                {0, 2, 0, 0, 1, 0});
}

TEST(Meaning, IndicesOutOfRangeHaveAMode) {
  const NDArray x = A({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectNumbers(CallOne("pick", {x, V({-1, 1000})}), {2}, {1, 8});
  ExpectNumbers(CallOne("pick", {x, V({-1, 1000})}, {{"mode", "wrap"}}), {2}, {4, 5});
  ExpectNumbers(CallOne("take", {V({1, 2, 3}), V({-1, 9})}), {2}, {1, 3});
  ExpectNumbers(CallOne("take", {V({1, 2, 3}), V({-1, 9})}, {{"mode", "wrap"}}), {2},
                {3, 1});
  const NDArray bad = CallOne("take", {V({1, 2, 3}), V({3})}, {{"mode", "raise"}});
  EXPECT_THROW(bad.WaitToRead(), Error);
  ExpectNumbers(CallOne("one_hot", {V({1, 7, -1})}, {{"depth", "2"}}), {3, 2},
                {0, 1, 0, 0, 0, 0});
}

TEST(Meaning, WhereSelectsElementsOrRows) {
  const NDArray x = A({2, 2}, {1, 2, 3, 4}), y = A({2, 2}, {5, 6, 7, 8});
  ExpectNumbers(CallOne("where", {A({2, 2}, {0, 1, 2, 0}), x, y}), {2, 2},
                {5, 2, 3, 8});
  // One axis beside two: rows, also where it would broadcast as columns.
  ExpectNumbers(CallOne("where", {V({0, 1}), x, y}), {2, 2}, {5, 6, 3, 4});
  EXPECT_THROW(CallOne("where", {V({0, 1, 1}), x, y}), Error);
  // The branch that is not taken may be anything.
  ExpectNumbers(CallOne("where", {V({1, 0}), V({1, kNan}), V({kInf, 2})}), {2}, {1, 2});
}

TEST(Meaning, BranchesNotTakenHaveNoGradient) {
  const NDArray x = V({100, -1});
  AttachGrad(x, V({0, 0}), GradReq::kWrite);
  Recording() = true;
  const NDArray positive = CallOne("_greater_scalar", {x}, {{"scalar", "0"}});
  const NDArray y = CallOne("where", {positive, x, CallOne("exp", {x})});
  Recording() = false;
  Backward({&y, 1}, {}, false, true);
  ExpectNumbers(GradOf(x), {2}, {1, std::exp(-1.0)});
}

TEST(Meaning, ProductGradientIsRightAtZeros) {
  ExpectNumbers(GradientOf("prod", {V({2, 0, 3})}), {3}, {0, 6, 0});
  ExpectNumbers(GradientOf("prod", {V({0, 0, 3})}), {3}, {0, 0, 0});
  ExpectNumbers(GradientOf("norm", {V({0, 0})}), {2}, {0, 0});
  ExpectNumbers(GradientOf("nansum", {V({1, kNan})}), {2}, {1, 0});
}

TEST(Meaning, PowersOfZeroHaveGradients) {
  ExpectNumbers(GradientOf("broadcast_power", {V({0, 0, 2}), V({0, 1, 2})}), {3},
                {0, 1, 4});
  ExpectNumbers(GradientOf("_power_scalar", {V({0, 3})}, {{"scalar", "0"}}), {2},
                {0, 0});
}

TEST(Meaning, PaddingReflectsWithoutTheEdge) {
  const NDArray x = A({1, 1, 1, 3}, {1, 2, 3});
  const Attrs attrs = {{"mode", "reflect"}, {"pad_width", "(0,0,0,0,0,0,2,2)"}};
  ExpectNumbers(CallOne("Pad", {x}, attrs), {1, 1, 1, 7}, {3, 2, 1, 2, 3, 2, 1});
  ExpectNumbers(GradientOf("Pad", {x}, attrs), {1, 1, 1, 3}, {2, 3, 2});
  EXPECT_THROW(
      CallOne("Pad", {x}, {{"mode", "reflect"}, {"pad_width", "(0,0,0,0,0,0,3,0)"}}),
      Error);
}

TEST(Meaning, ElementwiseFormsWantEqualShapes) {
  EXPECT_THROW(CallOne("elemwise_add", {A({2, 3}, Numbers(6, 1)), V({1, 2, 3})}),
               Error);
  EXPECT_THROW(CallOne("broadcast_add", {A({2, 3}, Numbers(6, 1)), V({1, 2, 3, 4})}),
               Error);
}

TEST(Meaning, SequencesEndAtTheirLengths) {
  const NDArray x = A({3, 2}, {1, 2, 3, 4, 5, 6});  // time, batch
  const Attrs lengths = {{"use_sequence_length", "True"}};
  ExpectNumbers(CallOne("SequenceMask", {x, V({1, 2})},
                        {{"use_sequence_length", "True"}, {"value", "-1"}}),
                {3, 2}, {1, 2, -1, 4, -1, -1});
  ExpectNumbers(CallOne("SequenceLast", {x, V({1, 2})}, lengths), {2}, {1, 4});
  ExpectNumbers(CallOne("SequenceReverse", {x, V({3, 2})}, lengths), {3, 2},
                {5, 4, 3, 2, 1, 6});
  ExpectNumbers(CallOne("SequenceLast", {A({1, 0, 0}, {})}), {0, 0}, {});
}

TEST(Meaning, BlocksOfPixelsAndChannels) {
  Numbers numbers(16);
  for (int i = 0; i < 16; ++i) numbers[i] = i;
  const NDArray wide =
      CallOne("depth_to_space", {A({1, 4, 2, 2}, numbers)}, {{"block_size", "2"}});
  ExpectNumbers(wide, {1, 1, 4, 4},
                {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  ExpectNumbers(CallOne("space_to_depth", {wide}, {{"block_size", "2"}}), {1, 4, 2, 2},
                numbers);
}

TEST(Meaning, HistogramsCountWithinTheirRange) {
  const Arrays h = CallAll("_histogram", {V({0, 1, 1, 2, 5, kNan})},
                           {{"bin_cnt", "2"}, {"range", "(0, 2)"}});
  ExpectNumbers(h[0], {2}, {1, 3});
  ExpectNumbers(h[1], {3}, {0, 1, 2});
}

}  // namespace
}  // namespace plait::testing
