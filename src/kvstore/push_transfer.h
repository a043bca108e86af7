// PushTransfer: gives a transfer to the engine with the Vars of its arrays.

#ifndef PLAIT_KVSTORE_PUSH_TRANSFER_H_
#define PLAIT_KVSTORE_PUSH_TRANSFER_H_

#include <memory>
#include <utility>

#include "base/small_vector.h"
#include "engine/engine.h"
#include "ndarray/ndarray.h"

namespace plait {

// `read` may be no array. The operation holds the memory of both, which exists already:
// what is lazy was settled before.
inline void PushTransfer(std::unique_ptr<Operation> op, const NDArray& read,
                         const NDArray& written) {
  SmallVector<Var*, 1> reads, writes;
  if (read) reads.push_back(&read.var());
  if (written) writes.push_back(&written.var());
  Engine::Get().Push(std::move(op), reads, writes);
}

}  // namespace plait

#endif  // PLAIT_KVSTORE_PUSH_TRANSFER_H_
