// Tests of InvokeEach: the same as one call after the other, in one operation.

#include "run/invoke_each.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::BytesOf;
using testing::Make;
using testing::ValuesOf;

NDArray Ramp(const Shape& shape, double scale, DType dtype = DType::kFloat32) {
  std::vector<double> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = scale * (static_cast<double>(i % 13) - 6);
  return Make(shape, values, dtype);
}

ParamsRef Sgd(double lr, double momentum) {
  return MakeParams(GetOp("sgd_mom_update"),
                    std::vector<NamedAttr>{{"lr", {lr}}, {"momentum", {momentum}}});
}

TEST(InvokeEach, GivesWhatSingleCallsGive) {
  const OpDef& op = GetOp("sgd_mom_update");
  const ParamsRef params[] = {Sgd(0.1, 0.9), Sgd(0.2, 0.5)};
  std::vector<EachCall> calls;
  std::vector<std::vector<NDArray>> single;
  for (int i = 0; i < 40; ++i) {
    // Some are large enough for several threads, which end somewhere inside of one;
    // some are empty.
    const Shape shape = i % 10 == 7 ? Shape{300 + i, 300} : Shape{i % 5, 3};
    const auto arrays = [&] {
      return std::vector<NDArray>{Ramp(shape, i + 1), Ramp(shape, 0.1 * i),
                                  Ramp(shape, 0.01)};
    };
    const std::vector<NDArray> x = arrays();
    calls.push_back({params[i / 20], {x[0], x[1], x[2]}, {}});
    single.push_back(arrays());
    const NDArray out = single.back()[0];
    Invoke(op, params[i / 20], single.back(), {&out, 1});
  }
  InvokeEach(op, calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(BytesOf(calls[i].arrays[0]), BytesOf(single[i][0])) << i;
    EXPECT_EQ(BytesOf(calls[i].arrays[2]), BytesOf(single[i][2])) << i;
  }
}

TEST(InvokeEach, GivesTheSameBitsOnAnyNumberOfThreads) {
  const OpDef& op = GetOp("adam_update");
  const ParamsRef params = MakeParams(op, std::vector<NamedAttr>{{"lr", {0.1}}});
  const auto run = [&](bool one_by_one) {
    std::vector<EachCall> calls;
    for (int64_t size : {70'001, 1, 0, 33, 1'024, 400'000, 5, 90'000}) {
      const Shape shape{size};
      calls.push_back({params,
                       {Ramp(shape, 1), Ramp(shape, 0.1, DType::kBfloat16),
                        Ramp(shape, 0.01), Make(shape, std::vector<double>(size, 0.5))},
                       Ramp(shape, 0, DType::kBfloat16)});
    }
    // A group that stands twice makes the call run one group after the other.
    if (one_by_one) calls.push_back(calls[1]);
    InvokeEach(op, calls);
    std::vector<std::string> bytes;
    for (size_t i = 0; i < 8; ++i) {
      if (i == 1) continue;
      for (int k : {0, 2, 3}) bytes.push_back(BytesOf(calls[i].arrays[k]));
      bytes.push_back(BytesOf(calls[i].copy));
    }
    return bytes;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(InvokeEach, IsOneOperationOfTheEngine) {
  int operations = 0;
  std::vector<EachCall> calls;
  for (int i = 0; i < 20; ++i)
    calls.push_back({Sgd(0.1, 0), {Ramp({3}, 1), Ramp({3}, 1), Ramp({3}, 0)}, {}});
  WaitAll();
  Engine::Get().SetObserver([&](const EngineEvent&) { ++operations; });
  InvokeEach(GetOp("sgd_mom_update"), calls);
  WaitAll();
  Engine::Get().SetObserver(nullptr);
  EXPECT_EQ(operations, 1);
}

TEST(InvokeEach, GivesACopyInItsOwnDtype) {
  const NDArray master = Ramp({5}, 1.0 / 3), half = Ramp({5}, 0, DType::kFloat16);
  const EachCall call{
      Sgd(0.5, 0), {master, Ramp({5}, 1, DType::kFloat16), Ramp({5}, 0)}, half};
  InvokeEach(GetOp("sgd_mom_update"), {&call, 1});
  const std::vector<double> wide = ValuesOf(master), narrow = ValuesOf(half);
  for (size_t i = 0; i < wide.size(); ++i) {
    const double x = static_cast<double>(i) - 6;
    EXPECT_NEAR(wide[i], x / 3 - 0.5 * x, 1e-6);
    EXPECT_NEAR(narrow[i], wide[i], 1e-3);
  }
}

TEST(InvokeEach, UpdatesAnArrayThatStandsTwiceTwice) {
  const NDArray w = Make({2}, {1, 1}), g = Make({2}, {1, 2});
  std::vector<EachCall> calls;
  for (int i = 0; i < 8; ++i)
    calls.push_back({Sgd(0.25, 0), {w, g, Make({2}, {0, 0})}, {}});
  InvokeEach(GetOp("sgd_mom_update"), calls);
  EXPECT_EQ(ValuesOf(w), (std::vector<double>{-1, -3}));
}

TEST(InvokeEach, RefusesArraysThatDoNotFit) {
  const OpDef& op = GetOp("sgd_mom_update");
  const auto error = [&](SmallVector<NDArray, 6> arrays) -> std::string {
    const EachCall call{Sgd(0.1, 0), std::move(arrays), {}};
    try {
      InvokeEach(op, {&call, 1});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({Ramp({2}, 1), Ramp({3}, 1), Ramp({2}, 1)}),
            "sgd_mom_update: grad has shape (3,) and weight has shape (2,); equal "
            "shapes were expected");
  EXPECT_EQ(error({Ramp({2}, 1), Ramp({2}, 1)}),
            "sgd_mom_update: got 2 arrays; 3 were expected");
  EXPECT_EQ(error({Ramp({2}, 1), Ramp({2}, 1, DType::kInt32), Ramp({2}, 1)}),
            "sgd_mom_update: grad is int32; a float was expected");
}

}  // namespace
}  // namespace plait
