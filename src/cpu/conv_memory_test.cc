// Measured choices of convolutions: what is remembered, saved, and refused.

#include "cpu/conv_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/blocked.h"
#include "cpu/blocked_conv.h"
#include "cpu/blocked_for_test.h"
#include "cpu/conv_cases_for_test.h"

namespace plait::cpu {
namespace {

class ConvMemoryTest : public testing::Test {
 protected:
  ConvMemoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "convXXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/choices.txt";
  }
  ~ConvMemoryTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string folder_, path_;
};

TEST_F(ConvMemoryTest, KeepsTheFirstChoice) {
  ConvMemory memory("");
  EXPECT_EQ(memory.Find("a"), "");
  EXPECT_EQ(memory.Note("a", "gemm"), "gemm");
  EXPECT_EQ(memory.Note("a", "direct"), "gemm");
  EXPECT_EQ(memory.Find("a"), "gemm");
}

TEST_F(ConvMemoryTest, ReadsWhatItSaved) {
  ConvMemory(path_).Note("b", "winograd");
  ConvMemory(path_).Note("a", "windows");
  ConvMemory memory(path_);
  EXPECT_EQ(memory.Find("a"), "windows");
  EXPECT_EQ(memory.Find("b"), "winograd");
  EXPECT_EQ(Text(), "plait convolutions 1\na windows\nb winograd\n");
}

TEST_F(ConvMemoryTest, IsBounded) {
  ConvMemory memory("");
  for (size_t i = 0; i < ConvMemory::kMost; ++i) memory.Note(std::to_string(i), "gemm");
  EXPECT_TRUE(memory.full());
  EXPECT_EQ(memory.Note("one more", "gemm"), "gemm");
  EXPECT_EQ(memory.Find("one more"), "");
  EXPECT_EQ(memory.Find("0"), "gemm");
}

TEST_F(ConvMemoryTest, RefusesOtherFiles) {
  for (const char* text :
       {"", "hello\n", "plait convolutions 1\nword\n", "plait convolutions 1\n\n",
        "plait convolutions 1\na b c\n", "plait convolutions 1\n gemm\n",
        "plait convolutions 1\na \n"}) {
    Write(text);
    EXPECT_THROW(ConvMemory{path_}, Error) << text;
  }
  Write("plait convolutions 1\n" + std::string(500, 'a') + " gemm\n");
  EXPECT_THROW(ConvMemory{path_}, Error);
  EXPECT_THROW(ConvMemory(folder_ + "/none/file").Note("a", "gemm"), Error);
}

TEST(ConvKey, TellsProblemsApart) {
  const ConvProblem p = Plain(2, 16, 5, 7, 32, 3, 1, 1);
  const std::string key = ConvKey(p, ConvPass::kForward, "plain", 2);
  EXPECT_EQ(key, "forward,plain,t2,n2,c16>32/1,x5x7,k3x3,s1x1,d1x1,p1x1,q1x1");
  ConvProblem q = p;
  q.pad_high[2] = 0;
  EXPECT_NE(ConvKey(q, ConvPass::kForward, "plain", 2), key);
  EXPECT_NE(ConvKey(p, ConvPass::kBackwardData, "plain", 2), key);
  EXPECT_NE(ConvKey(p, ConvPass::kForward, "plain", 1), key);
}

TEST(Fastest, KeepsTheFirstOfEquals) {
  std::vector<int> runs(3);
  EXPECT_EQ(Fastest(3, [&](size_t i) { ++runs[i]; }) < 3, true);
  for (int n : runs) EXPECT_GE(n, 3);
}

// Each way that there is for a problem, against the plain loops.
TEST(BlockedConvWays, AllGiveWhatThePlainLoopsGive) {
  if (ChannelBlock() == 0) GTEST_SKIP() << "no blocks in this build";
  std::vector<ConvProblem> problems = {
      Plain(1, 16, 7, 7, 32, 3, 1, 1),     Plain(0, 16, 7, 7, 32, 3, 1, 1),
      Plain(2, 19, 9, 11, 21, 3, 1, 1),    Plain(1, 3, 17, 18, 24, 3, 2, 1),
      Plain(2, 32, 8, 5, 16, 1),           Plain(1, 20, 9, 9, 40, 1, 2),
      Plain(2, 16, 10, 9, 16, 5, 2, 2),    Plain(1, 24, 8, 9, 24, 3, 1, 1, 1, 24),
      Plain(1, 16, 12, 9, 16, 3, 1, 2, 2), Plain(2, 32, 6, 6, 32, 3, 1, 1, 1, 2)};
  problems.push_back(problems[0]);  // not the same on all sides
  problems.back().pad_low = {0, 0, 1};
  problems.back().pad_high = {0, 2, 0};
  size_t tried = 0;
  for (const ConvProblem& p : problems) {
    SCOPED_TRACE(ConvKey(p, ConvPass::kForward, "blocked", 1));
    const Buffers<float> b(p);
    Doubles y(b.dy.size()), dx(b.x.size()), dw(b.weight.size());
    ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
      y[o] += double{b.x[x]} * b.weight[w];
      dx[x] += double{b.dy[o]} * b.weight[w];
      dw[w] += double{b.dy[o]} * b.x[x];
    });
    for (const ConvPass pass :
         {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeight}) {
      const auto ways = BlockedConvWays(p, pass);
      EXPECT_EQ(ways.empty(), !FindBlockedConv(p, pass));
      for (const BlockedConv& how : ways) {
        SCOPED_TRACE(NameOf(how.kind));
        ++tried;
        EXPECT_EQ(MakeBlockedConv(p, pass, NameOf(how.kind))->kind, how.kind);
        std::vector<float> packed(how.packed);
        if (how.packed > 0) PackFilters(p, pass, how, b.weight.data(), packed.data());
        const Filters w = {b.weight.data(), how.packed > 0 ? packed.data() : nullptr};
        const Blocked x = BlockedX(p, b.x), dy = BlockedY(p, b.dy);
        const float* xs = how.plain_x ? b.x.data() : x.data();
        if (pass == ConvPass::kForward) {
          Blocked out = BlockedY(p, b.dy);
          BlockedConvForward(p, how, xs, w, {}, out.data());
          ExpectNear(out.Plain(), y, 5e-6, "y");
        } else if (pass == ConvPass::kBackwardData) {
          Blocked out = BlockedX(p, b.x);
          BlockedConvBackwardData(p, how, dy.data(), w, out.data());
          ExpectNear(out.Plain(), dx, 5e-6, "dx");
        } else {
          std::vector<float> out(b.weight.size());
          BlockedConvBackwardWeight(p, how, xs, dy.data(), out.data());
          ExpectNear(out, dw, 5e-6, "dweight");
        }
      }
    }
  }
  EXPECT_GT(tried, problems.size());
  EXPECT_THROW(MakeBlockedConv(problems[0], ConvPass::kForward, "fast"), Error);
}

TEST(ConvWays, AllGiveWhatThePlainLoopsGive) {
  for (const ConvProblem& p :
       {Plain(1, 16, 7, 7, 32, 3, 1, 1), Plain(2, 19, 9, 11, 21, 3, 1, 1),
        Plain(2, 6, 8, 5, 4, 1), Plain(2, 8, 10, 9, 4, 5, 2, 2, 1, 2)}) {
    const Buffers<float> b(p);
    Doubles y(b.dy.size());
    ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
      y[o] += double{b.x[x]} * b.weight[w];
    });
    const std::vector<ConvAlgorithm> ways = ConvWays(p, ConvPass::kForward);
    EXPECT_EQ(ways[0], ChooseConv<float>(p, ConvPass::kForward));
    for (ConvAlgorithm way : ways) {
      std::vector<float> out(y.size());
      ConvForward<float>(p, b.x.data(), b.weight.data(), nullptr, false, out.data(),
                         way);
      ExpectNear(out, y, 5e-6, "y");
    }
  }
}

}  // namespace
}  // namespace plait::cpu
