// Requests: pieces out, pieces in, one rank's in order.

#include "kvstore/requests.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kvstore/exchange_thread.h"

namespace plait {
namespace {

constexpr uint32_t kNoRound = ~uint32_t{0};  // a refusal of a push
constexpr uint64_t kMostTotal = uint64_t{1} << 40;

}  // namespace

// ---------------------------------------------------------------- operations

void Requests::Asking::OnSent(int, const Entry&) {
  --sending;
}

Requests::Push::Push(ExchangeThread& thread, const CollectiveSpec& what,
                     const NDArray& codes, const NDArray& order)
    : Asking(what.label),
      spec(what),
      src(codes.data<char>()),
      thread_(thread),
      codes_(codes.body()->chunk),
      order_(order.body()->chunk) {
  priority = spec.priority;
}
void Requests::Push::Start() {
  thread_.Post([this] { thread_.Begin(this); });
}

Requests::Pull::Pull(ExchangeThread& thread, const CollectiveSpec& what,
                     const NDArray& all, const NDArray& order)
    : Asking(what.label),
      spec(what),
      dst(all.data<char>()),
      thread_(thread),
      all_(all.body()->chunk),
      order_(order.body()->chunk) {
  priority = spec.priority;
}
void Requests::Pull::Start() {
  thread_.Post([this] { thread_.Begin(this); });
}

// ---------------------------------------------------------------- asking

Entry Requests::EntryOf(Said said, uint32_t slot, uint32_t round) {
  Entry entry;
  entry.said = said;
  entry.slot = slot;
  entry.round = round;
  return entry;
}

void Requests::SendPieces(int to, int priority, Entry entry, const char* data,
                          int64_t bytes, Sender* sender, int64_t& sending) {
  entry.total = static_cast<uint64_t>(bytes);
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    entry.offset = static_cast<uint64_t>(at);
    entry.bytes = static_cast<uint32_t>(std::min(kPieceBytes, bytes - at));
    ++sending;
    outbox_.Add(to, priority, entry, data + at, sender);
  }
}

void Requests::Begin(Push* push) {
  asking_.push_back(push);
  const CollectiveSpec& spec = push->spec;
  for (int to = 0; to < size_; ++to) {
    const Ranges::Part& part = spec.ranges->parts[static_cast<size_t>(to)];
    if (part.size() == 0) continue;
    const char* codes = push->src + spec.codec.Bytes(part.first);
    const int64_t bytes = spec.codec.Bytes(part.size());
    if (to != rank_) {
      SendPieces(to, spec.priority, EntryOf(Said::kPush, spec.slot, spec.round), codes,
                 bytes, push, push->sending);
      continue;
    }
    NDArray own = NDArray::Empty({bytes}, DType::kUint8);
    std::memcpy(own.data(), codes, static_cast<size_t>(bytes));
    ServerOf(rank_, spec.slot).OnPush(rank_, spec.slot, std::move(own));
  }
}

void Requests::Begin(Pull* pull) {
  asking_.push_back(pull);
  const CollectiveSpec& spec = pull->spec;
  pulls_[{spec.slot, spec.round}] = pull;
  for (int to = 0; to < size_; ++to) {
    const int64_t elements = spec.ranges->parts[static_cast<size_t>(to)].size();
    if (elements == 0) continue;
    pull->missing += spec.codec.Bytes(elements);
    if (to == rank_) {
      ServerOf(rank_, spec.slot).OnPull(rank_, spec.slot, spec.round);
    } else {
      outbox_.AddText(to, spec.priority, EntryOf(Said::kPull, spec.slot, spec.round),
                      "");
    }
  }
}

Requests::Pull* Requests::FindPull(uint32_t slot, uint32_t round) {
  const auto found = pulls_.find({slot, round});
  return found == pulls_.end() ? nullptr : found->second;
}

void Requests::Refused(int from, const Entry& entry, const std::string& why) {
  if (entry.round == kNoRound) {
    ServerOf(from, entry.slot).OnRefused(entry.slot, why);
  } else if (Pull* pull = FindPull(entry.slot, entry.round)) {
    pull->failure = why;
  }
}

void Requests::End() {
  for (size_t i = 0; i < asking_.size();) {
    Asking* const asking = asking_[i];
    if (!asking->Over()) {
      ++i;
      continue;
    }
    asking_.erase(asking_.begin() + static_cast<std::ptrdiff_t>(i));
    std::erase_if(pulls_, [asking](const auto& item) { return item.second == asking; });
    if (asking->failure.empty()) {
      asking->Finish();
    } else {
      const std::string why = asking->failure;
      asking->FailWith(why, ErrorKind::kRuntime);
    }
  }
  answers_.remove_if([](const Answer& answer) { return answer.sending == 0; });
}

std::vector<Requests::Asking*> Requests::GiveUp(std::vector<Ref<Chunk>>& chunks) {
  for (const Asking* asking : asking_) asking->Keep(chunks);
  for (const Answer& answer : answers_) chunks.push_back(answer.part.body()->chunk);
  for (const auto& [id, queue] : queues_) {
    for (const Request& request : queue) {
      if (request.codes) chunks.push_back(request.codes.body()->chunk);
    }
  }
  pulls_.clear();
  return std::exchange(asking_, {});
}

// ---------------------------------------------------------------- serving

void Requests::Serve(uint32_t store, std::shared_ptr<RequestServer> server) {
  servers_[store >> 20] = std::move(server);
}

RequestServer& Requests::ServerOf(int from, uint32_t slot) {
  const auto found = servers_.find(slot >> 20);
  Check(found != servers_.end(), ErrorKind::kIo, "rank ", from,
        " made a request of the store ", slot >> 20, ", which serves none");
  return *found->second;
}

void Requests::Left(int from) {
  for (const auto& [store, server] : servers_) server->OnLeft(from);
}

void Requests::Leaving() {
  for (const auto& [store, server] : servers_) server->OnLeaving();
}

void Requests::Broken(const std::string& fault) {
  for (const auto& [store, server] : servers_) server->OnFault(fault);
}

char* Requests::Place(int from, const Entry& entry) {
  Check(entry.bytes > 0 && entry.total <= kMostTotal && entry.offset < entry.total &&
            entry.bytes <= entry.total - entry.offset,
        ErrorKind::kIo, "rank ", from, " sent ", entry.bytes, " bytes at ",
        entry.offset, " of ", entry.total, "; bytes inside an array were expected");
  if (entry.said == Said::kReply) {
    Pull* const pull = FindPull(entry.slot, entry.round);
    Check(pull != nullptr, ErrorKind::kIo, "rank ", from,
          " answered what nobody had asked");
    const Ranges::Part& part = pull->spec.ranges->parts[static_cast<size_t>(from)];
    Check(entry.total == static_cast<uint64_t>(pull->spec.codec.Bytes(part.size())),
          ErrorKind::kIo, "rank ", from, " answered with ", entry.total,
          " bytes of a part; ", pull->spec.codec.Bytes(part.size()), " were expected");
    int64_t& announced = pull->announced[from];
    Check(entry.offset == static_cast<uint64_t>(announced), ErrorKind::kIo, "rank ",
          from, " answered with the piece at ", entry.offset, "; the one at ",
          announced, " was expected");
    announced += entry.bytes;
    ++pull->awaited;
    return pull->dst + pull->spec.codec.Bytes(part.first) + entry.offset;
  }
  ServerOf(from, entry.slot);
  Queue& queue = queues_[{from, entry.slot}];
  auto found = std::find_if(queue.begin(), queue.end(), [&entry](const Request& r) {
    return r.push && r.round == entry.round;
  });
  if (found == queue.end()) {
    const auto total = static_cast<int64_t>(entry.total);
    queue.push_back({true, entry.round, NDArray::Empty({total}, DType::kUint8)});
    found = std::prev(queue.end());
  }
  Check(static_cast<uint64_t>(found->codes.nbytes()) == entry.total, ErrorKind::kIo,
        "rank ", from, " sent pieces of ", found->codes.nbytes(), " and of ",
        entry.total, " bytes of one array");
  // One rank's pieces come in their order.
  Check(entry.offset == static_cast<uint64_t>(found->announced), ErrorKind::kIo,
        "rank ", from, " sent the piece at ", entry.offset, " of an array; the one at ",
        found->announced, " was expected");
  found->announced += entry.bytes;
  return found->codes.data<char>() + entry.offset;
}

void Requests::Arrived(int from, const Entry& entry) {
  if (entry.said == Said::kReply) {
    Pull* const pull = FindPull(entry.slot, entry.round);
    --pull->awaited;
    pull->missing -= entry.bytes;
    return;
  }
  for (Request& request : queues_[{from, entry.slot}]) {
    if (request.push && request.round == entry.round) request.got += entry.bytes;
  }
  ServeReady(from, entry.slot);
}

void Requests::Asked(int from, const Entry& entry) {
  ServerOf(from, entry.slot);
  queues_[{from, entry.slot}].push_back({false, entry.round, {}});
  ServeReady(from, entry.slot);
}

void Requests::ServeReady(int from, uint32_t slot) {
  Queue& queue = queues_[{from, slot}];
  RequestServer& server = ServerOf(from, slot);
  while (!queue.empty()) {
    Request& first = queue.front();
    if (first.push && first.got < first.codes.nbytes()) return;
    const Request request = std::move(first);
    queue.pop_front();
    if (request.push) {
      server.OnPush(from, slot, request.codes);
    } else {
      server.OnPull(from, slot, request.round);
    }
  }
}

void Requests::Reply(int to, uint32_t slot, uint32_t round, const NDArray& part,
                     const std::string& error) {
  const Entry entry =
      EntryOf(error.empty() ? Said::kReply : Said::kRefused, slot, round);
  if (to == rank_) {
    Pull* const pull = FindPull(slot, round);
    if (pull == nullptr) return;
    pull->failure = error;
    if (!error.empty()) return;
    const Ranges::Part& own = pull->spec.ranges->parts[static_cast<size_t>(rank_)];
    std::copy_n(part.data<char>(), part.nbytes(),
                pull->dst + pull->spec.codec.Bytes(own.first));
    pull->missing -= part.nbytes();
  } else if (!error.empty()) {
    outbox_.AddText(to, 0, entry, error);
  } else {
    Answer& answer = answers_.emplace_back();
    answer.part = part;
    SendPieces(to, 0, entry, part.data<char>(), part.nbytes(), &answer, answer.sending);
  }
}

void Requests::Rest(uint32_t store) {
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) {
      ServerOf(rank_, store).OnRest(rank_);
    } else {
      outbox_.AddText(to, std::numeric_limits<int>::max(),
                      EntryOf(Said::kRest, store, 0), "");
    }
  }
}

void Requests::Rested(int from, const Entry& entry) {
  ServerOf(from, entry.slot).OnRest(from);
}

void Requests::RefusePush(int to, uint32_t slot, const std::string& why) {
  if (to == rank_) {
    ServerOf(rank_, slot).OnRefused(slot, why);
  } else {
    outbox_.AddText(to, 0, EntryOf(Said::kRefused, slot, kNoRound), why);
  }
}

}  // namespace plait
