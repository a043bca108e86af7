// Store: arrays by key that devices push gradients to and pull weights from.
//
// A call returns at once; what it asks for are operations of the engine on the Vars of
// the arrays. Errors of keys, shapes and dtypes are thrown at the call.
//
// Thread safety: one thread at a time.

#ifndef PLAIT_KVSTORE_STORE_H_
#define PLAIT_KVSTORE_STORE_H_

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvstore/codec.h"
#include "kvstore/exchange.h"
#include "kvstore/updater.h"
#include "ndarray/ndarray.h"

namespace plait {

enum class Consistency : uint8_t { kSequential, kEventual };

// One array for each device.
using Replicas = std::vector<NDArray>;

class DeviceSums;

class Store {
 public:
  virtual ~Store() = default;

  // Keys are all numbers or all texts. Lists of keys and of values are equally long,
  // and a key stands in them once.

  // Starts keys with copies of values; among ranks, with those of rank 0.
  void Init(std::span<const Key> keys, std::span<const NDArray> values);
  // The sum of each list goes to the updater, or takes the place of the stored array.
  void Push(std::span<const Key> keys, std::span<const Replicas> values, int priority);
  // Copies stored arrays into all of `outs`, casting.
  void Pull(std::span<const Key> keys, std::span<const Replicas> outs, int priority);
  // Both; without an updater the sums go to `outs` and the stored arrays stay.
  // priority: of the first key; each next one is less urgent.
  void PushPull(std::span<const Key> keys, std::span<const Replicas> values,
                std::span<const Replicas> outs, int priority);

  // The stored array itself; among ranks this rank's copy.
  NDArray Stored(const Key& key);
  // Which rank updates which part of it; it is final after the first push.
  Ranges RangesOf(const Key& key);

  void SetUpdater(std::shared_ptr<StoreUpdater> updater);
  // Before the first push.
  void SetCompression(const Compression& compression) { compression_ = compression; }

  // How many pushes of a key a rank may be ahead of the slowest before its pulls wait;
  // negative: any. Of asynchronous stores, on all ranks alike.
  virtual void SetStaleness(int64_t bound);

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  virtual void Barrier() {}

 protected:
  struct Entry {
    Key key;
    uint32_t number = 0;  // in the order of starts
    NDArray stored;
    std::vector<NDArray> residuals;  // by device; of what this rank sends: the first
    std::shared_ptr<const Ranges> ranges;
    bool whole = false;  // the ranges are one
    NDArray order;       // of requests, where there are any
  };
  using Entries = std::vector<Entry*>;

  // What the kinds of stores do in their own way. `merged` is one array a key.
  virtual void Start(std::span<const Key> keys, std::span<const NDArray> values);
  virtual void PushMerged(const Entries& entries, std::span<const NDArray> merged,
                          int priority);
  virtual void Fetch(const Entries& entries, std::span<const Replicas> outs,
                     int priority);
  virtual void SumInto(const Entries& entries, std::span<const NDArray> merged,
                       std::span<const Replicas> outs, int priority);
  // A call will not take place on this rank.
  virtual void Refuse(const Entries&, bool /*push*/, const std::string& /*why*/) {}
  virtual bool CompressesDevices() const { return true; }
  // Without an updater sums may be made in the stored arrays.
  virtual bool SumsInPlace() const { return true; }
  virtual void UpdaterChanged() {}
  // Makes entry.ranges; inside one process there are none.
  virtual void ChooseRanges(Entry&) {}

  Entry& Add(const Key& key, const NDArray& like);
  const Compression& compression() const { return compression_; }
  StoreUpdater* updater() const { return updater_.get(); }
  std::shared_ptr<StoreUpdater> shared_updater() const { return updater_; }
  std::deque<Entry>& entries() { return entries_; }

 private:
  void CheckKey(const char* what, const Key& key) const;
  Entries Find(const char* what, std::span<const Key> keys, size_t values);
  void CheckArrays(const char* what, const Entries& entries,
                   std::span<const Replicas> values, bool pushed) const;
  Entries Checked(const char* what, std::span<const Key> keys,
                  std::span<const Replicas> values, bool pushed);
  // in_place: sums are made in the stored arrays where their dtype allows it.
  NDArray Merge(Entry& entry, const Replicas& arrays, bool in_place, DeviceSums& sums);
  std::vector<NDArray> MergeAll(const Entries& entries,
                                std::span<const Replicas> values, bool in_place);

  std::deque<Entry> entries_;  // in the order of starts; they do not move
  std::map<Key, Entry*> by_key_;
  std::shared_ptr<StoreUpdater> updater_;
  Compression compression_;
};

// A store inside this process.
std::unique_ptr<Store> MakeLocalStore();
// One that the ranks of `exchange` share; all make theirs in the same order. The
// exchange must outlive it.
std::unique_ptr<Store> MakeSharedStore(Exchange& exchange, Consistency consistency);

}  // namespace plait

#endif  // PLAIT_KVSTORE_STORE_H_
