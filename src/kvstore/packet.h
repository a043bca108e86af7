// Entry: what a rank says to another about one piece of an array.
//
// A packet is a row of entries, each followed by its payload unless that travels by
// itself under the entry's tag. Ranks run one build on one kind of machine, so fields
// travel as they are.

#ifndef PLAIT_KVSTORE_PACKET_H_
#define PLAIT_KVSTORE_PACKET_H_

#include <cstddef>
#include <cstdint>

namespace plait {

enum class Said : uint8_t {
  kPart,   // a piece of the sender's part of a sum, for its owner
  kWhole,  // a piece of the sender's own range
  kFailPart,
  kFailWhole,  // there will be no (more) parts, or pieces; the payload says why
  kBye,        // the sender's program ends
  kPush,       // as kPart, to be applied at once
  kPull,       // asks for the receiver's range
  kReply,      // a piece of it
  kRefused,    // there will be no reply, or a push could not be applied; a text
  kRest,       // the sender waits for all others; see Exchange::Bound
  kCount,
};

struct Entry {
  static constexpr uint32_t kMagic = 0x50a17e57;
  static constexpr size_t kMostText = 2048;

  uint32_t magic = kMagic;
  Said said = Said::kCount;
  uint8_t form = 0;  // of the elements: Codec::Form; kPart and kWhole
  uint8_t spare[2] = {};
  uint32_t slot = 0;   // store and key
  uint32_t round = 0;  // of this slot
  uint32_t tag = 0;    // 0: the payload follows
  uint32_t bytes = 0;  // of the payload
  uint64_t offset = 0;
  uint64_t total = 0;  // bytes of all pieces
};
static_assert(sizeof(Entry) == 40);

inline constexpr int kPacketTag = 0;
inline constexpr size_t kPacketBytes = 64 << 10;
// Longer payloads travel by themselves.
inline constexpr size_t kInlineBytes = 16 << 10;
// Pieces of arrays are about so long.
inline constexpr int64_t kPieceBytes = 256 << 10;
// Bytes given to the transport for one peer; the rest waits, by priority. Few where the
// link is slow, so that what is urgent comes soon; more where a fast one would run dry.
inline constexpr size_t kLeastInFlight = 256 << 10, kMostInFlight = 2 << 20;

}  // namespace plait

#endif  // PLAIT_KVSTORE_PACKET_H_
