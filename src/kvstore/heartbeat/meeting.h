// Meet: the connections between a rank and its neighbours, made once at the start.

#ifndef PLAIT_KVSTORE_HEARTBEAT_MEETING_H_
#define PLAIT_KVSTORE_HEARTBEAT_MEETING_H_

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvstore/heartbeat/link.h"

namespace plait {

// A port chosen by the system, on all interfaces or, for ranks that share a machine,
// only on that which no other machine reaches.
struct Listener {
  explicit Listener(bool one_machine = false);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd = -1;
  uint16_t port = 0;
};

// The ranks that `rank` watches: those 1, 2, 4, ... before and after it. So a rank has
// few connections in a large job, and the job stays connected when some are lost.
std::vector<int> Neighbours(int rank, int size);

// Raises the process's own limit, as far as it may, so that `count` more files can be
// open.
void MakeRoomForFiles(int count);

// Connections to all neighbours, in their order, both ends of which have proved that
// they know the job's token, and know that the other has. The higher rank of two calls
// the lower, and again when a connection is lost meanwhile. What a stranger sends is
// thrown away with its connection. Throws kRuntime at the deadline, or when a neighbour
// cannot be reached.
std::vector<std::unique_ptr<Link>> Meet(int rank, std::span<const Contact> contacts,
                                        const Listener& listener,
                                        std::chrono::milliseconds most);
// The same with those `neighbours`, in rising order; who is one's neighbour has this
// rank for one. `vain`: whether it need not go on; throws kRuntime then too.
std::vector<std::unique_ptr<Link>> Meet(int rank, std::span<const Contact> contacts,
                                        const Listener& listener,
                                        std::chrono::milliseconds most,
                                        std::vector<int> neighbours,
                                        const std::function<bool()>& vain = {});

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_MEETING_H_
