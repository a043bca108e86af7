// Exchange: transfers made and handed to its thread.

#include "kvstore/exchange.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/blocking.h"
#include "base/error.h"
#include "kvstore/exchange_thread.h"
#include "kvstore/push_transfer.h"
#include "kvstore/world.h"

namespace plait {

class Exchange::Impl {
 public:
  explicit Impl(Communicator& comm) : thread(comm) {}

  uint32_t NextRound(uint32_t slot) {
    const std::lock_guard lock(mutex_);
    return rounds_[slot]++;
  }
  uint32_t NewStore() {
    const std::lock_guard lock(mutex_);
    Check(stores_ < (1 << 12), ErrorKind::kRuntime, "kvstore: ", stores_,
          " distributed stores were made; no more are possible");
    return stores_++ << 20;
  }

  void Bound(uint32_t store) {
    const std::lock_guard lock(mutex_);
    if (std::find(bounded_.begin(), bounded_.end(), store) == bounded_.end()) {
      bounded_.push_back(store);
    }
  }
  std::vector<uint32_t> bounded() {
    const std::lock_guard lock(mutex_);
    return bounded_;
  }

  ExchangeThread thread;

 private:
  std::mutex mutex_;
  std::map<uint32_t, uint32_t> rounds_;  // guarded by mutex_
  uint32_t stores_ = 1;                  // number 0 is the exchange's own
  std::vector<uint32_t> bounded_;        // guarded by mutex_
};

Exchange::Exchange(Communicator& comm) : impl_(std::make_unique<Impl>(comm)) {}
Exchange::~Exchange() = default;

void Exchange::Close() {
  impl_->thread.Stop("the program ends");
}
void Exchange::Retire(const std::string& why) {
  impl_->thread.Stop(fault() + why);
}

int Exchange::rank() const {
  return impl_->thread.comm().rank();
}
int Exchange::size() const {
  return impl_->thread.comm().size();
}
const Traffic& Exchange::traffic() const {
  return impl_->thread.traffic();
}
std::string Exchange::fault() const {
  return impl_->thread.comm().fault();
}
void Exchange::Abort(const std::string& text) {
  impl_->thread.comm().Abort(text);
}
uint32_t Exchange::NewStore() {
  return impl_->NewStore();
}

std::unique_ptr<AsyncOperation> Exchange::Collect(CollectiveSpec spec,
                                                  const NDArray& src,
                                                  const NDArray& dst,
                                                  const NDArray& after) {
  spec.round = impl_->NextRound(spec.slot);
  return std::make_unique<CollectTransfer>(impl_->thread, spec, src, dst, after);
}

void Exchange::Refuse(CollectiveSpec spec, const std::string& why) {
  spec.round = impl_->NextRound(spec.slot);
  impl_->thread.Post(
      [&thread = impl_->thread, spec, why] { thread.Refuse(spec, why); });
}

void Exchange::Serve(uint32_t store, std::shared_ptr<RequestServer> server) {
  impl_->thread.Post([&thread = impl_->thread, store, server] {
    if (!thread.broken()) thread.requests().Serve(store, server);
  });
}

std::unique_ptr<AsyncOperation> Exchange::Push(CollectiveSpec spec,
                                               const NDArray& codes,
                                               const NDArray& order) {
  spec.round = impl_->NextRound(spec.slot);
  return std::make_unique<Requests::Push>(impl_->thread, spec, codes, order);
}

std::unique_ptr<AsyncOperation> Exchange::Pull(CollectiveSpec spec, const NDArray& dst,
                                               const NDArray& order) {
  spec.round = impl_->NextRound(spec.slot);
  return std::make_unique<Requests::Pull>(impl_->thread, spec, dst, order);
}

void Exchange::Reply(int to, uint32_t slot, uint32_t round, const NDArray& part,
                     const std::string& error) {
  impl_->thread.Post([&thread = impl_->thread, to, slot, round, part, error] {
    if (!thread.broken()) thread.requests().Reply(to, slot, round, part, error);
  });
}

void Exchange::RefusePush(int to, uint32_t slot, const std::string& why) {
  impl_->thread.Post([&thread = impl_->thread, to, slot, why] {
    if (!thread.broken()) thread.requests().RefusePush(to, slot, why);
  });
}

void Exchange::Bound(uint32_t store) {
  // A rank without the store could not count, and who is not counted by all would wait
  // or be waited for without end.
  Barrier();
  impl_->Bound(store);
}

void Exchange::Rest() {
  for (const uint32_t store : impl_->bounded()) {
    impl_->thread.Post([&thread = impl_->thread, store] {
      if (!thread.broken()) thread.requests().Rest(store);
    });
  }
}

void Exchange::AllReduce(const NDArray& x, const std::string& label) {
  Rest();
  Partition partition(size());
  CollectiveSpec spec;
  spec.reduce = spec.gather = true;
  spec.codec.dtype = x.dtype();
  spec.ranges = std::make_shared<Ranges>(
      partition.Split(x.size(), static_cast<int64_t>(SizeOf(x.dtype()))));
  spec.label = label;
  x.chunk().SettleForWrite();
  PushTransfer(Collect(spec, x, x), {}, x);
  x.WaitToRead();
}

// The root receives nothing, so it would not see that another rank's array differs.
void Exchange::CheckAlike(const NDArray& x, int root, const std::string& label) {
  const auto form = Codec{x.dtype()}.Form();
  std::vector<int64_t> kinds(static_cast<size_t>(size()), 0);
  kinds[static_cast<size_t>(rank())] = x.size() * 256 + form;
  const NDArray all = NDArray::FromHost(kinds.data(), {size()}, DType::kInt64);
  AllReduce(all, label);
  all.CopyToHost(kinds.data());
  const int64_t expected = kinds[static_cast<size_t>(root)];
  const auto text = [](int64_t kind) {
    return std::to_string(kind / 256) + " elements of " +
           Codec::FormName(static_cast<uint8_t>(kind % 256));
  };
  for (int r = 0; r < size(); ++r) {
    const int64_t kind = kinds[static_cast<size_t>(r)];
    Check(kind == expected, ErrorKind::kRuntime, "kvstore: ", label, ": rank ", root,
          " has ", text(expected), " and rank ", r, " has ", text(kind),
          "; all ranks must use equal shapes and dtypes");
  }
}

void Exchange::Broadcast(const NDArray& x, int root, const std::string& label) {
  Check(root >= 0 && root < size(), "broadcast: got the root ", root, "; a rank below ",
        size(), " was expected");
  CheckAlike(x, root, label);
  CollectiveSpec spec;
  spec.gather = true;
  spec.codec.dtype = x.dtype();
  spec.ranges = std::make_shared<Ranges>(OwnedBy(root, size(), x.size()));
  spec.label = label;
  x.chunk().SettleForWrite();
  PushTransfer(Collect(spec, x, x), {}, x);
  x.WaitToRead();
}

namespace {
std::atomic<Exchange*> world_exchange{nullptr};
}

Exchange& WorldExchange() {
  static const bool made = [] {
    world_exchange = new Exchange(World());
    return true;
  }();
  (void)made;
  return *world_exchange;
}

std::string WorldFault() {
  Exchange* const exchange = world_exchange.load();
  return exchange == nullptr ? "" : exchange->fault();
}

void ShrinkWorldExchange(std::chrono::milliseconds most) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Exchange& before = WorldExchange();
  Check(!before.fault().empty(), ErrorKind::kRuntime,
        "shrink: no rank is lost; it is for those that go on after a loss");
  const std::string reason = WhyNotShrink();
  Check(reason.empty(), ErrorKind::kRuntime, "shrink: ", reason,
        "; it was lost: ", before.fault());
  before.Retire(
      "; the job has gone on without it, and stores and trainers from before must be "
      "made again");
  // What the loss has spoilt can be written again: its error was told.
  for (bool quiet = false; !quiet;) {
    try {
      Engine::Get().WaitAll();
      quiet = true;
    } catch (const std::exception&) {
    }
  }
  // The one before stays for its stores.
  world_exchange = new Exchange(ShrinkWorld(most));
}

void AbortWorldExchange(const std::string& text) {
  Exchange* const exchange = world_exchange.load();
  if (exchange != nullptr) exchange->Abort(text);
}

void CloseWorldExchange() {
  Exchange* const exchange = world_exchange.load();
  if (exchange == nullptr) return;
  // What is still computed may want to be sent.
  const ScopedBlocking blocking;
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!Engine::Get().Idle() && exchange->fault().empty() &&
         std::chrono::steady_clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  exchange->Close();
}

void Exchange::Barrier() {
  const int64_t zero = 0;
  AllReduce(NDArray::FromHost(&zero, {1}, DType::kInt64), "a barrier");
}

}  // namespace plait
