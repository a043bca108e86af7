// SharedStore: the agreement on keys, allreduce, and the store in step.

#include "kvstore/shared_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kvstore/array_work.h"
#include "kvstore/key_agreement.h"
#include "kvstore/push_transfer.h"

namespace plait {
namespace {

// Keys in a row are updated together until their parts have so many bytes: one at a
// time would cost more than the arithmetic, all together would wait for the last.
constexpr int64_t kUpdateBytes = 1 << 20;

}  // namespace

SharedStore::SharedStore(Exchange& exchange)
    : exchange_(exchange),
      first_slot_(exchange.NewStore()),
      partition_(exchange.size()) {}

// ---------------------------------------------------------------- keys

void SharedStore::Start(std::span<const Key> keys, std::span<const NDArray> values) {
  std::vector<std::string> descriptions;
  for (size_t i = 0; i < keys.size(); ++i) {
    descriptions.push_back(KeyDescription(keys[i], values[i]));
  }
  AgreeOnKeys(exchange_, static_cast<int64_t>(keys.size()), descriptions);
  for (size_t i = 0; i < keys.size(); ++i) {
    Entry& entry = Add(keys[i], values[i]);
    CopyArray(values[i], entry.stored);
    if (entry.stored.size() == 0) continue;
    CollectiveSpec spec = SpecOf(entry, entry.stored.dtype(), false, true, 0);
    spec.ranges = std::make_shared<Ranges>(OwnedBy(0, size(), entry.stored.size()));
    PushTransfer(exchange_.Collect(spec, entry.stored, entry.stored), {}, entry.stored);
  }
}

void SharedStore::Refuse(const Entries& entries, bool push, const std::string& why) {
  if (push) {
    const std::string text = "rank " + std::to_string(rank()) + ": " + why;
    for (Entry* entry : entries) {
      if (entry->stored.size() == 0) continue;
      // As many collectives as the call would have made.
      const DType dtype = entry->stored.dtype();
      if (updater() == nullptr) {
        exchange_.Refuse(SpecOf(*entry, dtype, true, true, 0), text);
      } else {
        exchange_.Refuse(SpecOf(*entry, dtype, true, false, 0), text);
        exchange_.Refuse(SpecOf(*entry, dtype, false, true, 0), text);
      }
    }
    return;
  }
  try {
    AgreeOnKeys(exchange_, -1, {}, why);
  } catch (const Error&) {  // the caller throws its own
  }
}

void SharedStore::ChooseRanges(Entry& entry) {
  const bool whole = updater() != nullptr && !updater()->Elementwise();
  if (entry.ranges && entry.whole == whole) return;
  entry.whole = whole;
  const auto bytes = static_cast<int64_t>(SizeOf(entry.stored.dtype()));
  entry.ranges =
      std::make_shared<Ranges>(whole ? partition_.Whole(entry.stored.size(), bytes)
                                     : partition_.Split(entry.stored.size(), bytes));
}

CollectiveSpec SharedStore::SpecOf(Entry& entry, DType dtype, bool reduce, bool gather,
                                   int priority) {
  CollectiveSpec spec;
  spec.slot = first_slot_ + entry.number;
  spec.reduce = reduce;
  spec.gather = gather;
  spec.codec.dtype = dtype;
  ChooseRanges(entry);
  spec.ranges = entry.ranges;
  spec.label = "the key " + Printed(entry.key);
  spec.priority = priority;
  return spec;
}

NDArray SharedStore::Outgoing(Entry& entry, const NDArray& merged, const Codec& codec,
                              int priority) {
  if (codec.plain()) {
    merged.chunk().SettleForRead();
    return merged;
  }
  entry.residuals.resize(1);
  return Encoded(codec, merged, entry.residuals[0], priority);
}

void SharedStore::SumInto(const Entries& entries, std::span<const NDArray> merged,
                          std::span<const Replicas> outs, int priority) {
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = *entries[i];
    const int urgent = priority - static_cast<int>(i);
    const DType dtype = merged[i].dtype();
    if (entry.stored.size() == 0) continue;
    CollectiveSpec spec = SpecOf(entry, dtype, true, true, urgent);
    spec.codec = Codec::Of(dtype, compression());
    const NDArray src = Outgoing(entry, merged[i], spec.codec, urgent);
    const bool direct = outs[i][0].dtype() == dtype;
    const NDArray dst = direct ? outs[i][0] : NDArray::Empty(merged[i].shape(), dtype);
    dst.chunk().SettleForWrite();
    PushTransfer(exchange_.Collect(spec, src, dst), src, dst);
    for (size_t d = direct ? 1 : 0; d < outs[i].size(); ++d) CopyArray(dst, outs[i][d]);
  }
}

// ---------------------------------------------------------------- in step

namespace {

class SyncStore final : public SharedStore {
 public:
  using SharedStore::SharedStore;

 protected:
  void PushMerged(const Entries& entries, std::span<const NDArray> merged,
                  int priority) override;

 private:
  struct Part {  // of a key in a round
    Entry* entry;
    NDArray sum;
    CollectiveSpec spec;
  };
  void Replace(Entry& entry, const NDArray& merged, int priority);
  Part Reduce(Entry& entry, const NDArray& merged, int priority);
  void Update(std::vector<Part>& parts);
};

// Without an updater: the sum takes the place of the stored array.
void SyncStore::Replace(Entry& entry, const NDArray& merged, int priority) {
  const std::vector<Replicas> outs{{entry.stored}};
  SumInto({&entry}, {&merged, 1}, outs, priority);
}

SyncStore::Part SyncStore::Reduce(Entry& entry, const NDArray& merged, int priority) {
  CollectiveSpec spec = SpecOf(entry, merged.dtype(), true, false, priority);
  spec.codec = Codec::Of(merged.dtype(), compression());
  const NDArray src = Outgoing(entry, merged, spec.codec, priority);
  const int64_t own = spec.ranges->parts[static_cast<size_t>(rank())].size();
  NDArray sum = NDArray::Empty({std::max<int64_t>(1, own)}, merged.dtype());
  PushTransfer(exchange().Collect(spec, src, sum), src, sum);
  return {&entry, std::move(sum), std::move(spec)};
}

// The own parts, and then all parts to all ranks.
void SyncStore::Update(std::vector<Part>& parts) {
  std::vector<Key> keys;
  std::vector<NDArray> sums, stored;
  const auto gather_spec = [&](const Part& part) {
    CollectiveSpec spec = SpecOf(*part.entry, part.entry->stored.dtype(), false, true,
                                 part.spec.priority);
    spec.history = part.spec.history;
    return spec;
  };
  for (const Part& part : parts) {
    const Ranges::Part& own = part.spec.ranges->parts[static_cast<size_t>(rank())];
    if (own.size() == 0) continue;
    const NDArray& whole = part.entry->stored;
    keys.push_back(part.entry->key);
    const bool all = own.size() == whole.size();
    sums.push_back(all ? part.sum.Reshape(whole.shape()) : part.sum);
    stored.push_back(all ? whole : PartOf(whole, own));
  }
  try {
    if (!keys.empty()) updater()->Update(keys, sums, stored);
  } catch (const std::exception& error) {
    for (const Part& part : parts) {
      exchange().Refuse(gather_spec(part), "rank " + std::to_string(rank()) +
                                               ": its updater failed: " + error.what());
    }
    throw;
  }
  for (const Part& part : parts) {
    const NDArray& whole = part.entry->stored;
    whole.chunk().SettleForWrite();
    auto op = exchange().Collect(gather_spec(part), whole, whole, part.sum);
    // After the sum too, where nothing is owned: when the round fails, that is why.
    PushTransfer(std::move(op), part.sum, whole);
  }
  parts.clear();
}

void SyncStore::PushMerged(const Entries& entries, std::span<const NDArray> merged,
                           int priority) {
  std::vector<Part> parts;
  int64_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const int urgent = priority - static_cast<int>(i);
    if (entries[i]->stored.size() == 0) continue;
    if (updater() == nullptr) {
      Replace(*entries[i], merged[i], urgent);
      continue;
    }
    parts.push_back(Reduce(*entries[i], merged[i], urgent));
    bytes += merged[i].nbytes() / size();  // the same on all ranks
    if (bytes < kUpdateBytes) continue;
    Update(parts);
    bytes = 0;
  }
  if (!parts.empty()) Update(parts);
}

}  // namespace

std::unique_ptr<Store> MakeSharedStore(Exchange& exchange, Consistency consistency) {
  if (consistency == Consistency::kEventual) return MakeAsyncStore(exchange);
  return std::make_unique<SyncStore>(exchange);
}

}  // namespace plait
