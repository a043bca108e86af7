// RowStore: messages of rows to their owners, to all, and back.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kvstore/array_work.h"
#include "kvstore/key_agreement.h"
#include "kvstore/push_transfer.h"
#include "kvstore/row_store.h"

namespace plait {
namespace {

constexpr auto kHead = static_cast<int64_t>(sizeof(RowHead));
constexpr auto kIdBytes = static_cast<int64_t>(sizeof(int64_t));

// Writes messages of rows; when the rows failed, the others must know.
class PackRows final : public Operation {
 public:
  using Failed = std::function<void()>;
  PackRows(std::function<void()> work, Failed failed)
      : work_(std::move(work)), failed_(std::move(failed)) {}
  void Run() override { work_(); }
  void Abandon() noexcept override {
    try {
      failed_();
    } catch (const std::exception&) {  // the program ends
    }
  }
  const char* name() const override { return "kvstore_pack_rows"; }
  SmallVector<Ref<Chunk>, 2> held;

 private:
  std::function<void()> work_;
  Failed failed_;
};

NDArray Bytes(int64_t n) {
  return NDArray::Empty({std::max<int64_t>(1, n)}, DType::kUint8);
}

char* Put(char* to, const void* from, int64_t bytes) {
  // No ids and no rows may be null, which memcpy must not be given.
  return std::copy_n(static_cast<const char*>(from), bytes, to);
}

int64_t Largest(const std::vector<Ranges::Part>& parts) {
  int64_t most = 0;
  for (const Ranges::Part& part : parts) most = std::max(most, part.last);
  return most;
}

}  // namespace

RowStore::Cuts RowStore::CutByOwner(const Entry& entry, const RowIds& ids) const {
  Cuts cuts;
  for (const Ranges::Part& part : entry.owners.parts) {
    const auto first = std::lower_bound(ids.begin(), ids.end(), part.first);
    const auto last = std::lower_bound(first, ids.end(), part.last);
    cuts.push_back({first - ids.begin(), last - ids.begin()});
    if (part.size() == 0) cuts.back() = {0, 0};
  }
  return cuts;
}

RowStore::Cuts RowStore::ForOthers(int64_t count) const {
  Cuts cuts(static_cast<size_t>(exchange_.size()), {0, count});
  cuts[static_cast<size_t>(exchange_.rank())] = {0, 0};
  return cuts;
}

CollectiveSpec RowStore::Spec(const Entry& entry, bool rows, int priority) const {
  CollectiveSpec spec;
  spec.slot = first_slot_ + 2 * entry.number + (rows ? 1 : 0);
  spec.codec.dtype = DType::kUint8;
  spec.label = "the key " + Printed(entry.key);
  spec.priority = priority;
  return spec;
}

// bytes: of the codes, by rank.
void RowStore::Send(Entry& entry, bool rows, const NDArray& codes, const Cuts& bytes,
                    int priority) {
  if (Largest(bytes) == 0) return;
  CollectiveSpec spec = Spec(entry, rows, priority);
  spec.ranges = std::make_shared<Ranges>(Ranges{bytes});
  const NDArray& order = rows ? entry.rows_order : entry.order;
  PushTransfer(exchange_.Push(spec, codes, order), codes, order);
}

// A cut of no rows is told too; one of a negative size is not.
void RowStore::SendIds(Entry& entry, RowHead head, const RowIds& ids, const Cuts& cuts,
                       int priority) {
  Cuts bytes;
  int64_t all = 0;
  for (const Ranges::Part& cut : cuts) {
    const int64_t n = cut.size() < 0 ? 0 : kHead + cut.size() * kIdBytes;
    bytes.push_back({all, all + n});
    all += n;
  }
  const NDArray codes = Bytes(all);
  char* to = codes.data<char>();
  for (const Ranges::Part& cut : cuts) {
    if (cut.size() < 0) continue;
    head.count = cut.size();
    to = Put(to, &head, kHead);
    to = Put(to, ids.data() + cut.first, cut.size() * kIdBytes);
  }
  Send(entry, false, codes, bytes, priority);
}

RowHead RowStore::NextRound(Entry& entry, RowHead::Kind kind) {
  return {kind, entry.rounds++, 0, turns_++, HashOf(entry.key)};
}

void RowStore::TellFailure(Entry& entry, const std::string& why) {
  RowHead head = NextRound(entry, RowHead::kFailed);
  head.count = static_cast<int64_t>(why.size());
  const int64_t n = kHead + head.count;
  const NDArray codes = Bytes(n);
  Put(Put(codes.data<char>(), &head, kHead), why.data(), head.count);
  Send(entry, false, codes, ForOthers(n), 0);
}

void RowStore::SendRows(Entry& entry, uint32_t round, const NDArray& values,
                        const Cuts& cuts, int priority) {
  const int64_t row = entry.shape.size(1, entry.shape.rank()) *
                      static_cast<int64_t>(SizeOf(entry.dtype));
  Cuts bytes, failed;  // by rank; rows for all ranks are packed once
  int64_t all = 0;
  for (size_t r = 0; r < cuts.size(); ++r) {
    const int64_t n = cuts[r].size() == 0 ? 0 : kHead + cuts[r].size() * row;
    const auto same = std::find_if(cuts.begin(), cuts.begin() + static_cast<int64_t>(r),
                                   [&](const Ranges::Part& cut) {
                                     return n > 0 && cut.first == cuts[r].first &&
                                            cut.last == cuts[r].last;
                                   });
    if (same != cuts.begin() + static_cast<int64_t>(r)) {
      bytes.push_back(bytes[static_cast<size_t>(same - cuts.begin())]);
    } else {
      bytes.push_back({all, all + n});
      all += n;
    }
  }
  if (all == 0) return;
  const NDArray codes = Bytes(all);
  values.chunk().SettleForRead();  // has memory from here on
  const auto work = [cuts, bytes, row, round, from = values.data<char>(),
                     to = codes.data<char>()] {
    for (size_t r = 0; r < cuts.size(); ++r) {
      if (cuts[r].size() == 0) continue;
      const RowHead head{RowHead::kRows, round, cuts[r].size()};
      char* const at = Put(to + bytes[r].first, &head, kHead);
      Put(at, from + cuts[r].first * row, cuts[r].size() * row);
    }
  };
  // Past what waits in order, which will not come.
  const std::string why =
      "rank " + std::to_string(exchange_.rank()) + ": an operation before it failed";
  auto spec = Spec(entry, true, priority);
  const auto fails = [this_exchange = &exchange_, spec, cuts, round, why]() mutable {
    const RowHead head{RowHead::kFailed, round, static_cast<int64_t>(why.size())};
    const int64_t n = kHead + head.count;
    const NDArray text = Bytes(n), order = Bytes(1);
    Put(Put(text.data<char>(), &head, kHead), why.data(), head.count);
    Cuts to;
    for (const Ranges::Part& cut : cuts) to.push_back({0, cut.size() == 0 ? 0 : n});
    spec.ranges = std::make_shared<Ranges>(Ranges{to});
    PushTransfer(this_exchange->Push(spec, text, order), text, order);
  };
  auto op = std::make_unique<PackRows>(work, fails);
  op->priority = priority;
  op->held.push_back(values.body()->chunk);
  op->held.push_back(codes.body()->chunk);
  Var *const read = &values.var(), *const written = &codes.var();
  Engine::Get().Push(std::move(op), {&read, 1}, {&written, 1});
  Send(entry, true, codes, bytes, priority);
}

// What all ranks send this one: rows `cuts` of the own ones go to each rank.
RowStore::Rows RowStore::Exchanged(Entry& entry, const RowIds& ids,
                                   const NDArray& values, const Cuts& cuts, bool others,
                                   int priority) {
  const RowHead head = NextRound(entry, RowHead::kIds);
  const uint32_t round = head.round;
  Cuts told = cuts;
  if (others) told[static_cast<size_t>(exchange_.rank())] = {0, -1};
  SendIds(entry, head, ids, told, priority);
  if (!ids.empty()) SendRows(entry, round, values, cuts, priority);
  const std::vector<RowIds> lists =
      server_->AwaitIds(entry.number, head, others, entry.key);
  Rows rows;
  std::vector<int64_t> counts;
  for (const RowIds& list : lists) {
    Check(list.empty() || list.back() < entry.shape[0], ErrorKind::kIo,
          "kvstore: the key ", Printed(entry.key), ": the row ",
          list.empty() ? 0 : list.back(), " was sent; rows below ", entry.shape[0],
          " were expected");
    counts.push_back(static_cast<int64_t>(list.size()));
    rows.ids.insert(rows.ids.end(), list.begin(), list.end());
  }
  if (rows.ids.empty()) return rows;
  const auto count = static_cast<int64_t>(rows.ids.size());
  rows.values = NDArray::Empty(WithRows(entry.shape, count), entry.dtype);
  const int64_t row_bytes = rows.values.nbytes() / count;
  PushTransfer(
      server_->Receive(entry.number, round, counts, row_bytes, rows.values, entry.key),
      {}, rows.values);
  return rows;
}

// With eventual consistency: numbers and rows in one message to each owner.
void RowStore::PushAtOnce(Entry& entry, const SparseParts& value, int priority) {
  Check(updater_ != nullptr, ErrorKind::kRuntime, "KVStore.push: the key ",
        Printed(entry.key),
        " was pushed to an asynchronous store without an updater; set_optimizer() "
        "was expected before");
  server_->ThrowRefusal();
  const RowIds ids = Integers(value.indices);
  if (ids.empty() && !bounded_) return;
  if (ids.empty()) {
    Cuts none;
    for (const Ranges::Part& part : entry.owners.parts) {
      none.push_back({0, part.size() == 0 ? -1 : 0});
    }
    return SendIds(entry, {RowHead::kUpdate}, ids, none, priority);
  }
  const NDArray& values = value.data;
  const int64_t row = values.nbytes() / static_cast<int64_t>(ids.size());
  const Cuts cuts = CutByOwner(entry, ids);
  Cuts bytes;
  int64_t all = 0;
  for (size_t r = 0; r < cuts.size(); ++r) {
    const bool told =
        cuts[r].size() > 0 || (bounded_ && entry.owners.parts[r].size() > 0);
    const int64_t n = told ? kHead + cuts[r].size() * (kIdBytes + row) : 0;
    bytes.push_back({all, all + n});
    all += n;
  }
  const NDArray codes = Bytes(all);
  values.chunk();
  PushWork(
      "kvstore_pack_rows", {&values, 1}, {&codes, 1}, priority,
      [cuts, bytes, ids, row, from = values.data<char>(), at = codes.data<char>()] {
        char* to = at;
        for (size_t r = 0; r < cuts.size(); ++r) {
          const Ranges::Part& cut = cuts[r];
          if (bytes[r].size() == 0) continue;
          const RowHead head{RowHead::kUpdate, 0, cut.size()};
          to = Put(to, &head, kHead);
          to = Put(to, ids.data() + cut.first, cut.size() * kIdBytes);
          to = Put(to, from + cut.first * row, cut.size() * row);
        }
      });
  Send(entry, false, codes, bytes, priority);
}

// Rows `ids` from their owners; all: they are all rows.
NDArray RowStore::Fetch(Entry& entry, const RowIds& ids, bool all, int priority) {
  server_->ThrowRefusal();
  Cuts cuts = CutByOwner(entry, ids), told = cuts;
  for (Ranges::Part& cut : told) {
    if (cut.size() == 0) cut = {0, -1};  // is asked nothing
    if (all && cut.size() > 0) cut = {0, 0};
  }
  SendIds(entry, {all ? RowHead::kAll : RowHead::kWanted, entry.rounds}, ids, told,
          priority);
  const NDArray rows = NDArray::Empty(
      WithRows(entry.shape, static_cast<int64_t>(ids.size())), entry.dtype);
  const int64_t row = entry.shape.size(1, entry.shape.rank());
  for (Ranges::Part& cut : cuts) cut = {cut.first * row, cut.last * row};
  CollectiveSpec spec = Spec(entry, false, priority);
  spec.codec.dtype = entry.dtype;
  spec.ranges = std::make_shared<Ranges>(Ranges{cuts});
  auto op = exchange_.Pull(spec, rows, entry.order);
  Var* const writes[] = {&rows.var(), &entry.order.var()};
  Engine::Get().Push(std::move(op), {}, writes);
  return rows;
}

}  // namespace plait
