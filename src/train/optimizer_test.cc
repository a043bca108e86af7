// Tests of Optimizer and Updater: rates, counts, and states in a file.

#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "ndarray/array_file.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::BytesOf;
using testing::Make;
using testing::ValuesOf;
using Attributes = std::vector<NamedAttr>;

// Minimises the squares of two weights of different sizes, from ones.
struct Problem {
  NDArray weights[2] = {Make({3}, {1, 1, 1}), Make({2}, {1, 1})};
  Key keys[2] = {int64_t{0}, std::string("second")};

  void Step(Updater& updater) {
    const NDArray grads[] = {Make({3}, ValuesOf(weights[0])),
                             Make({2}, ValuesOf(weights[1]))};
    updater.Update(keys, grads, weights);
  }
  std::string Bytes() const { return BytesOf(weights[0]) + BytesOf(weights[1]); }
};

Updater NewUpdater(const std::string& rule, const Attributes& attrs = {}) {
  return Updater(std::make_unique<Optimizer>(rule, attrs));
}

TEST(Optimizer, RatesAndDecaysByKeyAndName) {
  Optimizer optimizer("sgd", Attributes{{"learning_rate", {1.0}}, {"wd", {0.1}}});
  const Key weight = int64_t{0}, bias = int64_t{1}, other = int64_t{2};
  optimizer.SetName(weight, "a_weight");
  optimizer.SetName(bias, "a_bias");
  EXPECT_EQ(optimizer.DecayOf(weight), 0.1);
  EXPECT_EQ(optimizer.DecayOf(bias), 0);
  EXPECT_EQ(optimizer.DecayOf(other), 0.1);
  optimizer.SetLrMult(std::string("a_bias"), 2);
  optimizer.SetLrMult(weight, 0.5);
  optimizer.SetWdMult(std::string("a_bias"), 3);
  EXPECT_EQ(optimizer.RateOf(weight), 0.5);
  EXPECT_EQ(optimizer.RateOf(bias), 2);
  EXPECT_NEAR(optimizer.DecayOf(bias), 0.3, 1e-12);
  EXPECT_EQ(std::get<double>(optimizer.Get("learning_rate").v), 1);
  EXPECT_EQ(std::get<double>(optimizer.Get("momentum").v), 0);
}

TEST(Optimizer, ScheduleFollowsTheHighestCount) {
  Optimizer optimizer("sgd", Attributes{{"begin_num_update", {int64_t{10}}}});
  optimizer.SetSchedule(CreateNamed<Schedule>(
      "factor", Attributes{{"step", {int64_t{11}}}, {"factor", {0.5}}}));
  EXPECT_EQ(optimizer.learning_rate(), 0.01);
  const Key key = int64_t{0};
  const NDArray w = Make({1}, {1}), g = Make({1}, {1});
  const State state = optimizer.NewState(w);
  for (int i = 0; i < 2; ++i)
    optimizer.Update({&key, 1}, {&w, 1}, {&g, 1}, {&state, 1});
  EXPECT_EQ(optimizer.num_update(), 12);
  EXPECT_EQ(optimizer.CountOf(key), 12);
  EXPECT_EQ(optimizer.learning_rate(), 0.005);
  EXPECT_NEAR(ValuesOf(w)[0], 1 - 0.01 - 0.005, 1e-6);
  EXPECT_NE(ErrorOf([&] {
              optimizer.Set("learning_rate", {0.1});
            }).find("a schedule decides it"),
            std::string::npos);
}

TEST(Updater, GoesOnFromAFileAsIfNothingHadHappened) {
  const std::string path = TestFile("states");
  for (const char* rule : {"sgd", "adam", "nag", "rmsprop", "dcasgd", "sgd_mom"}) {
    const bool momentum = std::string(rule) == "sgd_mom";
    Attributes attrs{{"learning_rate", {0.1}}};
    if (momentum) attrs.push_back({"momentum", {0.9}});
    const std::string name = momentum ? "sgd" : rule;
    Problem straight, saved;
    Updater first = NewUpdater(name, attrs), second = NewUpdater(name, attrs);
    for (int i = 0; i < 3; ++i) {
      straight.Step(first);
      saved.Step(second);
    }
    second.Save(path);
    Updater third = NewUpdater(name, attrs);
    third.Load(path);
    for (int i = 0; i < 3; ++i) {
      straight.Step(first);
      saved.Step(third);
    }
    EXPECT_EQ(saved.Bytes(), straight.Bytes()) << rule;
    EXPECT_EQ(third.optimizer().CountOf(int64_t{0}), 6) << rule;
    EXPECT_EQ(third.states().size(), 2u) << rule;
  }
  std::filesystem::remove(path);
}

TEST(Updater, RefusesFilesThatAreNoStates) {
  const std::string path = TestFile("states");
  Updater updater = NewUpdater("adam");
  Problem problem;
  problem.Step(updater);
  SaveSafetensors(path, {{"weight"}, {Make({1}, {1})}});
  EXPECT_NE(ErrorOf([&] { updater.Load(path); }).find("is no part of an optimizer's"),
            std::string::npos);
  SaveSafetensors(path, {{"state/n:0/1"}, {Make({1}, {1})}});
  EXPECT_NE(ErrorOf([&] {
              updater.Load(path);
            }).find("array 0 of the state of n:0 is missing"),
            std::string::npos);
  SaveSafetensors(path, {{"state/n:x/0"}, {Make({1}, {1})}});
  EXPECT_NE(ErrorOf([&] { updater.Load(path); }).find("'n:x' is no key"),
            std::string::npos);
  std::ofstream(path) << "no file of arrays";
  EXPECT_NE(ErrorOf([&] { updater.Load(path); }), "");
  EXPECT_EQ(updater.states().size(), 2u);  // still there
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace plait
