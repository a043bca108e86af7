// Store: keys and their checks, the first level, and the store of one process.

#include "kvstore/store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/pushing.h"
#include "kvstore/array_work.h"
#include "kvstore/device_sums.h"

namespace plait {

namespace {

// What stores ask of the compute lane is short, and transfers wait for it: it comes
// before what networks ask.
constexpr int kUrgent = 1 << 20;

std::string Text(const Shape& shape, DType dtype) {
  std::ostringstream text;
  text << Name(dtype) << ' ' << shape;
  return text.str();
}

}  // namespace

// ---------------------------------------------------------------- keys

void Store::CheckKey(const char* what, const Key& key) const {
  if (entries_.empty()) return;
  const bool texts = std::holds_alternative<std::string>(entries_.front().key);
  Check(std::holds_alternative<std::string>(key) == texts, ErrorKind::kType, "KVStore.",
        what, ": the key ", Printed(key), " is ",
        texts ? "a number, but the store began with texts"
              : "a text, but the store began with numbers",
        "; keys of one kind were expected");
}

Store::Entries Store::Find(const char* what, std::span<const Key> keys, size_t values) {
  Check(keys.size() == values, "KVStore.", what, ": got ", keys.size(), " keys and ",
        values, " values; as many values as keys were expected");
  Entries entries;
  for (const Key& key : keys) {
    CheckKey(what, key);
    const auto found = by_key_.find(key);
    Check(found != by_key_.end(), "KVStore.", what, ": the key ", Printed(key),
          " is not initialized; init() was expected before");
    entries.push_back(found->second);
  }
  return entries;
}

void Store::CheckArrays(const char* what, const Entries& entries,
                        std::span<const Replicas> values, bool pushed) const {
  std::set<const Entry*> seen;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = *entries[i];
    Check(seen.insert(&entry).second, "KVStore.", what, ": the key ",
          Printed(entry.key),
          " was given twice; one list of arrays a key was expected");
    Check(!values[i].empty(), "KVStore.", what, ": the key ", Printed(entry.key),
          " has no array; one or more were expected");
    for (const NDArray& x : values[i]) {
      Check(static_cast<bool>(x), ErrorKind::kType, "KVStore.", what, ": the key ",
            Printed(entry.key), " has no array; one was expected");
      Check(x.shape() == entry.stored.shape(), "KVStore.", what, ": the value of ",
            Printed(entry.key), " has shape ", x.shape(), "; ", entry.stored.shape(),
            " was expected");
      Check(!pushed || x.dtype() == values[i][0].dtype(), ErrorKind::kType, "KVStore.",
            what, ": the values of ", Printed(entry.key), " are ",
            Name(values[i][0].dtype()), " and ", Name(x.dtype()),
            "; one dtype was expected");
    }
  }
}

Store::Entries Store::Checked(const char* what, std::span<const Key> keys,
                              std::span<const Replicas> values, bool pushed) {
  Entries entries = Find(what, keys, values.size());
  try {
    CheckArrays(what, entries, values, pushed);
  } catch (const Error& error) {
    if (pushed) Refuse(entries, true, error.what());
    throw;
  }
  return entries;
}

Store::Entry& Store::Add(const Key& key, const NDArray& like) {
  Entry& entry = entries_.emplace_back();
  entry.key = key;
  entry.number = static_cast<uint32_t>(entries_.size() - 1);
  entry.stored = NDArray::Empty(like.shape(), like.dtype(), like.device());
  by_key_[key] = &entry;
  return entry;
}

// ---------------------------------------------------------------- the first level

NDArray Store::Merge(Entry& entry, const Replicas& arrays, bool in_place,
                     DeviceSums& sums) {
  if (arrays.size() == 1) return arrays[0];
  const NDArray& like = arrays[0];
  const Codec codec = CompressesDevices() ? Codec::Of(like.dtype(), compression_)
                                          : Codec{like.dtype(), {}};
  if (codec.plain() && in_place && like.dtype() == entry.stored.dtype()) {
    sums.Add(arrays, entry.stored);
    return entry.stored;
  }
  const NDArray sum = NDArray::Empty(like.shape(), like.dtype(), entry.stored.device());
  if (codec.plain()) {
    sums.Add(arrays, sum);
    return sum;
  }
  std::vector<NDArray> codes;
  entry.residuals.resize(std::max(entry.residuals.size(), arrays.size()));
  for (size_t d = 0; d < arrays.size(); ++d) {
    codes.push_back(Encoded(codec, arrays[d], entry.residuals[d], 0));
  }
  Decode(codec, codes, sum, 0);
  return sum;
}

std::vector<NDArray> Store::MergeAll(const Entries& entries,
                                     std::span<const Replicas> values, bool in_place) {
  std::vector<NDArray> merged;
  DeviceSums sums;
  for (size_t i = 0; i < entries.size(); ++i) {
    merged.push_back(Merge(*entries[i], values[i], in_place, sums));
  }
  sums.Flush();
  return merged;
}

// ---------------------------------------------------------------- calls

void Store::Init(std::span<const Key> keys, std::span<const NDArray> values) {
  std::string wrong;
  std::set<Key> seen;
  try {
    Check(keys.size() == values.size(), "KVStore.init: got ", keys.size(), " keys and ",
          values.size(), " values; as many values as keys were expected");
    for (size_t i = 0; i < keys.size(); ++i) {
      CheckKey("init", keys[i]);
      Check(keys[i].index() == keys[0].index(), ErrorKind::kType,
            "KVStore.init: the keys ", Printed(keys[0]), " and ", Printed(keys[i]),
            " are not of one kind; numbers or texts were expected");
      const auto found = by_key_.find(keys[i]);
      Check(static_cast<bool>(values[i]), ErrorKind::kType, "KVStore.init: the key ",
            Printed(keys[i]), " has no array; one was expected");
      if (found != by_key_.end()) {
        const NDArray& stored = found->second->stored;
        Fail(ErrorKind::kValue, "KVStore.init: the key ", Printed(keys[i]),
             " is initialized already, as ", Text(stored.shape(), stored.dtype()),
             ", now with ", Text(values[i].shape(), values[i].dtype()),
             "; each key is initialized once");
      }
      Check(seen.insert(keys[i]).second, "KVStore.init: the key ", Printed(keys[i]),
            " was given twice; each key is initialized once");
    }
  } catch (const Error& error) {
    Refuse({}, false, error.what());
    throw;
  }
  Start(keys, values);
}

void Store::Push(std::span<const Key> keys, std::span<const Replicas> values,
                 int priority) {
  const ScopedPriority urgent(kUrgent);
  const Entries entries = Checked("push", keys, values, true);
  const bool in_place = updater_ == nullptr && SumsInPlace();
  PushMerged(entries, MergeAll(entries, values, in_place), priority);
}

void Store::Pull(std::span<const Key> keys, std::span<const Replicas> outs,
                 int priority) {
  const ScopedPriority urgent(kUrgent);
  Fetch(Checked("pull", keys, outs, false), outs, priority);
}

void Store::PushPull(std::span<const Key> keys, std::span<const Replicas> values,
                     std::span<const Replicas> outs, int priority) {
  const ScopedPriority urgent(kUrgent);
  const Entries entries = Checked("pushpull", keys, values, true);
  try {
    Check(keys.size() == outs.size(), "KVStore.pushpull: got ", keys.size(),
          " keys and ", outs.size(), " outputs; as many outputs as keys were expected");
    CheckArrays("pushpull", entries, outs, false);
  } catch (const Error& error) {
    Refuse(entries, true, error.what());
    throw;
  }
  const std::vector<NDArray> merged = MergeAll(entries, values, false);
  if (updater_ == nullptr) {
    SumInto(entries, merged, outs, priority);
  } else {
    PushMerged(entries, merged, priority);
    Fetch(entries, outs, priority);
  }
}

NDArray Store::Stored(const Key& key) {
  return Find("stored", {&key, 1}, 1)[0]->stored;
}

Ranges Store::RangesOf(const Key& key) {
  Entry& entry = *Find("ranges", {&key, 1}, 1)[0];
  ChooseRanges(entry);
  return entry.ranges ? *entry.ranges : OwnedBy(0, 1, entry.stored.size());
}

void Store::SetStaleness(int64_t) {
  Fail(ErrorKind::kValue,
       "KVStore.set_staleness: this store is in step; only 'dist_async' can be behind");
}

void Store::SetUpdater(std::shared_ptr<StoreUpdater> updater) {
  updater_ = std::move(updater);
  UpdaterChanged();
}

// ---------------------------------------------------------------- in one process

void Store::Start(std::span<const Key> keys, std::span<const NDArray> values) {
  for (size_t i = 0; i < keys.size(); ++i) {
    CopyArray(values[i], Add(keys[i], values[i]).stored);
  }
}

void Store::PushMerged(const Entries& entries, std::span<const NDArray> merged, int) {
  if (updater_ == nullptr) {
    for (size_t i = 0; i < entries.size(); ++i)
      CopyArray(merged[i], entries[i]->stored);
    return;
  }
  std::vector<Key> keys;
  std::vector<NDArray> stored;
  for (const Entry* entry : entries) {
    keys.push_back(entry->key);
    stored.push_back(entry->stored);
  }
  updater_->Update(keys, merged, stored);
}

void Store::Fetch(const Entries& entries, std::span<const Replicas> outs, int) {
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const NDArray& out : outs[i]) CopyArray(entries[i]->stored, out);
  }
}

void Store::SumInto(const Entries& entries, std::span<const NDArray> merged,
                    std::span<const Replicas> outs, int) {
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const NDArray& out : outs[i]) CopyArray(merged[i], out);
  }
}

std::unique_ptr<Store> MakeLocalStore() {
  return std::make_unique<Store>();
}

}  // namespace plait
