// ReduceGroups: the axes of a reduction, collapsed into as few as their kinds allow.

#ifndef PLAIT_CPU_REDUCE_GROUPS_H_
#define PLAIT_CPU_REDUCE_GROUPS_H_

#include <cstdint>

#include "base/shape.h"

namespace plait::cpu {

// Groups of axes: (outer ...) x middle x inner, where middle and inner differ in kind.
struct ReduceGroups {
  ReduceGroups(const Shape& space, uint64_t axes) {
    int rank = 0;
    int64_t sizes[kMaxRank];
    bool reduced[kMaxRank];
    for (int i = 0; i < space.rank(); ++i) {
      if (space[i] == 1) continue;
      const bool r = axes >> i & 1;
      if (rank > 0 && reduced[rank - 1] == r) {
        sizes[rank - 1] *= space[i];
      } else {
        sizes[rank] = space[i];
        reduced[rank++] = r;
      }
    }
    inner_reduced = rank == 0 || reduced[rank - 1];
    inner = rank > 0 ? sizes[rank - 1] : 1;
    middle = rank > 1 ? sizes[rank - 2] : 1;
    int64_t stride = inner * middle;
    for (int i = rank - 3; i >= 0; --i) {
      Side& side = reduced[i] ? outer_reduced : outer_kept;
      side.sizes[side.rank] = sizes[i];
      side.strides[side.rank++] = stride;
      side.count *= sizes[i];
      stride *= sizes[i];
    }
  }

  struct Side {  // from the last axis outwards
    int rank = 0;
    int64_t count = 1;
    int64_t sizes[kMaxRank / 2], strides[kMaxRank / 2];
    int64_t Offset(int64_t index) const {
      int64_t offset = 0;
      for (int i = 0; i < rank; ++i) {
        const int64_t next = index / sizes[i];
        offset += (index - next * sizes[i]) * strides[i];
        index = next;
      }
      return offset;
    }
  };
  Side outer_kept, outer_reduced;
  int64_t middle, inner;
  bool inner_reduced;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_REDUCE_GROUPS_H_
