// Meet: many connections are begun at once; the first that answers rightly is kept.

#include "kvstore/heartbeat/meeting.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <list>
#include <set>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

// Strangers that have proved nothing; the oldest makes room for the next.
constexpr size_t kMostGuests = 64;
// Calls at a time, and how long one may keep others waiting.
constexpr size_t kMostCalls = 48;
constexpr std::chrono::milliseconds kAnswer(500);

int64_t FileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(limit.rlim_cur);
}

class Meeting {
 public:
  Meeting(int rank, std::span<const Contact> contacts, const Listener& listener,
          std::vector<int> neighbours)
      : rank_(rank),
        contacts_(contacts),
        listener_(listener),
        neighbours_(std::move(neighbours)),
        links_(neighbours_.size()),
        why_(neighbours_.size()) {}

  std::vector<std::unique_ptr<Link>> Run(Clock::time_point deadline) {
    MakePlans();
    while (std::count(links_.begin(), links_.end(), nullptr) > 0) {
      Call();
      FailIfUnreachable(Clock::now() >= deadline);
      Wait(deadline);
      Accept();
      ReadGuests();
      ReadCalls();
    }
    return std::move(links_);
  }

 private:
  struct Plan {
    size_t neighbour;
    SocketAddress address;
  };
  struct Call_ {
    Plan plan;
    std::unique_ptr<Link> link;
    Bytes16 nonce;
    Clock::time_point start;
  };
  struct Guest {
    std::unique_ptr<Link> link;
    bool answered = false;
    Parties parties{};
  };

  const Bytes16& token() const { return contacts_[0].token; }

  // The first address of each, then the second of each.
  void MakePlans() {
    for (size_t which = 0;; ++which) {
      bool some = false;
      for (size_t i = 0; i < neighbours_.size() && neighbours_[i] < rank_; ++i) {
        const auto addresses = AddressesOf(contacts_[neighbours_[i]], contacts_[rank_]);
        if (which >= addresses.size()) continue;
        plans_.push_back({i, addresses[which]});
        some = true;
      }
      if (!some) return;
    }
  }

  // A few at a time: each holds a file handle. Who does not answer makes room, and is
  // called again when the others have been.
  void Call() {
    const auto now = Clock::now();
    while (!plans_.empty()) {
      if (calls_.size() >= kMostCalls) {
        if (now - calls_.front().start < kAnswer) return;
        plans_.push_back(calls_.front().plan);
        calls_.pop_front();
      }
      const Plan plan = plans_.front();
      plans_.pop_front();
      if (links_[plan.neighbour] != nullptr) continue;
      std::unique_ptr<Link> link = Link::To(plan.address);
      if (link == nullptr) {
        FailIfNoHandles();
        why_[plan.neighbour] = std::strerror(errno);
        continue;
      }
      Hello hello;
      hello.from = rank_;
      hello.to = neighbours_[plan.neighbour];
      hello.nonce = RandomBytes();
      link->SendPlain(hello);
      calls_.push_back({plan, std::move(link), hello.nonce, now});
    }
  }

  void FailIfNoHandles() const {
    if (errno != EMFILE && errno != ENFILE) return;
    Fail(ErrorKind::kRuntime, "heartbeat: rank ", rank_, " cannot connect to ",
         neighbours_.size(), " ranks: ", std::strerror(errno), "; its limit is ",
         FileLimit(), " file handles (ulimit -n), and each rank needs one");
  }

  void FailIfUnreachable(bool late) const {
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      if (links_[i] != nullptr) continue;
      const bool calling =
          neighbours_[i] > rank_ ||
          std::any_of(calls_.begin(), calls_.end(),
                      [i](const Call_& call) { return call.plan.neighbour == i; }) ||
          std::any_of(plans_.begin(), plans_.end(),
                      [i](const Plan& plan) { return plan.neighbour == i; });
      if (calling && !late) continue;
      const Contact& contact = contacts_[neighbours_[i]];
      Fail(ErrorKind::kRuntime, "heartbeat: rank ", rank_,
           " has no connection to rank ", neighbours_[i], " (host ", contact.HostName(),
           ", port ", contact.port,
           "): ", why_[i].empty() ? "no answer in time" : why_[i].c_str(),
           "; ranks need TCP connections between their hosts (PLAIT_HEARTBEAT=0 does "
           "without, and then a lost rank is not noticed)");
    }
  }

  void Wait(Clock::time_point deadline) const {
    std::vector<pollfd> all{{listener_.fd, POLLIN, 0}};
    for (const Guest& guest : guests_) all.push_back({guest.link->fd(), POLLIN, 0});
    for (const Call_& call : calls_) {
      const bool writes = call.link->wants_to_write();
      all.push_back(
          {call.link->fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    poll(all.data(), all.size(),
         static_cast<int>(
             std::clamp<int64_t>(left.count(), 0, plans_.empty() ? 1000 : 100)));
  }

  void Accept() {
    for (;;) {
      const int fd =
          accept4(listener_.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return FailIfNoHandles();
      guests_.push_back({std::make_unique<Link>(fd)});
      if (guests_.size() > kMostGuests + neighbours_.size()) guests_.pop_front();
    }
  }

  void ReadGuests() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      bool stays = guest->link->Read();
      if (!guest->answered) {
        if (const auto hello = guest->link->TakePlain<Hello>()) {
          stays = Respond(*guest, *hello);
        }
      }
      if (guest->answered) {
        if (const auto proof = guest->link->TakePlain<Proof>()) {
          Welcome(*guest, *proof);
          stays = false;
        }
      }
      guest = stays ? std::next(guest) : guests_.erase(guest);
    }
  }

  // Whether it is one that may call.
  bool Respond(Guest& guest, const Hello& hello) const {
    const Hello expected;
    if (hello.magic != expected.magic || hello.version != expected.version ||
        hello.to != rank_ || hello.from <= rank_ ||
        !std::binary_search(neighbours_.begin(), neighbours_.end(), hello.from)) {
      return false;
    }
    Answer answer;
    answer.nonce = RandomBytes();
    guest.parties = {hello.from, rank_, {hello.nonce, answer.nonce}};
    answer.proof = ProofOf(token(), false, guest.parties);
    guest.link->SendPlain(answer);
    guest.answered = true;
    return guest.link->Write();
  }

  void Welcome(Guest& guest, const Proof& proof) {
    if (!Equal(proof.proof, ProofOf(token(), true, guest.parties))) return;
    const auto who =
        std::lower_bound(neighbours_.begin(), neighbours_.end(), guest.parties.caller);
    std::unique_ptr<Link>& place = links_[who - neighbours_.begin()];
    if (place == nullptr) place = std::move(guest.link);
  }

  void ReadCalls() {
    for (auto call = calls_.begin(); call != calls_.end();) {
      const size_t neighbour = call->plan.neighbour;
      const bool over = !call->link->Write() || !call->link->Read();
      if (const auto answer = call->link->TakePlain<Answer>()) {
        const Parties parties{
            rank_, neighbours_[neighbour], {call->nonce, answer->nonce}};
        if (links_[neighbour] == nullptr &&
            Equal(answer->proof, ProofOf(token(), false, parties))) {
          call->link->SendPlain(Proof{ProofOf(token(), true, parties)});
          call->link->Write();  // so little is taken at once
          links_[neighbour] = std::move(call->link);
        }
        call = calls_.erase(call);
      } else if (over) {
        why_[neighbour] = call->link->why();
        call = calls_.erase(call);
      } else {
        ++call;
      }
    }
  }

  const int rank_;
  const std::span<const Contact> contacts_;
  const Listener& listener_;
  const std::vector<int> neighbours_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::string> why_;
  std::list<Guest> guests_;
  std::deque<Plan> plans_;
  std::list<Call_> calls_;
};

// Both families where the system has IPv6, else IPv4.
int BoundSocket(int family, bool one_machine) {
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage any{};
  any.ss_family = family;
  const int off = 0;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (one_machine) {
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::memcpy(&any, &loopback, sizeof(loopback));
  }
  const socklen_t length =
      family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (bind(fd, reinterpret_cast<sockaddr*>(&any), length) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

}  // namespace

Listener::Listener(bool one_machine) {
  if (!one_machine) fd = BoundSocket(AF_INET6, false);
  if (fd < 0) fd = BoundSocket(AF_INET, one_machine);
  Check(fd >= 0, ErrorKind::kIo,
        "heartbeat: no port to listen on: ", std::strerror(errno));
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length);
  sockaddr_in6 v6;  // the port is at the same place in both
  std::memcpy(&v6, &bound, sizeof(v6));
  port = ntohs(v6.sin6_port);
}

Listener::~Listener() {
  if (fd >= 0) close(fd);
}

void MakeRoomForFiles(int count) {
  std::error_code none;
  int64_t used = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", none), end;
       !none && at != end; at.increment(none)) {
    ++used;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(used + count);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<int> Neighbours(int rank, int size) {
  std::set<int> all;
  for (int64_t step = 1; step < size; step *= 2) {
    all.insert(static_cast<int>((rank + step) % size));
    all.insert(static_cast<int>((rank + size - step) % size));
  }
  all.erase(rank);
  return {all.begin(), all.end()};
}

std::vector<std::unique_ptr<Link>> Meet(int rank, std::span<const Contact> contacts,
                                        const Listener& listener,
                                        std::chrono::milliseconds most) {
  return Meet(rank, contacts, listener, most,
              Neighbours(rank, static_cast<int>(contacts.size())));
}

std::vector<std::unique_ptr<Link>> Meet(int rank, std::span<const Contact> contacts,
                                        const Listener& listener,
                                        std::chrono::milliseconds most,
                                        std::vector<int> neighbours) {
  return Meeting(rank, contacts, listener, std::move(neighbours))
      .Run(Clock::now() + most);
}

}  // namespace plait
