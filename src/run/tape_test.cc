// The tape: gradients of recorded calls, requests, freeing, and higher derivatives.

#include "run/tape.h"

#include <gtest/gtest.h>

#include "run/testing.h"

namespace plait {
namespace {

using testing::CallOp;
using testing::Make;
using testing::Scalar;
using testing::ValuesOf;

struct Scope {
  Scope() { Recording() = Training() = true; }
  ~Scope() { Recording() = Training() = false; }
};

NDArray Leaf(std::vector<double> values, GradReq req = GradReq::kWrite) {
  const Shape shape{static_cast<int64_t>(values.size())};
  NDArray x = Make(shape, values);
  AttachGrad(x, Make(shape, std::vector<double>(values.size(), 0)), req);
  return x;
}

TEST(Tape, GradientOfAProductIsTheOtherFactor) {
  const NDArray x = Leaf({1, 2}), y = Leaf({3, 4});
  NDArray z;
  {
    const Scope scope;
    z = CallOp("broadcast_mul", {x, y});
  }
  Backward({&z, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x)), (std::vector<double>{3, 4}));
  EXPECT_EQ(ValuesOf(GradOf(y)), (std::vector<double>{1, 2}));
}

TEST(Tape, UsesOfOneLeafAddUp) {
  const NDArray x = Leaf({2});
  NDArray y;
  {
    const Scope scope;
    y = CallOp("broadcast_add",
               {CallOp("broadcast_mul", {x, x}), Scalar("_mul_scalar", x, 5)});
  }
  Backward({&y, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 9);
}

TEST(Tape, WriteOverwritesAndAddAccumulates) {
  const NDArray w = Leaf({2}), a = Leaf({2}, GradReq::kAdd);
  for (int i = 0; i < 3; ++i) {
    NDArray y;
    {
      const Scope scope;
      y = CallOp("broadcast_mul", {w, a});
    }
    Backward({&y, 1}, {}, false, true);
  }
  EXPECT_EQ(ValuesOf(GradOf(w))[0], 2);
  EXPECT_EQ(ValuesOf(GradOf(a))[0], 6);
}

TEST(Tape, SecondBackwardNeedsARetainedGraph) {
  const NDArray x = Leaf({3});
  NDArray y;
  {
    const Scope scope;
    y = CallOp("square", {x});
  }
  Backward({&y, 1}, {}, true, true);
  Backward({&y, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 6);
  EXPECT_THROW(Backward({&y, 1}, {}, false, true), Error);
}

TEST(Tape, HeadsThatWereNotRecordedAreRefused) {
  const NDArray x = Make({1}, {1});
  EXPECT_THROW(Backward({&x, 1}, {}, false, true), Error);
}

TEST(Tape, SecondDerivativeOfACubeIsSixTimesX) {
  const NDArray x = Leaf({2});
  NDArray first;
  {
    const Scope scope;
    const NDArray y = CallOp("broadcast_mul", {CallOp("square", {x}), x});
    first = Grad({&y, 1}, {&x, 1}, {}, true, true, true)[0];
  }
  EXPECT_EQ(ValuesOf(first)[0], 12);
  Backward({&first, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 12);
}

TEST(Tape, GradientWithRespectToAnIntermediateArray) {
  const NDArray x = Leaf({3});
  NDArray middle, y;
  {
    const Scope scope;
    middle = Scalar("_mul_scalar", x, 2);
    y = CallOp("square", {middle});
  }
  const auto g = Grad({&y, 1}, {&middle, 1}, {}, false, false, true);
  EXPECT_EQ(ValuesOf(g[0])[0], 12);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 0);  // leaves are not touched
}

TEST(Tape, OutputsThatAGradientReadsSurviveLaterWrites) {
  const NDArray x = Leaf({0});
  NDArray y;
  {
    const Scope scope;
    y = CallOp("exp", {x});
  }
  Backward({&y, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 1);
}

TEST(Tape, LongChainsAreFreedWithoutRecursion) {
  NDArray x = Leaf({1});
  {
    const Scope scope;
    for (int i = 0; i < 100000; ++i) x = CallOp("square", {x});
  }
  x = NDArray();
}

TEST(Tape, CustomGradientsGetHeadsAndGiveInputs) {
  const NDArray x = Leaf({5});
  NDArray y = Make({1}, {7});
  RecordCustom("triple", {&x, 1}, {&y, 1}, [](const GradientCall& c) {
    const std::vector<NDArray>& d = c.douts;
    return std::vector<NDArray>{Scalar("_mul_scalar", d[0], 3)};
  });
  Backward({&y, 1}, {}, false, true);
  EXPECT_EQ(ValuesOf(GradOf(x))[0], 3);
}

}  // namespace
}  // namespace plait
