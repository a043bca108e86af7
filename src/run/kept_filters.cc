// KeptFilters: finding and making them.

#include "run/kept_filters.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "ndarray/outside.h"
#include "run/grad_node.h"
#include "run/invoke.h"

namespace plait {
namespace {

// A filter is read in as many ways at once: by convolutions of images of several sizes.
constexpr size_t kMostKept = 4;

std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}

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
  {
    const std::lock_guard lock(Mutex());
    if (leaf->filters != nullptr) {
      const auto& kept = leaf->filters->kept;
      const auto it = std::find_if(kept.begin(), kept.end(), same_call);
      if (it != kept.end() && it->chunk == one.chunk && it->offset == one.offset &&
          it->version == one.version)
        return it->value;
    }
  }
  one.value = InvokeKernel(*how.op, how.params, {&weight, 1})[0];
  const NDArray result = one.value;
  std::vector<KeptFilters::Kept> dropped;  // freed without the lock
  const std::lock_guard lock(Mutex());
  if (leaf->filters == nullptr) leaf->filters = std::make_unique<KeptFilters>();
  auto& kept = leaf->filters->kept;
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
  GradNode* leaf = LeafOf(weight);
  if (leaf == nullptr) return;
  std::unique_ptr<KeptFilters> dropped;
  const std::lock_guard lock(Mutex());
  dropped = std::move(leaf->filters);
}

}  // namespace plait
