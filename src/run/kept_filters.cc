// KeptFilters: finding, making and dropping them.

#include "run/kept_filters.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/fork.h"
#include "memory/storage.h"
#include "ndarray/outside.h"
#include "run/grad_node.h"
#include "run/invoke.h"

namespace plait {

struct KeptFilters {
  struct Kept {
    std::string key;
    Ref<Chunk> chunk;  // what it was made of, and when
    int64_t offset;
    uint32_t version;
    NDArray value;

    bool IsOf(const Kept& now) const {
      return chunk == now.chunk && offset == now.offset && version == now.version &&
             value.chunk().var().failure() == nullptr;
    }
  };
  using All = std::list<KeptFilters>;

  GradNode* leaf;
  All::iterator place;  // of this
  std::vector<Kept> kept;
};

namespace {

// A filter is read in as many ways at once: by convolutions of images of several sizes.
constexpr size_t kMostKept = 4;

// Under the mutex nobody waits, allocates arrays or lets go of them.
class Keeper final : public ForkAware {
 public:
  std::mutex mutex;
  KeptFilters::All all;

  static Keeper& Get() {
    static auto* one = new Keeper;
    return *one;
  }
  void BeforeFork() override { mutex.lock(); }
  void AfterForkInParent() override { mutex.unlock(); }
  void AfterForkInChild() override { new (&mutex) std::mutex; }
};

// What waits for the engine holds its filters, so they do not take the second half of a
// limit.
bool HasRoom() {
  const memory::Stats stats = memory::GetStats(Device{});
  return stats.limit == 0 || stats.live < stats.limit / 2;
}

// True while this thread makes filters to be kept: others are not dropped for them.
bool& Making() {
  thread_local bool making = false;
  return making;
}
class ScopedMaking {
 public:
  ScopedMaking() { Making() = true; }
  ~ScopedMaking() { Making() = false; }
  ScopedMaking(const ScopedMaking&) = delete;
  ScopedMaking& operator=(const ScopedMaking&) = delete;
};

// They can be made again, so they must not be why something else does not fit.
bool DropAll() noexcept {
  if (Making()) return false;
  Keeper& keeper = Keeper::Get();
  KeptFilters::All dropped;  // freed without the lock
  const std::lock_guard lock(keeper.mutex);
  for (const KeptFilters& one : keeper.all) one.leaf->filters.store(nullptr);
  dropped.swap(keeper.all);
  return !dropped.empty();
}

// At load, and the pool of memory before: before a fork the engine comes to rest first,
// then this locks, and the pool last.
[[maybe_unused]] const bool kRegistered = [] {
  memory::SetReclaim(DropAll);
  RegisterForFork(&Keeper::Get());
  return true;
}();

std::string KeyOf(const Preparation& how) {
  std::string key = how.op->name;
  for (const Field& field : how.op->fields)
    key += '|' + FormatAttr(field.access->Get(how.params->get()));
  return key;
}

GradNode* LeafOf(const NDArray& x) {
  GradNode* node = NodeOf(x);
  return node != nullptr && node->leaf ? node : nullptr;
}

// Those of the array as it was go to `dropped`.
void DropOld(std::vector<KeptFilters::Kept>& kept, const KeptFilters::Kept& now,
             std::vector<KeptFilters::Kept>& dropped) {
  const auto old = std::partition(kept.begin(), kept.end(),
                                  [&](const auto& k) { return k.IsOf(now); });
  std::move(old, kept.end(), std::back_inserter(dropped));
  kept.erase(old, kept.end());
}

}  // namespace

NDArray PreparedFilters(const NDArray& weight, const Preparation& how) {
  GradNode* leaf = LeafOf(weight);
  if (leaf == nullptr) return {};
  Chunk& chunk = weight.chunk();
  chunk.SettleForRead();
  const Var& var = chunk.var();
  // Without a writer the version is exact; if one comes now, from another thread, the
  // version that is noted is the older one.
  if (!var.readable() || var.failure() != nullptr || IsKnownOutside(chunk)) return {};
  KeptFilters::Kept one{
      KeyOf(how), weight.body()->chunk, weight.body()->offset, var.version(), {}};
  const auto same_call = [&](const KeptFilters::Kept& k) { return k.key == one.key; };
  Keeper& keeper = Keeper::Get();
  std::vector<KeptFilters::Kept> dropped;  // freed without the lock
  {
    const std::lock_guard lock(keeper.mutex);
    if (KeptFilters* filters = leaf->filters.load()) {
      auto& kept = filters->kept;
      DropOld(kept, one, dropped);
      const auto it = std::find_if(kept.begin(), kept.end(), same_call);
      if (it != kept.end()) return it->value;
    }
  }
  dropped.clear();
  if (!HasRoom()) return {};
  try {
    const ScopedMaking making;
    one.value = InvokeKernel(*how.op, how.params, {&weight, 1})[0];
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kMemory) throw;
    return {};
  }
  const NDArray result = one.value;
  const std::lock_guard lock(keeper.mutex);
  KeptFilters* filters = leaf->filters.load();
  if (filters == nullptr) {
    filters = &keeper.all.emplace_front();
    filters->leaf = leaf;
    filters->place = keeper.all.begin();
    leaf->filters.store(filters);
  }
  auto& kept = filters->kept;
  auto it = std::find_if(kept.begin(), kept.end(), same_call);
  if (it == kept.end() && kept.size() == kMostKept) it = kept.begin();
  if (it != kept.end()) {
    dropped.push_back(std::move(*it));
    kept.erase(it);
  }
  kept.push_back(std::move(one));
  return result;
}

void ForgetFilters(const NDArray& weight) {
  if (GradNode* leaf = LeafOf(weight)) leaf->ForgetFilters();
}

void GradNode::ForgetFilters() noexcept {
  if (filters.load() == nullptr) return;
  Keeper& keeper = Keeper::Get();
  KeptFilters::All dropped;  // freed without the lock
  const std::lock_guard lock(keeper.mutex);
  if (KeptFilters* mine = filters.exchange(nullptr))
    dropped.splice(dropped.begin(), keeper.all, mine->place);
}

}  // namespace plait
