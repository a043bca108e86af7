// Layers: what their formulas give in corners that samples do not reach.

#include <cmath>
#include <limits>

#include "ops/call_for_test.h"
#include "run/random.h"

namespace plait::testing {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

TEST(Softmax, RowsOfMinusInfinityAreNanForEveryLength) {
  for (int64_t n = 1; n <= 40; ++n) {
    for (double v : Numbers(Call1("softmax", {Array({1, n}, {-kInf})}))) {
      EXPECT_TRUE(std::isnan(v)) << n;
    }
  }
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  ExpectNear(Call1("softmax", {Array({1, 2}, {1e4, 0})}), {1, 0});
  ExpectNear(Call1("log_softmax", {Array({1, 2}, {1e4, 0})}), {0, -1e4});
  ExpectNear(Call1("softmin", {Array({1, 2}, {1e4, 0})}), {0, 1});
}

TEST(Softmax, LengthCountsTheElementsOfEverySlice) {
  const NDArray x = Array({2, 3}, {0}), length = Array({2}, {2, 0}, DType::kInt32);
  ExpectNear(Call1("softmax", {x, length}, {{"use_length", "True"}}),
             {.5, .5, 0, 0, 0, 0});
}

TEST(Softmax, DtypeOfTheResultMayDiffer) {
  const NDArray y =
      Call1("softmax", {Array({1, 2}, {0}, DType::kFloat16)}, {{"dtype", "float32"}});
  EXPECT_EQ(y.dtype(), DType::kFloat32);
  const NDArray z =
      Call1("softmax", {Array({1, 2}, {3}, DType::kInt32)}, {{"dtype", "float64"}});
  EXPECT_EQ(z.dtype(), DType::kFloat64);
  ExpectNear(z, {.5, .5});
}

TEST(Softmax, WrongAxisAndLength) {
  ExpectError(
      [] {
        Call("softmax", {Array({2, 3}, {0})}, {{"axis", "2"}});
      },
      ErrorKind::kIndex, {"softmax", "axis 2"});
  ExpectError(
      [] {
        Call("softmax", {Array({2, 3}, {0}), Array({3}, {1}, DType::kInt32)},
             {{"use_length", "True"}});
      },
      ErrorKind::kValue, {"softmax", "(3,)", "(2,)"});
}

TEST(LeakyReLU, GradientsOfLargeInputsAreFinite) {
  const auto g = Gradients("LeakyReLU", {Array({2}, {100, -1})}, {0},
                           {{"act_type", "elu"}, {"slope", "1"}});
  ExpectNear(g[0], {1, .3678794});
  ExpectNear(Gradients("LeakyReLU", {Array({2}, {1000, -1000})}, {0},
                       {{"act_type", "gelu"}})[0],
             {1, 0});
}

TEST(LeakyReLU, PreluTakesOneSlopeForEachChannelOrForAll) {
  const NDArray x = Array({1, 2, 2}, {-1, -2, -3, 4});
  ExpectNear(Call1("LeakyReLU", {x, Array({2}, {.5, .25})}, {{"act_type", "prelu"}}),
             {-.5, -1, -.75, 4});
  ExpectNear(Call1("LeakyReLU", {x, Array({1}, {.5})}, {{"act_type", "prelu"}}),
             {-.5, -1, -1.5, 4});
  ExpectError(
      [&] {
        Call("LeakyReLU", {x, Array({3}, {1})}, {{"act_type", "prelu"}});
      },
      ErrorKind::kValue, {"LeakyReLU", "gamma (3,)"});
}

TEST(LeakyReLU, RandomSlopesAreInTheirBoundsAndTheMeanIsUsedForPrediction) {
  const NDArray x = Array({1000}, {-1});
  ExpectNear(
      Call1("LeakyReLU", {Array({1}, {-1})},
            {{"act_type", "rrelu"}, {"lower_bound", "0.25"}, {"upper_bound", "0.75"}}),
      {-.5});
  Training() = true;
  double sum = 0;
  for (double v : Numbers(Call1("LeakyReLU", {x}, {{"act_type", "rrelu"}}))) {
    EXPECT_LE(v, -.125);
    EXPECT_GE(v, -.334);
    sum += v;
  }
  Training() = false;
  EXPECT_NEAR(sum / 1000, -.2295, .01);
}

TEST(Dropout, KeepsTheMeanAndScalesWhatIsKept) {
  Training() = true;
  const NDArray y = Call1("Dropout", {Array({20000}, {1})}, {{"p", "0.25"}});
  Training() = false;
  double sum = 0;
  for (double v : Numbers(y)) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / .75) < 1e-6) << v;
    sum += v;
  }
  EXPECT_NEAR(sum / 20000, 1, .03);
}

TEST(Dropout, WithoutChanceOrTrainingNothingIsDropped) {
  ExpectNear(Call1("Dropout", {Ramp({5})}), {0, 1, 2, 3, 4});
  Training() = true;
  ExpectNear(Call1("Dropout", {Ramp({5})}, {{"p", "0"}}), {0, 1, 2, 3, 4});
  ExpectNear(Call1("Dropout", {Array({3}, {kInf})}, {{"p", "1"}}), {0, 0, 0});
  Training() = false;
}

TEST(Dropout, PredictionDoesNotMoveTheGenerator) {
  const auto mask = [](int predictions) {
    SeedRandom(11);
    for (int i = 0; i < predictions; ++i) Call("Dropout", {Ramp({64})});
    Training() = true;
    const auto values = Numbers(Call1("Dropout", {Array({64}, {1})}));
    Training() = false;
    return values;
  };
  EXPECT_EQ(mask(0), mask(3));
}

TEST(Dropout, AxesShareTheirFate) {
  Training() = true;
  const auto y = Numbers(Call1("Dropout", {Array({8, 5}, {1})}, {{"axes", "(1,)"}}));
  Training() = false;
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], y[i / 5 * 5]);
}

TEST(Pooling, MaximumOfNanIsNan) {
  const NDArray x = Array({1, 1, 4}, {1, kNan, 2, 3});
  const auto y =
      Numbers(Call1("Pooling", {x}, {{"kernel", "(2,)"}, {"stride", "(2,)"}}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 3);
}

TEST(Pooling, PaddingNeverWins) {
  ExpectNear(Call1("Pooling", {Array({1, 1, 3}, {-3, -1, -2}, DType::kFloat16)},
                   {{"kernel", "(3,)"}, {"pad", "(1,)"}}),
             {-1, -1, -1});
}

TEST(Pooling, FullConventionCountsWindowsThatStartInside) {
  const NDArray x = Ramp({1, 1, 5});
  const Attrs valid = {{"kernel", "(2,)"}, {"stride", "(2,)"}};
  Attrs full = valid;
  full.push_back({"pooling_convention", "full"});
  ExpectNear(Call1("Pooling", {x}, valid), {1, 3});
  ExpectNear(Call1("Pooling", {x}, full), {1, 3, 4});
}

TEST(Pooling, AveragesMayCountPadding) {
  const NDArray x = Array({1, 1, 3}, {3});
  Attrs attrs = {{"kernel", "(3,)"}, {"pad", "(1,)"}, {"pool_type", "avg"}};
  ExpectNear(Call1("Pooling", {x}, attrs), {2, 3, 2});
  attrs.push_back({"count_include_pad", "False"});
  ExpectNear(Call1("Pooling", {x}, attrs), {3, 3, 3});
}

TEST(Pooling, TheFirstOfEqualElementsGetsTheGradient) {
  const auto g =
      Gradients("Pooling", {Array({1, 1, 2, 2}, {1})}, {0}, {{"kernel", "(2, 2)"}});
  ExpectNear(g[0], {1, 0, 0, 0});
}

TEST(Pooling, BadParameters) {
  const NDArray x = Ramp({1, 1, 4});
  ExpectError(
      [&] {
        Call("Pooling", {x}, {{"kernel", "(2, 2)"}});
      },
      ErrorKind::kValue, {"Pooling", "(1, 1, 4)", "(2, 2)"});
  ExpectError(
      [&] {
        Call("Pooling", {x}, {{"kernel", "(5,)"}});
      },
      ErrorKind::kValue, {"Pooling", "larger"});
  ExpectError(
      [&] {
        Call("Pooling", {x}, {{"kernel", "(2,)"}, {"pool_type", "lp"}});
      },
      ErrorKind::kValue, {"p_value"});
}

TEST(BatchNorm, MovingStatisticsFollowTheBiasedBatch) {
  const NDArray x = Array({2, 1}, {1, 5}), one = Array({1}, {1}),
                zero = Array({1}, {0});
  const NDArray mean = Array({1}, {10}), var = Array({1}, {20});
  Training() = true;
  Call("BatchNorm", {x, one, zero, mean, var}, {{"momentum", "0.75"}});
  Training() = false;
  ExpectNear(mean, {8.25});
  ExpectNear(var, {16});
}

TEST(BatchNorm, FixedGammaCountsAsOneAndBetaDoesNotPileUp) {
  const NDArray x = Array({1, 3, 1, 1}, {1}), gamma = Array({3}, {5});
  const NDArray beta = Array({3}, {2}), mean = Array({3}, {0}), var = Array({3}, {1});
  for (int step = 0; step < 3; ++step) {
    const auto g = Gradients("BatchNorm", {x, gamma, beta, mean, var}, {1, 2});
    ExpectNear(g[0], {0, 0, 0});
    ExpectNear(g[1], {1, 1, 1});
  }
  ExpectNear(Call1("BatchNorm", {x, gamma, beta, Array({3}, {1}), var}), {2, 2, 2});
}

TEST(BatchNorm, HalfDataHasFloatStatistics) {
  const NDArray one = Array({3}, {1}), zero = Array({3}, {0});
  const NDArray x = Ramp({4, 3}, 1, 0, DType::kFloat16);
  Training() = true;
  const Arrays y = Call("BatchNorm", {x, one, zero, Array({3}, {0}), Array({3}, {1})});
  Training() = false;
  EXPECT_EQ(y[0].dtype(), DType::kFloat16);
  EXPECT_EQ(y[1].dtype(), DType::kFloat32);
  ExpectNear(y[1], {4.5, 5.5, 6.5});
}

TEST(LayerNorm, ALargeMeanDoesNoHarm) {
  const NDArray x = Array({1, 4}, {100000, 100001, 100002, 100003});
  const double s = std::sqrt(1.25);
  ExpectNear(Call1("LayerNorm", {x, Array({4}, {1}), Array({4}, {0})}, {{"eps", "0"}}),
             {-1.5 / s, -.5 / s, .5 / s, 1.5 / s}, 1e-5);
}

TEST(GroupNorm, GammaMayBeGivenForChannelsOrGroups) {
  const NDArray x = Ramp({1, 4, 2});
  const Attrs attrs = {{"num_groups", "2"}};
  const auto a = Numbers(
      Call1("GroupNorm", {x, Array({4}, {1, 1, 3, 3}), Array({4}, {0})}, attrs));
  const auto b =
      Numbers(Call1("GroupNorm", {x, Array({2}, {1, 3}), Array({2}, {0})}, attrs));
  EXPECT_EQ(a, b);
  ExpectError(
      [&] {
        Call("GroupNorm", {x, Array({2}, {1}), Array({2}, {0})}, {{"num_groups", "0"}});
      },
      ErrorKind::kValue, {"GroupNorm", "num_groups 0"});
}

TEST(Convolution, EmptyBatchesAndWrongShapes) {
  const Attrs attrs = {{"kernel", "(3, 3)"}, {"num_filter", "2"}, {"no_bias", "True"}};
  const auto with_layout = [&](const char* layout) {
    Attrs all = attrs;
    all.emplace_back("layout", layout);
    return all;
  };
  const NDArray w = Ramp({2, 1, 3, 3});
  EXPECT_EQ(Call1("Convolution", {NDArray::Empty({0, 1, 5, 5}), w}, attrs).shape(),
            (Shape{0, 2, 3, 3}));
  ExpectError(
      [&] {
        Call("Convolution", {Ramp({1, 2, 5, 5}), w}, attrs);
      },
      ErrorKind::kValue, {"Convolution", "(1, 2, 5, 5)", "(2, 1, 3, 3)"});
  ExpectError(
      [&] {
        Call("Convolution", {Ramp({1, 1, 2, 5}), w}, attrs);
      },
      ErrorKind::kValue, {"Convolution", "larger"});
  ExpectError(
      [&] {
        Call("Convolution", {Ramp({1, 1, 5, 5}), w}, with_layout("NHWC"));
      },
      ErrorKind::kValue, {"Convolution", "(2, 1, 3, 3)", "(2, 3, 3, ?)"});
  ExpectError(
      [&] {
        Call("Convolution", {Ramp({1, 1, 5, 5}), w}, with_layout("NWC"));
      },
      ErrorKind::kValue, {"Convolution", "NWC", "(3, 3)"});
  ExpectError(
      [&] {
        Call("Deconvolution", {Ramp({1, 5, 5, 1}), w},
             {{"kernel", "(3, 3)"}, {"num_filter", "2"}, {"layout", "NHWC"}});
      },
      ErrorKind::kValue, {"Deconvolution", "(2, 1, 3, 3)", "(1, 3, 3, 2)"});
  ExpectError(
      [&] {
        Call("Convolution", {Ramp({1, 1, 5, 5}), w}, with_layout("HWCN"));
      },
      ErrorKind::kValue, {"Convolution", "layout", "HWCN"});
}

TEST(Deconvolution, TargetShapeTakesThePlaceOfPadding) {
  const NDArray x = Ramp({1, 1, 3}), w = Array({1, 1, 4}, {1});
  const Attrs base = {{"kernel", "(4,)"}, {"stride", "(2,)"}, {"num_filter", "1"}};
  Attrs target = base;
  target.push_back({"target_shape", "(6,)"});
  Attrs pad = base;
  pad.push_back({"pad", "(1,)"});
  EXPECT_EQ(Numbers(Call1("Deconvolution", {x, w}, target)),
            Numbers(Call1("Deconvolution", {x, w}, pad)));
}

TEST(BilinearResize, TheCornersStay) {
  const NDArray x = Array({1, 1, 2, 2}, {1, 2, 3, 4});
  ExpectNear(Call1("_contrib_BilinearResize2D", {x}, {{"height", "3"}, {"width", "3"}}),
             {1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4});
}

}  // namespace
}  // namespace plait::testing
