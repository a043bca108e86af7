// MeetWires: all ranks know the same facts of each other, and decide by them.

#include "kvstore/wire/meet_wires.h"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/options.h"
#include "kvstore/heartbeat/meeting.h"

namespace plait {
namespace {

// In larger jobs a connection to every other rank would be too many.
constexpr int kMostRanks = 256;
constexpr std::chrono::seconds kMeeting(20);

enum Wish : uint8_t { kAuto, kMpiOnly, kTcpOnly };

struct Facts {  // of a rank, as they travel
  Contact contact{};
  int32_t pid = 0;
  Wish wish = kAuto;
  uint8_t fabric = 0;   // a network that MPI knows better
  uint8_t watched = 0;  // it has TCP connections already
  uint64_t proof = 0;   // where the contact's token stands in its memory
  Wires::Pledge pledge;
};

struct Found {
  uint8_t connected = 0, reads = 0;
};

Wish WishOfUser() {
  const std::string& text = GetOption(Option::kTransport);
  if (text == "auto") return kAuto;
  if (text == "mpi") return kMpiOnly;
  Check(text == "tcp", ErrorKind::kValue, "PLAIT_TRANSPORT: got '", text,
        "'; auto, mpi or tcp was expected");
  return kTcpOnly;
}

bool SameMachine(const Facts& a, const Facts& b) {
  return a.contact.machine == b.contact.machine &&
         a.contact.machine != decltype(a.contact.machine){};
}

bool OneWishes(const std::vector<Facts>& all, Wish wish) {
  return std::any_of(all.begin(), all.end(),
                     [wish](const Facts& facts) { return facts.wish == wish; });
}

// Equal on all ranks, as the facts are.
bool Wanted(const std::vector<Facts>& all) {
  if (OneWishes(all, kMpiOnly)) return false;
  if (OneWishes(all, kTcpOnly)) return true;
  const bool one_machine = std::all_of(all.begin(), all.end(), [&](const Facts& facts) {
    return SameMachine(facts, all[0]);
  });
  return all.size() <= kMostRanks &&
         std::all_of(all.begin(), all.end(), [one_machine](const Facts& facts) {
           return facts.watched && (one_machine || !facts.fabric);
         });
}

// Whether this process may read that one's memory, and it is the one that it is said to
// be.
bool CanRead(const Facts& other) {
  decltype(other.contact.token) token{};
  const iovec here{token.data(), token.size()};
  const iovec there{reinterpret_cast<void*>(other.proof), token.size()};
  return process_vm_readv(other.pid, &here, 1, &there, 1, 0) ==
             static_cast<ssize_t>(token.size()) &&
         token == other.contact.token;
}

// Null where there is no connection to some rank.
std::vector<std::unique_ptr<Link>> Connect(int rank, const std::vector<Facts>& all,
                                           const Listener& listener,
                                           const std::function<bool()>& vain,
                                           std::string& why) {
  std::vector<Contact> contacts;
  std::vector<int> others;
  for (const Facts& facts : all) {
    const int other = static_cast<int>(contacts.size());
    contacts.push_back(facts.contact);
    if (other != rank) others.push_back(other);
  }
  // Beside the connections: calls, guests, and what the program opens at that time.
  MakeRoomForFiles(static_cast<int>(all.size()) + 256);
  try {
    return Meet(rank, contacts, listener, kMeeting, others, vain);
  } catch (const Error& error) {
    why = error.what();
    return {};
  }
}

}  // namespace

std::unique_ptr<Wires> MeetWires(int rank, int size, bool watched,
                                 const GatherBytes& gather,
                                 const std::function<bool()>& vain) {
  const Bytes16 machine = MachineName();
  std::vector<Bytes16> machines(static_cast<size_t>(size));
  gather(&machine, sizeof(machine), machines.data());
  const Listener listener(OneMachine(machines));
  Facts mine;
  mine.wish = WishOfUser();
  mine.contact = MakeContact(listener.port);
  mine.pid = getpid();
  struct stat unused {};
  mine.fabric = stat("/sys/class/infiniband", &unused) == 0;
  mine.watched = watched;
  // Others look at it before the second gathering ends.
  mine.proof = reinterpret_cast<uint64_t>(mine.contact.token.data());
  auto word = std::make_unique<Wires::Word>();
  std::memcpy(&mine.pledge.value, mine.contact.token.data(), sizeof(uint64_t));
  *word = mine.pledge.value |= 1;
  mine.pledge.address = reinterpret_cast<uint64_t>(word.get());
  std::vector<Facts> all(static_cast<size_t>(size));
  gather(&mine, sizeof(mine), all.data());
  if (!Wanted(all)) return nullptr;

  std::string why = "another rank says why";
  std::vector<std::unique_ptr<Link>> links = Connect(rank, all, listener, vain, why);
  Found found{static_cast<uint8_t>(!links.empty()), 1};
  bool shared = false;
  for (int r = 0; r < size; ++r) {
    for (int s = 0; s < r; ++s) shared = shared || SameMachine(all[r], all[s]);
    if (r != rank && SameMachine(all[r], mine) && !CanRead(all[r])) found.reads = 0;
  }
  std::vector<Found> result(static_cast<size_t>(size));
  gather(&found, sizeof(found), result.data());
  const auto each = [&](uint8_t Found::*what) {
    return std::all_of(result.begin(), result.end(),
                       [what](const Found& one) { return one.*what != 0; });
  };
  const bool tcp = OneWishes(all, kTcpOnly), reads = each(&Found::reads) && !tcp;
  if (!each(&Found::connected)) {
    Check(!tcp, ErrorKind::kRuntime,
          "kvstore: PLAIT_TRANSPORT is tcp, but not all ranks can reach each other: ",
          why);
    return nullptr;
  }
  if (shared && !reads && !tcp) return nullptr;  // MPI has memory for that
  std::vector<Wires::Other> others(static_cast<size_t>(size));
  for (int r = 0, next = 0; r < size; ++r) {
    if (r == rank) continue;
    others[r].link = std::move(links[next++]);
    if (!reads || !SameMachine(all[r], mine)) continue;
    others[r].pid = all[r].pid;
    others[r].pledge = all[r].pledge;
  }
  return std::make_unique<Wires>(std::move(others), watched, std::move(word));
}

}  // namespace plait
