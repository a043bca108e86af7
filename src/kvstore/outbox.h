// Outbox: what a rank has still to send, by priority, and what is under way.
//
// Not thread-safe: it belongs to the thread of its exchange.

#ifndef PLAIT_KVSTORE_OUTBOX_H_
#define PLAIT_KVSTORE_OUTBOX_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "kvstore/packet.h"
#include "kvstore/transport.h"

namespace plait {

// Counters of one rank; read by any thread.
struct Traffic {
  std::atomic<int64_t> payload_sent{0}, payload_received{0};  // bytes of arrays
  std::atomic<int64_t> entry_bytes_sent{0};                   // bytes beside them
  std::atomic<int64_t> messages_sent{0};
};

// Whose memory is being sent.
class Sender {
 public:
  virtual void OnSent(int to, const Entry& entry) = 0;

 protected:
  ~Sender() = default;
};

class Outbox {
 public:
  Outbox(Communicator& comm, Traffic& traffic);

  // `data` stays until the sender is told; without a sender it is `text`.
  void Add(int to, int priority, const Entry& entry, const void* data, Sender* sender);
  void AddText(int to, int priority, Entry entry, std::string text);
  // Starts and ends sends; whether anything has happened. Throws what the transport
  // throws.
  bool Step();
  bool empty() const;

 private:
  struct Item {
    int priority;
    uint64_t order;
    Entry entry;
    const void* data;
    Sender* sender;
    std::string text;
    bool operator<(const Item& other) const {
      return priority != other.priority ? priority < other.priority
                                        : order > other.order;
    }
  };
  struct Flight {
    Communicator::RequestPtr request;
    size_t bytes = 0;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::string packet;
    std::vector<std::pair<Sender*, Entry>> senders;
  };
  struct Peer {
    std::vector<Item> queue;  // a heap
    std::deque<Flight> flights;
    size_t in_flight = 0, window = kLeastInFlight;
    uint32_t next_tag = 1;
  };

  Item Pop(Peer& peer);
  void SendPacket(int to, Peer& peer);
  bool Settle(int to, Peer& peer);

  Communicator& comm_;
  Traffic& traffic_;
  std::vector<Peer> peers_;
  uint64_t items_ = 0;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_OUTBOX_H_
