// Tests of kept values: they are those of the parameters at the time of each call.

#include "run/prologue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "memory/storage.h"
#include "run/executor.h"
#include "run/graph_function.h"
#include "run/testing.h"

namespace plait::testing {
namespace {

Symbol CallSymbol(const char* op, const std::vector<Symbol>& in,
                  const SymbolAttrs& attrs = {}) {
  return Symbol::Make(GetOp(op), op, attrs, in);
}

// y = x (2 w)^T.
Symbol TwiceTheWeight() {
  const Symbol twice =
      CallSymbol("_mul_scalar", {Symbol::Variable("w")}, {{"scalar", "2"}});
  return CallSymbol("FullyConnected", {Symbol::Variable("x"), twice},
                    {{"num_hidden", "1"}, {"no_bias", "True"}});
}

double Value(const Arrays& y) {
  return ValuesOf(y[0])[0];
}

// When nothing is under way.
size_t Live() {
  Engine::Get().WaitAll();
  return memory::GetStats({}).live;
}

struct Doubler {
  Ref<GraphFunction> function = MakeRef<GraphFunction>(TwiceTheWeight(), "f");
  NDArray x = Make({1, 4}, {1, 1, 1, 1}), w = Make({1, 4}, {1, 2, 3, 4});

  double Call() {
    const NDArray in[] = {x, w};
    return Value(function->Call(in));
  }
};

TEST(Prologue, FollowsWritesByOperators) {
  Doubler d;
  EXPECT_EQ(d.Call(), 20);
  EXPECT_EQ(d.Call(), 20);
  Scalar("_mul_scalar", d.w, 3, d.w);
  EXPECT_EQ(d.Call(), 60);
  CallOp("_plus_scalar", {d.w}, {{"scalar", {1.0}}}, d.w);
  EXPECT_EQ(d.Call(), 68);
}

TEST(Prologue, FollowsWritesToViews) {
  Doubler d;
  EXPECT_EQ(d.Call(), 20);
  const NDArray view = d.w.Reshape({4}).Slice(1, 3);
  Scalar("_mul_scalar", view, 0, view);
  EXPECT_EQ(d.Call(), 10);
}

TEST(Prologue, FollowsCopiesFromTheHost) {
  Doubler d;
  EXPECT_EQ(d.Call(), 20);
  const float numbers[] = {5, 0, 0, 0};
  d.w.CopyFromHost(numbers);
  EXPECT_EQ(d.Call(), 10);
}

TEST(Prologue, FollowsOtherArrays) {
  Doubler d;
  const NDArray first = d.w;
  EXPECT_EQ(d.Call(), 20);
  for (int i = 0; i < 20; ++i) {
    d.w = Make({1, 4}, {1.0 * i, 0, 0, 0});
    EXPECT_EQ(d.Call(), 2 * i);
    d.w = first;
    EXPECT_EQ(d.Call(), 20);
  }
}

TEST(Prologue, KeepsNothingOfMemoryThatOthersMayWrite) {
  Doubler d;
  std::vector<float> outside = {1, 2, 3, 4};
  d.w = NDArray::Borrow(outside.data(), {1, 4}, DType::kFloat32, {}, [] {});
  EXPECT_EQ(d.Call(), 20);
  outside[0] = 11;
  EXPECT_EQ(d.Call(), 40);
}

TEST(Prologue, CountsAsMemoryAndLetsParametersGo) {
  constexpr int64_t kSize = 1 << 20;
  Ref<GraphFunction> f = MakeRef<GraphFunction>(TwiceTheWeight(), "f");
  const NDArray x = CallOp("ones_like", {NDArray::Empty({1, kSize})});
  const auto call = [&](const NDArray& w) {
    const NDArray in[] = {x, w};
    return Value(f->Call(in));
  };
  NDArray w = CallOp("ones_like", {x});
  w.WaitToRead();
  const size_t before = Live();
  EXPECT_EQ(call(w), 2.0 * kSize);
  EXPECT_GE(Live(), before + kSize * sizeof(float));
  for (int i = 0; i < 3; ++i) {  // the parameters are replaced
    w = CallOp("ones_like", {x});
    EXPECT_EQ(call(w), 2.0 * kSize);
    EXPECT_LT(Live(), before + 2 * kSize * sizeof(float));
  }
  f = nullptr;
  EXPECT_LT(Live(), before + kSize * sizeof(float) / 2);
}

TEST(Prologue, IsSharedByShapesOfTheData) {
  constexpr int64_t kSize = 1 << 20;
  const Ref<GraphFunction> f = MakeRef<GraphFunction>(TwiceTheWeight(), "f");
  const NDArray w = CallOp("ones_like", {NDArray::Empty({1, kSize})});
  const auto call = [&](int64_t batch) {
    const NDArray x = CallOp("ones_like", {NDArray::Empty({batch, kSize})});
    const NDArray in[] = {x, w};
    return Value(f->Call(in));
  };
  call(1);
  const size_t before = Live();
  for (int64_t batch = 2; batch < 6; ++batch) EXPECT_EQ(call(batch), 2.0 * kSize);
  EXPECT_LT(Live(), before + kSize * sizeof(float) / 2);
}

TEST(Prologue, SharesFiltersInTheOrderOfAKernel) {
  const Symbol conv =
      CallSymbol("Convolution", {Symbol::Variable("x"), Symbol::Variable("w")},
                 {{"kernel", "(3, 3)"}, {"num_filter", "128"}, {"no_bias", "True"}});
  const Ref<GraphFunction> f = MakeRef<GraphFunction>(conv, "f");
  const NDArray w = CallOp("ones_like", {NDArray::Empty({128, 128, 3, 3})});
  const auto call = [&](int64_t batch) {
    const NDArray in[] = {CallOp("ones_like", {NDArray::Empty({batch, 128, 9, 9})}), w};
    return Value(f->Call(in));
  };
  // Small batches may be computed in another way.
  EXPECT_NEAR(call(4), 9 * 128, 0.1);
  const size_t before = Live();
  for (int64_t batch = 5; batch < 9; ++batch) EXPECT_NEAR(call(batch), 9 * 128, 0.1);
  EXPECT_LT(Live(), before + static_cast<size_t>(w.nbytes()));
}

TEST(Prologue, ExecutorsShareValues) {
  constexpr int64_t kSize = 1 << 20;
  const Symbol symbol = TwiceTheWeight();
  const NDArray x = CallOp("ones_like", {NDArray::Empty({1, kSize})}),
                w = CallOp("ones_like", {x});
  const std::vector<NDArray> arrays = {x, w};
  Executor first(symbol, arrays, {}, {}), second(symbol, arrays, {}, {});
  second.ShareKept(first);
  first.Forward(false);
  const size_t before = Live();
  second.Forward(false);
  EXPECT_EQ(ValuesOf(second.outputs()[0])[0], 2.0 * kSize);
  EXPECT_LT(Live(), before + kSize * sizeof(float) / 2);
}

TEST(Prologue, ManyDifferentOnesDoNotFillTheMemory) {
  constexpr int64_t kSize = 1 << 20;
  const NDArray x = CallOp("ones_like", {NDArray::Empty({1, kSize})}),
                w = CallOp("ones_like", {x});
  const std::vector<NDArray> arrays = {x, w};
  std::vector<std::unique_ptr<Executor>> all;
  const size_t before = Live();
  for (int i = 0; i < 24; ++i) {
    const Symbol times = CallSymbol("_mul_scalar", {Symbol::Variable("w")},
                                    {{"scalar", std::to_string(i)}});
    const Symbol y = CallSymbol("FullyConnected", {Symbol::Variable("x"), times},
                                {{"num_hidden", "1"}, {"no_bias", "True"}});
    all.push_back(std::make_unique<Executor>(y, arrays, std::vector<NDArray>(),
                                             std::vector<GradReq>()));
    if (i > 0) all[i]->ShareKept(*all[0]);
    all[i]->Forward(false);
    EXPECT_EQ(ValuesOf(all[i]->outputs()[0])[0], 1.0 * i * kSize);
  }
  EXPECT_LT(Live(), before + 10 * kSize * sizeof(float));
  all[0]->Forward(false);
  EXPECT_EQ(ValuesOf(all[0]->outputs()[0])[0], 0);
}

TEST(Prologue, WaitsForWritesThatAreUnderWay) {
  Doubler d;
  EXPECT_EQ(d.Call(), 20);
  Var* const var = &d.w.var();
  for (int i = 1; i < 50; ++i) {
    std::atomic<bool> go{false};
    auto write = MakeOperation("write", [&go, w = d.w, i] {
      while (!go) std::this_thread::yield();
      w.data<float>()[0] = static_cast<float>(i);
    });
    Engine::Get().Push(std::move(write), {}, {&var, 1});
    const NDArray in[] = {d.x, d.w};
    const Arrays y = d.function->Call(in);  // before the write has begun
    go = true;
    EXPECT_EQ(Value(y), 2 * (9 + i));
  }
}

TEST(Prologue, ThreadsSeeEveryWriteThatCameBeforeTheirCall) {
  const Ref<GraphFunction> f = MakeRef<GraphFunction>(TwiceTheWeight(), "f");
  const NDArray w = Make({1, 4}, {0, 0, 0, 0});
  std::atomic<int> begun{0}, ended{0};
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::thread writer([&] {
    for (int i = 1; i <= 300; ++i) {
      while (calls < i) std::this_thread::yield();
      begun = i;
      const std::vector<float> numbers(4, static_cast<float>(i));
      if (i % 2 == 0) {
        w.CopyFromHost(numbers.data());
      } else {
        CallOp("_plus_scalar", {w}, {{"scalar", {1.0}}}, w);
        w.WaitToRead();
      }
      ended = i;
    }
    stop = true;
  });
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      const NDArray x = Make({1, 4}, {0, 0, 0, 1});
      do {
        const int before = ended;
        const NDArray in[] = {x, w};
        const double y = Value(f->Call(in)) / 2;
        wrong += y < before || y > begun;
        ++calls;
      } while (!stop);
    });
  }
  writer.join();
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong, 0);
}

// Convolutions with all that fold_bn knows, in an executor.
class FoldedOperators : public ::testing::TestWithParam<int> {};

TEST_P(FoldedOperators, GiveWhatTheyGiveOneByOne) {
  struct Op {
    const char* name;
    SymbolAttrs attrs;
    Shape x, weight;
    bool bias;
  };
  const Op kOps[] = {
      {"Convolution",
       {{"kernel", "(3, 3)"}, {"num_filter", "6"}, {"no_bias", "True"}},
       {2, 4, 5, 5},
       {6, 4, 3, 3},
       false},
      {"Convolution",
       {{"kernel", "(2,)"}, {"num_filter", "6"}, {"num_group", "2"}},
       {2, 4, 5},
       {6, 2, 2},
       true},
      {"Deconvolution",
       {{"kernel", "(2, 2)"},
        {"num_filter", "6"},
        {"num_group", "2"},
        {"no_bias", "True"}},
       {2, 4, 3, 3},
       {4, 3, 2, 2},
       false},
      {"Deconvolution",
       {{"kernel", "(2, 2)"}, {"num_filter", "6"}, {"no_bias", "False"}},
       {2, 4, 3, 3},
       {4, 6, 2, 2},
       true},
      {"FullyConnected", {{"num_hidden", "6"}}, {2, 4}, {6, 4}, true},
  };
  const Op& op = kOps[GetParam()];
  std::mt19937 random(GetParam());
  const auto draw = [&](const Shape& shape) {
    std::vector<double> numbers(static_cast<size_t>(shape.size()));
    for (double& v : numbers) v = std::uniform_real_distribution(0.5, 1.5)(random);
    return Make(shape, numbers);
  };
  std::vector<Symbol> in = {Symbol::Variable("x"), Symbol::Variable("w")};
  std::vector<NDArray> arrays = {draw(op.x), draw(op.weight)};
  if (op.bias) {
    in.push_back(Symbol::Variable("b"));
    arrays.push_back(draw({6}));
  }
  const size_t operands = in.size();
  std::vector<Symbol> norm = {CallSymbol(op.name, in, op.attrs)};
  for (const char* name : {"gamma", "beta", "mean", "var"}) {
    norm.push_back(Symbol::Variable(name));
    arrays.push_back(draw({6}));
  }
  for (const char* kind : {"BatchNorm", "_contrib_BatchNormWithReLU"}) {
    for (const char* fix_gamma : {"True", "False"}) {
      Executor executor(CallSymbol(kind, norm, {{"fix_gamma", fix_gamma}}), arrays, {},
                        {});
      for (int round = 0; round < 3; ++round) {
        executor.Forward(false);
        std::vector<NamedAttr> attrs;
        for (const auto& [name, value] : op.attrs)
          attrs.push_back({name, ParseAttr(value)});
        const std::vector<NDArray> first(arrays.begin(),
                                         arrays.begin() + static_cast<int>(operands));
        std::vector<NDArray> second = {CallOp(op.name, first, attrs)};
        second.insert(second.end(), arrays.begin() + static_cast<int>(operands),
                      arrays.end());
        const NDArray expected =
            CallOp(kind, second, {{"fix_gamma", ParseAttr(fix_gamma)}});
        const std::vector<double> y = ValuesOf(executor.outputs()[0]),
                                  e = ValuesOf(expected);
        ASSERT_EQ(y.size(), e.size());
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_NEAR(y[i], e[i], 1e-4 * (1 + std::abs(e[i])));
        for (const NDArray& x : arrays) Scalar("_mul_scalar", x, 1.1, x);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FoldedOperators, ::testing::Range(0, 5));

}  // namespace
}  // namespace plait::testing
