// Wires: frames written and read, and memory borrowed.

#include "kvstore/wire/wires.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

// Longer messages are lent where that is possible.
constexpr size_t kLendFrom = 8 << 10;
// Longer ones for which no place is known yet wait for one in the connection.
constexpr size_t kWaitFrom = 16 << 10;
// Bytes read beyond a payload: headers and short messages.
constexpr size_t kReadMore = 16 << 10;
// What is more urgent cannot pass what the system has taken.
constexpr int kSendBuffer = 256 << 10;
// Of one connection in one look.
constexpr size_t kMostRead = 4 << 20;
constexpr int kMostParts = 32;
// Rest after something has come: more will, and each awakening interrupts computing.
constexpr std::chrono::microseconds kPause{100};
// Rests grow to this while long messages pass slowly, so that fewer carry as much:
// until one carries so many bytes.
constexpr std::chrono::microseconds kLongPause{1000};
constexpr int64_t kFairLoad = 192 << 10;
// Of a connection that is in the middle of a long message.
constexpr int64_t kLongRest = 64 << 10;
// What ends a process is told by its heartbeats' connections within this time.
constexpr std::chrono::seconds kNews{3};
// A connection with nothing to say for so long is tried, in seconds.
constexpr int kTrySilentAfter = 60;
constexpr uint64_t kWakeMark = ~uint64_t{0};

}  // namespace

struct Wires::Wire final : Communicator::Request {
  uint64_t look = 0;  // the last one whose result was told
  uint32_t tag = 0;
  char* data = nullptr;  // to be filled
  size_t bytes = 0;      // room; when it is done, what came
  bool done = false, too_long = false;
};

Wires::Wires(std::vector<Other> others, bool watched, std::unique_ptr<Word> pledge)
    : others_(std::move(others)),
      peers_(others_.size()),
      watched_(watched),
      pledge_(std::move(pledge)) {
  poll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  Check(poll_ >= 0 && wake_ >= 0, ErrorKind::kIo,
        "kvstore: the system has no file handle left");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeMark;
  bool heard = epoll_ctl(poll_, EPOLL_CTL_ADD, wake_, &event) == 0;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    peer.rank = static_cast<int>(r);
    peer.link = others_[r].link.get();
    peer.pid = others_[r].pid;
    peer.pledge = others_[r].pledge;
    if (peer.link == nullptr) continue;
    peer.open = true;
    peer.in.resize(kReadMore);
    const int on = 1;
    setsockopt(peer.link->fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(peer.link->fd(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer,
               sizeof(kSendBuffer));
    setsockopt(peer.link->fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(peer.link->fd(), IPPROTO_TCP, TCP_KEEPIDLE, &kTrySilentAfter,
               sizeof(kTrySilentAfter));
    event.data.u64 = r;
    heard = heard && epoll_ctl(poll_, EPOLL_CTL_ADD, peer.link->fd(), &event) == 0;
  }
  Check(heard, ErrorKind::kIo, "kvstore: the system watches no more connections");
}

Wires::~Wires() {
  TakeBack();
  if (poll_ >= 0) close(poll_);
  if (wake_ >= 0) close(wake_);
}

void Wires::TakeBack() {
  if (pledge_) *pledge_ = 0;
}

void Wires::CloseLinks() {
  for (Other& other : others_) {
    if (other.link) other.link->Close();
  }
}

// ---------------------------------------------------------------- calls

Communicator::RequestPtr Wires::Send(int to, int tag, const void* data, size_t bytes) {
  Peer& peer = peers_[static_cast<size_t>(to)];
  auto request = std::make_unique<Wire>();
  request->look = looks_;
  Header header;
  header.tag = static_cast<uint32_t>(tag);
  header.bytes = bytes;
  if (peer.pid != 0 && bytes > kLendFrom) {
    header.kind = Header::kLent;
    header.number = peer.lent_next++;
    header.address = reinterpret_cast<uint64_t>(data);
    peer.lent.emplace(header.number, request.get());
    peer.out.push_back({header, nullptr, nullptr});
  } else {
    peer.out.push_back({header, static_cast<const char*>(data), request.get()});
  }
  return request;
}

Communicator::RequestPtr Wires::Receive(int from, int tag, void* data, size_t bytes) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  auto request = std::make_unique<Wire>();
  request->look = looks_;
  request->tag = static_cast<uint32_t>(tag);
  request->data = static_cast<char*>(data);
  request->bytes = bytes;
  const auto early =
      std::find_if(peer.early.begin(), peer.early.end(),
                   [&](const Early& one) { return one.header.tag == request->tag; });
  if (early == peer.early.end()) {
    peer.wanted.push_back(request.get());
    return request;
  }
  if (early->header.kind == Header::kLent) {
    Borrow(peer, early->header, *request);
  } else {
    Fill(*request, *early);
  }
  peer.early.erase(early);
  return request;
}

// With a message that has come before it was asked for.
void Wires::Fill(Wire& wire, const Early& early) {
  wire.too_long = early.bytes.size() > wire.bytes;
  if (!wire.too_long && !early.bytes.empty())
    std::memcpy(wire.data, early.bytes.data(), early.bytes.size());
  wire.bytes = early.bytes.size();
  wire.done = true;
}

std::optional<Communicator::Arrival> Wires::Probe(int tag) {
  if (probed_ == looks_) Look();
  probed_ = looks_;
  for (const Peer& peer : peers_) {
    for (const Early& one : peer.early) {
      if (one.header.tag == static_cast<uint32_t>(tag))
        return Communicator::Arrival{peer.rank, static_cast<size_t>(one.header.bytes)};
    }
  }
  return std::nullopt;
}

bool Wires::Test(Communicator::Request& request, size_t* received) {
  auto& mine = static_cast<Wire&>(request);
  if (!mine.done && mine.look == looks_) Look();
  mine.look = looks_;
  if (!mine.done) return false;
  Check(!mine.too_long, ErrorKind::kIo,
        "kvstore: a message is longer than was expected");
  if (received != nullptr) *received = mine.bytes;
  return true;
}

void Wires::Flush() {
  for (Peer& peer : peers_) Write(peer);
}

void Wires::Idle(std::chrono::microseconds most) {
  Flush();
  for (const Peer& peer : peers_) {
    if (peer.waits) return;  // nothing more would be heard of it
  }
  // What has come may have completed a request that was tested before, so a pause ends
  // by itself.
  const bool moved = moved_ > 0;
  if (moved) ChoosePause();
  pollfd all{moved ? wake_ : poll_, POLLIN, 0};
  const auto rest = moved ? pause_ : most;
  resting_ = !moved || pause_ > kPause;  // a short one is not worth an awakening
  if (!woken_.exchange(false)) {
    const auto start = Clock::now();
    const timespec time{rest.count() / 1'000'000, rest.count() % 1'000'000 * 1000};
    ppoll(&all, 1, &time, nullptr);
    slept_ += Clock::now() - start;
  }
  resting_ = false;
  woken_ = false;
}

// As long as it takes to pass a fair load at the speed of the link.
void Wires::ChoosePause() {
  const auto now = Clock::now();
  const auto taken = now - std::exchange(since_, now);
  const auto slept = std::exchange(slept_, Clock::duration{0});
  const auto load = static_cast<int64_t>(std::exchange(moved_, 0));
  const bool flows =
      load >= kLongRest || std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) {
        return p.left >= size_t{kLongRest} || (p.full && !p.out.empty());
      });
  if (!flows) pause_ = kPause;
  if (!flows || slept < taken / 2) return;  // this thread is what takes the time
  pause_ = std::clamp(FairPause(taken, load), kPause, std::min(2 * pause_, kLongPause));
}

// Longer than a second is as a second: the product must not overflow.
std::chrono::microseconds Wires::FairPause(std::chrono::nanoseconds taken,
                                           int64_t load) {
  taken = std::min<std::chrono::nanoseconds>(taken, std::chrono::seconds(1));
  return std::chrono::duration_cast<std::chrono::microseconds>(taken * kFairLoad /
                                                               load);
}

void Wires::Wake() {
  woken_ = true;
  const uint64_t one = 1;
  if (resting_ && write(wake_, &one, sizeof(one)) < 0) return;  // it is awake
}

// ---------------------------------------------------------------- connections

void Wires::Look() {
  ++looks_;
  if (some_closed_) CheckClosed();
  Flush();
  for (Peer& peer : peers_) {
    if (peer.waits) {
      Begin(peer, false);
      Parse(peer);
    }
  }
  epoll_event events[64];
  const int count = epoll_wait(poll_, events, 64, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWakeMark) {
      uint64_t number = 0;
      if (read(wake_, &number, sizeof(number)) < 0) continue;
      continue;
    }
    Peer& peer = peers_[events[i].data.u64];
    if (events[i].events & EPOLLOUT) {
      Watch(peer, false);
      Write(peer);
    }
    size_t total = 0;
    while (peer.open && !peer.waits && total < kMostRead && Read(peer)) {
      total += kReadMore;
    }
  }
  Flush();
}

void Wires::Watch(Peer& peer, bool out) {
  if (peer.full == out || !peer.open) return;
  peer.full = out;
  epoll_event event{};
  event.events = EPOLLIN | (out ? EPOLLOUT : 0u);
  event.data.u64 = static_cast<uint64_t>(peer.rank);
  epoll_ctl(poll_, EPOLL_CTL_MOD, peer.link->fd(), &event);
}

// The process at the other end is gone, or only the connection.
void Wires::Close(Peer& peer, const char* why) {
  if (!peer.open) return;
  peer.open = false;
  peer.closed = std::chrono::steady_clock::now();
  peer.why = why;
  some_closed_ = true;
  epoll_ctl(poll_, EPOLL_CTL_DEL, peer.link->fd(), nullptr);
  Check(watched_, ErrorKind::kIo, "rank ", peer.rank, ": lost: ", why);
}

void Wires::CheckClosed() const {
  const auto now = std::chrono::steady_clock::now();
  for (const Peer& peer : peers_) {
    if (peer.link == nullptr || peer.open || now - peer.closed < kNews) continue;
    const bool awaited = peer.owes || peer.into != nullptr || !peer.wanted.empty() ||
                         !peer.lent.empty() ||
                         std::any_of(peer.out.begin(), peer.out.end(),
                                     [](const Out& one) { return one.request; });
    Check(!awaited, ErrorKind::kIo, "rank ", peer.rank, ": lost: ", peer.why);
  }
}

void Wires::Write(Peer& peer) {
  while (!peer.out.empty() && peer.open && !peer.full) {
    iovec parts[kMostParts];
    int count = 0;
    size_t skip = peer.out_done;
    const auto add = [&](const void* data, size_t bytes) {
      const size_t passed = std::min(skip, bytes);
      skip -= passed;
      if (bytes > passed) {
        char* from = const_cast<char*>(static_cast<const char*>(data));
        parts[count++] = {from + passed, bytes - passed};
      }
    };
    for (const Out& one : peer.out) {
      if (count + 2 > kMostParts) break;
      add(&one.header, sizeof(Header));
      if (one.data != nullptr) add(one.data, one.header.bytes);
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(peer.link->fd(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return Close(peer, std::strerror(errno));
      return Watch(peer, true);
    }
    moved_ += static_cast<size_t>(sent);
    peer.out_done += static_cast<size_t>(sent);
    while (!peer.out.empty()) {
      const Out& one = peer.out.front();
      const size_t whole =
          sizeof(Header) + (one.data != nullptr ? one.header.bytes : 0);
      if (peer.out_done < whole) break;
      peer.out_done -= whole;
      if (one.request != nullptr) one.request->done = true;
      peer.out.pop_front();
    }
  }
}

// Whether there may be more.
bool Wires::Read(Peer& peer) {
  if (peer.in_first == peer.in_last) peer.in_first = peer.in_last = 0;
  iovec parts[2];
  int count = 0;
  const bool direct = peer.now && peer.place != nullptr;
  if (direct) parts[count++] = {peer.place, peer.left};
  parts[count++] = {peer.in.data() + peer.in_last, peer.in.size() - peer.in_last};
  const ssize_t got = readv(peer.link->fd(), parts, count);
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) Close(peer, std::strerror(errno));
    return false;
  }
  if (got == 0) {
    Close(peer, "the connection was closed");
    return false;
  }
  moved_ += static_cast<size_t>(got);
  size_t rest = static_cast<size_t>(got);
  const size_t room = peer.in.size() - peer.in_last + (direct ? peer.left : 0);
  if (direct) {
    const size_t placed = std::min(rest, peer.left);
    peer.place += placed;
    peer.left -= placed;
    rest -= placed;
    if (peer.left == 0) End(peer);
  }
  peer.in_last += rest;
  Parse(peer);
  return static_cast<size_t>(got) == room;
}

// What was read beyond a payload.
void Wires::Parse(Peer& peer) {
  while (!peer.waits) {
    const size_t have = peer.in_last - peer.in_first;
    const char* at = peer.in.data() + peer.in_first;
    if (peer.now) {
      const size_t placed = std::min(have, peer.left);
      if (placed > 0 && peer.place != nullptr) {
        std::memcpy(peer.place, at, placed);
        peer.place += placed;
      }
      peer.in_first += placed;
      peer.left -= placed;
      if (peer.left > 0) return;
      End(peer);
      continue;
    }
    if (have < sizeof(Header)) break;
    Header header;
    std::memcpy(&header, at, sizeof(header));
    peer.in_first += sizeof(header);
    Take(peer, header);
  }
  if (peer.in_first > 0) {  // part of a header: room behind it
    std::memmove(peer.in.data(), peer.in.data() + peer.in_first,
                 peer.in_last - peer.in_first);
    peer.in_last -= peer.in_first;
    peer.in_first = 0;
  }
}

// A header that has come.
void Wires::Take(Peer& peer, const Header& header) {
  Check(header.magic == Header::kMagic &&
            (header.kind == Header::kHere || header.kind == Header::kTaken ||
             (header.kind == Header::kLent && peer.pid != 0)) &&
            header.bytes <= Communicator::kMostBytes,
        ErrorKind::kIo, "rank ", peer.rank, " sent what is no message");
  if (header.kind == Header::kTaken) {
    const auto lent = peer.lent.find(header.tag);
    Check(lent != peer.lent.end(), ErrorKind::kIo, "rank ", peer.rank,
          " gave back what it had not got");
    lent->second->done = true;
    peer.lent.erase(lent);
    return;
  }
  peer.now = header;
  Begin(peer, true);
}

Wires::Wire* Wires::TakeWanted(Peer& peer, uint32_t tag) {
  const auto found = std::find_if(peer.wanted.begin(), peer.wanted.end(),
                                  [tag](const Wire* one) { return one->tag == tag; });
  if (found == peer.wanted.end()) return nullptr;
  Wire* const wanted = *found;
  peer.wanted.erase(found);
  return wanted;
}

// Finds the place of the message whose header has come.
void Wires::Begin(Peer& peer, bool may_wait) {
  const Header header = *peer.now;
  peer.waits = false;
  peer.into = TakeWanted(peer, header.tag);
  if (header.kind == Header::kLent) {
    if (peer.into == nullptr) {
      peer.early.push_back({header, {}});
    } else {
      Borrow(peer, header, *peer.into);
    }
    peer.now.reset();
    return;
  }
  if (peer.into == nullptr && may_wait && header.bytes > kWaitFrom) {
    peer.waits = true;
    return;
  }
  peer.left = header.bytes;
  if (peer.into == nullptr) {
    peer.fresh = {header, std::string(header.bytes, '\0')};
    peer.place = peer.fresh.bytes.data();
  } else {
    peer.into->too_long = header.bytes > peer.into->bytes;
    peer.place = peer.into->too_long ? nullptr : peer.into->data;
  }
}

// The payload is complete.
void Wires::End(Peer& peer) {
  if (peer.into != nullptr) {
    peer.into->bytes = peer.now->bytes;
    peer.into->done = true;
  } else if (Wire* const wanted = TakeWanted(peer, peer.now->tag)) {
    Fill(*wanted, peer.fresh);
  } else {
    peer.early.push_back(std::move(peer.fresh));
  }
  peer.into = nullptr;
  peer.place = nullptr;
  peer.now.reset();
}

void Wires::Borrow(Peer& peer, const Header& header, Wire& into) {
  into.too_long = header.bytes > into.bytes;
  uint64_t word = 0;
  bool has_word = peer.pledge.address == 0;
  for (size_t at = 0; (at < header.bytes || !has_word) && !into.too_long;) {
    const size_t rest = header.bytes - at;
    const iovec here[] = {{into.data + at, rest}, {&word, sizeof(word)}};
    const iovec there[] = {
        {reinterpret_cast<void*>(header.address + at), rest},
        {reinterpret_cast<void*>(peer.pledge.address), sizeof(word)}};
    const unsigned long parts = has_word ? 1 : 2;  // read in their order
    const ssize_t got = process_vm_readv(peer.pid, here, parts, there, parts, 0);
    if (got < 0 && errno == ESRCH) {
      peer.owes = true;
      return Close(peer, "the process has ended");
    }
    Check(got > 0, ErrorKind::kIo, "rank ", peer.rank,
          " lent memory that cannot be read: ", std::strerror(errno));
    has_word = has_word || static_cast<size_t>(got) == rest + sizeof(word);
    at += std::min(static_cast<size_t>(got), rest);
  }
  if (peer.pledge.address != 0 && !into.too_long && word != peer.pledge.value) {
    peer.owes = true;  // what was read may be something else already
    return Close(peer, "it has taken back what it lent");
  }
  into.bytes = header.bytes;
  into.done = true;
  moved_ += std::max<size_t>(header.bytes, 1);
  Header taken;
  taken.kind = Header::kTaken;
  taken.tag = header.number;
  peer.out.push_back({taken, nullptr, nullptr});
}

}  // namespace plait
