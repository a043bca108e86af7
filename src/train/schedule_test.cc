// Tests of schedules.

#include "train/schedule.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

using Attributes = std::vector<NamedAttr>;

std::vector<double> Rates(const std::string& name, const Attributes& attrs,
                          std::initializer_list<int64_t> updates) {
  const auto schedule = CreateNamed<Schedule>(name, attrs);
  std::vector<double> rates;
  for (int64_t n : updates) rates.push_back(schedule->Rate(n));
  return rates;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(Schedule, FactorFallsToItsLeastRate) {
  const Attributes attrs{{"step", {int64_t{10}}},
                         {"factor", {0.1}},
                         {"stop_factor_lr", {1e-3}},
                         {"base_lr", {1.0}}};
  ExpectNear(Rates("factor", attrs, {0, 10, 11, 20, 21, 1000}),
             {1, 1, 0.1, 0.1, 0.01, 1e-3});
}

TEST(Schedule, MultiFactorFallsAfterEachStep) {
  const Attributes attrs{{"step", {AttrList{{int64_t{5}}, {int64_t{8}}}}},
                         {"factor", {0.5}},
                         {"base_lr", {1.0}}};
  ExpectNear(Rates("multifactor", attrs, {5, 6, 8, 9, 100}), {1, 0.5, 0.5, 0.25, 0.25});
}

TEST(Schedule, CurvesEndAtTheFinalRate) {
  const Attributes attrs{
      {"max_update", {int64_t{100}}}, {"base_lr", {2.0}}, {"final_lr", {1.0}}};
  ExpectNear(Rates("poly", attrs, {0, 50, 100, 200}), {2, 1.25, 1, 1});
  ExpectNear(Rates("cosine", attrs, {0, 50, 100, 200}), {2, 1.5, 1, 1});
}

TEST(Schedule, WarmsUp) {
  Attributes attrs{
      {"base_lr", {1.0}}, {"warmup_steps", {int64_t{10}}}, {"warmup_begin_lr", {0.5}}};
  ExpectNear(Rates("constant", attrs, {0, 5, 10}), {0.5, 0.75, 1});
  attrs.push_back({"warmup_mode", {std::string("constant")}});
  ExpectNear(Rates("constant", attrs, {0, 9, 10}), {0.5, 0.5, 1});
}

TEST(Schedule, GoesOnFromItsAttributes) {
  const Attributes attrs{{"step", {int64_t{10}}}, {"factor", {0.5}}};
  const auto first = CreateNamed<Schedule>("factor", attrs);
  first->Rate(25);
  EXPECT_EQ(std::get<int64_t>(first->Get("count").v), 20);
  const auto second = CreateNamed<Schedule>("factor", attrs);
  second->Set("count", first->Get("count"));
  second->Set("base_lr", first->Get("base_lr"));
  EXPECT_EQ(second->Rate(31), first->Rate(31));
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  const auto error = [](const std::string& name,
                        const Attributes& attrs) -> std::string {
    try {
      CreateNamed<Schedule>(name, attrs);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("factor", {}),
            "factor: attribute step is missing; a value of type int was expected");
  EXPECT_EQ(error("factor", {{"step", {int64_t{0}}}}),
            "schedule: step is 0; at least 1 was expected");
  EXPECT_EQ(error("multifactor", {{"step", {AttrList{{int64_t{3}}, {int64_t{2}}}}}}),
            "schedule: step is (3.0, 2.0); growing numbers were expected");
  EXPECT_EQ(error("constant", {{"warmup_mode", {std::string("odd")}}}),
            "schedule: warmup_mode is 'odd'; linear or constant was expected");
  EXPECT_EQ(error("constant", {{"base_lr", {0.1}}, {"warmup_begin_lr", {1.0}}}),
            "schedule: warmup_begin_lr is 1 and base_lr 0.1; a warm-up from below was "
            "expected");
}

}  // namespace
}  // namespace plait
