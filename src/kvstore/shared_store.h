// SharedStore: what stores of several ranks have in common: keys started together.

#ifndef PLAIT_KVSTORE_SHARED_STORE_H_
#define PLAIT_KVSTORE_SHARED_STORE_H_

#include <memory>
#include <string>

#include "kvstore/store.h"

namespace plait {

class SharedStore : public Store {
 public:
  explicit SharedStore(Exchange& exchange);

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  void Barrier() override { exchange_.Barrier(); }

 protected:
  void Start(std::span<const Key> keys, std::span<const NDArray> values) override;
  void SumInto(const Entries& entries, std::span<const NDArray> merged,
               std::span<const Replicas> outs, int priority) override;
  void Refuse(const Entries& entries, bool push, const std::string& why) override;
  // What a rank sends is compressed, not what its devices do.
  bool CompressesDevices() const override { return false; }
  bool SumsInPlace() const override { return false; }
  void ChooseRanges(Entry& entry) override;

  Exchange& exchange() { return exchange_; }
  uint32_t first_slot() const { return first_slot_; }
  // Collectives of a key. Its parts are chosen at its first push: whole arrays where
  // the updater needs them.
  CollectiveSpec SpecOf(Entry& entry, DType dtype, bool reduce, bool gather,
                        int priority);
  // What this rank sends of a key.
  NDArray Outgoing(Entry& entry, const NDArray& merged, const Codec& codec,
                   int priority);

 private:
  Exchange& exchange_;
  const uint32_t first_slot_;
  Partition partition_;
};

std::unique_ptr<Store> MakeAsyncStore(Exchange& exchange);

}  // namespace plait

#endif  // PLAIT_KVSTORE_SHARED_STORE_H_
