// Heartbeats: the thread that sends and reads beats, and spreads bad news.

#include "kvstore/heartbeat/heartbeats.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"

namespace plait {
namespace {

// How long Leave may take: others may be slow to read.
constexpr auto kFarewell = std::chrono::seconds(1);

std::string Seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", static_cast<double>(time.count()) / 1000);
  return text;
}

Heartbeats::Times Complete(Heartbeats::Times times) {
  if (times.interval.count() == 0) times.interval = times.timeout / 4;
  times.interval = std::max(times.interval, std::chrono::milliseconds(10));
  return times;
}

}  // namespace

Heartbeats::Heartbeats(int rank, Times times) : rank_(rank), times_(Complete(times)) {}

Heartbeats::~Heartbeats() {
  silent_ = true;
  Leave();
  if (poke_ >= 0) close(poke_);
}

Contact Heartbeats::Open(bool one_machine) {
  if (times_.timeout.count() == 0) return MakeContact(0);
  listener_ = std::make_unique<Listener>(one_machine);
  return MakeContact(listener_->port);
}

void Heartbeats::Start(std::vector<Contact> contacts, std::function<void()> on_fault) {
  contacts_ = std::move(contacts);
  on_fault_ = std::move(on_fault);
  if (times_.timeout.count() == 0) return;
  std::vector<std::unique_ptr<Link>> links =
      Meet(rank_, contacts_, *listener_, times_.meeting);
  listener_.reset();
  const std::vector<int> ranks = Neighbours(rank_, static_cast<int>(contacts_.size()));
  for (size_t i = 0; i < ranks.size(); ++i) {
    peers_.push_back({ranks[i], std::move(links[i]), Clock::now()});
  }
  poke_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  Check(poke_ >= 0, ErrorKind::kIo, "heartbeat: the system has no file handle left");
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string Heartbeats::fault() const {
  std::lock_guard lock(mutex_);
  return fault_;
}

void Heartbeats::Tell(int rank, const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    if (!fault_.empty()) return;
    fault_ = text.empty() ? "no reason was given" : text.substr(0, Frame::kMostText);
    fault_rank_ = rank;
    faulty_.store(true, std::memory_order_release);
  }
  if (on_fault_) on_fault_();
  Poke();
}

void Heartbeats::Leave() {
  leaving_ = true;
  Poke();
  if (thread_.joinable()) thread_.join();
}

void Heartbeats::CloseInChild() {
  for (Peer& peer : peers_) peer.link->Close();
}

void Heartbeats::Poke() {
  const uint64_t one = 1;
  if (poke_ >= 0 && write(poke_, &one, sizeof(one)) < 0) return;  // full: it is awake
}

std::string Heartbeats::Describe(int rank) const {
  return "rank " + std::to_string(rank) + " (host " + contacts_[rank].HostName() + ")";
}

void Heartbeats::Run() {
  Clock::time_point beat = Clock::now(), before = beat;
  while (!leaving_) {
    RestUntil(beat);
    const Clock::time_point now = Clock::now();
    // Stopped, or without a core, for long: the others could not be heard meanwhile.
    if (now - before > times_.timeout / 2) {
      for (Peer& peer : peers_) peer.heard = now;
    }
    before = now;
    for (Peer& peer : peers_) ReadFrom(peer, now);
    LoseTheSilent(now);
    if (now >= beat) {
      for (Peer& peer : peers_) peer.link->Send(Frame{Frame::kBeat, rank_, ""});
      beat = now + times_.interval;
    }
    PassNewsOn();
    for (Peer& peer : peers_) peer.link->Write();
  }
  if (!silent_) Finish();
  for (Peer& peer : peers_) peer.link->Close();
}

void Heartbeats::RestUntil(Clock::time_point time) {
  // Looks at silent peers at least four times in the timeout, however seldom it beats.
  time = std::min(time, Clock::now() + times_.timeout / 4);
  std::vector<pollfd> all{{poke_, POLLIN, 0}};
  for (const Peer& peer : peers_) {
    if (!peer.link->open()) continue;
    const int events = POLLIN | (peer.link->wants_to_write() ? POLLOUT : 0);
    all.push_back({peer.link->fd(), static_cast<short>(events), 0});
  }
  const auto left = std::chrono::ceil<Milliseconds>(time - Clock::now()).count();
  poll(all.data(), all.size(), static_cast<int>(std::max<int64_t>(left, 0)));
  uint64_t count;
  if (all[0].revents & POLLIN && read(poke_, &count, sizeof(count)) < 0) return;
}

void Heartbeats::ReadFrom(Peer& peer, Clock::time_point now) {
  if (!peer.link->open()) return;
  const bool more = peer.link->Read();
  while (const std::optional<Frame> frame = peer.link->TakeFrame()) {
    peer.heard = now;
    Take(peer, *frame);
  }
  if (more && !peer.link->malformed()) return;
  Lose(peer, "lost: " + peer.link->why() + " (the process ended or was killed)");
  peer.link->Close();
}

void Heartbeats::Take(Peer& peer, const Frame& frame) {
  if (frame.kind == Frame::kBye) peer.gone = true;
  if (frame.kind == Frame::kNews) Tell(frame.rank, frame.text);
}

void Heartbeats::Lose(Peer& peer, const std::string& why) {
  if (!peer.gone && !leaving_) Tell(peer.rank, Describe(peer.rank) + ": " + why);
}

void Heartbeats::LoseTheSilent(Clock::time_point now) {
  for (Peer& peer : peers_) {
    if (!peer.link->open() || now - peer.heard <= times_.timeout) continue;
    Lose(peer, "lost: no sign of life for " + Seconds(times_.timeout) +
                   " (PLAIT_HEARTBEAT sets this time)");
    peer.heard = now;
  }
}

void Heartbeats::PassNewsOn() {
  if (told_ || !faulty()) return;
  told_ = true;
  std::lock_guard lock(mutex_);
  for (Peer& peer : peers_) {
    peer.link->Send(Frame{Frame::kNews, fault_rank_, fault_});
  }
}

// What was sent is lost to the other end if this one closes with unread bytes: so the
// stream is ended first, and read until the others end theirs.
void Heartbeats::Finish() {
  PassNewsOn();
  for (Peer& peer : peers_) peer.link->Send(Frame{Frame::kBye, rank_, ""});
  const Clock::time_point deadline = Clock::now() + kFarewell;
  const auto open = [](const Peer& peer) { return peer.link->open(); };
  while (std::any_of(peers_.begin(), peers_.end(), open) && Clock::now() < deadline) {
    for (Peer& peer : peers_) {
      const bool wrote = peer.link->Write();
      const bool all_sent = !peer.link->wants_to_write();
      if (all_sent) peer.link->EndOfStream();
      const bool more = peer.link->Read();
      while (const std::optional<Frame> frame = peer.link->TakeFrame()) {
        Take(peer, *frame);
      }
      // Who has said goodbye to us reads no more.
      const bool over = !more || peer.gone || peer.link->malformed();
      if (!wrote || (all_sent && over)) peer.link->Close();
    }
    RestUntil(std::min(deadline, Clock::now() + Milliseconds(20)));
  }
}

}  // namespace plait
