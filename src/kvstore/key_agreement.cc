// AgreeOnKeys: counts and hashes first, texts where they differ.

#include "kvstore/key_agreement.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "ndarray/sparse.h"

namespace plait {
namespace {

constexpr size_t kTextBytes = 256;  // of a description that ranks compare

// The same on all ranks, unlike std::hash of other builds.
int64_t HashOf(const std::string& text) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return static_cast<int64_t>(hash >> 1);
}

}  // namespace

uint32_t HashOf(const Key& key) {
  return static_cast<uint32_t>(HashOf(Printed(key)) >> 16);
}

std::string KeyDescription(const Key& key, const NDArray& value) {
  std::ostringstream text;
  text << Printed(key) << ": " << Name(value.dtype()) << ' ' << value.shape();
  if (IsSparse(value)) text << ", " << Name(StorageOf(value));
  return text.str();
}

void AgreeOnKeys(Exchange& exchange, int64_t count,
                 std::span<const std::string> descriptions, const std::string& wrong) {
  const int size = exchange.size();
  const auto ranks = static_cast<size_t>(size),
             own = static_cast<size_t>(exchange.rank());
  const auto gather = [&](size_t each, const auto& fill) {
    std::vector<int64_t> all(ranks * each, 0);
    fill(all.data() + own * each);
    NDArray x = NDArray::FromHost(all.data(), {static_cast<int64_t>(all.size())},
                                  DType::kInt64);
    exchange.AllReduce(x, "the start of keys");
    x.CopyToHost(all.data());
    return all;
  };
  std::string all_texts;
  for (const std::string& text : descriptions) all_texts += text + '\n';
  const int64_t hash = HashOf(all_texts);
  const std::vector<int64_t> heads = gather(2, [&](int64_t* head) {
    head[0] = wrong.empty() ? count : -1;
    head[1] = hash;
  });
  int refuses = -1, differs = -1;
  for (int r = size - 1; r >= 0; --r) {
    const int64_t* head = heads.data() + 2 * r;
    if (head[0] < 0) refuses = r;
    if (head[0] != heads[0] || head[1] != heads[1]) differs = r;
  }
  if (refuses < 0 && differs < 0) return;
  // What it is about: of who refuses the reason, else of all the first key that
  // differs from rank 0's.
  constexpr size_t kWords = kTextBytes / sizeof(int64_t);
  const auto texts = [&](const std::string& text) {
    const std::vector<int64_t> all = gather(kWords, [&](int64_t* words) {
      std::memcpy(words, text.data(), std::min(text.size(), kTextBytes - 1));
    });
    std::vector<std::string> result;
    for (size_t r = 0; r < ranks; ++r) {
      result.emplace_back(reinterpret_cast<const char*>(all.data() + r * kWords));
    }
    return result;
  };
  if (refuses >= 0) {
    const std::vector<std::string> reasons = texts(wrong);
    Fail(ErrorKind::kRuntime, "KVStore.init: rank ", refuses,
         " failed: ", reasons[static_cast<size_t>(refuses)]);
  }
  int64_t most = 0;
  for (int r = 0; r < size; ++r) most = std::max(most, heads[2 * r]);
  for (int64_t k = 0; k < most; ++k) {
    const bool has = k < static_cast<int64_t>(descriptions.size());
    const std::vector<std::string> all =
        texts(has ? descriptions[static_cast<size_t>(k)] : "no key");
    for (int r = 1; r < size; ++r) {
      const auto at = static_cast<size_t>(r);
      Check(all[at] == all[0], "KVStore.init: rank 0 starts ", all[0], " and rank ", r,
            " starts ", all[at],
            "; equal keys, shapes and dtypes were expected on all ranks");
    }
  }
  Fail(ErrorKind::kRuntime, "KVStore.init: rank ", differs,
       " starts other keys than rank 0; equal ones were expected");
}

}  // namespace plait
