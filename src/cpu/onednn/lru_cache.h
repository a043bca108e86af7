// LruCache: a bounded map from a plain struct to something that is dear to make.

#ifndef PLAIT_CPU_ONEDNN_LRU_CACHE_H_
#define PLAIT_CPU_ONEDNN_LRU_CACHE_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>

namespace plait::cpu::onednn {

// Thread safety: any thread. Invariants: (1) at most `capacity` values are kept; the
// one that was asked for the longest ago goes first. (2) A value that goes lives on for
// those who hold it.
//
// Key: without padding bytes, as it is hashed and compared by its bytes.
template <typename Key, typename Value>
class LruCache {
  static_assert(std::has_unique_object_representations_v<Key>);
  static_assert(sizeof(Key) % sizeof(uint64_t) == 0);

 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  // The value of `key`; make(key) gives a new one, outside the lock, so two threads may
  // make the same one at once. When make throws, nothing is kept.
  template <typename F>
  std::shared_ptr<const Value> Get(const Key& key, F&& make) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = map_.find(&key);
      if (found != map_.end()) {
        items_.splice(items_.begin(), items_, found->second);
        return found->second->value;
      }
    }
    auto value = std::make_shared<const Value>(make(key));
    const std::lock_guard lock(mutex_);
    const auto found = map_.find(&key);
    if (found != map_.end()) return found->second->value;
    items_.push_front({key, value});
    map_.emplace(&items_.front().key, items_.begin());
    if (items_.size() > capacity_) {
      map_.erase(&items_.back().key);
      items_.pop_back();
    }
    return value;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  struct Item {
    Key key;
    std::shared_ptr<const Value> value;
  };
  struct Hash {
    size_t operator()(const Key* key) const {
      uint64_t words[sizeof(Key) / sizeof(uint64_t)];
      std::memcpy(words, key, sizeof(Key));
      uint64_t h = 0;
      for (const uint64_t word : words) {
        h = std::rotl((h ^ word) * 0x9e3779b97f4a7c15u, 29);
      }
      return h ^ (h >> 32);
    }
  };
  struct Equal {
    bool operator()(const Key* a, const Key* b) const {
      return std::memcmp(a, b, sizeof(Key)) == 0;
    }
  };

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Item> items_;
  std::unordered_map<const Key*, typename std::list<Item>::iterator, Hash, Equal> map_;
};

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_LRU_CACHE_H_
