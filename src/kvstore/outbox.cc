// Outbox: packets of small payloads, and large ones by themselves.

#include "kvstore/outbox.h"

#include <algorithm>
#include <utility>

namespace plait {
namespace {

// What is under way for longer makes urgent arrays wait: to be taken by the peer, or
// only by the system, which has more of them waiting than the link needs then.
constexpr std::chrono::microseconds kLongFlight(5000), kLongWait(1500);

}  // namespace

Outbox::Outbox(Communicator& comm, Traffic& traffic)
    : comm_(comm), traffic_(traffic), peers_(static_cast<size_t>(comm.size())) {}

void Outbox::Add(int to, int priority, const Entry& entry, const void* data,
                 Sender* sender) {
  auto& queue = peers_[static_cast<size_t>(to)].queue;
  queue.push_back({priority, items_++, entry, data, sender, {}});
  std::push_heap(queue.begin(), queue.end());
}

void Outbox::AddText(int to, int priority, Entry entry, std::string text) {
  if (text.size() > Entry::kMostText) text.resize(Entry::kMostText);
  entry.bytes = static_cast<uint32_t>(text.size());
  entry.total = text.size();
  auto& queue = peers_[static_cast<size_t>(to)].queue;
  queue.push_back({priority, items_++, entry, nullptr, nullptr, std::move(text)});
  std::push_heap(queue.begin(), queue.end());
}

Outbox::Item Outbox::Pop(Peer& peer) {
  std::pop_heap(peer.queue.begin(), peer.queue.end());
  Item item = std::move(peer.queue.back());
  peer.queue.pop_back();
  return item;
}

// Takes what is most urgent: small payloads until the packet is full, or a large one.
void Outbox::SendPacket(int to, Peer& peer) {
  Flight flight;
  std::string& packet = flight.packet;
  const void* large = nullptr;
  Entry last;
  Flight alone;
  while (!peer.queue.empty() && large == nullptr &&
         packet.size() + sizeof(Entry) + kInlineBytes <= kPacketBytes) {
    Item item = Pop(peer);
    Entry& entry = item.entry;
    if (entry.bytes > kInlineBytes) {
      entry.tag = peer.next_tag;
      peer.next_tag = peer.next_tag % Communicator::kMostTag + 1;
    }
    packet.append(reinterpret_cast<const char*>(&entry), sizeof(Entry));
    traffic_.entry_bytes_sent += sizeof(Entry);
    traffic_.payload_sent += entry.bytes;
    if (entry.tag != 0) {
      large = item.data;
      last = entry;
      alone.senders.emplace_back(item.sender, entry);
    } else {
      const char* data = item.sender == nullptr ? item.text.data()
                                                : static_cast<const char*>(item.data);
      packet.append(data, entry.bytes);
      if (item.sender != nullptr) flight.senders.emplace_back(item.sender, entry);
    }
  }
  flight.bytes = packet.size();
  peer.in_flight += flight.bytes;
  peer.flights.push_back(std::move(flight));  // first: the packet must not move again
  Flight& kept = peer.flights.back();
  kept.request = comm_.Send(to, kPacketTag, kept.packet.data(), kept.packet.size());
  ++traffic_.messages_sent;
  // Copied: the sender's memory is free.
  for (auto& [sender, entry] : std::exchange(kept.senders, {}))
    sender->OnSent(to, entry);
  if (large == nullptr) return;
  alone.bytes = last.bytes;
  peer.in_flight += alone.bytes;
  alone.request = comm_.Send(to, static_cast<int>(last.tag), large, last.bytes);
  ++traffic_.messages_sent;
  peer.flights.push_back(std::move(alone));
}

bool Outbox::Settle(int to, Peer& peer) {
  bool moved = false, slow = false;
  const bool buffers = comm_.Buffers(to);
  for (auto it = peer.flights.begin(); it != peer.flights.end();) {
    if (!comm_.Test(*it->request)) {
      ++it;
      continue;
    }
    moved = true;
    peer.in_flight -= it->bytes;
    if (std::chrono::steady_clock::now() - it->start >
        (buffers ? kLongWait : kLongFlight)) {
      slow = true;
      peer.window /= 2;
      if (peer.window < kLeastInFlight) peer.window = buffers ? 1 : kLeastInFlight;
    }
    const auto senders = std::move(it->senders);
    it = peer.flights.erase(it);
    for (const auto& [sender, entry] : senders) sender->OnSent(to, entry);
  }
  if (!slow && peer.flights.empty() && !peer.queue.empty())  // it ran dry
    peer.window = std::clamp(peer.window * 2, kLeastInFlight, kMostInFlight);
  return moved;
}

bool Outbox::Step() {
  bool moved = false;
  for (size_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (!peer.flights.empty()) moved |= Settle(static_cast<int>(r), peer);
    while (!peer.queue.empty() && peer.in_flight < peer.window) {
      SendPacket(static_cast<int>(r), peer);
      moved = true;
    }
  }
  return moved;
}

bool Outbox::empty() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.queue.empty() && peer.flights.empty();
  });
}

}  // namespace plait
