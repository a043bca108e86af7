// The record of inline sections: a slot for each thread, which only that thread writes.

#include "engine/inline_section.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace plait {
namespace {

struct alignas(64) Slot {
  std::atomic<int> depth{0};
  std::atomic<int> operations{0};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;  // slots are used again, never freed
};

std::atomic<int> stopped{0};
std::atomic<Slot*> all_slots{nullptr};

// One load instead of a call: the library is loaded with room for a few such pointers.
[[gnu::tls_model("initial-exec")]] constinit thread_local Slot* own = nullptr;

void GiveBack(void* slot) {
  own = nullptr;
  static_cast<Slot*>(slot)->taken.store(false, std::memory_order_release);
}

// Gives the slot back when the thread ends: later than thread_local objects, which may
// still use it. A record of those would also be lost with the threads in a forked
// child.
pthread_key_t MakeKey() {
  pthread_key_t key;
  pthread_key_create(&key, GiveBack);
  return key;
}

Slot& Own(Slot* slot) {
  static const pthread_key_t key = MakeKey();
  pthread_setspecific(key, slot);
  own = slot;
  return *slot;
}

[[gnu::noinline]] Slot& NewSlot() {
  for (Slot* slot = all_slots.load(std::memory_order_acquire); slot;
       slot = slot->next) {
    bool taken = false;
    if (!slot->taken.load(std::memory_order_relaxed) &&
        slot->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) {
      return Own(slot);
    }
  }
  Slot* const slot = new Slot;
  slot->next = all_slots.load(std::memory_order_relaxed);
  while (
      !all_slots.compare_exchange_weak(slot->next, slot, std::memory_order_release)) {
  }
  return Own(slot);
}

Slot& OwnSlot() {
  return own != nullptr ? *own : NewSlot();
}

}  // namespace

bool InlineSections::Enter() {
  Slot& slot = OwnSlot();
  // Either this thread sees `stopped`, or Empty sees `depth`.
  const int before = slot.depth.fetch_add(1, std::memory_order_seq_cst);
  if (stopped.load(std::memory_order_seq_cst) == 0 || before > 0 ||
      slot.operations.load(std::memory_order_relaxed) > 0) [[likely]] {
    return true;
  }
  Leave();
  return false;
}

void InlineSections::Leave() {
  Slot& slot = OwnSlot();
  slot.depth.store(slot.depth.load(std::memory_order_relaxed) - 1,
                   std::memory_order_release);
}

void InlineSections::Stop() {
  stopped.fetch_add(1, std::memory_order_seq_cst);
}

void InlineSections::Go() {
  stopped.fetch_sub(1, std::memory_order_seq_cst);
}

bool InlineSections::Empty() {
  for (Slot* slot = all_slots.load(std::memory_order_seq_cst); slot;
       slot = slot->next) {
    if (slot != own && slot->depth.load(std::memory_order_seq_cst) > 0 &&
        slot->operations.load(std::memory_order_acquire) == 0) {
      return false;
    }
  }
  return true;
}

void InlineSections::AwaitEmpty() {
  while (!Empty()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void InlineSections::ResetInChild() {
  stopped = 0;
  for (Slot* slot = all_slots; slot != nullptr; slot = slot->next) {
    if (slot == own) continue;
    slot->depth = 0;
    slot->operations = 0;
    slot->taken = false;
  }
}

InlineSections::ScopedOperation::ScopedOperation() {
  Slot& slot = OwnSlot();
  slot.operations.store(slot.operations.load(std::memory_order_relaxed) + 1,
                        std::memory_order_release);
}

InlineSections::ScopedOperation::~ScopedOperation() {
  Slot& slot = OwnSlot();
  slot.operations.store(slot.operations.load(std::memory_order_relaxed) - 1,
                        std::memory_order_release);
}

}  // namespace plait
