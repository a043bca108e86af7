// MpiCommunicator: messages by MPI, faults by heartbeats.

#include "kvstore/mpi/mpi_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "kvstore/wire/meet_wires.h"

namespace plait {

struct MpiCommunicator::MpiRequest final : Communicator::Request {
  PlaitMpiRequest bits{};
  int other = 0;
  uint64_t look = 0;  // the last one whose result was told
  bool done = false;
  PlaitMpiDone result{};
  // Where the message comes to in a job that may lose ranks and go on: MPI may write to
  // the memory of a receive that has failed, which the program uses again.
  std::unique_ptr<char[]> own;
  void* wanted = nullptr;
};

namespace {

std::string Peer(int rank) {
  return "rank " + std::to_string(rank);
}

// When a rank is lost while the others meet again, they wait for it for so long.
constexpr std::chrono::seconds kMeetingAfterLoss{15};
// Ranks are often lost together, as those of one machine. Open MPI 5.0.11 crashes in
// all that are left when it learns of a loss while it makes the new communicator: so it
// gets some time to learn of them before.
constexpr std::chrono::milliseconds kSettling{300};
// MPI may learn of a lost rank before the heartbeats, which know more.
constexpr std::chrono::seconds kNews{2};

// Tells plait-run, which then gives the job some time to end; a stopped rank cannot
// say so itself.
void TellLauncher(std::string text) {
  const std::string& pipe = GetOption(Option::kRunPipe);
  if (pipe.empty()) return;
  for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
  text += '\n';
  if (write(std::atoi(pipe.c_str()), text.data(), text.size()) < 0)
    return;  // it has ended
}

}  // namespace

MpiCommunicator::MpiCommunicator(const PlaitMpi& mpi, int expected,
                                 std::chrono::milliseconds timeout)
    : mpi_(mpi), timeout_(timeout) {
  char error[kPlaitMpiError] = "";
  Check(mpi_.start(&rank_, &size_, error) == 0, ErrorKind::kRuntime,
        "kvstore: ", mpi_.name, " did not start: ", error);
  Check(size_ == expected, ErrorKind::kRuntime, "kvstore: the launcher started ",
        expected, " processes, but ", mpi_.name, " counts ", size_,
        "; the launcher of another MPI was used (PLAIT_MPI=openmpi or mpich chooses)");
  Meet();
}

MpiCommunicator::MpiCommunicator(const PlaitMpi& mpi, int rank, int size,
                                 std::chrono::milliseconds timeout)
    : mpi_(mpi), rank_(rank), size_(size), timeout_(timeout), shrunk_(true) {
  Meet();
}

void MpiCommunicator::Meet() {
  Heartbeats::Times times{timeout_};
  if (shrunk_) times.meeting = kMeetingAfterLoss;
  heartbeats_ = std::make_unique<Heartbeats>(rank_, times);
  const Bytes16 machine = MachineName();
  std::vector<Bytes16> machines(size_);
  Gather(&machine, sizeof(machine), machines.data());
  const Contact mine = heartbeats_->Open(OneMachine(machines));
  std::vector<Contact> all(size_);
  Gather(&mine, sizeof(mine), all.data());
  heartbeats_->Start(std::move(all), [this] {
    Wake();
    TellLauncher(heartbeats_->fault());
  });
  wires_ = MeetWires(
      rank_, size_, timeout_.count() > 0,
      [this](auto... arguments) { Gather(arguments...); },
      [this] { return heartbeats_->faulty(); });
  ready_ = true;
}

void MpiCommunicator::Gather(const void* mine, size_t bytes, void* all) {
  const auto count = static_cast<size_t>(size_);
  auto room = std::make_unique<char[]>(bytes * (count + 1));
  std::memcpy(room.get(), mine, bytes);
  char* const result = room.get() + bytes;
  PlaitMpiRequest request{};
  char error[kPlaitMpiError] = "";
  int done = 0;
  size_t unused = 0;
  bool failed = mpi_.gather(room.get(), bytes, result, &request, error) != 0;
  auto rest = std::chrono::microseconds(10);
  while (!failed && !done && !heartbeats_->faulty()) {
    failed = mpi_.test(&request, &done, &unused, error) != 0;
    if (failed || done) break;
    std::this_thread::sleep_for(rest);
    rest = std::min(rest * 2, std::chrono::microseconds(2000));
  }
  if (!done) {
    room.release();  // MPI may still write to it
    if (heartbeats_->faulty()) Fail(ErrorKind::kIo, heartbeats_->fault());
    Fail(ErrorKind::kRuntime, "kvstore: ", mpi_.name,
         " cannot reach all ranks: ", error);
  }
  std::memcpy(all, result, bytes * count);
}

// Whether it has worked is agreed on, as another rank may have been lost just before
// some of them have seen all the others.
std::unique_ptr<MpiCommunicator> MpiCommunicator::Shrink(MpiCommunicator& old) {
  for (int tries = 0;; ++tries) {
    int rank = 0, size = 0;
    char error[kPlaitMpiError] = "";
    std::this_thread::sleep_for(kSettling);
    Check(old.mpi_.shrink(&rank, &size, error) == 0, ErrorKind::kRuntime,
          "kvstore: ", old.mpi_.name, " cannot go on with fewer ranks: ", error);
    std::unique_ptr<MpiCommunicator> next;
    std::exception_ptr why;
    try {
      next.reset(new MpiCommunicator(old.mpi_, rank, size, old.timeout_));
    } catch (...) {  // the others wait for this rank's word
      why = std::current_exception();
    }
    int well = next != nullptr;
    if (old.mpi_.agree(&well, error) == 0 && well) return next;
    if (next) next->Leave();
    if (tries < old.size_) continue;  // no more can have been lost
    if (why) std::rethrow_exception(why);
    Fail(ErrorKind::kRuntime, "kvstore: another rank cannot go on");
  }
}

void MpiCommunicator::CheckUsable() const {
  if (heartbeats_->faulty()) [[unlikely]]
    Fail(ErrorKind::kIo, heartbeats_->fault());
  Check(!closed_, ErrorKind::kRuntime, "kvstore: the job has ended in this process");
}

void MpiCommunicator::CheckPeer(int rank, int tag, size_t bytes) const {
  Check(rank >= 0 && rank < size_ && rank != rank_, ErrorKind::kIndex,
        "kvstore: message between rank ", rank_, " and rank ", rank,
        "; another rank of ", size_, " was expected");
  Check(tag >= 0 && tag <= kMostTag && bytes <= kMostBytes, ErrorKind::kIndex,
        "kvstore: message of ", bytes, " bytes with tag ", tag, "; at most ",
        kMostBytes, " and ", kMostTag, " were expected");
}

void MpiCommunicator::Break(const char* call, int rank, const char* error) {
  if (mpi_.can_shrink()) {
    const auto last = std::chrono::steady_clock::now() + kNews;
    while (timeout_.count() > 0 && !heartbeats_->faulty() &&
           std::chrono::steady_clock::now() < last) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (const int lost = mpi_.lost(); lost >= 0) rank = lost;
  }
  heartbeats_->Tell(rank, Peer(rank) + ": " + mpi_.name + " failed to " + call +
                              " (on " + Peer(rank_) + "): " + error);
  Fail(ErrorKind::kIo, heartbeats_->fault());
}

Communicator::RequestPtr MpiCommunicator::Send(int to, int tag, const void* data,
                                               size_t bytes) {
  CheckPeer(to, tag, bytes);
  if (wires_) {
    std::lock_guard lock(calls_);
    CheckUsable();
    return wires_->Send(to, tag, data, bytes);
  }
  auto request = std::make_unique<MpiRequest>();
  request->other = to;
  char error[kPlaitMpiError] = "";
  std::lock_guard lock(calls_);
  CheckUsable();
  if (mpi_.send(to, tag, data, bytes, &request->bits, error)) Break("send", to, error);
  request->look = looks_;
  open_.push_back(request.get());
  return request;
}

Communicator::RequestPtr MpiCommunicator::Receive(int from, int tag, void* data,
                                                  size_t bytes) {
  CheckPeer(from, tag, bytes);
  if (wires_) {
    std::lock_guard lock(calls_);
    CheckUsable();
    return wires_->Receive(from, tag, data, bytes);
  }
  auto request = std::make_unique<MpiRequest>();
  request->other = from;
  if (mpi_.can_shrink()) {
    request->wanted = data;
    request->own.reset(new char[bytes]);
    data = request->own.get();
  }
  char error[kPlaitMpiError] = "";
  std::lock_guard lock(calls_);
  CheckUsable();
  if (mpi_.receive(from, tag, data, bytes, &request->bits, error)) {
    Break("receive", from, error);
  }
  request->look = looks_;
  open_.push_back(request.get());
  return request;
}

std::optional<Communicator::Arrival> MpiCommunicator::Probe(int tag) {
  Arrival arrival;
  int found = 0;
  char error[kPlaitMpiError] = "";
  std::lock_guard lock(calls_);
  CheckUsable();
  if (wires_) return wires_->Probe(tag);
  if (mpi_.probe(tag, &found, &arrival.from, &arrival.bytes, error)) {
    Break("look for messages", rank_, error);
  }
  return found ? std::optional(arrival) : std::nullopt;
}

void MpiCommunicator::Look() {
  ++looks_;
  open_bits_.clear();
  for (MpiRequest* request : open_) open_bits_.push_back(&request->bits);
  done_.resize(open_.size());
  size_t found = 0;
  char error[kPlaitMpiError] = "";
  if (mpi_.test_some(open_bits_.data(), open_bits_.size(), done_.data(), &found,
                     error)) {
    Break("pass messages", rank_, error);
  }
  for (size_t i = 0; i < found; ++i) {
    MpiRequest& request = *open_[done_[i].index];
    request.done = true;
    request.result = done_[i];
    if (done_[i].failed != 0 && done_[i].failed != kPlaitMpiTooLong)
      Break("pass a message", request.other, error);
  }
  if (found > 0)
    std::erase_if(open_, [](MpiRequest* request) { return request->done; });
}

bool MpiCommunicator::Test(Request& request, size_t* received) {
  std::lock_guard lock(calls_);
  CheckUsable();
  if (wires_) return wires_->Test(request, received);
  auto& mine = static_cast<MpiRequest&>(request);
  if (!mine.done && mine.look == looks_) Look();
  mine.look = looks_;
  if (!mine.done) return false;
  Check(mine.result.failed == 0, ErrorKind::kIo, "kvstore: the message of ",
        Peer(mine.other), " is longer than was expected");
  if (mine.own) std::memcpy(mine.wanted, mine.own.get(), mine.result.received);
  if (received != nullptr) *received = mine.result.received;
  return true;
}

void MpiCommunicator::Idle(std::chrono::microseconds most) {
  // After a fault nobody takes in what comes over the wires.
  if (wires_ && !heartbeats_->faulty()) return wires_->Idle(most);
  std::unique_lock lock(rest_);
  rested_.wait_for(lock, most, [this] { return woken_; });
  woken_ = false;
}

void MpiCommunicator::Wake() {
  if (!ready_) return;  // it is being made
  if (wires_) wires_->Wake();
  if (wires_ && !heartbeats_->faulty()) return;
  {
    std::lock_guard lock(rest_);
    woken_ = true;
  }
  rested_.notify_one();
}

void MpiCommunicator::Abort(const std::string& text) {
  {
    std::lock_guard lock(calls_);
    if (closed_) return;  // all ranks have ended well
  }
  if (wires_) wires_->TakeBack();  // the program uses its memory again
  heartbeats_->Tell(rank_, Peer(rank_) + ": " + text);
}

bool MpiCommunicator::AwaitBarrier() {
  PlaitMpiRequest request;
  char error[kPlaitMpiError] = "";
  int done = 0;
  size_t unused = 0;
  {
    std::lock_guard lock(calls_);
    if (closed_ || heartbeats_->faulty() || mpi_.barrier(&request, error)) return false;
  }
  auto rest = std::chrono::microseconds(20);
  while (!done) {
    {
      std::lock_guard lock(calls_);
      if (heartbeats_->faulty() || mpi_.test(&request, &done, &unused, error)) {
        return false;
      }
    }
    if (!done) std::this_thread::sleep_for(rest);
    rest = std::min(rest * 2, std::chrono::microseconds(5000));
  }
  return true;
}

bool MpiCommunicator::Close() {
  const bool whole = AwaitBarrier() && !shrunk_;
  {
    std::lock_guard lock(calls_);
    closed_ = true;
    if (wires_ && whole) wires_->Flush();
    if (whole) mpi_.finish();
  }
  heartbeats_->Leave();
  return whole;
}

}  // namespace plait
