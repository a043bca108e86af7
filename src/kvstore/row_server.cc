// RowServer: numbers, rows and pulls as they come.

#include "kvstore/row_server.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/blocking.h"
#include "base/error.h"
#include "kvstore/array_work.h"
#include "kvstore/key_agreement.h"
#include "kvstore/push_transfer.h"
#include "ndarray/sparse.h"

namespace plait {
namespace {

RowHead HeadOf(int from, const NDArray& codes) {
  RowHead head;
  Check(codes.nbytes() >= static_cast<int64_t>(sizeof(head)), ErrorKind::kIo, "rank ",
        from, " sent ", codes.nbytes(), " bytes of rows; a head was expected");
  std::memcpy(&head, codes.data(), sizeof(head));
  return head;
}

std::string NameOf(const Key& key) {
  return "the key " + Printed(key);
}

}  // namespace

Shape WithRows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

void GatherRows(const NDArray& x, const RowIds& ids, const NDArray& y) {
  if (ids.empty()) return;
  NDArray data = x;
  std::vector<int64_t> places = ids;
  if (IsSparse(x)) {
    const SparseParts parts = PartsOf(x);
    data = parts.data;
    const RowIds have = Integers(parts.indices);
    if (static_cast<int64_t>(have.size()) < x.shape()[0]) {
      for (int64_t& place : places) {
        const auto found = std::lower_bound(have.begin(), have.end(), place);
        const bool there = found != have.end() && *found == place;
        place = there ? found - have.begin() : -1;
      }
    }
  }
  data.chunk();
  const int64_t bytes = y.nbytes() / static_cast<int64_t>(ids.size());
  PushWork("kvstore_gather_rows", {&data, 1}, {&y, 1}, 0,
           [places = std::move(places), bytes, from = data.data<char>(),
            to = y.data<char>()] {
             char* out = to;
             for (const int64_t place : places) {
               const auto n = static_cast<size_t>(bytes);
               if (place < 0) {
                 std::memset(out, 0, n);
               } else {
                 std::memcpy(out, from + place * bytes, n);
               }
               out += bytes;
             }
           });
}

void PutRows(const NDArray& x, const RowIds& ids, const NDArray& y) {
  x.chunk();
  y.chunk();
  const int64_t bytes = x.nbytes() / static_cast<int64_t>(ids.size());
  PushWork("kvstore_put_rows", {&x, 1}, {&y, 1}, 0,
           [ids, bytes, from = x.data<char>(), to = y.data<char>()] {
             const char* row = from;
             for (const int64_t id : ids) {
               std::memcpy(to + id * bytes, row, static_cast<size_t>(bytes));
               row += bytes;
             }
           });
}

// ---------------------------------------------------------------- rows of a round

class RowServer::Arrival final : public Transfer {
 public:
  Arrival(std::shared_ptr<RowServer> server, MailId id, std::vector<int64_t> counts,
          int64_t row_bytes, const NDArray& y, const Key& key)
      : Transfer(NameOf(key)),
        id(id),
        counts(std::move(counts)),
        row_bytes(row_bytes),
        dst(y.data<char>()),
        server_(std::move(server)),
        chunk_(y.body()->chunk) {}
  void Start() override { server_->Begin(this); }
  const char* name() const override { return "kvstore_receive_rows"; }

  // Takes what has come; whether nothing is awaited any more.
  bool Take(Mail& mail, const std::vector<bool>& left) {
    char* place = dst;
    bool all = true;
    for (size_t r = 0; r < counts.size(); ++r) {
      const int64_t bytes = counts[r] * row_bytes;
      const int from = static_cast<int>(r);
      const auto rows = mail.rows.find(from);
      if (rows != mail.rows.end() && bytes > 0) {
        const auto head = static_cast<int64_t>(sizeof(RowHead));
        if (rows->second.nbytes() != head + bytes) {
          failure = "rank " + std::to_string(r) + " sent " +
                    std::to_string(rows->second.nbytes() - head) + " bytes of rows; " +
                    std::to_string(bytes) + " were expected";
        } else {
          std::copy_n(rows->second.data<char>() + head, bytes, place);
        }
        mail.rows.erase(rows);
        done.push_back(from);
      }
      const bool awaited =
          bytes > 0 && std::find(done.begin(), done.end(), from) == done.end();
      const auto failed = mail.failures.find(from);
      if (awaited && failed != mail.failures.end()) failure = failed->second;
      if (awaited && left[r] && failure.empty()) {
        failure = "rank " + std::to_string(r) +
                  " has ended its program and takes no part in it";
      }
      all = all && !awaited;
      place += bytes;
    }
    return all || !failure.empty();
  }

  const MailId id;
  const std::vector<int64_t> counts;
  const int64_t row_bytes;
  char* const dst;
  std::vector<int> done;
  std::string failure;

 private:
  std::shared_ptr<RowServer> server_;
  Ref<Chunk> chunk_;
};

std::unique_ptr<AsyncOperation> RowServer::Receive(uint32_t number, uint32_t round,
                                                   const std::vector<int64_t>& counts,
                                                   int64_t row_bytes, const NDArray& y,
                                                   const Key& key) {
  return std::make_unique<Arrival>(shared_from_this(), MailId{number, round}, counts,
                                   row_bytes, y, key);
}

void RowServer::Begin(Arrival* arrival) {
  std::vector<Arrival*> over;
  {
    const std::lock_guard lock(mutex_);
    Mail& mail = mails_[arrival->id];
    mail.arrival = arrival;
    arrival->failure = fault_;
    if (arrival->Take(mail, left_)) over.push_back(arrival);
    if (!over.empty()) mails_.erase(arrival->id);
  }
  Finish(std::move(over));
}

void RowServer::Finish(std::vector<Arrival*> over) {
  for (Arrival* arrival : over) {
    if (arrival->failure.empty()) {
      arrival->Finish();
    } else {
      const std::string why = arrival->failure;
      arrival->FailWith(why, ErrorKind::kRuntime);
    }
  }
}

// What another rank does at this turn, if it is not the same; with mutex_.
std::string RowServer::Disagreement(int from, const MailId& own,
                                    const RowHead& head) const {
  const auto& turns = turns_[static_cast<size_t>(from)];
  const auto found = turns.find(head.turn);
  if (found == turns.end()) return "";
  const auto& [id, key] = found->second;
  if (key == head.key && id == own) return "";
  std::string other = "another key";
  for (const auto& [number, served] : served_) {
    if (HashOf(served.part.key) == key) other = NameOf(served.part.key);
  }
  if (key == head.key) other = "the same key, but not as often as this rank did before";
  return "rank " + std::to_string(from) + " pushes " + other +
         " at this time; row_sparse values must be pushed in one order on all ranks";
}

std::vector<RowIds> RowServer::AwaitIds(uint32_t number, const RowHead& head,
                                        bool others, const Key& key) {
  const uint32_t round = head.round;
  const ScopedBlocking blocking;
  std::unique_lock lock(mutex_);
  const auto size = static_cast<size_t>(exchange_.size());
  std::vector<RowIds> result(size);
  for (size_t r = 0; r < size; ++r) {
    const int from = static_cast<int>(r);
    if (others && from == exchange_.rank()) continue;
    for (;;) {
      Mail& mail = mails_[{number, round}];
      Check(fault_.empty(), ErrorKind::kIo, "kvstore: ", NameOf(key), ": ", fault_);
      const std::string differs = Disagreement(from, {number, round}, head);
      if (!differs.empty()) {
        lock.unlock();
        exchange_.Abort(NameOf(key) + ": " + differs);
        Fail(ErrorKind::kRuntime, "kvstore: ", NameOf(key), ": ", differs);
      }
      if (const auto found = mail.ids.find(from); found != mail.ids.end()) {
        result[r] = std::move(found->second);
        break;
      }
      if (const auto failed = mail.failures.find(from); failed != mail.failures.end()) {
        Fail(ErrorKind::kRuntime, "kvstore: ", NameOf(key), ": ", failed->second);
      }
      Check(!left_[r], ErrorKind::kRuntime, "kvstore: ", NameOf(key), ": rank ", r,
            " has ended its program and takes no part in it");
      // A fault from before the server was known comes by no call.
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      if (fault_.empty()) fault_ = exchange_.fault();
    }
  }
  for (auto& turns : turns_) turns.erase(turns.begin(), turns.upper_bound(head.turn));
  const bool none = std::all_of(result.begin(), result.end(),
                                [](const RowIds& ids) { return ids.empty(); });
  if (none) mails_.erase({number, round});  // no rows will come
  return result;
}

RowIds RowServer::IdsOf(int from, const NDArray& codes, const RowHead& head) const {
  const int64_t rest = codes.nbytes() - static_cast<int64_t>(sizeof(head));
  Check(head.count >= 0 && head.count <= rest / 8, ErrorKind::kIo, "rank ", from,
        " sent ", rest, " bytes for ", head.count, " numbers of rows");
  RowIds ids(static_cast<size_t>(head.count));
  std::copy_n(codes.data<char>() + sizeof(head), ids.size() * 8,
              reinterpret_cast<char*>(ids.data()));
  for (size_t i = 0; i < ids.size(); ++i) {
    Check(ids[i] >= 0 && (i == 0 || ids[i] > ids[i - 1]), ErrorKind::kIo, "rank ", from,
          " sent the row ", ids[i], "; ascending numbers were expected");
  }
  return ids;
}

// ---------------------------------------------------------------- what comes

void RowServer::OnPush(int from, uint32_t slot, NDArray codes) {
  const RowHead head = HeadOf(from, codes);
  const uint32_t number = (slot - first_slot_) / 2;
  std::vector<Arrival*> over;
  switch (head.kind) {
    case RowHead::kIds:
    case RowHead::kRows:
    case RowHead::kFailed: {
      const std::lock_guard lock(mutex_);
      const MailId id{number, head.round};
      Mail& mail = mails_[id];
      const bool ordered = slot % 2 == 0 && head.kind != RowHead::kRows;
      if (ordered) turns_[static_cast<size_t>(from)][head.turn] = {id, head.key};
      if (head.kind == RowHead::kIds) {
        mail.ids[from] = IdsOf(from, codes, head);
      } else if (head.kind == RowHead::kRows) {
        mail.rows[from] = codes;
      } else {
        mail.failures[from] =
            std::string(codes.data<char>() + sizeof(head),
                        static_cast<size_t>(codes.nbytes()) - sizeof(head));
      }
      if (mail.arrival != nullptr && mail.arrival->Take(mail, left_)) {
        over.push_back(mail.arrival);
        mails_.erase(id);
      }
      changed_.notify_all();
      break;
    }
    case RowHead::kWanted:
    case RowHead::kAll: {
      Asked asked{head.kind == RowHead::kAll, head.round, {}, from, 0};
      if (!asked.all) asked.ids = IdsOf(from, codes, head);
      const std::lock_guard lock(mutex_);
      served_[number].asked[from] = std::move(asked);
      break;
    }
    case RowHead::kUpdate:
      // None of the rows may be this rank's: it only counts then.
      if (head.count != 0 || codes.nbytes() != sizeof(head)) {
        InTurn([self = shared_from_this(), from, number, codes] {
          try {
            self->Apply(from, number, codes);
          } catch (const std::exception& error) {
            self->exchange_.RefusePush(from, self->first_slot_ + 2 * number,
                                       error.what());
          }
        });
      }
      return Count([&] { clocks_.Pushed(from, number); });
    default:
      Fail(ErrorKind::kIo, "rank ", from, " sent rows of an unknown kind");
  }
  Finish(std::move(over));
}

void RowServer::OnPull(int from, uint32_t slot, uint32_t round) {
  const uint32_t number = (slot - first_slot_) / 2;
  Asked asked;
  {
    const std::lock_guard lock(mutex_);
    Served& served = served_[number];
    const auto found = served.asked.find(from);
    Check(found != served.asked.end(), ErrorKind::kIo, "rank ", from,
          " asks for rows without numbers");
    asked = std::move(found->second);
    served.asked.erase(found);
    asked.round = round;
    if (!MayAnswer(number, served, asked)) {
      served.waiting.push_back(std::move(asked));
      return;
    }
  }
  AnswerInTurn(number, std::move(asked));
}

bool RowServer::MayAnswer(uint32_t number, const Served& served,
                          const Asked& asked) const {
  return asked.rounds <= served.rounds && !clocks_.Ahead(asked.from, number);
}

RowServer::Ready RowServer::TakeReady() {
  Ready ready;
  for (auto& [number, served] : served_) {
    std::vector<Asked> waiting;
    for (Asked& asked : served.waiting) {
      if (MayAnswer(number, served, asked)) {
        ready.emplace_back(number, std::move(asked));
      } else {
        waiting.push_back(std::move(asked));
      }
    }
    served.waiting = std::move(waiting);
  }
  return ready;
}

// Counts something, and answers who has waited for it.
template <typename F>
void RowServer::Count(F count) {
  Ready ready;
  {
    const std::lock_guard lock(mutex_);
    count();
    ready = TakeReady();
  }
  for (auto& [number, asked] : ready) AnswerInTurn(number, std::move(asked));
}

void RowServer::SetStaleness(int64_t bound) {
  Count([&] { clocks_.SetBound(bound); });
}
void RowServer::OnRest(int from) {
  Count([&] { clocks_.Rests(from); });
}
void RowServer::OnLeaving() {
  Count([&] { clocks_.Leaves(exchange_.rank()); });
}

void RowServer::InTurn(std::function<void()> f) {
  auto op = MakeOperation("kvstore_serve", std::move(f));
  op->lane = Lane::kCallback;
  Var* const turn = &turn_;
  Engine::Get().Push(std::move(op), {}, {&turn, 1});
}

void RowServer::AnswerInTurn(uint32_t number, Asked asked) {
  InTurn([self = shared_from_this(), number, asked = std::move(asked)] {
    try {
      self->Answer(number, asked);
    } catch (const std::exception& error) {
      self->exchange_.Reply(asked.from, self->first_slot_ + 2 * number, asked.round,
                            NDArray(), error.what());
    }
  });
}

void RowServer::Answer(uint32_t number, const Asked& asked) {
  Part part;
  {
    const std::lock_guard lock(mutex_);
    const Served& served = served_[number];
    Check(served.failure.empty(), ErrorKind::kRuntime, served.failure);
    part = served.part;
  }
  RowIds ids = asked.ids;
  if (asked.all) {
    for (int64_t i = part.first; i < part.last; ++i) ids.push_back(i);
  }
  Check(
      part.rows && !ids.empty() && ids.front() >= part.first && ids.back() < part.last,
      ErrorKind::kRuntime, "rank ", exchange_.rank(), " owns the rows from ",
      part.first, " to ", part.last - 1, "; others are asked for");
  for (int64_t& id : ids) id -= part.first;
  const NDArray rows = NDArray::Empty(
      WithRows(part.shape, static_cast<int64_t>(ids.size())), part.dtype);
  GatherRows(part.rows, ids, rows);
  // Reading them waits for them.
  PushWork("kvstore_reply", {&rows, 1}, {}, 0,
           [this, self = shared_from_this(), asked, number, rows] {
             exchange_.Reply(asked.from, first_slot_ + 2 * number, asked.round, rows);
           });
}

void RowServer::Apply(int from, uint32_t number, const NDArray& codes) {
  std::shared_ptr<StoreUpdater> updater;
  Part part;
  {
    const std::lock_guard lock(mutex_);
    updater = updater_;
    part = served_[number].part;
  }
  Check(updater != nullptr, ErrorKind::kRuntime, "rank ", exchange_.rank(),
        " has no updater; set_optimizer() was expected on all ranks");
  const RowHead head = HeadOf(from, codes);
  RowIds ids = IdsOf(from, codes, head);
  const NDArray rows = NDArray::Empty(WithRows(part.shape, head.count), part.dtype);
  const auto before = sizeof(head) + ids.size() * 8;
  Check(part.rows && !ids.empty() && ids.front() >= part.first &&
            ids.back() < part.last &&
            codes.nbytes() == static_cast<int64_t>(before) + rows.nbytes(),
        ErrorKind::kRuntime, "rank ", exchange_.rank(), " owns the rows from ",
        part.first, " to ", part.last - 1, "; ", codes.nbytes(), " bytes of ",
        head.count, " rows came");
  for (int64_t& id : ids) id -= part.first;
  std::copy_n(codes.data<char>() + before, rows.nbytes(), rows.data<char>());
  const NDArray grad =
      MakeSparse({Storage::kRowSparse,
                  rows,
                  NDArray::FromHost(ids.data(), {head.count}, DType::kInt64),
                  {}},
                 WithRows(part.shape, part.last - part.first));
  updater->Update({&part.key, 1}, {&grad, 1}, {&part.rows, 1});
}

// ---------------------------------------------------------------- what is served

void RowServer::SetUpdater(std::shared_ptr<StoreUpdater> updater) {
  const std::lock_guard lock(mutex_);
  updater_ = std::move(updater);
}

void RowServer::Offer(uint32_t number, Part part, uint32_t rounds,
                      const std::string& why) {
  Count([&] {
    Served& served = served_[number];
    served.part = std::move(part);
    served.rounds = rounds;
    served.failure = why;
  });
}

void RowServer::ThrowRefusal() {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why.swap(refusal_);
  }
  Check(why.empty(), ErrorKind::kRuntime, why);
}

void RowServer::OnRefused(uint32_t slot, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto found = served_.find((slot - first_slot_) / 2);
  const std::string key =
      found == served_.end() ? "a key" : NameOf(found->second.part.key);
  if (refusal_.empty()) refusal_ = "kvstore: " + key + ": a push failed: " + why;
}

void RowServer::OnLeft(int from) {
  std::vector<Arrival*> over;
  {
    const std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(from)] = true;
    for (auto it = mails_.begin(); it != mails_.end();) {
      Arrival* const arrival = it->second.arrival;
      const bool ends = arrival != nullptr && arrival->Take(it->second, left_);
      if (ends) over.push_back(arrival);
      it = ends ? mails_.erase(it) : std::next(it);
    }
    changed_.notify_all();
  }
  Finish(std::move(over));
  Count([&] { clocks_.Leaves(from); });
}

void RowServer::OnFault(const std::string& why) {
  std::vector<Arrival*> over;
  {
    const std::lock_guard lock(mutex_);
    fault_ = why;
    for (auto& [number, served] : served_) served.waiting.clear();  // who asked knows
    for (auto& [id, mail] : mails_) {
      if (mail.arrival == nullptr) continue;
      mail.arrival->failure = why;
      over.push_back(std::exchange(mail.arrival, nullptr));
    }
    changed_.notify_all();
  }
  Finish(std::move(over));
}

}  // namespace plait
