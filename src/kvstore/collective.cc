// Collective: pieces sent, received and summed.

#include "kvstore/collective.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

// No array of a key is longer.
constexpr uint64_t kMostTotal = uint64_t{1} << 38;

}  // namespace

Collective::Collective(int rank, int size, Outbox& outbox, PiecePool& pool)
    : rank_(rank),
      size_(size),
      outbox_(outbox),
      pool_(pool),
      peers_(static_cast<size_t>(size)) {}

// Whole units of so many bytes of codes.
int64_t Collective::PieceBytes() const {
  const int64_t unit = spec_.codec.Bytes(kUnit);
  return std::max<int64_t>(1, kPieceBytes / unit) * unit;
}

void Collective::SendRange(int to, Said said, const char* data, int64_t bytes,
                           int64_t piece) {
  for (int64_t at = 0; at < bytes; at += piece) {
    Entry entry;
    entry.said = said;
    entry.slot = spec_.slot;
    entry.round = spec_.round;
    entry.form = spec_.codec.Form();
    entry.offset = static_cast<uint64_t>(at);
    entry.total = static_cast<uint64_t>(bytes);
    entry.bytes = static_cast<uint32_t>(std::min(piece, bytes - at));
    ++sending_;
    outbox_.Add(to, spec_.priority, entry, data + at, this);
  }
}

// A piece of the own range, which is final, to all.
void Collective::SendOwnPiece(int64_t offset, int64_t bytes) {
  const auto size = static_cast<int64_t>(SizeOf(spec_.codec.dtype));
  const char* own = arrays_.dst + PartOf(rank_).first * size;
  Entry entry;
  entry.said = Said::kWhole;
  entry.slot = spec_.slot;
  entry.round = spec_.round;
  entry.form = Codec{spec_.codec.dtype}.Form();
  entry.total = static_cast<uint64_t>(PartOf(rank_).size() * size);
  entry.offset = static_cast<uint64_t>(offset);
  entry.bytes = static_cast<uint32_t>(bytes);
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    ++sending_;
    outbox_.Add(to, spec_.priority, entry, own + offset, this);
  }
}

void Collective::Begin(const CollectiveSpec& spec, const CollectiveArrays& arrays) {
  spec_ = spec;
  arrays_ = arrays;
  begun_ = true;
  const auto size = static_cast<int64_t>(SizeOf(spec_.codec.dtype));
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) ExpectAll(r);
  }
  if (spec_.reduce) {
    BeginReduce();
  } else {
    const int64_t bytes = PartOf(rank_).size() * size;
    for (int64_t at = 0; at < bytes; at += kPieceBytes) {
      SendOwnPiece(at, std::min(kPieceBytes, bytes - at));
    }
  }
  if (failure_.empty()) {
    for (const Piece& piece : early_) Use(piece);
  }
  early_.clear();
  TellFailure();
}

void Collective::BeginReduce() {
  const int64_t bytes = spec_.codec.Bytes(PartOf(rank_).size());
  to_sum_ = (bytes + PieceBytes() - 1) / PieceBytes();
  part_counts_.assign(static_cast<size_t>(to_sum_), 0);
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    SendRange(to, Said::kPart, arrays_.src + spec_.codec.Bytes(PartOf(to).first),
              spec_.codec.Bytes(PartOf(to).size()), PieceBytes());
  }
  if (size_ > 1) return;
  for (int64_t i = 0; i < bytes; i += PieceBytes()) SumPiece(i / PieceBytes());
}

void Collective::Refuse(const CollectiveSpec& spec, const std::string& why) {
  spec_ = spec;
  refused_ = true;
  Entry entry;
  entry.slot = spec_.slot;
  entry.round = spec_.round;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const bool owns = PartOf(r).size() > 0, own = PartOf(rank_).size() > 0;
    ExpectAll(r);
    if (spec_.reduce && owns) {
      entry.said = Said::kFailPart;
      outbox_.AddText(r, spec_.priority, entry, why);
    }
    if (spec_.gather && own) {
      entry.said = Said::kFailWhole;
      outbox_.AddText(r, spec_.priority, entry, why);
    }
  }
}

void Collective::ExpectAll(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  const auto size = static_cast<int64_t>(SizeOf(spec_.codec.dtype));
  Expect(from, peer.part, spec_.reduce ? spec_.codec.Bytes(PartOf(rank_).size()) : 0,
         spec_.codec.Form());
  Expect(from, peer.whole, spec_.gather ? PartOf(from).size() * size : 0,
         Codec{spec_.codec.dtype}.Form());
}

void Collective::Expect(int from, Half& half, int64_t bytes, uint8_t form) {
  half.expected = bytes;
  half.form = form;
  CheckTotal(from, half);
}

// Sender and receiver must agree on how much a phase moves, and on what it is.
void Collective::CheckTotal(int from, const Half& half) {
  if (half.claimed < 0 || !(begun_ || refused_)) return;
  if (half.claimed == half.expected && half.claimed_form != half.form) {
    FailWith("rank " + std::to_string(from) + " sends " +
             Codec::FormName(half.claimed_form) + " and rank " + std::to_string(rank_) +
             " expects " + Codec::FormName(half.form) +
             "; all ranks must use equal dtypes and compressions");
  }
  if (half.claimed == half.expected) return;
  FailWith("rank " + std::to_string(from) + " sends " + std::to_string(half.claimed) +
           " bytes and rank " + std::to_string(rank_) + " expects " +
           std::to_string(half.expected) + "; all ranks must use equal shapes");
}

void Collective::FailWith(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  TellFailure();
}

// When a sum fails the own range will never be ready: those who wait for it must know.
void Collective::TellFailure() {
  if (failure_.empty() || failure_told_ || !begun_) return;
  failure_told_ = true;
  if (!spec_.reduce || !spec_.gather || PartOf(rank_).size() == 0) return;
  Entry entry;
  entry.said = Said::kFailWhole;
  entry.slot = spec_.slot;
  entry.round = spec_.round;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) outbox_.AddText(r, spec_.priority, entry, failure_);
  }
}

char* Collective::WholeAt(int from, uint64_t offset) const {
  return arrays_.dst +
         PartOf(from).first * static_cast<int64_t>(SizeOf(spec_.codec.dtype)) + offset;
}

// Whether a piece may go to its place at once: what stood there has left.
bool Collective::Direct(int from, const Entry& entry) const {
  if (!begun_ || entry.said != Said::kWhole || !failure_.empty()) return false;
  const Peer& peer = peers_[static_cast<size_t>(from)];
  return !spec_.reduce || peer.parts_sent == spec_.codec.Bytes(PartOf(from).size()) ||
         (spec_.codec.plain() &&
          peer.parts_sent >= static_cast<int64_t>(entry.offset + entry.bytes));
}

char* Collective::Place(int from, const Entry& entry) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  Half& half = entry.said == Said::kPart ? peer.part : peer.whole;
  Check(entry.bytes > 0 && entry.total <= kMostTotal && entry.offset < entry.total &&
            entry.bytes <= entry.total - entry.offset,
        ErrorKind::kIo, "rank ", from, " sent ", entry.bytes, " bytes at ",
        entry.offset, " of ", entry.total, "; bytes inside an array were expected");
  Check(half.claimed < 0 || half.claimed == static_cast<int64_t>(entry.total),
        ErrorKind::kIo, "rank ", from, " sent pieces of ", half.claimed, " and of ",
        entry.total, " bytes of one array; equal ones were expected");
  Check(half.claimed_form == 0 || half.claimed_form == entry.form, ErrorKind::kIo,
        "rank ", from, " sent pieces of several dtypes of one array");
  // Pieces of a part are sent one after the other.
  Check(entry.said == Said::kWhole ||
            entry.offset == static_cast<uint64_t>(half.announced),
        ErrorKind::kIo, "rank ", from, " sent the piece at ", entry.offset,
        " of an array; the one at ", half.announced, " was expected");
  half.announced += entry.bytes;
  Check(half.announced <= static_cast<int64_t>(entry.total), ErrorKind::kIo, "rank ",
        from, " sent more than ", entry.total, " bytes of an array");
  half.claimed = static_cast<int64_t>(entry.total);
  half.claimed_form = entry.form;
  CheckTotal(from, half);
  ++receiving_;
  if (entry.said == Said::kPart) {
    peer.pieces.push_back({entry.offset, entry.bytes, pool_.Take(entry.bytes)});
    return peer.pieces.back().memory.get();
  }
  if (Direct(from, entry)) return WholeAt(from, entry.offset);
  if (!half.scratch) half.scratch = NDArray::Empty({half.claimed}, DType::kUint8);
  return half.scratch.data<char>() + entry.offset;
}

void Collective::Arrived(int from, const Entry& entry, const char* place) {
  --receiving_;
  Peer& peer = peers_[static_cast<size_t>(from)];
  (entry.said == Said::kPart ? peer.part : peer.whole).got += entry.bytes;
  if (!failure_.empty() || refused_) return;
  if (begun_) {
    Use({from, entry, place});
  } else {
    early_.push_back({from, entry, place});
  }
}

void Collective::Use(const Piece& piece) {
  const Entry& entry = piece.entry;
  if (entry.said == Said::kWhole) {
    char* at = WholeAt(piece.from, entry.offset);
    if (at != piece.place) std::memcpy(at, piece.place, entry.bytes);
    return;
  }
  const auto bytes = static_cast<uint64_t>(PieceBytes());
  Check(entry.offset % bytes == 0 &&
            entry.bytes == std::min(bytes, entry.total - entry.offset),
        ErrorKind::kIo, "rank ", piece.from, " sent ", entry.bytes, " bytes at ",
        entry.offset, " of ", entry.total, "; pieces of ", bytes, " were expected");
  const uint64_t index = entry.offset / bytes;
  if (++part_counts_[index] == size_ - 1) SumPiece(static_cast<int64_t>(index));
}

// Sums a piece of the own part, which has come from all, in the order of ranks.
void Collective::SumPiece(int64_t index) {
  const Ranges::Part& own = PartOf(rank_);
  const int64_t piece = PieceBytes();
  const int64_t elements = piece / spec_.codec.Bytes(kUnit) * kUnit;
  const int64_t first = index * elements;
  const int64_t n = std::min(elements, own.size() - first);
  const auto offset = static_cast<uint64_t>(index * piece);
  std::vector<const void*> parts;
  std::vector<Memory> used;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      parts.push_back(arrays_.src + spec_.codec.Bytes(own.first) + offset);
      continue;
    }
    auto& pieces = peers_[static_cast<size_t>(r)].pieces;
    const auto found =
        std::find_if(pieces.begin(), pieces.end(),
                     [offset](const Memory& one) { return one.offset == offset; });
    parts.push_back(found->memory.get());
    used.push_back(std::move(*found));
    pieces.erase(found);
  }
  const auto size = static_cast<int64_t>(SizeOf(spec_.codec.dtype));
  char* dst = arrays_.dst + ((spec_.gather ? own.first : 0) + first) * size;
  spec_.codec.Sum(parts, dst, n);
  for (Memory& one : used) pool_.Give(std::move(one.memory), one.bytes);
  --to_sum_;
  if (!spec_.gather) return;
  for (int64_t at = 0; at < n * size; at += kPieceBytes) {
    SendOwnPiece(first * size + at, std::min(kPieceBytes, n * size - at));
  }
}

void Collective::Ended(int from, Said said, const std::string& why) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  (said == Said::kFailPart ? peer.part : peer.whole).ended = true;
  FailWith(why);
}

void Collective::Left(int from) {
  Peer& peer = peers_[static_cast<size_t>(from)];
  if (!begun_ && !refused_) return;  // is asked again when it begins
  if (peer.part.Complete() && peer.whole.Complete()) return;
  peer.part.ended = peer.whole.ended = true;
  FailWith("rank " + std::to_string(from) +
           " has ended its program and takes no part in it");
}

void Collective::OnSent(int to, const Entry& entry) {
  --sending_;
  if (entry.said == Said::kPart) {
    peers_[static_cast<size_t>(to)].parts_sent += entry.bytes;
  }
}

bool Collective::Over() const {
  if (!begun_ || sending_ > 0 || receiving_ > 0) return false;
  if (failure_.empty() && to_sum_ > 0) return false;
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.part.Complete() && peer.whole.Complete();
  });
}

bool Collective::Forgettable() const {
  if (begun_) return Over();
  return refused_ && receiving_ == 0 &&
         std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
           return peer.part.Complete() && peer.whole.Complete();
         });
}

}  // namespace plait
