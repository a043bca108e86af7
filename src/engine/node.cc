// Nodes: their uses, lists and reuse.

#include "engine/node.h"

#include <algorithm>

namespace plait {

UseList::UseList(VarSpan reads, VarSpan writes) {
  const size_t most = reads.size() + writes.size();
  if (most > kFew) many_ = std::make_unique<Use[]>(most);
  if (most <= 32) {
    AddSmall(writes, true);
    AddSmall(reads, false);
  } else {
    AddLarge(reads, writes);
  }
}

void UseList::Append(Var* var, bool write) {
  Use& use = data()[size_++];
  use.var = var;
  use.write = write;
}

void UseList::AddSmall(VarSpan vars, bool write) {
  for (Var* var : vars) {
    if (std::none_of(begin(), end(), [var](const Use& u) { return u.var == var; })) {
      Append(var, write);
    }
  }
}

void UseList::AddLarge(VarSpan reads, VarSpan writes) {
  for (Var* var : writes) Append(var, true);
  for (Var* var : reads) Append(var, false);
  // Of equal Vars the write stands first and stays.
  std::sort(begin(), end(), [](const Use& a, const Use& b) {
    return a.var != b.var ? std::less<Var*>()(a.var, b.var) : a.write > b.write;
  });
  Use* last = std::unique(begin(), end(),
                          [](const Use& a, const Use& b) { return a.var == b.var; });
  size_ = static_cast<size_t>(last - begin());
}

void Node::SetUses(UseList&& list) {
  use_count = list.size();
  many = std::move(list.many_);
  if (!many) std::copy(list.few_, list.few_ + use_count, few);
  for (Use& use : *this) use.node = this;
}

void NodeList::Append(Node* node) {
  node->next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = node;
  tail_ = node;
}

void NodeList::Append(NodeList list) {
  if (list.empty()) return;
  (tail_ != nullptr ? tail_->next : head_) = list.head_;
  tail_ = list.tail_;
}

Node* NodeList::Pop() {
  Node* node = head_;
  if (node != nullptr) {
    head_ = node->next;
    if (head_ == nullptr) tail_ = nullptr;
  }
  return node;
}

Node* NodePool::Get() {
  if (free_ == nullptr) {
    slabs_.push_back(std::make_unique<Node[]>(kSlab));
    for (int i = 0; i < kSlab; ++i) Put(&slabs_.back()[i]);
  }
  Node* node = free_;
  free_ = node->next;
  return node;
}

void NodePool::Put(Node* node) {
  node->waiter = nullptr;
  node->state = Node::State::kFree;
  node->orphan = false;
  node->bytes = 0;
  node->many.reset();
  node->use_count = 0;
  node->next = free_;
  free_ = node;
}

}  // namespace plait
