// Exchange: all transfers of a rank, on one thread that drives the transport.
//
// A transfer is an operation of the engine that ends later. Collectives of all ranks
// meet by slot (a store's key) and round (how many of this slot came before); ranks may
// begin them in any order, and each must begin every one, or say that it will not.
//
// Requests are one rank's affair: a push or a pull that the ranks which own the parts
// of a key serve when it comes, one rank's in the order in which it made them.
//
// Thread safety: everything may be called from any thread.

#ifndef PLAIT_KVSTORE_EXCHANGE_H_
#define PLAIT_KVSTORE_EXCHANGE_H_

#include <chrono>
#include <memory>
#include <string>

#include "engine/async_operation.h"
#include "kvstore/collective.h"
#include "kvstore/transport.h"

namespace plait {

// Serves other ranks' requests, and the own ones. Called by the exchange's thread.
class RequestServer {
 public:
  virtual ~RequestServer() = default;
  // Applies the codes of the own part of a key.
  virtual void OnPush(int from, uint32_t slot, NDArray codes) = 0;
  // Must call Exchange::Reply, now or later, on any thread.
  virtual void OnPull(int from, uint32_t slot, uint32_t round) = 0;
  // A push of this rank was not applied.
  virtual void OnRefused(uint32_t slot, const std::string& why) = 0;
  // A rank waits in a collective that all have to come to.
  virtual void OnRest(int /*from*/) {}
  // A rank's program has ended, and all that it sent has come.
  virtual void OnLeft(int /*from*/) {}
  // This rank's program has ended; others may still ask.
  virtual void OnLeaving() {}
  // Nothing will come any more.
  virtual void OnFault(const std::string& /*why*/) {}
};

class Exchange {
 public:
  // `comm` must outlive it.
  explicit Exchange(Communicator& comm);
  // Finishes what was begun, tells the others that this program ends, and waits until
  // all have said so. The operations that it made must have ended.
  ~Exchange();
  // The same; what is asked of it later fails.
  void Close();
  // After a fault: nothing more is done; what is asked of it fails with the fault and
  // `why`.
  void Retire(const std::string& why);

  int rank() const;
  int size() const;
  const Traffic& traffic() const;
  std::string fault() const;
  // The job cannot go on; see Communicator::Abort.
  void Abort(const std::string& text);

  // Room for the slots [result, result + 2^20) of a store. Stores are made in the same
  // order on all ranks.
  uint32_t NewStore();

  // The next collective on spec.slot; sets its round. The caller pushes the operation
  // with the Vars of the arrays; when it is abandoned the other ranks are told.
  // reduce: src has the codes of all parts; dst is the own part, or with gather the
  // whole array (it may be src when the codec is plain). gather alone: dst is the whole
  // array, with the own part in place. `after` is an array that the operation will read
  // too, only to be ordered.
  std::unique_ptr<AsyncOperation> Collect(CollectiveSpec spec, const NDArray& src,
                                          const NDArray& dst,
                                          const NDArray& after = {});
  // Instead of the next collective on spec.slot.
  void Refuse(CollectiveSpec spec, const std::string& why);

  // Collectives to wait for. Sums, or copies rank `root`'s array to all, in place.
  void AllReduce(const NDArray& x, const std::string& label);
  void Broadcast(const NDArray& x, int root, const std::string& label);
  void Barrier();

  // --- Requests.

  // For good: other ranks may ask until the end.
  void Serve(uint32_t store, std::shared_ptr<RequestServer> server);
  // Operations that must be pushed in the order of these calls, each writing `order`.
  // Push reads the codes of all parts, Pull writes the whole array.
  std::unique_ptr<AsyncOperation> Push(CollectiveSpec spec, const NDArray& codes,
                                       const NDArray& order);
  std::unique_ptr<AsyncOperation> Pull(CollectiveSpec spec, const NDArray& dst,
                                       const NDArray& order);
  // `part` is the own part of the slot; or, with a text, there is none.
  void Reply(int to, uint32_t slot, uint32_t round, const NDArray& part,
             const std::string& error = "");
  void RefusePush(int to, uint32_t slot, const std::string& why);
  // From now on the servers of a store learn when a rank waits for all the others.
  // Collective: waits until all ranks serve that store, and counts from then on alike.
  void Bound(uint32_t store);

 private:
  class Impl;
  void CheckAlike(const NDArray& x, int root, const std::string& label);
  void Rest();

  std::unique_ptr<Impl> impl_;
};

// The exchange of this process over World(). Made at the first use, never destroyed.
Exchange& WorldExchange();
// After a fault of it: another one takes its place, of the ranks that live; see
// ShrinkWorld. Stores of the one before only fail. Throws kRuntime when nothing is
// lost, or when MPI cannot; kIo when the other ranks have not come in time.
void ShrinkWorldExchange(std::chrono::milliseconds most);
// Its fault; empty when it was not made.
std::string WorldFault();
// Closes it, if it was made; when the program ends.
void CloseWorldExchange();
// Aborts it, if it was made.
void AbortWorldExchange(const std::string& text);

}  // namespace plait

#endif  // PLAIT_KVSTORE_EXCHANGE_H_
