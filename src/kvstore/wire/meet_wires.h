// MeetWires: whether the ranks of a job use connections of their own, and makes them.

#ifndef PLAIT_KVSTORE_WIRE_MEET_WIRES_H_
#define PLAIT_KVSTORE_WIRE_MEET_WIRES_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "kvstore/wire/wires.h"

namespace plait {

// Puts `bytes` bytes of every rank, in order, into `all`; waits for all ranks.
using GatherBytes = std::function<void(const void* mine, size_t bytes, void* all)>;

// Called by all ranks, and null on all or on none: messages then go by MPI. `watched`:
// as Wires. `vain`: whether another rank is known to be lost, so that `gather` will
// throw. PLAIT_TRANSPORT chooses; throws kValue when it says what is unknown.
std::unique_ptr<Wires> MeetWires(int rank, int size, bool watched,
                                 const GatherBytes& gather,
                                 const std::function<bool()>& vain = {});

}  // namespace plait

#endif  // PLAIT_KVSTORE_WIRE_MEET_WIRES_H_
