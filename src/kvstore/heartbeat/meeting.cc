// Meet: many connections are begun at once; the first that answers rightly is kept.

#include "kvstore/heartbeat/meeting.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <set>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

// Strangers that have not said Hello; the oldest makes room for the next.
constexpr size_t kMostGuests = 64;

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
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      if (neighbours_[i] < rank_) Call(i);
    }
    while (std::count(links_.begin(), links_.end(), nullptr) > 0) {
      FailIfUnreachable(Clock::now() >= deadline);
      Wait(deadline);
      Accept();
      ReadGuests();
      ReadCalls();
    }
    return std::move(links_);
  }

 private:
  struct Call_ {
    size_t neighbour;
    std::unique_ptr<Link> link;
  };

  Hello HelloTo(int other) const {
    Hello hello;
    hello.token = contacts_[0].token;
    hello.from = rank_;
    hello.to = other;
    return hello;
  }

  // Whether somebody who knows the job's token speaks to this rank.
  bool Fits(const Hello& hello) const {
    unsigned differ = 0;  // in the same time wherever they differ
    for (size_t i = 0; i < hello.token.size(); ++i) {
      differ |= hello.token[i] ^ contacts_[0].token[i];
    }
    return differ == 0 && hello.magic == Hello::kMagic && hello.version == 1 &&
           hello.to == rank_;
  }

  void Call(size_t neighbour) {
    const int other = neighbours_[neighbour];
    for (const SocketAddress& address :
         AddressesOf(contacts_[other], contacts_[rank_])) {
      std::unique_ptr<Link> link = Link::To(address);
      if (link == nullptr) {
        why_[neighbour] = std::strerror(errno);
        continue;
      }
      link->Send(HelloTo(other));
      calls_.push_back({neighbour, std::move(link)});
    }
  }

  void FailIfUnreachable(bool late) const {
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      if (links_[i] != nullptr) continue;
      const bool calling =
          neighbours_[i] > rank_ ||
          std::any_of(calls_.begin(), calls_.end(),
                      [i](const Call_& call) { return call.neighbour == i; });
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
    for (const auto& guest : guests_) all.push_back({guest->fd(), POLLIN, 0});
    for (const Call_& call : calls_) {
      const bool writes = call.link->wants_to_write();
      all.push_back(
          {call.link->fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    poll(all.data(), all.size(),
         static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1000)));
  }

  void Accept() {
    for (;;) {
      const int fd =
          accept4(listener_.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      guests_.push_back(std::make_unique<Link>(fd));
      if (guests_.size() > kMostGuests + neighbours_.size()) guests_.pop_front();
    }
  }

  void ReadGuests() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      const bool more = (*guest)->Read();
      const std::optional<Hello> hello = (*guest)->TakeHello();
      if (hello) Welcome(std::move(*guest), *hello);
      guest = hello || !more ? guests_.erase(guest) : std::next(guest);
    }
  }

  void Welcome(std::unique_ptr<Link> guest, const Hello& hello) {
    const auto who = std::find(neighbours_.begin(), neighbours_.end(), hello.from);
    if (!Fits(hello) || who == neighbours_.end() || *who < rank_) return;
    std::unique_ptr<Link>& place = links_[who - neighbours_.begin()];
    if (place != nullptr) return;  // it came by two addresses
    guest->Send(HelloTo(hello.from));
    guest->Write();
    place = std::move(guest);
  }

  void ReadCalls() {
    for (auto call = calls_.begin(); call != calls_.end();) {
      const bool over = !call->link->Write() || !call->link->Read();
      if (const std::optional<Hello> hello = call->link->TakeHello()) {
        if (Fits(*hello) && hello->from == neighbours_[call->neighbour] &&
            links_[call->neighbour] == nullptr) {
          links_[call->neighbour] = std::move(call->link);
        }
        call = calls_.erase(call);
      } else if (over) {
        why_[call->neighbour] = call->link->why();
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
  std::list<std::unique_ptr<Link>> guests_;
  std::list<Call_> calls_;
};

// Both families where the system has IPv6, else IPv4.
int BoundSocket(int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage any{};
  any.ss_family = family;
  const int off = 0;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
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

Listener::Listener() {
  fd = BoundSocket(AF_INET6);
  if (fd < 0) fd = BoundSocket(AF_INET);
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
