// Contact: how the other ranks of a job can reach one of them over TCP.

#ifndef PLAIT_KVSTORE_HEARTBEAT_CONTACT_H_
#define PLAIT_KVSTORE_HEARTBEAT_CONTACT_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kvstore/heartbeat/proof.h"

namespace plait {

// As it travels between ranks, byte for byte.
struct Contact {
  static constexpr int kMostAddresses = 8;

  struct Address {
    uint8_t is_v6 = 0;
    std::array<uint8_t, 16> bytes{};
  };

  std::array<uint8_t, 16> token{};    // that of rank 0 is the job's
  std::array<uint8_t, 16> machine{};  // equal where the loopback address will do
  std::array<char, 64> host{};        // for people; ends with a zero
  uint16_t port = 0;
  uint8_t count = 0;
  std::array<Address, kMostAddresses> addresses{};

  std::string HostName() const;
};
static_assert(std::is_trivially_copyable_v<Contact>);

// A name of the network stack that this process sees; zero where the system tells none.
Bytes16 MachineName();
// Whether all have one and it is the same.
bool OneMachine(std::span<const Bytes16> machines);

// This process's, with the addresses of all its interfaces that are up and a new token.
Contact MakeContact(uint16_t port);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// Where to try to reach `other` from `self`, the most likely first.
std::vector<SocketAddress> AddressesOf(const Contact& other, const Contact& self);

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_CONTACT_H_
