// The end of World(): what a process does with its transport when it leaves.

#ifndef PLAIT_KVSTORE_WORLD_H_
#define PLAIT_KVSTORE_WORLD_H_

#include <chrono>
#include <string>

#include "kvstore/transport.h"

namespace plait {

// Whether a launcher has started this process as one of several ranks. Does not open
// the transport.
bool StartedAsRank();

// Why the transport of this process cannot go on with fewer ranks after a fault, with
// the remedy; empty when it can.
std::string WhyNotShrink();

// After a fault: the transport of the ranks that live, which get new numbers, in the
// order of the old ones. The one before must no longer be used, and stays. All of them
// have to call it; a rank that ends instead is left out. Throws Error(kIo) when not all
// have come in time: whoever calls it again goes on waiting.
Communicator& ShrinkWorld(std::chrono::milliseconds most);

// Ends the transport, if World() has opened it: waits for the other ranks to do the
// same (a fault ends the wait), then ends MPI. It can no longer be used. Whoever drives
// it must have stopped. Called again it does nothing. At the end of a process it is
// called by itself, after the handlers that were registered with atexit since World();
// a process that has seen a fault, or in which a rank was lost while it waited, then
// leaves by _exit with the status that it has. One that ends with another status than
// 0 tells the other ranks, which fail, rather than wait for it.
void CloseWorld();

}  // namespace plait

#endif  // PLAIT_KVSTORE_WORLD_H_
