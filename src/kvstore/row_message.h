// RowHead: what stands before the rows, or the numbers of rows, that a rank sends.

#ifndef PLAIT_KVSTORE_ROW_MESSAGE_H_
#define PLAIT_KVSTORE_ROW_MESSAGE_H_

#include <cstdint>

namespace plait {

struct RowHead {
  enum Kind : uint32_t {
    kIds,     // numbers of the rows that follow in a message kRows
    kRows,    // those rows
    kFailed,  // instead of either; `count` bytes of text
    kWanted,  // numbers of the rows that a pull after it asks for
    kAll,     // it asks for the whole part
    kUpdate,  // numbers and rows, to be applied at once
  };

  Kind kind = kIds;
  uint32_t round = 0;  // kWanted, kAll: how many rounds the asker has seen
  int64_t count = 0;
  // kIds, kFailed: how many rounds of any key the sender has begun before, and a hash
  // of this one's key; both are to be the same on all ranks.
  uint32_t turn = 0;
  uint32_t key = 0;
};
static_assert(sizeof(RowHead) == 24);

}  // namespace plait

#endif  // PLAIT_KVSTORE_ROW_MESSAGE_H_
