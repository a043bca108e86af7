// RowStore: keys, pushes, pulls; how rows travel is in row_transfer.cc.

#include "kvstore/row_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kvstore/array_work.h"
#include "kvstore/key_agreement.h"
#include "run/sparse.h"

namespace plait {
namespace {

std::string Label(const Key& key) {
  return "the key " + Printed(key);
}

NDArray IndexArray(const RowIds& ids) {
  return NDArray::FromHost(ids.data(), {static_cast<int64_t>(ids.size())},
                           DType::kInt64);
}

RowIds AllRows(int64_t first, int64_t last) {
  RowIds ids;
  for (int64_t i = first; i < last; ++i) ids.push_back(i);
  return ids;
}

// Values of another dtype are cast.
NDArray OfDType(const NDArray& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  NDArray y = NDArray::Empty(x.shape(), dtype, x.device());
  CopyArray(x, y);
  return y;
}

// Fills rows [first, last) of x with zeros.
void ZeroRows(const NDArray& x, int64_t first, int64_t last) {
  const int64_t bytes = x.shape()[0] == 0 ? 0 : x.nbytes() / x.shape()[0];
  x.chunk();
  PushWork("kvstore_zero_rows", {}, {&x, 1}, 0,
           [to = x.data<char>() + first * bytes, n = (last - first) * bytes] {
             std::fill_n(to, n, 0);
           });
}

}  // namespace

RowStore::RowStore(Exchange& exchange, Consistency consistency)
    : exchange_(exchange),
      consistency_(consistency),
      first_slot_(exchange.NewStore()),
      server_(std::make_shared<RowServer>(exchange, first_slot_)) {
  exchange.Serve(first_slot_, server_);
}

// ---------------------------------------------------------------- keys

RowStore::Entry& RowStore::Find(const char* what, const Key& key) {
  const auto found = by_key_.find(key);
  Check(found != by_key_.end(), "KVStore.", what, ": ", Label(key),
        " is not initialized with row_sparse values");
  return *found->second;
}

RowStore::Entry& RowStore::Add(const Key& key, const NDArray& like) {
  Entry& entry = entries_.emplace_back();
  entry.key = key;
  entry.number = static_cast<uint32_t>(entries_.size() - 1);
  entry.shape = like.shape();
  entry.dtype = like.dtype();
  entry.order = NDArray::Empty({1}, DType::kUint8);
  entry.rows_order = NDArray::Empty({1}, DType::kUint8);
  entry.owners = OwnersOf(entry);
  by_key_[key] = &entry;
  return entry;
}

// Equal parts of the rows; or all rows are one rank's, another one's for each key.
Ranges RowStore::OwnersOf(const Entry& entry) const {
  const int64_t rows = entry.shape[0], size = exchange_.size();
  const auto one = static_cast<int>(entry.number % static_cast<uint32_t>(size));
  if (!by_rows_) return OwnedBy(one, exchange_.size(), rows);
  Ranges owners;
  for (int64_t r = 0; r < size; ++r) {
    owners.parts.push_back({rows * r / size, rows * (r + 1) / size});
  }
  return owners;
}

void RowStore::SetPart(Entry& entry, NDArray rows) {
  const Ranges::Part& own = entry.owners.parts[static_cast<size_t>(exchange_.rank())];
  entry.part = {entry.key,       own.first,   own.last,
                std::move(rows), entry.dtype, entry.shape};
}

void RowStore::Init(const Key& key, const NDArray& value) {
  std::string wrong;
  if (Has(key)) wrong = "KVStore.init: " + Label(key) + " is initialized already";
  if (wrong.empty() && StorageOf(value) != Storage::kRowSparse) {
    wrong = "KVStore.init: the value of " + Label(key) + " is " +
            Name(StorageOf(value)) + "; a row_sparse or a dense array was expected";
  }
  if (!wrong.empty()) {
    try {
      AgreeOnKeys(exchange_, -1, {}, wrong);
    } catch (const Error&) {  // the own reason is better
    }
    Fail(ErrorKind::kValue, wrong);
  }
  const std::string description = KeyDescription(key, value);
  AgreeOnKeys(exchange_, 1, {&description, 1});
  Deal(Add(key, value), value, 0);
}

// The rows of rank `from`, or of all ranks where it is -1, go to their owners.
void RowStore::Deal(Entry& entry, const NDArray& value, int from) {
  RowIds ids;
  NDArray values;
  if (from < 0 || from == exchange_.rank()) {
    const SparseParts parts = PartsOf(value);
    ids = Integers(parts.indices);
    values = OfDType(parts.data, entry.dtype);
    const int64_t before = from < 0 ? entry.part.first : 0;
    for (int64_t& id : ids) id += before;
  }
  entry.owners = OwnersOf(entry);
  const Rows rows = Exchanged(entry, ids, values, CutByOwner(entry, ids), false, 0);
  SetPart(entry, {});
  const int64_t first = entry.part.first, count = entry.part.last - first;
  if (count > 0) {
    const Shape shape = WithRows(entry.shape, count);
    RowIds own = rows.ids;
    for (int64_t& id : own) id -= first;
    entry.part.rows =
        own.empty()
            ? EmptySparse(Storage::kRowSparse, shape, entry.dtype)
            : MakeSparse({Storage::kRowSparse, rows.values, IndexArray(own), {}},
                         shape);
  }
  server_->Offer(entry.number, entry.part, entry.rounds);
  // Nobody may push at once to who has no part yet.
  if (consistency_ == Consistency::kEventual) exchange_.Barrier();
}

void RowStore::Adopt(const Key& key, const NDArray& stored) {
  Entry& entry = Add(key, stored);
  entry.stored = stored;
  SetPart(entry, {});
  const int64_t first = entry.part.first, count = entry.part.last - first;
  if (count > 0) {
    const int64_t row = entry.shape.size(1, entry.shape.rank());
    entry.part.rows = stored.View(WithRows(entry.shape, count), first * row);
  }
  server_->Offer(entry.number, entry.part, entry.rounds);
  if (consistency_ == Consistency::kEventual) exchange_.Barrier();
}

void RowStore::SetUpdater(std::shared_ptr<StoreUpdater> updater, bool by_rows) {
  const bool moves = updater != nullptr && by_rows != by_rows_;
  updater_ = std::move(updater);
  server_->SetUpdater(updater_);
  if (!moves) return;
  for (const Entry& entry : entries_) {
    Check(!entry.pushed, ErrorKind::kRuntime, "KVStore.set_updater: ", Label(entry.key),
          " has been pushed row_sparse values, and the new updater needs whole arrays; "
          "it was expected before the first push");
  }
  by_rows_ = by_rows;
  for (Entry& entry : entries_) {
    if (!entry.stored) {
      const NDArray rows = entry.part.rows;
      Deal(entry,
           rows ? rows : EmptySparse(Storage::kRowSparse, entry.shape, entry.dtype),
           -1);
      continue;
    }
    by_key_.erase(entry.key);  // unpushed: begins anew with its first push
  }
}

void RowStore::SetStaleness(int64_t bound) {
  if (consistency_ == Consistency::kSequential) return;  // the store says so
  bounded_ = bound >= 0;
  exchange_.Bound(first_slot_);
  server_->SetStaleness(bound);
}

// ---------------------------------------------------------------- pushes

void RowStore::Push(const Key& key, const NDArray& value, bool only_rows,
                    int priority) {
  Entry& entry = Find("push", key);
  if (value.shape() != entry.shape) {
    std::ostringstream why;
    why << "KVStore.push: the value of " << Printed(key) << " has shape "
        << value.shape() << "; " << entry.shape << " was expected";
    Refuse(key, why.str());
    Fail(ErrorKind::kValue, why.str());
  }
  SparseParts parts;
  if (StorageOf(value) == Storage::kRowSparse) {
    parts = PartsOf(value);
  } else {  // all rows
    parts = {Storage::kRowSparse,
             ToDense(value),
             IndexArray(AllRows(0, entry.shape[0])),
             {}};
  }
  parts.data = OfDType(parts.data, entry.dtype);
  entry.pushed = true;
  if (consistency_ == Consistency::kEventual) {
    PushAtOnce(entry, parts, priority);
  } else {
    PushInStep(entry, parts, only_rows, priority);
  }
}

void RowStore::Refuse(const Key& key, const std::string& why) {
  if (consistency_ == Consistency::kEventual || !Has(key)) return;
  Entry& entry = Find("push", key);
  TellFailure(entry, "rank " + std::to_string(exchange_.rank()) + ": " + why);
  server_->Offer(entry.number, entry.part, entry.rounds);
}

void RowStore::PushInStep(Entry& entry, const SparseParts& value, bool only_rows,
                          int priority) {
  std::string why;
  try {
    const RowIds ids = Integers(value.indices);
    const Rows rows =
        Exchanged(entry, ids, value.data, CutByOwner(entry, ids), false, priority);
    RowIds touched = rows.ids;
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    try {
      if (entry.part.rows) {
        const Shape shape = WithRows(entry.shape, entry.part.last - entry.part.first);
        NDArray sum = EmptySparse(Storage::kRowSparse, shape, entry.dtype);
        if (!rows.ids.empty()) {
          RowIds own = rows.ids;
          for (int64_t& id : own) id -= entry.part.first;
          sum = SumRows(rows.values, IndexArray(own), shape);
        }
        Update(entry, sum);
      }
    } catch (const std::exception& error) {
      why = "rank " + std::to_string(exchange_.rank()) +
            ": its updater failed: " + error.what();
      if (entry.stored) TellFailure(entry, why);
      throw;
    }
    if (!only_rows) touched = AllRows(entry.part.first, entry.part.last);
    if (entry.stored) Distribute(entry, touched, priority);
  } catch (...) {
    // Also when another rank has failed: pulls that wait get the value from before.
    server_->Offer(entry.number, entry.part, entry.rounds, why);
    throw;
  }
  server_->Offer(entry.number, entry.part, entry.rounds);
}

void RowStore::Update(Entry& entry, const NDArray& sum) {
  NDArray& rows = entry.part.rows;
  if (updater_ != nullptr) {
    updater_->Update({&entry.key, 1}, {&sum, 1}, {&rows, 1});
  } else if (!entry.stored) {
    rows = sum;
  } else {
    const SparseParts parts = PartsOf(sum);
    ZeroRows(rows, 0, rows.shape()[0]);
    if (parts.data.size() > 0) PutRows(parts.data, Integers(parts.indices), rows);
  }
  // Other threads read it: nothing of it may be lazy.
  (IsSparse(rows) ? PartsOf(rows).data : rows).chunk().SettleForRead();
}

// The rows of this rank that have changed, to the arrays of all others, and theirs to
// the own one.
void RowStore::Distribute(Entry& entry, const RowIds& touched, int priority) {
  NDArray values;
  if (!touched.empty()) {
    const auto count = static_cast<int64_t>(touched.size());
    RowIds own = touched;
    for (int64_t& id : own) id -= entry.part.first;
    values = NDArray::Empty(WithRows(entry.shape, count), entry.dtype);
    GatherRows(entry.part.rows, own, values);
  }
  const auto count = static_cast<int64_t>(touched.size());
  const Rows rows = Exchanged(entry, touched, values, ForOthers(count), true, priority);
  if (updater_ == nullptr) {  // all others are zero now
    ZeroRows(entry.stored, 0, entry.part.first);
    ZeroRows(entry.stored, entry.part.last, entry.shape[0]);
    entry.last = rows.ids;
    entry.last.insert(entry.last.end(), touched.begin(), touched.end());
    std::sort(entry.last.begin(), entry.last.end());
  }
  if (!rows.ids.empty()) PutRows(rows.values, rows.ids, entry.stored);
}

// ---------------------------------------------------------------- pulls

void RowStore::PullRows(const Key& key, RowIds ids, const NDArray& out, int priority) {
  Entry& entry = Find("row_sparse_pull", key);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Check(ids.empty() || (ids.front() >= 0 && ids.back() < entry.shape[0]),
        "KVStore.row_sparse_pull: the rows of ", Printed(key), " go from ",
        ids.empty() ? 0 : ids.front(), " to ", ids.empty() ? 0 : ids.back(),
        "; rows below ", entry.shape[0], " were expected");
  Check(StorageOf(out) == Storage::kRowSparse && out.shape() == entry.shape,
        "KVStore.row_sparse_pull: out of ", Printed(key), " is a ",
        Name(StorageOf(out)), " array of shape ", out.shape(),
        "; a row_sparse one of shape ", entry.shape, " was expected");
  if (ids.empty()) {
    return SetParts(out, PartsOf(EmptySparse(Storage::kRowSparse, out.shape(),
                                             out.dtype(), out.device())));
  }
  const NDArray rows = Fetch(entry, ids, false, priority);
  const NDArray whole =
      MakeSparse({Storage::kRowSparse, rows, IndexArray(ids), {}}, entry.shape);
  AssignSparse(whole, out);
}

void RowStore::Pull(const Key& key, const NDArray& out, int priority) {
  Entry& entry = Find("pull", key);
  Check(out.shape() == entry.shape, "KVStore.pull: the value of ", Printed(key),
        " has shape ", out.shape(), "; ", entry.shape, " was expected");
  const bool in_step = consistency_ == Consistency::kSequential;
  NDArray whole;
  if (entry.stored && in_step) {
    whole = entry.stored;
    if (updater_ == nullptr && entry.pushed && IsSparse(out)) {
      const auto count = static_cast<int64_t>(entry.last.size());
      const NDArray rows = NDArray::Empty(WithRows(entry.shape, count), entry.dtype);
      GatherRows(whole, entry.last, rows);
      whole = MakeSparse({Storage::kRowSparse, rows, IndexArray(entry.last), {}},
                         entry.shape);
    }
  } else if (entry.stored || !IsSparse(out)) {
    whole = Fetch(entry, AllRows(0, entry.shape[0]), true, priority);
  } else {
    return PullRows(key, AllRows(0, entry.shape[0]), out, priority);
  }
  if (IsSparse(whole) || IsSparse(out)) {
    AssignSparse(whole, out);
  } else {
    CopyArray(whole, out);
  }
}

}  // namespace plait
