// SipHash, as its authors describe it, and what is hashed.

#include "kvstore/heartbeat/proof.h"

#include <sys/random.h>

#include <bit>
#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

struct State {
  uint64_t v0, v1, v2, v3;

  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
  uint64_t Sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

Bytes16 SipHash(const Bytes16& key, std::span<const uint8_t> bytes) {
  uint64_t k[2];
  std::memcpy(k, key.data(), sizeof(k));
  State s{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d ^ 0xee,
          k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    s.Take(word);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = 0; at + i < bytes.size(); ++i) {
    last |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  }
  s.Take(last);
  uint64_t result[2];
  s.v2 ^= 0xee;
  s.Rounds(4);
  result[0] = s.Sum();
  s.v1 ^= 0xdd;
  s.Rounds(4);
  result[1] = s.Sum();
  Bytes16 hash;
  std::memcpy(hash.data(), result, sizeof(result));
  return hash;
}

Bytes16 RandomBytes() {
  Bytes16 bytes;
  Check(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        ErrorKind::kIo, "heartbeat: the system gives no random bytes");
  return bytes;
}

Bytes16 ProofOf(const Bytes16& token, bool caller, const Parties& parties) {
  struct {
    int32_t who, from, to, zero;
    std::array<Bytes16, 2> nonces;
  } text{caller ? 1 : 2, parties.caller, parties.listener, 0, parties.nonces};
  std::array<uint8_t, sizeof(text)> bytes;
  std::memcpy(bytes.data(), &text, sizeof(text));
  return SipHash(token, bytes);
}

bool Equal(const Bytes16& a, const Bytes16& b) {
  unsigned differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= a[i] ^ b[i];
  return differ == 0;
}

}  // namespace plait
