// ExchangeThread: the thread of an exchange, and what it knows.

#ifndef PLAIT_KVSTORE_EXCHANGE_THREAD_H_
#define PLAIT_KVSTORE_EXCHANGE_THREAD_H_

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/exchange.h"
#include "kvstore/requests.h"
#include "kvstore/transfer.h"

namespace plait {

class CollectTransfer final : public Transfer {
 public:
  CollectTransfer(ExchangeThread& thread, const CollectiveSpec& spec,
                  const NDArray& src, const NDArray& dst, const NDArray& after);
  void Start() override;
  void Abandon() noexcept override;
  const char* name() const override;
  // Gives its memory to somebody who never lets it go.
  void Keep(std::vector<Ref<Chunk>>& chunks) const {
    chunks.insert(chunks.end(), {src_, dst_});
  }

  const CollectiveSpec spec;
  CollectiveArrays arrays;

 private:
  ExchangeThread& thread_;
  Ref<Chunk> src_, dst_, after_;
  bool begun_ = false;
};

class ExchangeThread {
 public:
  explicit ExchangeThread(Communicator& comm);
  ~ExchangeThread();

  Communicator& comm() { return comm_; }
  const Traffic& traffic() const { return traffic_; }
  // Says goodbye and waits for all others to; see Exchange. What is asked of it later
  // fails with `why`.
  void Stop(const std::string& why);
  // Runs f on the thread, soon.
  void Post(std::function<void()> f);

  // --- On the thread.

  void Begin(CollectTransfer* transfer);
  template <typename Request>  // Requests::Push, Requests::Pull
  void Begin(Request* request) {
    if (!fault_.empty()) return request->FailWith(fault_, ErrorKind::kIo);
    requests_.Begin(request);
  }
  bool broken() const { return !fault_.empty(); }
  Requests& requests() { return requests_; }
  void Refuse(const CollectiveSpec& spec, const std::string& why);
  Outbox& outbox() { return outbox_; }

 private:
  using Id = std::pair<uint32_t, uint32_t>;  // slot, round
  struct Meeting {
    std::unique_ptr<Collective> collective;
    CollectTransfer* transfer = nullptr;  // while it is under way
  };
  // A large payload on its way here.
  struct Incoming {
    Communicator::RequestPtr request;
    int from;
    Entry entry;
    char* place;
  };

  void Run();
  bool Step();
  void Rest(std::chrono::microseconds most);
  bool TakePosted();
  bool Receive();
  bool ReceivePacket();
  bool ReceiveLarge();
  void Read(int from, const std::string& packet);
  void Hear(int from, const Entry& entry, const char* payload);
  void HearFrom(int from, const Entry& entry, const char* payload);
  void Take(int from, const Entry& entry, const char* payload, char* place);
  void Come(int from, const Entry& entry, const char* place);
  Meeting& At(uint32_t slot, uint32_t round);
  void EndCollectives();
  void SeeOff();
  bool Stopped();
  void Break(const std::string& fault);

  Communicator& comm_;
  Traffic traffic_;
  Outbox outbox_;
  PiecePool pool_;
  Requests requests_;
  std::map<Id, Meeting> meetings_;
  std::list<Incoming> incoming_;
  Communicator::RequestPtr packet_request_;
  int packet_from_ = 0;
  std::string packet_;
  std::vector<bool> leaving_, left_;
  bool said_bye_ = false;
  // Until then transfers under way are waited for; set when the program ends.
  std::optional<std::chrono::steady_clock::time_point> patience_;
  std::string fault_;  // not empty: nothing works any more

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  bool stopped_ = false;                       // guarded by mutex_
  std::thread thread_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_EXCHANGE_THREAD_H_
