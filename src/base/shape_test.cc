// Tests of Shape, Unify, NormalizeAxis and Broadcast.

#include "base/shape.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

namespace plait {
namespace {

std::string Text(const Shape& shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

template <typename F>
std::string ErrorOf(ErrorKind kind, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "no error";
}

TEST(Shape, PrintsAsPythonDoes) {
  EXPECT_EQ(Text({}), "()");
  EXPECT_EQ(Text({3}), "(3,)");
  EXPECT_EQ(Text({2, 3}), "(2, 3)");
  EXPECT_EQ(Text({2, kUnknownSize}), "(2, ?)");
  EXPECT_EQ(Text(Shape::Unknown()), "(unknown)");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().size(), 1);
  EXPECT_EQ((Shape{2, 0, 3}).size(), 0);
  EXPECT_EQ((Shape{2, 3, 4}).size(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).size(1, 3), 12);
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).size(), int64_t{1} << 40);
}

TEST(Shape, KnowsWhatIsUnknown) {
  EXPECT_FALSE(Shape::Unknown().rank_known());
  EXPECT_FALSE(Shape::Unknown().known());
  EXPECT_TRUE((Shape{2, kUnknownSize}).rank_known());
  EXPECT_FALSE((Shape{2, kUnknownSize}).known());
  EXPECT_TRUE((Shape{0, 2}).known());
  EXPECT_NE(Shape::Unknown(), Shape());
}

// Ranks on both sides of what fits inside the object, in every pair.
TEST(Shape, CopiesAndMovesAtEveryRank) {
  for (int from = 0; from <= 9; ++from) {
    for (int to = 0; to <= 9; ++to) {
      const Shape source = Shape::Filled(from, 7);
      Shape copied = Shape::Filled(to, 1);
      copied = source;
      EXPECT_EQ(copied, source);
      Shape moved = Shape::Filled(to, 1);
      moved = std::move(copied);
      EXPECT_EQ(moved, source);
      const Shape built(std::move(moved));
      EXPECT_EQ(built, source);
    }
  }
}

TEST(Shape, InsertsAndErasesAcrossTheInlineLimit) {
  Shape shape;
  for (int i = 0; i < 8; ++i) shape.Append(i);
  EXPECT_EQ(shape, (Shape{0, 1, 2, 3, 4, 5, 6, 7}));
  shape.Insert(0, 9);
  shape.Insert(4, 8);
  EXPECT_EQ(shape, (Shape{9, 0, 1, 2, 8, 3, 4, 5, 6, 7}));
  while (shape.rank() > 2) shape.Erase(1);
  EXPECT_EQ(shape, (Shape{9, 7}));
}

TEST(Shape, RefusesTooManyAxes) {
  EXPECT_EQ(ErrorOf(ErrorKind::kValue, [] { Shape::Filled(kMaxRank + 1, 1); }),
            "shape: 65 axes; at most 64 were expected");
}

TEST(Unify, FillsInWhatEitherSideKnows) {
  Shape a = Shape::Unknown(), b{2, kUnknownSize};
  EXPECT_TRUE(Unify(a, b));
  EXPECT_EQ(a, b);
  Shape c{kUnknownSize, 3};
  EXPECT_TRUE(Unify(a, c));
  EXPECT_EQ(a, (Shape{2, 3}));
  EXPECT_EQ(c, a);
}

TEST(Unify, RefusesShapesThatDiffer) {
  Shape a{2, 3}, b{2, 4}, c{2};
  EXPECT_FALSE(Unify(a, b));
  EXPECT_FALSE(Unify(a, c));
}

TEST(NormalizeAxis, CountsFromTheEndAndNamesTheOperator) {
  EXPECT_EQ(NormalizeAxis(1, 3, "sum"), 1);
  EXPECT_EQ(NormalizeAxis(-3, 3, "sum"), 0);
  EXPECT_EQ(ErrorOf(ErrorKind::kIndex, [] { NormalizeAxis(3, 3, "sum"); }),
            "sum: axis 3 is out of range for an array of 3 axes");
  ErrorOf(ErrorKind::kIndex, [] { NormalizeAxis(INT64_MIN, 3, "sum"); });
}

TEST(Broadcast, FollowsNumPy) {
  EXPECT_EQ(Broadcast({3, 1}, {4}, "add"), (Shape{3, 4}));
  EXPECT_EQ(Broadcast({}, {2, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(Broadcast({0}, {1}, "add"), (Shape{0}));
  EXPECT_EQ(Broadcast({5, 1, 2}, {1, 6, 1}, "add"), (Shape{5, 6, 2}));
}

TEST(Broadcast, NamesBothShapesWhenTheyDoNotFit) {
  EXPECT_EQ(ErrorOf(ErrorKind::kValue,
                    [] {
                      Broadcast({2, 3}, {4}, "add");
                    }),
            "add: shapes (2, 3) and (4,) do not broadcast together; equal sizes or 1 "
            "were expected at axis -1");
}

}  // namespace
}  // namespace plait
