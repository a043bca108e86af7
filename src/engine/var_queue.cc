// The queues of Vars.

#include "engine/var_queue.h"

namespace plait {

bool VarQueue::Take(Use& use) {
  std::atomic<uint32_t>& state = use.var->state_;
  uint32_t s = state.load(std::memory_order_relaxed);
  // Holders may come and go meanwhile, without the mutex, until kQueued is set.
  while ((s & Var::kQueued) == 0) {
    const bool free = use.write ? s == 0 : s < Var::kWriter;
    const uint32_t wanted = !free ? s | Var::kQueued : use.write ? Var::kWriter : s + 1;
    if (state.compare_exchange_weak(s, wanted, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      if (free) return true;
      break;
    }
  }
  use.next = nullptr;
  Var& var = *use.var;
  (var.queue_tail_ != nullptr ? var.queue_tail_->next : var.queue_head_) = &use;
  var.queue_tail_ = &use;
  return false;
}

void VarQueue::Advance(Var& var, NodeList& ready) {
  if (var.state_.load(std::memory_order_acquire) != Var::kQueued) return;
  Use* const first = var.queue_head_;
  Use* last = first;  // of those who get it now
  uint32_t holders = Var::kWriter;
  if (!first->write) {
    holders = 1;
    for (; last->next != nullptr && !last->next->write; last = last->next) ++holders;
  }
  Use* const rest = last->next;
  var.queue_head_ = rest;
  if (rest == nullptr) var.queue_tail_ = nullptr;
  // Nobody else changes the word while it is exactly kQueued.
  var.state_.store(rest != nullptr ? holders | Var::kQueued : holders,
                   std::memory_order_release);
  for (Use* use = first; use != rest;) {
    // A node that has become ready may be gone at once; read on first.
    Use* const next = use->next;
    Node* const node = use->node;
    if (--node->outstanding == 0) {
      node->state = Node::State::kReady;
      ready.Append(node);
    }
    use = next;
  }
}

void VarQueue::ReleaseAll(Node& node, NodeList& ready) {
  const bool wrote = node.op != nullptr;
  for (Use& use : node) {
    const bool queued = !use.write ? use.var->EndRead()
                        : wrote    ? use.var->EndWrite()
                                   : use.var->AbortWrite();
    if (queued) Advance(*use.var, ready);
  }
  node.state = Node::State::kReleased;
}

}  // namespace plait
