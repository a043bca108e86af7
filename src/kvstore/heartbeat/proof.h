// Proofs that both ends of a connection know the job's token, which is never sent.
//
// An address that looks like a rank's may be somebody else's (several machines have one
// for their containers), so the end that listens proves itself first. Proofs are
// SipHash-2-4 of both ends' random numbers, keyed by the token.

#ifndef PLAIT_KVSTORE_HEARTBEAT_PROOF_H_
#define PLAIT_KVSTORE_HEARTBEAT_PROOF_H_

#include <array>
#include <cstdint>
#include <span>

namespace plait {

using Bytes16 = std::array<uint8_t, 16>;

// SipHash-2-4 with 128 bits.
Bytes16 SipHash(const Bytes16& key, std::span<const uint8_t> bytes);

Bytes16 RandomBytes();  // throws kIo

// Of the end that calls or that listens; `nonces`: of the caller, of the listener.
struct Parties {
  int32_t caller = 0, listener = 0;
  std::array<Bytes16, 2> nonces{};
};
Bytes16 ProofOf(const Bytes16& token, bool caller, const Parties& parties);

// In the same time wherever they differ.
bool Equal(const Bytes16& a, const Bytes16& b);

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_PROOF_H_
