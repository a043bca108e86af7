// Contact: addresses of the interfaces, and which of a peer's to try.

#include "kvstore/heartbeat/contact.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "kvstore/heartbeat/proof.h"

namespace plait {
namespace {

SocketAddress ToSocketAddress(const Contact::Address& address, uint16_t port) {
  SocketAddress made;
  if (address.is_v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&made.storage, &v6, made.length = sizeof(v6));
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
    std::memcpy(&made.storage, &v4, made.length = sizeof(v4));
  }
  return made;
}

bool Usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || !(entry.ifa_flags & IFF_UP)) return false;
  if (entry.ifa_flags & IFF_LOOPBACK) return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

void ListAddresses(Contact& contact) {
  ifaddrs* all = nullptr;
  Check(getifaddrs(&all) == 0, ErrorKind::kIo,
        "heartbeat: the network interfaces cannot be listed: ", std::strerror(errno));
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
      if (contact.count == Contact::kMostAddresses) break;
      if (!Usable(*entry) || entry->ifa_addr->sa_family != family) continue;
      Contact::Address& address = contact.addresses[contact.count++];
      address.is_v6 = family == AF_INET6;
      if (address.is_v6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
        std::memcpy(address.bytes.data(), &v6->sin6_addr, 16);
      } else {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
        std::memcpy(address.bytes.data(), &v4->sin_addr, 4);
      }
    }
  }
  freeifaddrs(all);
}

}  // namespace

// The machine's boot, and its network namespace (two of them do not share a loopback
// interface).
Bytes16 MachineName() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat net {};
  if (boot.empty() || stat("/proc/self/ns/net", &net) != 0) return {};
  // FNV, twice, from two starts.
  boot += ':' + std::to_string(net.st_dev) + ':' + std::to_string(net.st_ino);
  Bytes16 name{};
  for (uint64_t half = 0; half < 2; ++half) {
    uint64_t hash = 14695981039346656037u + half;
    for (const char letter : boot) {
      hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211u;
    }
    std::memcpy(name.data() + half * 8, &hash, 8);
  }
  return name;
}

bool OneMachine(std::span<const Bytes16> machines) {
  return machines[0] != Bytes16{} &&
         std::all_of(machines.begin(), machines.end(),
                     [&](const Bytes16& name) { return name == machines[0]; });
}

std::string Contact::HostName() const {
  return {host.data(), strnlen(host.data(), host.size() - 1)};
}

Contact MakeContact(uint16_t port) {
  Contact contact;
  contact.port = port;
  contact.machine = MachineName();
  gethostname(contact.host.data(), contact.host.size() - 1);
  contact.token = RandomBytes();
  ListAddresses(contact);
  return contact;
}

std::vector<SocketAddress> AddressesOf(const Contact& other, const Contact& self) {
  std::vector<SocketAddress> addresses;
  constexpr std::array<uint8_t, 16> kUnknown{};
  if (other.machine == self.machine && self.machine != kUnknown) {
    return {ToSocketAddress({0, {127, 0, 0, 1}}, other.port)};
  }
  const int count = std::min<int>(other.count, Contact::kMostAddresses);
  for (int i = 0; i < count; ++i) {
    addresses.push_back(ToSocketAddress(other.addresses[i], other.port));
  }
  return addresses;
}

}  // namespace plait
