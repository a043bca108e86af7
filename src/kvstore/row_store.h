// RowStore: keys whose rows ranks own, for row_sparse values.
//
// Only rows that are touched travel. A key that begins row_sparse exists once among all
// ranks, each of which has the rows that it owns; what begins dense (a weight with
// row_sparse gradients) is a whole array on each rank.
//
// In step, Push is collective: all ranks push the same keys in the same order, and a
// call waits until the others have said which rows they push; the rows themselves, and
// what is computed, are operations of the engine. Pulls are each rank's own affair.
// With eventual consistency a push waits for nobody.
//
// Thread safety: one thread at a time.

#ifndef PLAIT_KVSTORE_ROW_STORE_H_
#define PLAIT_KVSTORE_ROW_STORE_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/row_server.h"
#include "kvstore/store.h"
#include "ndarray/sparse.h"

namespace plait {

class RowStore {
 public:
  // As for MakeSharedStore.
  RowStore(Exchange& exchange, Consistency consistency);

  // Starts a key with the row_sparse value of rank 0; collective.
  void Init(const Key& key, const NDArray& value);
  // With a dense array that all ranks have alike, and that is the stored one from then
  // on. All ranks must have made their stores, and no rank may have pushed to it in
  // another way.
  void Adopt(const Key& key, const NDArray& stored);
  bool Has(const Key& key) const { return by_key_.count(key) > 0; }
  // Whether each rank has the whole array.
  bool IsDense(const Key& key) { return static_cast<bool>(Find("pull", key).stored); }

  // The sum of all ranks' values goes to the updater with the rows of their owners, or
  // takes the place of what is stored. only_rows: the updater changes no other rows
  // than those of the values.
  void Push(const Key& key, const NDArray& value, bool only_rows, int priority);
  // Instead of a Push.
  void Refuse(const Key& key, const std::string& why);
  // Rows `ids` (any order, repetitions), into a row_sparse array.
  void PullRows(const Key& key, RowIds ids, const NDArray& out, int priority);
  // Everything, into an array of any storage.
  void Pull(const Key& key, const NDArray& out, int priority);

  // Of eventual consistency, as Store::SetStaleness; collective, and a barrier must
  // follow.
  void SetStaleness(int64_t bound);

  // Collective where keys have begun. by_rows: a row of the result depends on the same
  // row of the inputs only, so that owners may update their rows alone; else one rank
  // owns all rows of a key.
  void SetUpdater(std::shared_ptr<StoreUpdater> updater, bool by_rows);

 private:
  struct Entry {
    Key key;
    uint32_t number = 0;
    Shape shape;
    DType dtype = DType::kFloat32;
    NDArray stored;  // of what began dense: the whole array
    Ranges owners;   // of rows
    uint32_t rounds = 0;
    NDArray order, rows_order;  // of messages
    RowServer::Part part;
    RowIds last;  // rows that are not zero, of a dense key without an updater
    bool pushed = false;
  };
  struct Rows {
    RowIds ids;      // in the order of ranks
    NDArray values;  // none where there are no rows
  };
  // Which rows (ascending) go to a rank: [first, last) of a list.
  using Cuts = std::vector<Ranges::Part>;

  Entry& Find(const char* what, const Key& key);
  Entry& Add(const Key& key, const NDArray& like);
  Ranges OwnersOf(const Entry& entry) const;
  Cuts CutByOwner(const Entry& entry, const RowIds& ids) const;
  Cuts ForOthers(int64_t count) const;
  void SetPart(Entry& entry, NDArray rows);

  RowHead NextRound(Entry& entry, RowHead::Kind kind);
  CollectiveSpec Spec(const Entry& entry, bool rows, int priority) const;
  void Send(Entry& entry, bool rows, const NDArray& codes, const Cuts& bytes,
            int priority);
  void SendIds(Entry& entry, RowHead head, const RowIds& ids, const Cuts& cuts,
               int priority);
  void SendRows(Entry& entry, uint32_t round, const NDArray& values, const Cuts& cuts,
                int priority);
  Rows Exchanged(Entry& entry, const RowIds& ids, const NDArray& values,
                 const Cuts& cuts, bool others, int priority);
  void TellFailure(Entry& entry, const std::string& why);

  void PushInStep(Entry& entry, const SparseParts& value, bool only_rows, int priority);
  void PushAtOnce(Entry& entry, const SparseParts& value, int priority);
  void Update(Entry& entry, const NDArray& sum);
  void Distribute(Entry& entry, const RowIds& touched, int priority);
  NDArray Fetch(Entry& entry, const RowIds& ids, bool all, int priority);
  void Deal(Entry& entry, const NDArray& value, int from);

  Exchange& exchange_;
  const Consistency consistency_;
  const uint32_t first_slot_;
  std::shared_ptr<RowServer> server_;
  std::deque<Entry> entries_;
  std::map<Key, Entry*> by_key_;
  uint32_t turns_ = 0;  // rounds of all keys
  std::shared_ptr<StoreUpdater> updater_;
  bool by_rows_ = true;
  bool bounded_ = false;  // owners count pushes, also those without rows of theirs
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_ROW_STORE_H_
