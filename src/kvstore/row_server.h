// RowServer: what comes to a rank for the rows that it owns, and from who owns others.
//
// Thread safety: everything may be called from any thread.

#ifndef PLAIT_KVSTORE_ROW_SERVER_H_
#define PLAIT_KVSTORE_ROW_SERVER_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kvstore/exchange.h"
#include "kvstore/push_clocks.h"
#include "kvstore/row_message.h"
#include "kvstore/transfer.h"
#include "kvstore/updater.h"

namespace plait {

// Numbers of rows, ascending.
using RowIds = std::vector<int64_t>;

// The shape of so many rows of an array.
Shape WithRows(Shape shape, int64_t rows);

// y = rows `ids`, from 0, of x: dense, or row_sparse (rows that it lacks are zero).
void GatherRows(const NDArray& x, const RowIds& ids, const NDArray& y);
// Rows `ids` of y, dense, become those of x.
void PutRows(const NDArray& x, const RowIds& ids, const NDArray& y);

// Outlives its store while requests are under way. A key has two slots: 2 k for what is
// small and ordered with pulls, 2 k + 1 for rows.
class RowServer final : public RequestServer,
                        public std::enable_shared_from_this<RowServer> {
 public:
  // What a rank has of a key.
  struct Part {
    Key key;
    int64_t first = 0, last = 0;  // its rows
    NDArray rows;                 // dense or row_sparse; none where there are no rows
    DType dtype = DType::kFloat32;
    Shape shape;  // of the whole key
  };
  class Arrival;

  RowServer(Exchange& exchange, uint32_t first_slot)
      : exchange_(exchange),
        first_slot_(first_slot),
        turns_(static_cast<size_t>(exchange.size())),
        left_(static_cast<size_t>(exchange.size()), false),
        clocks_(exchange.size()) {}

  void SetUpdater(std::shared_ptr<StoreUpdater> updater);
  // The part as it is after so many rounds; with a text, what went wrong in the last.
  // Pulls that waited for it are answered.
  void Offer(uint32_t number, Part part, uint32_t rounds, const std::string& why = "");
  // Of pushes that are applied at once; see Store::SetStaleness.
  void SetStaleness(int64_t bound);
  // Throws what an owner could not do with an update of this rank.
  void ThrowRefusal();

  // The numbers of rows that each rank (this one too, unless `others`) sends in a
  // round; waits for them. Throws what a rank says instead, or the fault. A rank that
  // is in another round at this turn would wait for ever: that is a fault of the job.
  std::vector<RowIds> AwaitIds(uint32_t number, const RowHead& head, bool others,
                               const Key& key);
  // An operation that ends when those rows, `counts` by rank, stand in y (uint8 or
  // typed) in the order of ranks.
  std::unique_ptr<AsyncOperation> Receive(uint32_t number, uint32_t round,
                                          const std::vector<int64_t>& counts,
                                          int64_t row_bytes, const NDArray& y,
                                          const Key& key);

  void OnPush(int from, uint32_t slot, NDArray codes) override;
  void OnPull(int from, uint32_t slot, uint32_t round) override;
  void OnRefused(uint32_t slot, const std::string& why) override;
  void OnRest(int from) override;
  void OnLeft(int from) override;
  void OnLeaving() override;
  void OnFault(const std::string& why) override;

 private:
  // What came of a round.
  struct Mail {
    std::map<int, RowIds> ids;
    std::map<int, NDArray> rows;  // messages
    std::map<int, std::string> failures;
    Arrival* arrival = nullptr;
  };
  struct Asked {
    bool all = false;
    uint32_t rounds = 0;  // that must have been
    RowIds ids;
    int from = 0;
    uint32_t round = 0;  // of the request
  };
  struct Served {
    Part part;
    uint32_t rounds = 0;
    std::string failure;
    std::map<int, Asked> asked;  // whose pull comes next
    std::vector<Asked> waiting;
  };
  using MailId = std::pair<uint32_t, uint32_t>;  // key, round
  struct Turn {
    MailId id;
    uint32_t key;  // its hash
  };

  std::string Disagreement(int from, const MailId& own, const RowHead& head) const;
  void InTurn(std::function<void()> f);
  void Apply(int from, uint32_t number, const NDArray& codes);
  void Answer(uint32_t number, const Asked& asked);
  void AnswerInTurn(uint32_t number, Asked asked);
  // Pulls that have waited and need not any more, by key; with mutex_.
  using Ready = std::vector<std::pair<uint32_t, Asked>>;
  bool MayAnswer(uint32_t number, const Served& served, const Asked& asked) const;
  Ready TakeReady();
  template <typename F>
  void Count(F count);
  void Begin(Arrival* arrival);
  void Finish(std::vector<Arrival*> over);
  RowIds IdsOf(int from, const NDArray& codes, const RowHead& head) const;

  Exchange& exchange_;
  const uint32_t first_slot_;
  Var turn_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<uint32_t, Served> served_;
  std::map<MailId, Mail> mails_;
  std::vector<std::map<uint32_t, Turn>> turns_;  // of ranks, from the own one on
  std::vector<bool> left_;
  PushClocks clocks_;
  std::string fault_;
  std::shared_ptr<StoreUpdater> updater_;
  std::string refusal_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_ROW_SERVER_H_
