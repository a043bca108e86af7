// The end of World(): what a process does with its transport when it leaves.

#ifndef PLAIT_KVSTORE_WORLD_H_
#define PLAIT_KVSTORE_WORLD_H_

#include <string>

namespace plait {

// Whether a launcher has started this process as one of several ranks. Does not open
// the transport.
bool StartedAsRank();

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
