// Heartbeats: tells every rank of a job, within a set time, that one of them is lost.
//
// Each rank has TCP connections to a few others (Meet) and a thread that sends a beat
// over each. A connection that closes without a word, or over which nothing came for
// the set time, means a lost rank. Who sees it first tells its neighbours, and they
// theirs. A process that was itself stopped for a while starts to count again when it
// goes on.
//
// After the start no port is open, so strangers cannot reach it. The job's token keeps
// them out before; it is not secret to somebody who reads the network.

#ifndef PLAIT_KVSTORE_HEARTBEAT_HEARTBEATS_H_
#define PLAIT_KVSTORE_HEARTBEAT_HEARTBEATS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/heartbeat/meeting.h"

namespace plait {

class Heartbeats {
 public:
  using Milliseconds = std::chrono::milliseconds;

  struct Times {
    Milliseconds timeout{30000};  // 0: no connections, and only own faults are known
    Milliseconds interval{0};     // between beats; 0: a quarter of the timeout
    Milliseconds meeting{60000};  // for the connections to be made
  };

  Heartbeats(int rank, Times times);
  ~Heartbeats();  // without a word: for the others this rank is lost
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  // What the other ranks must know before they start. From then on the port is open, to
  // this machine only where all ranks are on it.
  Contact Open(bool one_machine = false);
  // Connects, waits for the neighbours and starts the thread. `on_fault` is called
  // once, by any thread, after fault() has become true. Throws kRuntime.
  void Start(std::vector<Contact> contacts, std::function<void()> on_fault);

  // Any thread.
  bool faulty() const { return faulty_.load(std::memory_order_acquire); }
  std::string fault() const;
  // The job cannot go on, by `rank`'s fault: told to all. The first fault counts.
  void Tell(int rank, const std::string& text);

  // Says goodbye (after a fault: passes on the news) and closes, in at most a second.
  void Leave();
  // In the child of a fork: the connections are the parent's.
  void CloseInChild();

 private:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    int rank;
    std::unique_ptr<Link> link;
    Clock::time_point heard;
    bool gone = false;  // it has said goodbye
  };

  void Run();
  void RestUntil(Clock::time_point time);
  void ReadFrom(Peer& peer, Clock::time_point now);
  void Take(Peer& peer, const Frame& frame);
  void Lose(Peer& peer, const std::string& why);
  void LoseTheSilent(Clock::time_point now);
  void PassNewsOn();
  void Finish();
  void Poke();
  std::string Describe(int rank) const;

  const int rank_;
  const Times times_;
  std::unique_ptr<Listener> listener_;
  std::vector<Contact> contacts_;
  std::vector<Peer> peers_;  // of the thread, after Start
  std::function<void()> on_fault_;
  int poke_ = -1;  // an eventfd that ends the thread's rest
  std::thread thread_;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> silent_{false};

  mutable std::mutex mutex_;
  std::string fault_;    // guarded by mutex_
  int fault_rank_ = -1;  // guarded by mutex_
  std::atomic<bool> faulty_{false};
  bool told_ = false;  // of the thread: the neighbours have the news
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_HEARTBEATS_H_
