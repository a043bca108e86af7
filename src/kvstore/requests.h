// Requests: pushes and pulls of single ranks, sent, served and answered.
//
// Not thread-safe: it belongs to the thread of its exchange.

#ifndef PLAIT_KVSTORE_REQUESTS_H_
#define PLAIT_KVSTORE_REQUESTS_H_

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/exchange.h"
#include "kvstore/outbox.h"
#include "kvstore/transfer.h"

namespace plait {

class Requests {
 public:
  // An operation that asks; kept by the engine until it is finished.
  class Asking : public Transfer, public Sender {
   public:
    Asking(std::string label) : Transfer(std::move(label)) {}
    void OnSent(int to, const Entry& entry) override;
    virtual bool Over() const { return sending == 0; }
    virtual void Keep(std::vector<Ref<Chunk>>& chunks) const = 0;
    int64_t sending = 0;  // pieces
    std::string failure;
  };
  class Push;
  class Pull;

  Requests(int rank, int size, Outbox& outbox)
      : rank_(rank), size_(size), outbox_(outbox) {}

  void Serve(uint32_t store, std::shared_ptr<RequestServer> server);
  void Begin(Push* push);
  void Begin(Pull* pull);
  void Reply(int to, uint32_t slot, uint32_t round, const NDArray& part,
             const std::string& error);
  void RefusePush(int to, uint32_t slot, const std::string& why);
  // Tells all servers of a store that this rank waits for the others.
  void Rest(uint32_t store);
  void Rested(int from, const Entry& entry);
  void Leaving();

  // As in Collective; for kPush and kReply.
  char* Place(int from, const Entry& entry);
  void Arrived(int from, const Entry& entry);
  void Asked(int from, const Entry& entry);  // kPull
  void Refused(int from, const Entry& entry, const std::string& why);

  void Left(int from);
  void Broken(const std::string& fault);

  // Finishes what is over.
  void End();
  bool idle() const { return asking_.empty() && answers_.empty(); }
  // After a fault: gives up all transfers, and what must live on.
  std::vector<Asking*> GiveUp(std::vector<Ref<Chunk>>& chunks);

 private:
  // One rank's, in its order.
  struct Request {
    bool push;
    uint32_t round;
    NDArray codes;
    int64_t announced = 0, got = 0;
  };
  // The memory of an answer, until it is sent.
  struct Answer final : Sender {
    NDArray part;
    int64_t sending = 0;
    void OnSent(int, const Entry&) override { --sending; }
  };
  using Queue = std::deque<Request>;

  RequestServer& ServerOf(int from, uint32_t slot);
  void ServeReady(int from, uint32_t slot);
  Pull* FindPull(uint32_t slot, uint32_t round);
  static Entry EntryOf(Said said, uint32_t slot, uint32_t round);
  void SendPieces(int to, int priority, Entry entry, const char* data, int64_t bytes,
                  Sender* sender, int64_t& sending);

  const int rank_, size_;
  Outbox& outbox_;
  std::map<uint32_t, std::shared_ptr<RequestServer>> servers_;
  std::map<std::pair<int, uint32_t>, Queue> queues_;  // by rank and slot
  std::vector<Asking*> asking_;
  std::map<std::pair<uint32_t, uint32_t>, Pull*> pulls_;
  std::list<Answer> answers_;
};

class Requests::Push final : public Asking {
 public:
  Push(ExchangeThread& thread, const CollectiveSpec& what, const NDArray& codes,
       const NDArray& order);
  void Start() override;
  const char* name() const override { return "kvstore_push"; }
  void Keep(std::vector<Ref<Chunk>>& chunks) const override {
    chunks.push_back(codes_);
  }

  const CollectiveSpec spec;
  const char* src;

 private:
  ExchangeThread& thread_;
  Ref<Chunk> codes_, order_;
};

class Requests::Pull final : public Asking {
 public:
  Pull(ExchangeThread& thread, const CollectiveSpec& what, const NDArray& all,
       const NDArray& order);
  void Start() override;
  const char* name() const override { return "kvstore_pull"; }
  void Keep(std::vector<Ref<Chunk>>& chunks) const override { chunks.push_back(all_); }
  bool Over() const override {
    return awaited == 0 && (missing == 0 || !failure.empty());
  }

  const CollectiveSpec spec;
  char* dst;
  int64_t missing = 0;               // bytes
  int64_t awaited = 0;               // pieces on their way into dst
  std::map<int, int64_t> announced;  // bytes, by rank

 private:
  ExchangeThread& thread_;
  Ref<Chunk> all_, order_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_REQUESTS_H_
