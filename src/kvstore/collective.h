// Collective: one sum or one distribution of one array by all ranks, as one rank sees
// it.
//
// In the first phase (reduce) each rank sends every other one the part that it owns,
// and sums what comes to it; in the second (gather) it sends its own part to all. A
// collective begins when a rank is told of it, by its own program or by another rank,
// whichever comes first, and is forgotten when all have ended their part in it.
//
// Not thread-safe: it belongs to the thread of its exchange.

#ifndef PLAIT_KVSTORE_COLLECTIVE_H_
#define PLAIT_KVSTORE_COLLECTIVE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec.h"
#include "kvstore/outbox.h"
#include "kvstore/piece_pool.h"
#include "ndarray/ndarray.h"

namespace plait {

// What all ranks say alike of a collective.
struct CollectiveSpec {
  uint32_t slot = 0, round = 0;
  bool reduce = false, gather = false;
  Codec codec;  // of the parts; what is gathered is plain
  std::shared_ptr<const Ranges> ranges;
  std::string label;  // "the key 'w'"
  int priority = 0;
  // What went wrong with this round so far; operations of one round share it.
  std::shared_ptr<std::string> history = std::make_shared<std::string>();
};

// The memory of one rank's part in it.
struct CollectiveArrays {
  const char* src = nullptr;  // reduce: the codes of all parts
  // Gather: the whole array, in which the own part stands (or will, with reduce). Else
  // the own part.
  char* dst = nullptr;
};

class Collective final : public Sender {
 public:
  Collective(int rank, int size, Outbox& outbox, PiecePool& pool);

  // The own program takes part; or, with a text, says that it will not.
  void Begin(const CollectiveSpec& spec, const CollectiveArrays& arrays);
  void Refuse(const CollectiveSpec& spec, const std::string& why);

  // Where the payload of an entry (kPart, kWhole) goes; throws kIo when the entry is
  // impossible. Arrived must follow.
  char* Place(int from, const Entry& entry);
  void Arrived(int from, const Entry& entry, const char* place);
  // The peer will send no more; of kBye neither.
  void Ended(int from, Said said, const std::string& why);
  void Left(int from);

  void OnSent(int to, const Entry& entry) override;

  // What went wrong; empty: nothing.
  const std::string& failure() const { return failure_; }
  bool begun() const { return begun_; }
  // The own part is over: its arrays are not used any more.
  bool Over() const;
  // All others have ended theirs too.
  bool Forgettable() const;

 private:
  struct Half {            // what a peer sends in one phase
    NDArray scratch;       // for what may not go to its place yet; kWhole
    int64_t expected = 0;  // bytes, by what this rank knows
    int64_t claimed = -1;  // by what the peer says
    int64_t announced = 0;
    int64_t got = 0;
    uint8_t form = 0, claimed_form = 0;  // likewise
    bool ended = false;
    bool Complete() const { return ended || got == (claimed < 0 ? expected : claimed); }
  };
  struct Memory {  // of a piece of a part
    uint64_t offset;
    size_t bytes;
    PiecePool::Memory memory;
  };
  struct Peer {
    Half part, whole;
    std::deque<Memory> pieces;  // of the part, that are not summed yet
    int64_t parts_sent = 0;     // bytes known to have left
  };
  struct Piece {
    int from;
    Entry entry;
    const char* place;
  };

  const Ranges::Part& PartOf(int rank) const {
    return spec_.ranges->parts[static_cast<size_t>(rank)];
  }
  void Expect(int from, Half& half, int64_t bytes, uint8_t form);
  void ExpectAll(int from);
  void CheckTotal(int from, const Half& half);
  void FailWith(const std::string& why);
  void TellFailure();
  void Use(const Piece& piece);
  int64_t PieceBytes() const;
  void BeginReduce();
  void SendRange(int to, Said said, const char* data, int64_t bytes, int64_t piece);
  void SendOwnPiece(int64_t offset, int64_t bytes);
  void SumPiece(int64_t index);
  bool Direct(int from, const Entry& entry) const;
  char* WholeAt(int from, uint64_t offset) const;

  const int rank_, size_;
  Outbox& outbox_;
  PiecePool& pool_;
  std::vector<Peer> peers_;
  CollectiveSpec spec_;
  CollectiveArrays arrays_;
  bool begun_ = false, refused_ = false;
  std::string failure_;
  bool failure_told_ = false;

  std::vector<Piece> early_;      // that came before Begin
  std::vector<int> part_counts_;  // peers that have sent a piece of the own part
  int64_t to_sum_ = 0;            // pieces
  int64_t sending_ = 0;           // pieces on their way from own memory
  int64_t receiving_ = 0;         // pieces on their way to it
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_COLLECTIVE_H_
