// Optimizer: a rule with its rates, counts and names. Updater: with its states too.
//
// Thread safety: one thread at a time.

#ifndef PLAIT_TRAIN_OPTIMIZER_H_
#define PLAIT_TRAIN_OPTIMIZER_H_

#include <map>
#include <memory>
#include <span>
#include <string>

#include "kvstore/updater.h"
#include "train/rule.h"
#include "train/schedule.h"

namespace plait {

class Optimizer {
 public:
  // By the name of a rule, with attributes of the rule or of the optimizer itself:
  // learning_rate, wd, begin_num_update. Throws as CreateNamed.
  explicit Optimizer(std::string_view rule, std::span<const NamedAttr> attrs = {});

  void Set(std::string_view attribute, const AttrValue& value);
  AttrValue Get(std::string_view attribute) const;

  // The rate then follows the schedule, at the number of updates.
  void SetSchedule(std::unique_ptr<Schedule> schedule);
  // Parameters with names: multipliers may be given by name, and those that the rule
  // does not decay by default (biases) have the multiplier 0.
  void SetName(const Key& key, const std::string& name);
  void SetLrMult(const Key& key_or_name, double multiplier);
  void SetWdMult(const Key& key_or_name, double multiplier);

  State NewState(const NDArray& weight) const { return rule_->NewState(weight); }
  // Counts an update of each weight and changes weights and states; all on one device.
  void Update(std::span<const Key> keys, std::span<const NDArray> weights,
              std::span<const NDArray> grads, std::span<const State> states);

  double learning_rate() const;  // now, without multipliers
  double RateOf(const Key& key) const;
  double DecayOf(const Key& key) const;
  int64_t num_update() const { return num_update_; }  // the most of any key
  int64_t CountOf(const Key& key, Device device = {}) const;
  const Rule& rule() const { return *rule_; }

  // Bookkeeping to go on with, as a saved run gives it.
  void SetCount(const Key& key, int64_t count, Device device = {});

 private:
  double MultiplierOf(const std::map<Key, double>& table, const Key& key,
                      double otherwise) const;

  std::unique_ptr<Rule> rule_;
  std::unique_ptr<Schedule> schedule_;
  double lr_ = 0.01, wd_ = 0;
  int64_t begin_num_update_ = 0, num_update_ = 0;
  std::map<Key, std::string> names_;
  std::map<Key, double> lr_mult_, wd_mult_;
  std::map<std::pair<Key, int>, int64_t> counts_;  // by key and number of the device
};

// What a store or a trainer calls: weights by key, states made when first seen.
class Updater final : public StoreUpdater {
 public:
  explicit Updater(std::unique_ptr<Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}

  Optimizer& optimizer() { return *optimizer_; }
  void Update(std::span<const Key> keys, std::span<const NDArray> grads,
              std::span<const NDArray> weights) override;
  bool Elementwise() const override;
  const std::map<Key, State>& states() const { return states_; }

  // States and counts, as a safetensors file: arrays "state/n:3/0" (key 3, array 0 of
  // its state; keys that are texts: "state/t:name/0") and counts "count/n:3".
  void Save(const std::string& path) const;
  // Takes over what Save wrote; throws kIo or kValue and changes nothing for a bad
  // file.
  void Load(const std::string& path);

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::map<Key, State> states_;
};

}  // namespace plait

#endif  // PLAIT_TRAIN_OPTIMIZER_H_
