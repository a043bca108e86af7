// The schedules: steps down by a factor, and curves down to a final rate.

#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace plait {
namespace {

template <typename T>
std::vector<Param<T>> WithCommon(std::vector<Param<T>> rows) {
  using S = Schedule;
  const Param<T> common[] = {
      Inherited<T>("base_lr", &S::base_lr, "The rate at the start, then now."),
      Inherited<T>("warmup_steps", &S::warmup_steps, "Updates of the warm-up."),
      Inherited<T>("warmup_begin_lr", &S::warmup_begin_lr, "The rate it begins with."),
      Inherited<T>("warmup_final_lr", &S::warmup_final_lr, "The rate it ends with."),
      Inherited<T>("warmup_mode", &S::warmup_mode, "linear or constant.")};
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return rows;
}

void CheckFactor(double factor) {
  Check(factor <= 1, "schedule: factor is ", factor,
        "; at most 1 was expected, so that rates fall");
}

class Constant final : public Schedule {
 protected:
  double RateAfterWarmUp(int64_t) override { return base_lr; }
};
[[maybe_unused]] const Kind& constant = AddKind<Schedule, Constant>({
    .name = "constant",
    .doc = "One rate, after the warm-up.",
    .attributes = WithCommon<Constant>({}),
});

class FactorSchedule final : public Schedule {
 public:
  void Complete() override {
    Schedule::Complete();
    Check(step >= 1, "schedule: step is ", step, "; at least 1 was expected");
    CheckFactor(factor);
  }

  int64_t step = 0;
  double factor = 1, stop_factor_lr = 1e-8;
  int64_t count = 0;

 protected:
  double RateAfterWarmUp(int64_t num_update) override {
    // A loop, as a run that is resumed may start many steps on.
    while (num_update > count + step) {
      count += step;
      base_lr = std::max(base_lr * factor, stop_factor_lr);
    }
    return base_lr;
  }
};
[[maybe_unused]] const Kind& factor_schedule = AddKind<Schedule, FactorSchedule>({
    .name = "factor",
    .doc = "Multiplies the rate by a factor every `step` updates, down to a least one.",
    .attributes = WithCommon<FactorSchedule>(
        {Required("step", &FactorSchedule::step, "Updates between two changes."),
         {"factor", &FactorSchedule::factor, "Multiplies the rate."},
         {"stop_factor_lr", &FactorSchedule::stop_factor_lr, "The least rate."},
         {"count", &FactorSchedule::count, "The update of the last change."}}),
    .changing = {"base_lr", "count"},
});

class MultiFactor final : public Schedule {
 public:
  void Complete() override {
    Schedule::Complete();
    CheckFactor(factor);
    Check(!step.empty() && step[0] >= 1, "schedule: step is ", Format(),
          "; numbers from 1 on were expected");
    for (size_t i = 1; i < step.size(); ++i) {
      Check(step[i] > step[i - 1], "schedule: step is ", Format(),
            "; growing numbers were expected");
    }
  }

  std::vector<double> step;
  double factor = 1;
  int64_t cur_step_ind = 0, count = 0;

 protected:
  double RateAfterWarmUp(int64_t num_update) override {
    const auto steps = static_cast<int64_t>(step.size());
    while (cur_step_ind<steps&& static_cast<double>(num_update)>
               step[static_cast<size_t>(cur_step_ind)]) {
      count = static_cast<int64_t>(step[static_cast<size_t>(cur_step_ind)]);
      ++cur_step_ind;
      base_lr *= factor;
    }
    return base_lr;
  }

 private:
  std::string Format() const {
    return FormatAttr(AttrCodec<std::vector<double>>::Encode(step));
  }
};
[[maybe_unused]] const Kind& multi_factor = AddKind<Schedule, MultiFactor>({
    .name = "multifactor",
    .doc = "Multiplies the rate by a factor after each of some updates.",
    .attributes = WithCommon<MultiFactor>(
        {Required("step", &MultiFactor::step, "The updates, growing."),
         {"factor", &MultiFactor::factor, "Multiplies the rate."},
         {"cur_step_ind", &MultiFactor::cur_step_ind, "How many of them are over."},
         {"count", &MultiFactor::count, "The update of the last change."}}),
    .changing = {"base_lr", "cur_step_ind", "count"},
});

// From the first base_lr to final_lr at update max_update, along a curve from 1 to 0.
class DecayTo : public Schedule {
 public:
  void Complete() override {
    Schedule::Complete();
    Check(max_update >= 1, "schedule: max_update is ", max_update,
          "; at least 1 was expected");
    if (!base_lr_orig) base_lr_orig = base_lr;
  }

  int64_t max_update = 0;
  double final_lr = 0;
  std::optional<double> base_lr_orig;

 protected:
  // At `done` of `all` updates; its roundings are those of MXNet.
  virtual double Curve(double done, double all) const = 0;
  double RateAfterWarmUp(int64_t num_update) override {
    if (num_update <= max_update) {
      const auto done = static_cast<double>(num_update - warmup_steps);
      const auto all = static_cast<double>(max_update - warmup_steps);
      const double first = base_lr_orig.value_or(base_lr);
      base_lr = final_lr + (first - final_lr) * Curve(done, all);
    }
    return base_lr;
  }
};

template <typename T>
std::vector<Param<T>> WithDecay(std::vector<Param<T>> rows) {
  const Param<T> common[] = {
      [] {
        Param<T> p = Inherited<T>("max_update", &T::max_update, "Where it ends.");
        p.field.required = true;
        return p;
      }(),
      Inherited<T>("final_lr", &T::final_lr, "The rate there and after."),
      Inherited<T>("base_lr_orig", &T::base_lr_orig, "The rate at the start.")};
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return WithCommon<T>(std::move(rows));
}

class Poly final : public DecayTo {
 public:
  double power = 2;

 protected:
  double Curve(double done, double all) const override {
    return std::pow(1 - done / all, power);
  }
};
[[maybe_unused]] const Kind& poly = AddKind<Schedule, Poly>({
    .name = "poly",
    .doc = "Polynomial decay.",
    .attributes = WithDecay<Poly>({{"power", &Poly::power, "The exponent."}}),
    .changing = {"base_lr"},
});

class Cosine final : public DecayTo {
 protected:
  double Curve(double done, double all) const override {
    return (1 + std::cos(std::numbers::pi * done / all)) / 2;
  }
};
[[maybe_unused]] const Kind& cosine = AddKind<Schedule, Cosine>({
    .name = "cosine",
    .doc = "Half a cosine wave down.",
    .attributes = WithDecay<Cosine>({}),
    .changing = {"base_lr"},
});

}  // namespace

KindTable& Schedule::Kinds() {
  static auto& table = *new KindTable("schedule");
  return table;
}

void Schedule::Complete() {
  Check(warmup_steps >= 0, "schedule: warmup_steps is ", warmup_steps,
        "; 0 or more was expected");
  Check(warmup_begin_lr <= base_lr, "schedule: warmup_begin_lr is ", warmup_begin_lr,
        " and base_lr ", base_lr, "; a warm-up from below was expected");
  Check(warmup_mode == "linear" || warmup_mode == "constant",
        "schedule: warmup_mode is '", warmup_mode,
        "'; linear or constant was expected");
  if (!warmup_final_lr) warmup_final_lr = base_lr;
}

double Schedule::Rate(int64_t num_update) {
  if (num_update >= warmup_steps) return RateAfterWarmUp(num_update);
  if (warmup_mode == "constant") return warmup_begin_lr;
  const double done =
      static_cast<double>(num_update) / static_cast<double>(warmup_steps);
  return warmup_begin_lr + (warmup_final_lr.value_or(base_lr) - warmup_begin_lr) * done;
}

}  // namespace plait
