// PushClocks: how far ranks are ahead of one another, counted by pushes of each key.
//
// Counts start again whenever a rank waits for all others (a barrier, a sum): who waits
// holds nobody up, and all are equal when it ends. A rank that has waited less often
// than another has not been heard of since; it counts as one that has pushed nothing.
//
// Not thread-safe.

#ifndef PLAIT_KVSTORE_PUSH_CLOCKS_H_
#define PLAIT_KVSTORE_PUSH_CLOCKS_H_

#include <cstdint>
#include <map>
#include <vector>

namespace plait {

class PushClocks {
 public:
  explicit PushClocks(int ranks) : ranks_(static_cast<size_t>(ranks)) {}

  // Negative: none.
  void SetBound(int64_t bound) { bound_ = bound; }

  void Pushed(int rank, uint32_t slot) { ++At(rank).pushes[slot]; }
  void Rests(int rank) {
    ++At(rank).rests;
    At(rank).pushes.clear();
  }
  void Leaves(int rank) { At(rank).left = true; }

  // Whether a rank has pushed a key so much oftener than another that it must wait.
  bool Ahead(int rank, uint32_t slot) const {
    if (bound_ < 0) return false;
    const Clock& own = ranks_[static_cast<size_t>(rank)];
    for (const Clock& other : ranks_) {
      if (&other == &own || other.left || other.rests > own.rests) continue;
      const int64_t pushes = other.rests == own.rests ? other.Of(slot) : 0;
      if (own.Of(slot) - pushes > bound_) return true;
    }
    return false;
  }

 private:
  struct Clock {
    int64_t rests = 0;
    std::map<uint32_t, int64_t> pushes;  // by slot, since the last rest
    bool left = false;
    int64_t Of(uint32_t slot) const {
      const auto found = pushes.find(slot);
      return found == pushes.end() ? 0 : found->second;
    }
  };
  Clock& At(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  std::vector<Clock> ranks_;
  int64_t bound_ = -1;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_PUSH_CLOCKS_H_
