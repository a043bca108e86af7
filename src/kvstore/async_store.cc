// AsyncStore: every rank serves the part of each key that it owns.
//
// A push sends parts to their owners, who apply each as it comes; a pull asks them. The
// server's work is done one request after the other on the callback lane, which also
// runs updaters of the host language, so that the exchange's thread never waits.

#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"
#include "kvstore/array_work.h"
#include "kvstore/push_clocks.h"
#include "kvstore/push_transfer.h"
#include "kvstore/shared_store.h"

namespace plait {
namespace {

// What the server has of a key.
struct Served {
  Key key;
  NDArray part;  // of the stored array; none where this rank owns nothing
  Codec codec;
};

// Outlives the store while requests are under way.
class Server final : public RequestServer {
 public:
  Server(Exchange& exchange, uint32_t first_slot)
      : exchange_(exchange), first_slot_(first_slot), clocks_(exchange.size()) {}

  void SetUpdater(std::shared_ptr<StoreUpdater> updater) {
    const std::lock_guard lock(mutex_);
    updater_ = std::move(updater);
  }
  void Serve(uint32_t number, Served served) {
    const std::lock_guard lock(mutex_);
    served_[number] = std::move(served);
  }
  // Throws what an owner could not do with a push of this rank.
  void ThrowRefusal() {
    std::string why;
    {
      const std::lock_guard lock(mutex_);
      why.swap(refusal_);
    }
    Check(why.empty(), ErrorKind::kRuntime, why);
  }

  void SetStaleness(int64_t bound) {
    std::vector<Pull> ready;
    {
      const std::lock_guard lock(mutex_);
      clocks_.SetBound(bound);
      ready = TakeReady();
    }
    Answer(ready);
  }

  void OnPush(int from, uint32_t slot, NDArray codes) override {
    Apply(from, slot, std::move(codes));
    Change([&] { clocks_.Pushed(from, slot); });
  }
  void OnRest(int from) override {
    Change([&] { clocks_.Rests(from); });
  }
  void OnLeft(int from) override {
    Change([&] { clocks_.Leaves(from); });
  }
  void OnLeaving() override { OnLeft(exchange_.rank()); }
  void OnFault(const std::string&) override {
    const std::lock_guard lock(mutex_);
    waiting_.clear();  // who asked knows
  }
  void OnPull(int from, uint32_t slot, uint32_t round) override {
    {
      const std::lock_guard lock(mutex_);
      if (clocks_.Ahead(from, slot)) {
        waiting_.push_back({from, slot, round});
        return;
      }
    }
    Answer(from, slot, round);
  }
  void OnRefused(uint32_t slot, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(slot - first_slot_);
    const std::string key =
        found == served_.end() ? "a key" : "the key " + Printed(found->second.key);
    if (refusal_.empty()) refusal_ = "kvstore: " + key + ": a push failed: " + why;
  }

 private:
  // What is asked by a rank that has to wait for slower ones.
  struct Pull {
    int from;
    uint32_t slot, round;
  };

  // Counts something, and answers who has waited for it.
  template <typename F>
  void Change(F count) {
    std::vector<Pull> ready;
    {
      const std::lock_guard lock(mutex_);
      count();
      ready = TakeReady();
    }
    Answer(ready);
  }
  std::vector<Pull> TakeReady() {  // with mutex_
    std::vector<Pull> ready;
    std::erase_if(waiting_, [&](const Pull& pull) {
      if (clocks_.Ahead(pull.from, pull.slot)) return false;
      ready.push_back(pull);
      return true;
    });
    return ready;
  }
  void Answer(const std::vector<Pull>& pulls) {
    for (const Pull& pull : pulls) Answer(pull.from, pull.slot, pull.round);
  }

  void Apply(int from, uint32_t slot, NDArray codes) {
    InTurn([this, from, slot, codes] {
      try {
        Apply(slot, codes);
      } catch (const std::exception& error) {
        exchange_.RefusePush(from, slot, error.what());
      }
    });
  }
  void Answer(int from, uint32_t slot, uint32_t round) {
    InTurn([this, from, slot, round] {
      try {
        const Served served = Find(slot);
        const NDArray copy = NDArray::Empty(served.part.shape(), served.part.dtype());
        CopyArray(served.part, copy);
        // Reading the copy waits for it.
        PushWork("kvstore_reply", {&copy, 1}, {}, 0, [this, from, slot, round, copy] {
          exchange_.Reply(from, slot, round, copy);
        });
      } catch (const std::exception& error) {
        exchange_.Reply(from, slot, round, NDArray(), error.what());
      }
    });
  }

  template <typename F>
  void InTurn(F f) {
    auto op = MakeOperation("kvstore_serve", std::move(f));
    op->lane = Lane::kCallback;
    Var* const turn = &turn_;
    Engine::Get().Push(std::move(op), {}, {&turn, 1});
  }

  Served Find(uint32_t slot) {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(slot - first_slot_);
    Check(found != served_.end() && found->second.part, ErrorKind::kRuntime, "rank ",
          exchange_.rank(), " does not own a part of it");
    return found->second;
  }

  void Apply(uint32_t slot, const NDArray& codes) {
    const Served served = Find(slot);
    std::shared_ptr<StoreUpdater> updater;
    {
      const std::lock_guard lock(mutex_);
      updater = updater_;
    }
    Check(updater != nullptr, ErrorKind::kRuntime, "rank ", exchange_.rank(),
          " has no updater; set_optimizer() was expected on all ranks");
    Check(codes.nbytes() == served.codec.Bytes(served.part.size()), ErrorKind::kRuntime,
          "a push has ", codes.nbytes(), " bytes; ",
          served.codec.Bytes(served.part.size()), " were expected");
    const NDArray sum = NDArray::Empty(served.part.shape(), served.codec.dtype);
    Decode(served.codec, {&codes, 1}, sum, 0);
    updater->Update({&served.key, 1}, {&sum, 1}, {&served.part, 1});
  }

  Exchange& exchange_;
  const uint32_t first_slot_;
  Var turn_;
  std::mutex mutex_;
  std::map<uint32_t, Served> served_;      // guarded by mutex_
  std::shared_ptr<StoreUpdater> updater_;  // guarded by mutex_
  std::string refusal_;                    // guarded by mutex_
  PushClocks clocks_;                      // guarded by mutex_
  std::vector<Pull> waiting_;              // guarded by mutex_
};

class AsyncStore final : public SharedStore {
 public:
  explicit AsyncStore(Exchange& exchange)
      : SharedStore(exchange),
        server_(std::make_shared<Server>(exchange, first_slot())) {
    exchange.Serve(first_slot(), server_);
  }

  void SetStaleness(int64_t bound) override {
    exchange().Bound(first_slot());  // also without a bound, so that ranks may differ
    server_->SetStaleness(bound);
    SharedStore::Barrier();  // nobody counts before all do
  }
  void Barrier() override {
    for (Entry& entry : entries()) {
      if (entry.order) entry.order.WaitToRead();  // its requests are sent
    }
    SharedStore::Barrier();
    server_->ThrowRefusal();
  }

 protected:
  void UpdaterChanged() override {
    server_->SetUpdater(shared_updater());
    for (Entry& entry : entries()) Offer(entry);
  }

  void Start(std::span<const Key> keys, std::span<const NDArray> values) override {
    const size_t before = entries().size();
    SharedStore::Start(keys, values);
    for (size_t i = before; i < entries().size(); ++i) {
      entries()[i].stored.WaitToRead();  // nobody may ask before it is there
      entries()[i].order = NDArray::Empty({1}, DType::kUint8);
      Offer(entries()[i]);
    }
    SharedStore::Barrier();
  }

  void PushMerged(const Entries& entries, std::span<const NDArray> merged,
                  int priority) override {
    Check(updater() != nullptr, ErrorKind::kRuntime, "KVStore.push: the key ",
          Printed(entries[0]->key),
          " was pushed to an asynchronous store without an updater; set_optimizer() "
          "was expected before");
    server_->ThrowRefusal();
    for (size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = *entries[i];
      if (entry.stored.size() == 0) continue;
      CollectiveSpec spec =
          SpecOf(entry, merged[i].dtype(), true, false, priority - static_cast<int>(i));
      Check(merged[i].dtype() == entry.stored.dtype(), ErrorKind::kType,
            "KVStore.push: the value of ", Printed(entry.key), " is ",
            Name(merged[i].dtype()), "; ", Name(entry.stored.dtype()), " was expected");
      spec.codec = Codec::Of(merged[i].dtype(), compression());
      const NDArray src = Outgoing(entry, merged[i], spec.codec, spec.priority);
      PushTransfer(exchange().Push(spec, src, entry.order), src, entry.order);
    }
  }

  void Fetch(const Entries& entries, std::span<const Replicas> outs,
             int priority) override {
    server_->ThrowRefusal();
    for (size_t i = 0; i < entries.size(); ++i) {
      Entry& entry = *entries[i];
      if (entry.stored.size() == 0) continue;
      const NDArray all = NDArray::Empty(entry.stored.shape(), entry.stored.dtype());
      const CollectiveSpec spec = SpecOf(entry, entry.stored.dtype(), false, true,
                                         priority - static_cast<int>(i));
      auto op = exchange().Pull(spec, all, entry.order);
      Var* const writes[] = {&all.var(), &entry.order.var()};
      Engine::Get().Push(std::move(op), {}, writes);
      for (const NDArray& out : outs[i]) CopyArray(all, out);
    }
  }

 private:
  // What this rank serves of a key.
  void Offer(Entry& entry) {
    if (entry.stored.size() == 0) return;
    const CollectiveSpec spec = SpecOf(entry, entry.stored.dtype(), false, false, 0);
    const Ranges::Part& own = spec.ranges->parts[static_cast<size_t>(rank())];
    Served served{entry.key, {}, Codec::Of(entry.stored.dtype(), compression())};
    if (own.size() == entry.stored.size()) {
      served.part = entry.stored;
    } else if (own.size() > 0) {
      served.part = PartOf(entry.stored, own);
    }
    server_->Serve(entry.number, std::move(served));
  }

  std::shared_ptr<Server> server_;
};

}  // namespace

std::unique_ptr<Store> MakeAsyncStore(Exchange& exchange) {
  return std::make_unique<AsyncStore>(exchange);
}

}  // namespace plait
