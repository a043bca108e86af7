// MpiCommunicator: a Communicator over the table of an MPI plug-in, with heartbeats.
//
// Where the ranks have connections of their own (Wires), these carry the messages, and
// MPI only starts and ends the job.
//
// Each call of MPI costs system calls, however many requests it is about, so Test asks
// about all of them when it is called for a request for the second time.
//
// After a fault MPI is not called again, except by Shrink: a send to a lost rank may
// never return.

#ifndef PLAIT_KVSTORE_MPI_MPI_COMMUNICATOR_H_
#define PLAIT_KVSTORE_MPI_MPI_COMMUNICATOR_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kvstore/heartbeat/heartbeats.h"
#include "kvstore/mpi/plugin.h"
#include "kvstore/transport.h"
#include "kvstore/wire/wires.h"

namespace plait {

class MpiCommunicator final : public Communicator {
 public:
  // Starts MPI and the heartbeats; waits for the other ranks. `expected` is the number
  // of ranks that the launcher has announced. Throws kRuntime.
  MpiCommunicator(const PlaitMpi& mpi, int expected, std::chrono::milliseconds timeout);

  // The ranks that live, after a fault of `old`, which must not be used meanwhile and
  // is then good for nothing. Waits until all of them have called it, for ever if one
  // neither comes nor ends; another one that is lost meanwhile is left out too. Throws
  // kRuntime. REQUIRES: old.can_shrink().
  static std::unique_ptr<MpiCommunicator> Shrink(MpiCommunicator& old);
  bool can_shrink() const { return mpi_.can_shrink(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  RequestPtr Send(int to, int tag, const void* data, size_t bytes) override;
  RequestPtr Receive(int from, int tag, void* data, size_t bytes) override;
  std::optional<Arrival> Probe(int tag) override;
  bool Test(Request& request, size_t* received) override;
  void Idle(std::chrono::microseconds most) override;
  void Wake() override;
  bool Buffers(int to) const override { return wires_ && wires_->Buffers(to); }
  bool Tells() const override { return wires_ != nullptr; }
  std::string fault() const override { return heartbeats_->fault(); }
  void Abort(const std::string& text) override;

  // Waits for all ranks to call it, then ends MPI; calls throw from then on. False when
  // a fault came before that: MPI is then left as it is, and the process must leave by
  // _exit, as what MPI runs at the end of a process may wait for the lost rank. False
  // also after Shrink, for the same reason.
  bool Close();
  // Says goodbye without waiting for anybody, after Shrink.
  void Leave() {
    heartbeats_->Leave();
    if (wires_) wires_->CloseLinks();
  }
  // In the child of a fork.
  void CloseInChild() {
    heartbeats_->CloseInChild();
    if (wires_) wires_->CloseLinks();
  }

 private:
  MpiCommunicator(const PlaitMpi& mpi, int rank, int size,
                  std::chrono::milliseconds timeout);
  // Starts the heartbeats, and connects the wires. Throws kRuntime.
  void Meet();
  // As the table's, to its end or a fault.
  void Gather(const void* mine, size_t bytes, void* all);
  void CheckUsable() const;
  void CheckPeer(int rank, int tag, size_t bytes) const;
  // Makes a failed call of MPI a fault of the job, and throws it.
  [[noreturn]] void Break(const char* call, int rank, const char* error);
  bool AwaitBarrier();
  struct MpiRequest;
  // Asks MPI about all requests at once. REQUIRES: calls_ is held.
  void Look();

  const PlaitMpi& mpi_;
  int rank_ = 0;
  int size_ = 1;
  const std::chrono::milliseconds timeout_;  // of the heartbeats
  bool shrunk_ = false;
  std::unique_ptr<Heartbeats> heartbeats_;
  std::atomic<bool> ready_{false};  // wires_ is what it will be
  std::unique_ptr<Wires> wires_;    // null: messages go by MPI
  std::mutex calls_;                // one call of MPI at a time
  bool closed_ = false;
  // Guarded by calls_: requests that are not done, as far as is known, and how often
  // MPI was asked about them.
  std::vector<MpiRequest*> open_;
  std::vector<PlaitMpiRequest*> open_bits_;
  std::vector<PlaitMpiDone> done_;
  uint64_t looks_ = 0;

  std::mutex rest_;
  std::condition_variable rested_;
  bool woken_ = false;  // guarded by rest_
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_MPI_MPI_COMMUNICATOR_H_
