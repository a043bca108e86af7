// Wires: messages over TCP connections, and by reading each other's memory inside a
// machine.
//
// A message travels as a frame: a header, then its bytes. To a rank of the same machine
// a long one is lent instead: the header says where it lies, the receiver copies it
// from there to its place with one call of the system, and says so. Who waits
// sleeps until a connection has something.
//
// Thread safety: as Communicator's; the calls are made one at a time, Wake by anybody.

#ifndef PLAIT_KVSTORE_WIRE_WIRES_H_
#define PLAIT_KVSTORE_WIRE_WIRES_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvstore/heartbeat/link.h"
#include "kvstore/transport.h"

namespace plait {

class Wires {
 public:
  // A word in a rank's memory that it changes when it takes back what it has lent.
  using Word = std::atomic<uint64_t>;
  struct Pledge {
    uint64_t address = 0, value = 0;
  };
  struct Other {                 // a rank at the other end
    std::unique_ptr<Link> link;  // null: the own rank
    pid_t pid = 0;               // whose memory this process may read, or 0
    Pledge pledge;               // address 0: it takes nothing back
  };
  // Element r is rank r. The links are as Meet gives them; none has read more.
  // `watched`: somebody else notices lost ranks, so that a connection which ends is an
  // error only when something is awaited of it for some seconds. `pledge`: the own
  // word.
  Wires(std::vector<Other> others, bool watched,
        std::unique_ptr<Word> pledge = nullptr);
  ~Wires();
  Wires(const Wires&) = delete;
  Wires& operator=(const Wires&) = delete;

  // As Communicator's. A rank that sends nonsense makes them throw kIo.
  Communicator::RequestPtr Send(int to, int tag, const void* data, size_t bytes);
  Communicator::RequestPtr Receive(int from, int tag, void* data, size_t bytes);
  std::optional<Communicator::Arrival> Probe(int tag);
  bool Test(Communicator::Request& request, size_t* received);
  bool Buffers(int to) const { return peers_[static_cast<size_t>(to)].pid == 0; }
  void Idle(std::chrono::microseconds most);
  void Wake();
  // What was given out without being waited for.
  void Flush();
  // Other ranks get no more of what was lent to them. Any thread.
  void TakeBack();
  // In the child of a fork, and when nobody needs them any more.
  void CloseLinks();

  // The rest in which a fair load passes, at the speed of `load` bytes (at least one)
  // in the time `taken`.
  static std::chrono::microseconds FairPause(std::chrono::nanoseconds taken,
                                             int64_t load);

 private:
  using Clock = std::chrono::steady_clock;
  struct Header {
    static constexpr uint32_t kMagic = 0x77697265;
    enum Kind : uint32_t { kHere = 1, kLent = 2, kTaken = 3 };
    uint32_t magic = kMagic;
    uint32_t kind = kHere;
    uint32_t tag = 0;  // kTaken: the number of what was lent
    uint32_t number = 0;
    uint64_t bytes = 0;
    uint64_t address = 0;
  };
  static_assert(sizeof(Header) == 32);

  struct Wire;  // a request
  struct Out {
    Header header;
    const char* data;
    Wire* request;  // done when it has left; null: none waits for it
  };
  // A message for which no Receive had been called.
  struct Early {
    Header header;
    std::string bytes;
  };
  struct Peer {
    int rank = 0;
    Link* link = nullptr;
    pid_t pid = 0;
    Pledge pledge;
    bool open = false;
    std::chrono::steady_clock::time_point closed;  // when it was, and why
    std::string why;
    bool owes = false;  // what it lent could not be read
    bool full = false;  // the system takes no more for now
    std::deque<Out> out;
    size_t out_done = 0;  // bytes of the first that have left
    uint32_t lent_next = 0;
    std::unordered_map<uint32_t, Wire*> lent;

    std::vector<char> in;  // what was read beyond the payload, [first, last)
    size_t in_first = 0, in_last = 0;
    // The payload on its way, if any: where its next byte goes, null for nowhere.
    std::optional<Header> now;
    bool waits = false;  // a long one that nobody has asked for yet
    char* place = nullptr;
    size_t left = 0;
    Wire* into = nullptr;

    std::deque<Wire*> wanted;
    std::deque<Early> early;
    Early fresh;  // the one on its way, where nobody has asked for it
  };

  void Look();
  void Write(Peer& peer);
  bool Read(Peer& peer);
  void Parse(Peer& peer);
  void Begin(Peer& peer, bool may_wait);
  void End(Peer& peer);
  void Borrow(Peer& peer, const Header& header, Wire& into);
  void Watch(Peer& peer, bool out);
  void Close(Peer& peer, const char* why);
  void CheckClosed() const;
  void ChoosePause();
  void Take(Peer& peer, const Header& header);
  void Fill(Wire& wire, const Early& early);
  Wire* TakeWanted(Peer& peer, uint32_t tag);

  std::vector<Other> others_;
  std::vector<Peer> peers_;
  const bool watched_;
  const std::unique_ptr<Word> pledge_;
  bool some_closed_ = false;
  int poll_ = -1, wake_ = -1;
  uint64_t looks_ = 0, probed_ = 0;
  size_t moved_ = 0;                        // bytes since the last rest
  Clock::time_point since_ = Clock::now();  // the last pause began
  Clock::duration slept_{0};                // since then
  std::chrono::microseconds pause_{100};
  std::atomic<bool> woken_{false}, resting_{false};
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_WIRE_WIRES_H_
