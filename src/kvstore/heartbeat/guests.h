// Guests: those who have called a listener and not proved yet that they are ranks.
//
// Strangers may call as often as they like. Room is made for the next by those that are
// gone, then by those that have long said nothing, last by those that were answered and
// have not proved themselves in some time; while there is none, callers wait in the
// system's queue.
//
// Not thread safe.

#ifndef PLAIT_KVSTORE_HEARTBEAT_GUESTS_H_
#define PLAIT_KVSTORE_HEARTBEAT_GUESTS_H_

#include <poll.h>

#include <chrono>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvstore/heartbeat/link.h"

namespace plait {

class Guests {
 public:
  // A rank that has proved itself, and has been told so.
  struct Rank {
    int rank;
    std::unique_ptr<Link> link;
  };

  // Of `rank`, whose socket is `listening`; those of the `callers` (rising) above it
  // may call. `token` and `callers` must outlive this.
  Guests(int rank, const Bytes16& token, int listening, std::span<const int> callers)
      : rank_(rank), token_(token), listening_(listening), callers_(callers) {}

  // Lets in who has called, and hears what all have to say. False: the system has no
  // file handle left (errno).
  bool Attend();
  // Who has proved itself since the last call. Of one rank the last counts: it calls
  // again only where a connection was lost.
  std::vector<Rank> TakeRanks() { return std::exchange(ranks_, {}); }

  // What may have something for Attend.
  void AddTo(std::vector<pollfd>& all) const;
  // Nobody is let in for now; time may help.
  bool full() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    std::unique_ptr<Link> link;
    Clock::time_point since;  // it came, or was answered
    bool answered = false;
    Parties parties{};
  };

  void HearAll();
  bool Hear(Guest& guest);
  bool Respond(Guest& guest, const Hello& hello) const;
  bool MakeRoom();

  const int rank_;
  const Bytes16& token_;
  const int listening_;
  const std::span<const int> callers_;
  std::list<Guest> guests_;
  std::vector<Rank> ranks_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_GUESTS_H_
