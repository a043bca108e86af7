// Optimizer and Updater: rates, counts, and states with their file.

#include "train/optimizer.h"

#include <algorithm>
#include <charconv>

#include "ndarray/array_file.h"

namespace plait {
namespace {

std::string Text(const Key& key) {
  if (const auto* number = std::get_if<int64_t>(&key))
    return "n:" + std::to_string(*number);
  return "t:" + std::get<std::string>(key);
}

// The key in a name of the file; throws kValue.
Key KeyFrom(std::string_view text, const std::string& path) {
  if (text.starts_with("t:")) return std::string(text.substr(2));
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const bool good =
      text.starts_with("n:") &&
      std::from_chars(text.data() + 2, end, number) == std::from_chars_result{end, {}};
  Check(good, path, ": '", text, "' is no key of an optimizer's state");
  return number;
}

}  // namespace

Optimizer::Optimizer(std::string_view rule, std::span<const NamedAttr> attrs) {
  std::vector<NamedAttr> own, rest;
  for (const NamedAttr& attr : attrs) {
    const bool mine = attr.name == "learning_rate" || attr.name == "wd" ||
                      attr.name == "begin_num_update";
    (mine ? own : rest).push_back(attr);
  }
  rule_ = CreateNamed<Rule>(rule, rest);
  for (const NamedAttr& attr : own) Set(attr.name, attr.value);
  num_update_ = begin_num_update_;
}

void Optimizer::Set(std::string_view attribute, const AttrValue& value) {
  const std::string what = rule_->kind().name + ": " + std::string(attribute);
  if (attribute == "learning_rate") {
    Check(!schedule_, ErrorKind::kRuntime, what,
          " cannot be set, as a schedule decides it");
    lr_ = AttrCodec<double>::Decode(value, what);
  } else if (attribute == "wd") {
    wd_ = AttrCodec<double>::Decode(value, what);
  } else if (attribute == "begin_num_update") {
    begin_num_update_ = AttrCodec<int64_t>::Decode(value, what);
  } else {
    rule_->Set(attribute, value);
  }
}

AttrValue Optimizer::Get(std::string_view attribute) const {
  if (attribute == "learning_rate") return {learning_rate()};
  if (attribute == "wd") return {wd_};
  if (attribute == "begin_num_update") return {begin_num_update_};
  return rule_->Get(attribute);
}

void Optimizer::SetSchedule(std::unique_ptr<Schedule> schedule) {
  schedule_ = std::move(schedule);
}

void Optimizer::SetName(const Key& key, const std::string& name) {
  names_[key] = name;
  if (!rule_->Decays(name)) wd_mult_.try_emplace(name, 0);
}
void Optimizer::SetLrMult(const Key& key_or_name, double multiplier) {
  lr_mult_[key_or_name] = multiplier;
}
void Optimizer::SetWdMult(const Key& key_or_name, double multiplier) {
  wd_mult_[key_or_name] = multiplier;
}

double Optimizer::learning_rate() const {
  return schedule_ ? schedule_->Rate(num_update_) : lr_;
}

double Optimizer::MultiplierOf(const std::map<Key, double>& table, const Key& key,
                               double otherwise) const {
  if (const auto found = table.find(key); found != table.end()) return found->second;
  const auto name = names_.find(key);
  if (name == names_.end()) return otherwise;
  const auto found = table.find(name->second);
  return found == table.end() ? otherwise : found->second;
}

double Optimizer::RateOf(const Key& key) const {
  return learning_rate() * MultiplierOf(lr_mult_, key, 1);
}
double Optimizer::DecayOf(const Key& key) const {
  return wd_ * MultiplierOf(wd_mult_, key, 1);
}

int64_t Optimizer::CountOf(const Key& key, Device device) const {
  const auto found = counts_.find({key, device.id});
  return found == counts_.end() ? begin_num_update_ : found->second;
}

void Optimizer::SetCount(const Key& key, int64_t count, Device device) {
  counts_[{key, device.id}] = count;
  num_update_ = std::max(num_update_, count);
}

void Optimizer::Update(std::span<const Key> keys, std::span<const NDArray> weights,
                       std::span<const NDArray> grads, std::span<const State> states) {
  Check(keys.size() == weights.size(), rule_->kind().name, ": got ", keys.size(),
        " keys and ", weights.size(), " weights; as many were expected");
  if (keys.empty()) return;
  const Device device = weights[0].device();
  std::vector<int64_t> counts;
  for (const Key& key : keys) {
    counts.push_back(CountOf(key, device) + 1);
    SetCount(key, counts.back(), device);
  }
  const double lr = learning_rate();
  std::vector<double> lrs, wds;
  std::vector<std::string> names;
  for (const Key& key : keys) {
    lrs.push_back(lr * MultiplierOf(lr_mult_, key, 1));
    wds.push_back(DecayOf(key));
    const auto name = names_.find(key);
    names.push_back(name == names_.end() ? "" : name->second);
  }
  rule_->Apply({weights, grads, states, lrs, wds, counts, names, lr});
}

bool Updater::Elementwise() const {
  return dynamic_cast<const PointwiseRule*>(&optimizer_->rule()) != nullptr;
}

void Updater::Update(std::span<const Key> keys, std::span<const NDArray> grads,
                     std::span<const NDArray> weights) {
  Check(keys.size() == weights.size(), "updater: got ", keys.size(), " keys and ",
        weights.size(), " weights; as many were expected");
  std::vector<State> states;
  for (size_t i = 0; i < keys.size(); ++i) {
    auto found = states_.find(keys[i]);
    if (found == states_.end())
      found = states_.emplace(keys[i], optimizer_->NewState(weights[i])).first;
    states.push_back(found->second);
  }
  optimizer_->Update(keys, weights, grads, states);
}

void Updater::Save(const std::string& path) const {
  NamedArrays content;
  const auto add = [&](std::string name, NDArray array) {
    content.names.push_back(std::move(name));
    content.arrays.push_back(std::move(array));
  };
  for (const auto& [key, state] : states_) {
    const std::string text = Text(key);
    for (size_t i = 0; i < state.size(); ++i) {
      // An array that the rule does without is kept as one of no elements.
      add("state/" + text + "/" + std::to_string(i),
          state[i] ? state[i] : NDArray::Empty({0}));
    }
    const int64_t count = optimizer_->CountOf(key);
    add("count/" + text, NDArray::FromHost(&count, {1}, DType::kInt64));
  }
  SaveSafetensors(path, content);
}

void Updater::Load(const std::string& path) {
  const NamedArrays content = LoadSafetensors(path);
  std::map<Key, std::map<int64_t, NDArray>> found;
  std::map<Key, int64_t> counts;
  for (size_t i = 0; i < content.names.size(); ++i) {
    const std::string_view name = content.names[i];
    const NDArray& array = content.arrays[i];
    if (name.starts_with("count/")) {
      Check(array.dtype() == DType::kInt64 && array.size() == 1, path, ": '", name,
            "' is no count");
      array.CopyToHost(&counts[KeyFrom(name.substr(6), path)]);
      continue;
    }
    const size_t slash = name.rfind('/');
    Check(name.starts_with("state/") && slash > 6, path, ": '", name,
          "' is no part of an optimizer's state");
    const Key key = KeyFrom(name.substr(6, slash - 6), path);
    const Key number = KeyFrom("n:" + std::string(name.substr(slash + 1)), path);
    found[key][std::get<int64_t>(number)] = array;
  }
  std::map<Key, State> states;
  for (const auto& [key, arrays] : found) {
    State& state = states[key];
    for (const auto& [number, array] : arrays) {
      Check(number == static_cast<int64_t>(state.size()), path, ": array ",
            state.size(), " of the state of ", Text(key), " is missing");
      state.push_back(array.size() == 0 ? NDArray() : array);
    }
  }
  for (const auto& [key, count] : counts) {
    states.try_emplace(key);  // rules without a state
    optimizer_->SetCount(key, count);
  }
  states_ = std::move(states);
}

}  // namespace plait
