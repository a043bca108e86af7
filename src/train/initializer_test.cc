// Tests of initializers.

#include "train/initializer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing.h"
#include "run/random.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::ValuesOf;

std::vector<double> Filled(const std::string& text, const Shape& shape,
                           DType dtype = DType::kFloat32) {
  const NDArray x = NDArray::Empty(shape, dtype);
  MakeInitializer(text)->FillWeight("w", x);
  return ValuesOf(x);
}

double Deviation(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (double v : values) mean += v / static_cast<double>(values.size());
  for (double v : values)
    squares += (v - mean) * (v - mean) / static_cast<double>(values.size());
  return std::sqrt(squares);
}

TEST(Initializer, ConstantsByNameAndByJson) {
  EXPECT_EQ(Filled("zeros", {2}), (std::vector<double>{0, 0}));
  EXPECT_EQ(Filled("One", {2}), (std::vector<double>{1, 1}));
  EXPECT_EQ(Filled(R"(["constant", {"value": 3}])", {2}), (std::vector<double>{3, 3}));
  EXPECT_EQ(Filled(R"(["constant", {"value": [[1, 2.5]]}])", {1, 2}),
            (std::vector<double>{1, 2.5}));
  EXPECT_EQ(Filled(R"(["lstmbias", {"forget_bias": 2}])", {8}, DType::kFloat16),
            (std::vector<double>{0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(Filled("bilinear", {1, 1, 2, 4}),
            (std::vector<double>{0.0625, 0.1875, 0.1875, 0.0625, 0.1875, 0.5625, 0.5625,
                                 0.1875}));
}

TEST(Initializer, RandomNumbersHaveTheRightSpread) {
  EXPECT_NEAR(Deviation(Filled(R"(["uniform", {"scale": 0.5}])", {20000})),
              0.5 / std::sqrt(3), 0.01);
  EXPECT_NEAR(Deviation(Filled(R"(["normal", {"sigma": 0.5}])", {20000})), 0.5, 0.02);
  const double fan = std::sqrt(1.0 / (100 * 9));  // magnitude 3, uniform: 3 / 3 / fan
  EXPECT_NEAR(
      Deviation(Filled(R"(["xavier", {"factor_type": "in"}])", {50, 100, 3, 3})), fan,
      0.03 * fan);
  const double slope = std::sqrt(2 / (1 + 0.0625) / 100);
  EXPECT_NEAR(Deviation(Filled(R"(["msraprelu", {"factor_type": "in"}])", {50, 100})),
              slope, 0.05 * slope);
}

TEST(Initializer, TheSeedDecides) {
  SeedRandom(5);
  const std::vector<double> first = Filled("xavier", {3, 4});
  SeedRandom(5);
  EXPECT_EQ(Filled("xavier", {3, 4}), first);
}

TEST(Initializer, OrthogonalRowsOrColumns) {
  for (const char* type : {"uniform", "normal"}) {
    for (const Shape& shape : {Shape{4, 3, 3}, Shape{9, 4}, Shape{5, 5}}) {
      const std::string text =
          std::string(R"(["orthogonal", {"scale": 2, "rand_type": ")") + type + "\"}]";
      const std::vector<double> m = Filled(text, shape);
      const int64_t rows = shape[0], columns = shape.size() / rows;
      const bool tall = rows > columns;
      const int64_t n = std::min(rows, columns), length = std::max(rows, columns);
      const auto at = [&](int64_t i, int64_t k) {
        return m[static_cast<size_t>(tall ? k * columns + i : i * columns + k)];
      };
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double dot = 0;
          for (int64_t k = 0; k < length; ++k) dot += at(i, k) * at(j, k);
          EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-4) << shape << i << j;
        }
      }
    }
  }
}

TEST(Initializer, NamesDecide) {
  const auto global = CreateNamed<Initializer>(
      "constant", std::vector<NamedAttr>{{"value", {AttrList{{7.0}}}}});
  const auto value = [&](const std::string& name, const std::string& own = "") {
    const NDArray x = NDArray::Empty({1}, DType::kFloat32);
    InitializeParameter(name, own, x, *global);
    return ValuesOf(x)[0];
  };
  EXPECT_EQ(value("a_weight"), 7);
  EXPECT_EQ(value("a_bias"), 0);
  EXPECT_EQ(value("a_gamma"), 1);
  EXPECT_EQ(value("a_moving_var"), 1);
  EXPECT_EQ(value("a_bias", "one"), 1);
  EXPECT_EQ(KindOfParameter("w_weight_quantize").kind, ParameterKind::kQuantizedWeight);
  EXPECT_EQ(KindOfParameter("moving_mean", false).kind, ParameterKind::kUnknown);
  EXPECT_EQ(ErrorOf([&] { value("odd"); }).substr(0, 34),
            "initializer: the name 'odd' does n");
}

TEST(Initializer, FusedRnnFillsEveryPiece) {
  const int64_t total = 4 * 3 * (2 + 3 + 2) + 4 * 3 * (3 + 3 + 2);
  const std::vector<double> values = Filled(
      R"(["fusedrnn", {"init": "[\"one\", {}]", "num_hidden": 3, "num_layers": 2,
          "mode": "lstm", "bidirectional": false, "forget_bias": 5}])",
      {total});
  EXPECT_EQ(std::count(values.begin(), values.end(), 5), 2 * 2 * 3);
  EXPECT_EQ(std::count(values.begin(), values.end(), 0), 2 * 2 * 3 * 3);
  const auto pieces = RnnPieces("gru", 3, 1, true, 2 * 3 * 3 * (4 + 3 + 2));
  EXPECT_EQ(pieces[1].name, "l0_i2h_z_weight");
  EXPECT_EQ(pieces[1].offset, 12);
  EXPECT_EQ(pieces.back().name, "r0_h2h_o_bias");
}

TEST(Initializer, WritesTheTextItReads) {
  const std::string text =
      R"(["xavier",{"factor_type":"in","magnitude":2.0,"rnd_type":"gaussian"}])";
  EXPECT_EQ(DumpInitializer(*MakeInitializer(text)), text);
}

TEST(Initializer, RefusesBadTexts) {
  const auto error = [](const std::string& text) {
    return ErrorOf([&] { MakeInitializer(text); });
  };
  EXPECT_NE(error("[\"xavier\", {").find("bad JSON text"), std::string::npos);
  EXPECT_NE(error("[3]").find("attribute: value"), std::string::npos);
  EXPECT_NE(error(R"(["uniform", {"scale": {}}])").find("a number"), std::string::npos);
  EXPECT_NE(error(std::string(100000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(error(R"(["uniform", {"odd": 1}])").find("'odd' is not an attribute"),
            std::string::npos);
  EXPECT_NE(error("nothing").find("initializer: 'nothing' is not known"),
            std::string::npos);
  EXPECT_EQ(ErrorOf([] { Filled("xavier", {3}); }),
            "xavier: w has shape (3,); at least 2D was expected, as a vector has no "
            "fan");
  EXPECT_EQ(ErrorOf([] { RnnPieces("lstm", 3, 1, false, 10); }),
            "fusedrnn: an array of 10 values does not fit 1 layers of 3 hidden units");
}

}  // namespace
}  // namespace plait
