// Bottlenecks as one call: the same bits as their convolutions one after the other.

#include "cpu/blocked_bottleneck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_for_test.h"
#include "cpu/conv_cases_for_test.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

struct Shape {
  int64_t batch, in, wide, out, height, width, kernel, stride, pad;
};

// The three layers with their packed filters.
class Layers {
 public:
  explicit Layers(const Shape& s)
      : expand_(Plain(s.batch, s.in, s.height, s.width, s.wide, 1)),
        depthwise_(Plain(s.batch, s.wide, s.height, s.width, s.wide, s.kernel, s.stride,
                         s.pad, 1, s.wide)),
        project_(
            Plain(s.batch, s.wide, depthwise_.Out(1), depthwise_.Out(2), s.out, 1)),
        a_(expand_),
        b_(depthwise_),
        c_(project_) {
    for (auto* of : {&packed_a_, &packed_c_}) {
      const ConvProblem& p = of == &packed_a_ ? expand_ : project_;
      of->resize(PixelFilterSize(p, ConvPass::kForward));
      PackPixelFilters(p, ConvPass::kForward,
                       (of == &packed_a_ ? a_ : c_).weight.data(), of->data());
    }
    packed_b_.resize(DepthwiseFilterSize(depthwise_));
    PackDepthwiseFilters(depthwise_, b_.weight.data(), packed_b_.data());
  }

  Bottleneck Call(bool expands, const float* other) const {
    Bottleneck b;
    b.expands = expands;
    b.expand = {expand_, packed_a_.data(), Bounded(a_)};
    b.depthwise = {depthwise_, packed_b_.data(), Bounded(b_)};
    b.project = {project_, packed_c_.data(), {.bias = c_.bias.data(), .other = other}};
    return b;
  }
  const ConvProblem& first(bool expands) const {
    return expands ? expand_ : depthwise_;
  }
  const ConvProblem& last() const { return project_; }
  std::vector<float> X(bool expands) const { return expands ? a_.x : b_.x; }
  const std::vector<float>& other() const { return c_.dy; }

 private:
  static ConvFinish Bounded(const Buffers<float>& b) {
    return {.bias = b.bias.data(), .bounded = true, .low = -0.25, .high = 2};
  }
  ConvProblem expand_, depthwise_, project_;
  Buffers<float> a_, b_, c_;
  std::vector<float> packed_a_, packed_b_, packed_c_;
};

void OneAfterTheOther(const Bottleneck& b, const float* x, float* y) {
  const ConvProblem& d = b.depthwise.conv;
  Blocked wide = BlockedX(d, std::vector<float>(d.batch * d.in_channels * d.InSize()));
  Blocked middle =
      BlockedY(d, std::vector<float>(d.batch * d.in_channels * d.OutSize()));
  if (b.expands) {
    PixelConv(b.expand.conv, ConvPass::kForward, x, b.expand.packed, b.expand.finish,
              wide.data());
    x = wide.data();
  }
  DepthwiseConv(d, x, b.depthwise.packed, b.depthwise.finish, middle.data());
  PixelConv(b.project.conv, ConvPass::kForward, middle.data(), b.project.packed,
            b.project.finish, y);
}

constexpr Shape kShapes[] = {
    {1, 1, 2, 1, 1, 1, 1, 1, 0},       {1, 16, 48, 16, 7, 7, 3, 1, 1},
    {2, 24, 70, 24, 14, 13, 3, 1, 1},  {1, 20, 33, 40, 15, 14, 3, 2, 1},
    {3, 17, 40, 9, 9, 30, 5, 1, 2},    {1, 300, 36, 310, 5, 4, 3, 1, 1},
    {1, 8, 300, 8, 6, 6, 3, 2, 0},     {2, 16, 96, 24, 60, 57, 3, 2, 1},
    {1, 24, 144, 24, 56, 40, 3, 1, 1}, {5, 8, 24, 8, 8, 8, 5, 2, 2},
    {1, 160, 480, 160, 7, 7, 3, 1, 1}, {1, 32, 32, 16, 70, 60, 3, 1, 1},
    {1, 16, 32, 16, 9, 9, 2, 3, 0},    {1, 12, 20, 30, 4, 3, 7, 1, 3},
    {1, 64, 384, 64, 14, 14, 3, 1, 1}, {1, 16, 64, 32, 13, 90, 3, 1, 0},
};

TEST(Bottleneck, GivesTheBitsOfItsParts) {
  for (const Shape& s : kShapes) {
    for (const bool expands : {true, false}) {
      ForEachTarget([&] {
        SCOPED_TRACE(testing::Message()
                     << "n " << s.batch << " " << s.in << " " << s.wide << " " << s.out
                     << " on " << s.height << "x" << s.width << " k " << s.kernel
                     << " s " << s.stride << " expands " << expands);
        const Layers own(s);  // filters in blocks of this target
        const Blocked x = BlockedX(own.first(expands), own.X(expands));
        const Blocked other = BlockedY(own.last(), own.other());
        for (const float* added : {static_cast<const float*>(nullptr), other.data()}) {
          const Bottleneck b = own.Call(expands, added);
          ASSERT_TRUE(HasBottleneck(b));
          Blocked expected = BlockedY(own.last(), own.other()), y = expected;
          OneAfterTheOther(b, x.data(), expected.data());
          for (const int threads : {1, 2, 3, 8}) {
            const ScopedComputeThreads scope(threads);
            y.Fill(NAN);
            BottleneckConv(b, x.data(), y.data());
            EXPECT_TRUE(y == expected) << threads << " threads";
          }
        }
      });
    }
  }
}

TEST(Bottleneck, KeepsNanWhereItIs) {
  const Layers layers({1, 16, 32, 16, 8, 8, 3, 1, 1});
  std::vector<float> plain = layers.X(true);
  plain[0] = NAN;  // channel 0 of pixel (0, 0)
  const Blocked x = BlockedX(layers.first(true), plain);
  Blocked y = BlockedY(layers.last(), layers.other());
  BottleneckConv(layers.Call(true, nullptr), x.data(), y.data());
  const std::vector<float> result = y.Plain();
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(std::isnan(result[i]), i / 8 < 2 && i % 8 < 2) << i;
}

TEST(Bottleneck, IsNotMadeOfOtherLayers) {
  const Shape shape = {1, 16, 32, 16, 8, 8, 3, 1, 1};
  const Layers layers(shape);
  const Bottleneck good = layers.Call(true, nullptr);
  ASSERT_TRUE(HasBottleneck(good));
  Bottleneck b = good;
  b.depthwise.conv.groups = 16;
  EXPECT_FALSE(HasBottleneck(b));
  b = good;
  b.expand.conv.out_channels = 31;
  EXPECT_FALSE(HasBottleneck(b));
  b = good;
  b.project.conv.stride[2] = 2;
  EXPECT_FALSE(HasBottleneck(b));
  b = good;
  b.project.conv.in[1] = 7;
  EXPECT_FALSE(HasBottleneck(b));
  // Rows that the caches cannot hold.
  EXPECT_FALSE(
      HasBottleneck(Layers({1, 1, 4, 1, 3, 4000, 3, 1, 1}).Call(true, nullptr)));
}

}  // namespace
}  // namespace plait::cpu
