// Communicator: messages between the processes of a job (its ranks).
//
// The least that the stores need of a transport; everything else (collectives, keys,
// shards, order, errors of a rank) is built on it in kvstore/. Messages between two
// ranks with one tag arrive in the order in which they were sent; those of different
// tags may pass each other.
//
// Nothing here blocks. Send and Receive begin, Test asks whether they are done and also
// drives the transport; nobody else drives it. The memory given to Send must not
// change, and that given to Receive must not be touched, until Test has said true.
//
// Thread safety: Send, Receive, Probe, Test and Idle are called by one thread at a time
// (not always the same one). rank, size, fault, Abort and Wake: any thread.
//
// Faults: when a rank is lost (no sign of life in the set time, a broken connection),
// or some rank has called Abort, fault() becomes a text that names the rank, and from
// then on Send, Receive, Probe and Test throw Error(kIo) of that text. Requests that
// were under way then never end, so their memory must live as long as the process.

#ifndef PLAIT_KVSTORE_TRANSPORT_H_
#define PLAIT_KVSTORE_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace plait {

class Communicator {
 public:
  // One message under way. Destroying it is allowed only when Test has said true, or
  // after a fault.
  class Request {
   public:
    virtual ~Request() = default;
  };
  using RequestPtr = std::unique_ptr<Request>;

  // A message that has come and that no Receive has taken.
  struct Arrival {
    int from = 0;
    size_t bytes = 0;
  };

  // Tags are 0 to kMostTag.
  static constexpr int kMostTag = (1 << 20) - 1;
  // Bytes of one message; longer ones are cut by the caller.
  static constexpr size_t kMostBytes = size_t{1} << 30;

  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // `to` and `from` are other ranks. A message may have no bytes. One that is longer
  // than the memory given to Receive makes Test throw Error(kIo).
  virtual RequestPtr Send(int to, int tag, const void* data, size_t bytes) = 0;
  virtual RequestPtr Receive(int from, int tag, void* data, size_t bytes) = 0;
  // The first message of this tag, from any rank, that has come. A Receive from that
  // rank with that tag takes it. Only for tags for which no Receive is under way.
  virtual std::optional<Arrival> Probe(int tag) = 0;
  // Whether the request is done; `received` then gets the length of the message. Once
  // true it must not be asked again.
  virtual bool Test(Request& request, size_t* received = nullptr) = 0;

  // Rests for at most this time; returns early when Wake is called, and may when
  // something has come. Ranks share cores: who polls in vain must rest.
  virtual void Idle(std::chrono::microseconds most) = 0;
  virtual void Wake() = 0;
  // Whether a message to that rank is done as soon as the system has taken it, which
  // has more of them waiting than the link needs.
  virtual bool Buffers(int /*to*/) const { return false; }
  // Whether Idle always returns when something has come.
  virtual bool Tells() const { return false; }

  // Empty while all is well.
  virtual std::string fault() const = 0;
  // Tells all ranks, also this one, that the job cannot go on: fault() becomes
  // "rank R: text". Returns at once; only the first one counts.
  virtual void Abort(const std::string& text) = 0;
};

// The transport of this process: what the launcher's variables ask for (MPI), a world
// of one rank when there are none. Throws kRuntime when it cannot be opened, with the
// reason and the remedy. Collective. Opened once and kept; never destroyed.
Communicator& World();

// `size` ranks inside this process, for tests and simulations. Element r is rank r's;
// they may be used by as many threads. Bytes and messages are counted by who uses them.
std::vector<std::unique_ptr<Communicator>> MakeLocalWorld(int size);

}  // namespace plait

#endif  // PLAIT_KVSTORE_TRANSPORT_H_
