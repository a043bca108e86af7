// Guests: accepted, heard, answered, and sent away.

#include "kvstore/heartbeat/guests.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace plait {
namespace {

// At a time, beside one for each rank that may call.
constexpr size_t kMostGuests = 64;
// In a row, before the caller looks at something else.
constexpr int kMostAccepts = 256;
// So long one may say nothing, or not prove itself, while others want in.
constexpr std::chrono::milliseconds kSilence(50), kPatience(500);

}  // namespace

bool Guests::full() const {
  return guests_.size() >= kMostGuests + callers_.size();
}

void Guests::AddTo(std::vector<pollfd>& all) const {
  if (!full()) all.push_back({listening_, POLLIN, 0});
  for (const Guest& guest : guests_) all.push_back({guest.link->fd(), POLLIN, 0});
}

bool Guests::Attend() {
  HearAll();
  for (int i = 0; i < kMostAccepts; ++i) {
    if (full() && !MakeRoom()) return true;
    const int fd = accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return errno != EMFILE && errno != ENFILE;
    Guest guest{std::make_unique<Link>(fd), Clock::now()};
    // Its greeting has often come already.
    if (Hear(guest)) guests_.push_back(std::move(guest));
  }
  return true;
}

bool Guests::MakeRoom() {
  HearAll();  // what has come counts
  if (!full()) return true;
  const auto now = Clock::now();
  const auto silent = [](const Guest& guest) { return !guest.answered; };
  if (std::any_of(guests_.begin(), guests_.end(), silent)) {
    return std::erase_if(guests_, [&](const Guest& guest) {
             return silent(guest) && now - guest.since >= kSilence;
           }) > 0;
  }
  const auto oldest = std::min_element(
      guests_.begin(), guests_.end(),
      [](const Guest& a, const Guest& b) { return a.since < b.since; });
  if (now - oldest->since < kPatience) return false;
  guests_.erase(oldest);
  return true;
}

void Guests::HearAll() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    guest = Hear(*guest) ? std::next(guest) : guests_.erase(guest);
  }
}

// Whether it stays one.
bool Guests::Hear(Guest& guest) {
  if (!guest.link->Read()) return false;
  if (!guest.answered) {
    const auto hello = guest.link->TakePlain<Hello>();
    if (hello && !Respond(guest, *hello)) return false;
  }
  if (!guest.answered) return true;
  const auto proof = guest.link->TakePlain<Proof>();
  if (!proof) return true;
  if (!Equal(proof->proof, ProofOf(token_, true, guest.parties))) return false;
  guest.link->SendPlain(Welcome());
  if (guest.link->Write()) {
    ranks_.push_back({guest.parties.caller, std::move(guest.link)});
  }
  return false;
}

// Whether it is one that may call.
bool Guests::Respond(Guest& guest, const Hello& hello) const {
  const Hello expected;
  if (hello.magic != expected.magic || hello.version != expected.version ||
      hello.to != rank_ || hello.from <= rank_ ||
      !std::binary_search(callers_.begin(), callers_.end(), hello.from)) {
    return false;
  }
  Answer answer;
  answer.nonce = RandomBytes();
  guest.parties = {hello.from, rank_, {hello.nonce, answer.nonce}};
  answer.proof = ProofOf(token_, false, guest.parties);
  guest.link->SendPlain(answer);
  guest.answered = true;
  guest.since = Clock::now();
  return guest.link->Write();
}

}  // namespace plait
