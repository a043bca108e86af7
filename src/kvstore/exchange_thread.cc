// ExchangeThread: posts, packets, collectives, the end.

#include "kvstore/exchange_thread.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/blocking.h"
#include "base/error.h"
#include "engine/pushing.h"

namespace plait {
namespace {

// Rests between looks at the transport: while something is under way, at first and
// when nothing has come for some time; and else.
constexpr std::chrono::microseconds kBusyRest{20}, kLongRest{400}, kIdleRest{1000};
// Where the transport ends a rest when something comes.
constexpr std::chrono::microseconds kToldRest{50000};
// How long a rank that ends its program waits for its last transfers.
constexpr std::chrono::seconds kGrace{10};
// Looks in vain before a rest.
constexpr int kLooks = 10;

}  // namespace

// ---------------------------------------------------------------- transfers

CollectTransfer::CollectTransfer(ExchangeThread& thread, const CollectiveSpec& what,
                                 const NDArray& src, const NDArray& dst,
                                 const NDArray& after)
    : Transfer(what.label),
      spec(what),
      thread_(thread),
      src_(src.body()->chunk),
      dst_(dst.body()->chunk),
      after_(after ? after.body()->chunk : nullptr) {
  priority = spec.priority;
  arrays = {src.data<char>(), dst.data<char>()};
}

void CollectTransfer::Start() {
  begun_ = true;
  thread_.Post([this] { thread_.Begin(this); });
}

// Also called when it has failed after its start: the others know then.
void CollectTransfer::Abandon() noexcept {
  if (begun_) return;
  std::string why = *spec.history;
  if (why.empty()) {
    why = "rank " + std::to_string(thread_.comm().rank()) +
          ": an operation before it failed";
  }
  thread_.Post([&thread = thread_, spec = spec, why] { thread.Refuse(spec, why); });
}

const char* CollectTransfer::name() const {
  return spec.reduce ? (spec.gather ? "kvstore_allreduce" : "kvstore_reduce")
                     : "kvstore_gather";
}

// ---------------------------------------------------------------- the thread

ExchangeThread::ExchangeThread(Communicator& comm)
    : comm_(comm),
      outbox_(comm, traffic_),
      requests_(comm.rank(), comm.size(), outbox_),
      leaving_(static_cast<size_t>(comm.size()), false),
      left_(leaving_) {
  left_[static_cast<size_t>(comm.rank())] = true;
  thread_ = std::thread([this] { Run(); });
}

ExchangeThread::~ExchangeThread() {
  Stop("the program ends");
}

void ExchangeThread::Stop(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  comm_.Wake();
  const ScopedBlocking blocking;
  thread_.join();
  std::vector<std::function<void()>> late;
  const bool sound = fault_.empty();
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (sound || why.starts_with(fault_)) fault_ = why;
    late.swap(posted_);
  }
  // What an operation had not begun to send by now fails, and what waits for it.
  for (const auto& f : late) f();
  if (sound) requests_.Broken(fault_);
}

void ExchangeThread::Post(std::function<void()> f) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      posted_.push_back(std::move(f));
      comm_.Wake();
      return;
    }
  }
  f();  // nobody else uses what it touches any more; it fails
}

bool ExchangeThread::TakePosted() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& f : posted) f();
  return !posted.empty();
}

void ExchangeThread::Run() {
  pthread_setname_np(pthread_self(), "plait-exchange");
  NeverWaitsForRoom() = true;      // what fills the room may wait for this thread
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: a rest is as short as it says
  int in_vain = 0;
  auto rest = kBusyRest;
  for (;;) {
    bool moved = false;
    try {
      moved = Step();
    } catch (const std::exception& error) {
      Break(error.what());
    }
    const bool said_bye = said_bye_;
    if (Stopped()) return;
    if (said_bye != said_bye_) continue;  // it is to be sent
    in_vain = moved ? 0 : in_vain + 1;
    const bool busy = !meetings_.empty() || !outbox_.empty() || !requests_.idle();
    if (comm_.Tells()) {
      if (!moved) Rest(kToldRest);
      continue;
    }
    if (moved) rest = kBusyRest;
    if (in_vain <= (busy ? kLooks : 0)) continue;
    Rest(busy ? rest : kIdleRest);
    rest = std::min(2 * rest, kLongRest);
  }
}

void ExchangeThread::Rest(std::chrono::microseconds most) {
  try {
    comm_.Idle(most);
  } catch (const std::exception& error) {
    Break(error.what());
  }
}

bool ExchangeThread::Step() {
  bool moved = TakePosted();
  if (!fault_.empty()) return moved;
  const std::string fault = comm_.fault();
  Check(fault.empty(), ErrorKind::kIo, fault);
  moved |= outbox_.Step();
  moved |= Receive();
  if (moved) {
    EndCollectives();
    requests_.End();
  }
  SeeOff();
  return moved;
}

// ---------------------------------------------------------------- what comes

bool ExchangeThread::Receive() {
  bool moved = false;
  while (ReceivePacket()) moved = true;
  return ReceiveLarge() || moved;
}

bool ExchangeThread::ReceivePacket() {
  if (!packet_request_) {
    const auto arrival = comm_.Probe(kPacketTag);
    if (!arrival) return false;
    Check(arrival->bytes <= kPacketBytes, ErrorKind::kIo, "rank ", arrival->from,
          " sent a packet of ", arrival->bytes, " bytes; at most ", kPacketBytes,
          " were expected");
    packet_from_ = arrival->from;
    packet_.resize(arrival->bytes);
    packet_request_ =
        comm_.Receive(arrival->from, kPacketTag, packet_.data(), packet_.size());
  }
  if (!comm_.Test(*packet_request_)) return false;
  packet_request_.reset();
  Read(packet_from_, packet_);
  return true;
}

bool ExchangeThread::ReceiveLarge() {
  bool moved = false;
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    size_t bytes = 0;
    if (!comm_.Test(*it->request, &bytes)) {
      ++it;
      continue;
    }
    Check(bytes == it->entry.bytes, ErrorKind::kIo, "rank ", it->from, " sent ", bytes,
          " bytes of an array after it had announced ", it->entry.bytes);
    Come(it->from, it->entry, it->place);
    it = incoming_.erase(it);
    moved = true;
  }
  return moved;
}

void ExchangeThread::Read(int from, const std::string& packet) {
  for (size_t at = 0; at < packet.size();) {
    Entry entry;
    const size_t rest = packet.size() - at;
    Check(rest >= sizeof(Entry), ErrorKind::kIo, "rank ", from,
          " sent a packet that is cut off");
    std::memcpy(&entry, packet.data() + at, sizeof(Entry));
    at += sizeof(Entry);
    Check(entry.magic == Entry::kMagic && entry.said < Said::kCount, ErrorKind::kIo,
          "rank ", from, " sent what is no packet of a store");
    if (entry.tag == 0) {
      Check(entry.bytes <= packet.size() - at, ErrorKind::kIo, "rank ", from,
            " sent a packet that is cut off");
      HearFrom(from, entry, packet.data() + at);
      at += entry.bytes;
    } else {
      Check(entry.tag <= Communicator::kMostTag, ErrorKind::kIo, "rank ", from,
            " announced the tag ", entry.tag, "; at most ", Communicator::kMostTag,
            " was expected");
      HearFrom(from, entry, nullptr);
    }
  }
}

// Whatever is wrong with it, even that its array is too large, names the sender.
void ExchangeThread::HearFrom(int from, const Entry& entry, const char* payload) {
  try {
    Hear(from, entry, payload);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    Fail(ErrorKind::kIo, "rank ", from,
         " sent what cannot be taken: ", std::string(error.what()));
  }
}

// payload: null where it comes by itself.
void ExchangeThread::Hear(int from, const Entry& entry, const char* payload) {
  switch (entry.said) {
    case Said::kPart:
    case Said::kWhole:
      return Take(from, entry, payload,
                  At(entry.slot, entry.round).collective->Place(from, entry));
    case Said::kFailPart:
    case Said::kFailWhole:
      Check(payload != nullptr, ErrorKind::kIo, "rank ", from, " sent no text");
      At(entry.slot, entry.round)
          .collective->Ended(from, entry.said, std::string(payload, entry.bytes));
      return;
    case Said::kBye:
      leaving_[static_cast<size_t>(from)] = true;
      return;
    case Said::kPush:
    case Said::kReply:
      return Take(from, entry, payload, requests_.Place(from, entry));
    case Said::kRest:
      return requests_.Rested(from, entry);
    case Said::kPull:
      return requests_.Asked(from, entry);
    case Said::kRefused:
      Check(payload != nullptr, ErrorKind::kIo, "rank ", from, " sent no text");
      return requests_.Refused(from, entry, std::string(payload, entry.bytes));
    case Said::kCount:
      return;  // Read has refused it
  }
}

// The payload goes to its place, now or when it has come by itself.
void ExchangeThread::Take(int from, const Entry& entry, const char* payload,
                          char* place) {
  if (payload == nullptr) {
    incoming_.push_back(
        {comm_.Receive(from, static_cast<int>(entry.tag), place, entry.bytes), from,
         entry, place});
  } else {
    std::memcpy(place, payload, entry.bytes);
    Come(from, entry, place);
  }
}

void ExchangeThread::Come(int from, const Entry& entry, const char* place) {
  traffic_.payload_received += entry.bytes;
  if (entry.said == Said::kPart || entry.said == Said::kWhole) {
    At(entry.slot, entry.round).collective->Arrived(from, entry, place);
  } else {
    requests_.Arrived(from, entry);
  }
}

// ---------------------------------------------------------------- collectives

ExchangeThread::Meeting& ExchangeThread::At(uint32_t slot, uint32_t round) {
  Meeting& meeting = meetings_[{slot, round}];
  if (!meeting.collective) {
    meeting.collective =
        std::make_unique<Collective>(comm_.rank(), comm_.size(), outbox_, pool_);
  }
  return meeting;
}

void ExchangeThread::Begin(CollectTransfer* transfer) {
  if (!fault_.empty()) return transfer->FailWith(fault_, ErrorKind::kIo);
  Meeting& meeting = At(transfer->spec.slot, transfer->spec.round);
  meeting.transfer = transfer;
  meeting.collective->Begin(transfer->spec, transfer->arrays);
  for (size_t r = 0; r < left_.size(); ++r) {
    if (left_[r] && static_cast<int>(r) != comm_.rank())
      meeting.collective->Left(static_cast<int>(r));
  }
}

void ExchangeThread::Refuse(const CollectiveSpec& spec, const std::string& why) {
  if (fault_.empty()) At(spec.slot, spec.round).collective->Refuse(spec, why);
}

void ExchangeThread::EndCollectives() {
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    Meeting& meeting = it->second;
    CollectTransfer* const over =
        meeting.collective->Over() ? meeting.transfer : nullptr;
    const std::string failure = meeting.collective->failure();
    if (over != nullptr && !failure.empty()) *over->spec.history = failure;
    it = meeting.collective->Forgettable() ? meetings_.erase(it) : std::next(it);
    if (over == nullptr) continue;
    if (failure.empty()) {
      over->Finish();
    } else {
      over->FailWith(failure, ErrorKind::kRuntime);
    }
  }
}

// ---------------------------------------------------------------- the end

// Ranks whose program has ended, once all that they sent is here.
void ExchangeThread::SeeOff() {
  for (size_t r = 0; r < leaving_.size(); ++r) {
    const int rank = static_cast<int>(r);
    if (!leaving_[r] || left_[r] ||
        std::any_of(incoming_.begin(), incoming_.end(),
                    [rank](const Incoming& x) { return x.from == rank; })) {
      continue;
    }
    left_[r] = true;
    for (auto& [id, meeting] : meetings_) meeting.collective->Left(rank);
    requests_.Left(rank);
    EndCollectives();
  }
}

// Whether the thread may end: this rank has said goodbye, and so have all others.
bool ExchangeThread::Stopped() {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_ || !posted_.empty()) return false;
  }
  if (!fault_.empty()) return true;
  const bool working = !requests_.idle() ||
                       std::any_of(meetings_.begin(), meetings_.end(), [](auto& item) {
                         return item.second.transfer != nullptr;
                       });
  // Others may wait for this rank in vain, and this rank for them: then it says goodbye
  // first, which fails what they wait for.
  const auto now = std::chrono::steady_clock::now();
  if (!patience_) patience_ = now + kGrace;
  const bool patient = now < *patience_;
  if ((working || !outbox_.empty()) && (said_bye_ || patient)) return false;
  if (!said_bye_) {
    Entry entry;
    entry.said = Said::kBye;
    for (int r = 0; r < comm_.size(); ++r) {
      if (r != comm_.rank()) outbox_.AddText(r, 0, entry, "");
    }
    said_bye_ = true;
    requests_.Leaving();
    return false;
  }
  return std::all_of(left_.begin(), left_.end(), [](bool left) { return left; });
}

// The transport has failed, or was misused: nothing that is under way will end, and its
// memory may still be written.
void ExchangeThread::Break(const std::string& fault) {
  comm_.Abort(fault);  // the first one counts
  fault_ = comm_.fault();
  if (fault_.empty()) fault_ = fault;  // the job has ended
  std::vector<CollectTransfer*> transfers;
  for (auto& [id, meeting] : meetings_) {
    if (meeting.transfer != nullptr) transfers.push_back(meeting.transfer);
    meeting.transfer = nullptr;
  }
  struct Lost {
    std::map<Id, Meeting> meetings;
    std::list<Incoming> incoming;
    Outbox outbox;
    Communicator::RequestPtr packet;
    std::string bytes;
    std::vector<Ref<Chunk>> chunks;
  };
  auto* lost =
      new Lost{std::move(meetings_),       std::move(incoming_), std::move(outbox_),
               std::move(packet_request_), std::move(packet_),   {}};
  static std::mutex mutex;
  static auto* const all = new std::vector<Lost*>;  // reachable, for leak checkers
  meetings_.clear();
  incoming_.clear();
  for (CollectTransfer* transfer : transfers) transfer->Keep(lost->chunks);
  const std::vector<Requests::Asking*> asking = requests_.GiveUp(lost->chunks);
  {
    const std::lock_guard lock(mutex);
    all->push_back(lost);
  }
  for (CollectTransfer* transfer : transfers) {
    *transfer->spec.history = fault_;
    transfer->FailWith(fault_, ErrorKind::kIo);
  }
  for (Requests::Asking* request : asking) request->FailWith(fault_, ErrorKind::kIo);
  requests_.Broken(fault_);
}

}  // namespace plait
