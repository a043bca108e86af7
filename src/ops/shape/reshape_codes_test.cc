// Reshape's codes, case by case.

#include "ops/shape/reshape_codes.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

Shape To(Shape x, Shape codes, bool reverse = false) {
  return ReshapedShape(x, codes, reverse, "Reshape");
}

TEST(ReshapeCodes, CopyInferAndTakeTheRest) {
  EXPECT_EQ(To({2, 3, 4}, {4, 0, 2}), (Shape{4, 3, 2}));
  EXPECT_EQ(To({2, 3, 4}, {6, -1}), (Shape{6, 4}));
  EXPECT_EQ(To({2, 3, 4}, {-1}), (Shape{24}));
  EXPECT_EQ(To({2, 3, 4}, {-2}), (Shape{2, 3, 4}));
  EXPECT_EQ(To({2, 3, 4}, {2, -2}), (Shape{2, 3, 4}));
  EXPECT_EQ(To({2, 3, 4}, {-2, 1, 1}), (Shape{2, 3, 4, 1, 1}));
  EXPECT_EQ(To({10, 5, 4}, {-1, 0}), (Shape{40, 5}));
}

TEST(ReshapeCodes, MergeAndSplit) {
  EXPECT_EQ(To({2, 3, 4}, {-3, 4}), (Shape{6, 4}));
  EXPECT_EQ(To({2, 3, 4, 5}, {-3, -3}), (Shape{6, 20}));
  EXPECT_EQ(To({2, 3, 4}, {0, -3}), (Shape{2, 12}));
  EXPECT_EQ(To({2, 3, 4}, {-4, 1, 2, -2}), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(To({2, 3, 4}, {2, -4, -1, 3, -2}), (Shape{2, 1, 3, 4}));
}

TEST(ReshapeCodes, ReadFromTheRight) {
  EXPECT_EQ(To({10, 5, 4}, {-1, 0}, true), (Shape{50, 4}));
  EXPECT_EQ(To({2, 3, 8}, {0, 0, 2, 4, -4}, true), (Shape{2, 3, 2, 4}));
}

TEST(ReshapeCodes, InferBehindASplit) {
  EXPECT_EQ(To({8, 3, 4}, {-4, 2, 4, -1}), (Shape{2, 4, 12}));
}

TEST(ReshapeCodes, UnknownSizesStayUnknown) {
  EXPECT_EQ(To({kUnknownSize, 3}, {0, -1}), (Shape{kUnknownSize, kUnknownSize}));
  EXPECT_EQ(To({kUnknownSize, 3}, {-3}), (Shape{kUnknownSize}));
  Shape x{kUnknownSize, 3};
  CheckSameSize(x, {4, 6}, "Reshape");
  EXPECT_EQ(x, (Shape{8, 3}));
}

TEST(ReshapeCodes, RejectWhatDoesNotFit) {
  EXPECT_THROW(To({10}, {1, 2}), Error);
  EXPECT_THROW(To({3, 3, 3}, {3, 3}), Error);
  EXPECT_THROW(To({4}, {-1, -1}), Error);
  EXPECT_THROW(To({4}, {0, 0}), Error);
  EXPECT_THROW(To({4}, {-3}), Error);
  EXPECT_THROW(To({4}, {-4, 3, 2}), Error);
  EXPECT_THROW(To({4}, {-4, 3}), Error);
  EXPECT_THROW(To({4}, {-4, -1, -1}), Error);
  EXPECT_THROW(To({4}, {-7}), Error);
  EXPECT_THROW(To({4}, {3, -1}), Error);
}

TEST(ReshapeCodes, EmptyArrays) {
  EXPECT_EQ(To({0, 3}, {0, -1}), (Shape{0, 0}));
  EXPECT_EQ(To({3, 0}, {0, 0, 5}), (Shape{3, 0, 5}));
  EXPECT_EQ(To({3, 0}, {-3}), (Shape{0}));
  EXPECT_THROW(To({3, 0}, {3, 1}), Error);
}

}  // namespace
}  // namespace plait
