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
#include "kvstore/heartbeat/guests.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

// Calls at a time, and how long one may keep others waiting.
constexpr size_t kMostCalls = 48;
constexpr std::chrono::milliseconds kAnswer(500);
// Between two calls of an address, and between looks where time alone changes
// something.
constexpr std::chrono::milliseconds kPause(50);

// Whether another try may have more luck.
bool Passes(int error) {
  switch (error) {
    case EADDRNOTAVAIL:  // all ports are in use
    case EAGAIN:
    case ECONNABORTED:
    case ECONNRESET:
    case EINTR:
    case ENOBUFS:
    case ENOMEM:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

int64_t FileLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int64_t>(limit.rlim_cur);
}

class Meeting {
 public:
  Meeting(int rank, std::span<const Contact> contacts, const Listener& listener,
          std::vector<int> neighbours, const std::function<bool()>& vain)
      : rank_(rank),
        contacts_(contacts),
        neighbours_(std::move(neighbours)),
        vain_(vain),
        links_(neighbours_.size()),
        why_(neighbours_.size()),
        proving_(neighbours_.size(), false),
        guests_(rank, token(), listener.fd, neighbours_) {}

  std::vector<std::unique_ptr<Link>> Run(Clock::time_point deadline) {
    MakePlans();
    while (std::count(links_.begin(), links_.end(), nullptr) > 0) {
      Call();
      FailIfUnreachable(Clock::now() >= deadline);
      Wait(deadline);
      if (!guests_.Attend()) FailIfNoHandles();
      for (Guests::Rank& guest : guests_.TakeRanks()) Admit(guest);
      HearCalls();
    }
    return std::move(links_);
  }

 private:
  struct Plan {
    size_t neighbour;
    SocketAddress address;
    Clock::time_point not_before{};
  };
  struct Outgoing {
    Plan plan;
    std::unique_ptr<Link> link;
    Bytes16 nonce;
    Clock::time_point start;
    bool reached = false;  // somebody has taken the call
    bool proves = false;   // and has proved himself, and has our proof
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

  // ------------------------------------------------------------- calls

  // A few at a time: each holds a file handle. Who does not answer makes room, and is
  // called again when the others have been.
  void Call() {
    const auto now = Clock::now();
    std::erase_if(
        plans_, [this](const Plan& plan) { return links_[plan.neighbour] != nullptr; });
    auto waiting =
        static_cast<size_t>(std::count_if(calls_.begin(), calls_.end(), Waits));
    for (size_t left = plans_.size(); left > 0; --left) {
      const Plan plan = plans_.front();
      const bool later = proving_[plan.neighbour] || now < plan.not_before;
      if (!later && waiting >= kMostCalls) {
        if (!DropOldest(now)) return;
        --waiting;
      }
      plans_.pop_front();
      if (later) {
        plans_.push_back(plan);
      } else if (Begin(plan, now)) {
        ++waiting;
      }
    }
  }

  static bool Waits(const Outgoing& call) { return !call.proves; }

  bool DropOldest(Clock::time_point now) {
    const auto oldest = std::find_if(calls_.begin(), calls_.end(), Waits);
    if (now - oldest->start < kAnswer) return false;
    plans_.push_back(oldest->plan);
    calls_.erase(oldest);
    return true;
  }

  bool Begin(const Plan& plan, Clock::time_point now) {
    std::unique_ptr<Link> link = Link::To(plan.address);
    if (link == nullptr) {
      FailIfNoHandles();
      Lose(plan, std::strerror(errno), Passes(errno));
      return false;
    }
    Hello hello;
    hello.from = rank_;
    hello.to = neighbours_[plan.neighbour];
    hello.nonce = RandomBytes();
    link->SendPlain(hello);
    link->Write();  // inside a machine there is a connection already
    calls_.push_back({plan, std::move(link), hello.nonce, now});
    return true;
  }

  // The address is called again, after a pause, or not any more.
  void Lose(Plan plan, const std::string& why, bool again) {
    why_[plan.neighbour] = why;
    plan.not_before = Clock::now() + kPause;
    if (again) plans_.push_back(plan);
  }

  void HearCalls() {
    for (auto call = calls_.begin(); call != calls_.end();) {
      call = Hear(*call) ? std::next(call) : calls_.erase(call);
    }
  }

  // Whether it goes on.
  bool Hear(Outgoing& call) {
    const size_t who = call.plan.neighbour;
    if (links_[who] != nullptr) return false;  // by another address
    const bool over = !call.link->Write() || !call.link->Read();
    call.reached = call.reached || !call.link->wants_to_write();
    if (!call.proves) {
      const auto answer = call.link->TakePlain<Answer>();
      if (answer && !Prove(call, *answer)) return false;
    }
    if (call.proves && call.link->TakePlain<Welcome>()) {
      links_[who] = std::move(call.link);
      return false;
    }
    if (!over) return true;
    // Who has taken the call may have had no room, or may not have been the rank.
    Lose(call.plan, call.link->why(), call.reached || Passes(call.link->error()));
    if (call.proves) proving_[who] = false;
    return false;
  }

  // Over one connection at a time, since the other end keeps the last. Never given up
  // while it is open: the other end may have it for good.
  bool Prove(Outgoing& call, const Answer& answer) {
    const size_t who = call.plan.neighbour;
    const Parties parties{rank_, neighbours_[who], {call.nonce, answer.nonce}};
    if (!Equal(answer.proof, ProofOf(token(), false, parties))) {
      why_[who] = "who answers there does not know the job's token";
      return false;
    }
    if (proving_[who]) {
      plans_.push_back(call.plan);
      return false;
    }
    proving_[who] = call.proves = true;
    call.link->SendPlain(Proof{ProofOf(token(), true, parties)});
    call.link->Write();  // so little is taken at once
    return true;
  }

  void Admit(Guests::Rank& guest) {
    const auto who =
        std::lower_bound(neighbours_.begin(), neighbours_.end(), guest.rank);
    links_[static_cast<size_t>(who - neighbours_.begin())] = std::move(guest.link);
  }

  // ------------------------------------------------------------- the whole

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
                      [i](const Outgoing& call) { return call.plan.neighbour == i; }) ||
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
    Check(!vain_ || !vain_(), ErrorKind::kRuntime, "heartbeat: rank ", rank_,
          " stops connecting: another rank is lost");
  }

  void Wait(Clock::time_point deadline) const {
    std::vector<pollfd> all;
    guests_.AddTo(all);
    for (const Outgoing& call : calls_) {
      const bool writes = call.link->wants_to_write();
      all.push_back(
          {call.link->fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto most = plans_.empty() && !guests_.full() && !vain_
                          ? std::chrono::milliseconds(1000)
                          : kPause;
    poll(all.data(), all.size(),
         static_cast<int>(std::clamp<int64_t>(left.count(), 0, most.count())));
  }

  const int rank_;
  const std::span<const Contact> contacts_;
  const std::vector<int> neighbours_;
  const std::function<bool()>& vain_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::string> why_;
  std::vector<bool> proving_;
  Guests guests_;
  std::deque<Plan> plans_;
  std::list<Outgoing> calls_;
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
                                        std::vector<int> neighbours,
                                        const std::function<bool()>& vain) {
  return Meeting(rank, contacts, listener, std::move(neighbours), vain)
      .Run(Clock::now() + most);
}

}  // namespace plait
