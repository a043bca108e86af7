// Node: a pushed operation, or a thread that waits, with the Vars it uses.

#ifndef PLAIT_ENGINE_NODE_H_
#define PLAIT_ENGINE_NODE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace plait {

struct Node;

// One Var of a node, and the node's place in the queue of that Var.
struct Use {
  Var* var = nullptr;
  Node* node = nullptr;
  Use* next = nullptr;
  bool write = false;
};

// The uses of a push, each Var once: writes first, and a Var that is read and written
// counts as written. Small ones need no allocation.
class UseList {
 public:
  UseList(VarSpan reads, VarSpan writes);
  UseList(Var& var, bool write) { Append(&var, write); }
  Use* begin() { return data(); }
  Use* end() { return data() + size_; }
  size_t size() const { return size_; }

  static constexpr size_t kFew = 6;

 private:
  friend struct Node;
  Use* data() { return many_ ? many_.get() : few_; }
  void Append(Var* var, bool write);
  void AddSmall(VarSpan vars, bool write);
  void AddLarge(VarSpan reads, VarSpan writes);

  size_t size_ = 0;
  Use few_[kFew];
  std::unique_ptr<Use[]> many_;
};

// A sleeping thread; lives on its stack.
struct Waiter {
  bool granted = false;
  std::condition_variable cv;
};

// All fields belong to the engine's mutex, but for those of an operation that runs:
// they belong to the thread that runs it.
struct Node {
  enum class State : uint8_t {
    kFree,
    kQueued,   // some Vars are not granted yet
    kReady,    // all Vars are held; waits for a worker, or for its waiter to wake up
    kRunning,  // in Run or Abandon
    kReleased  // the Vars are free again, the operation not yet destroyed
  };

  void SetUses(UseList&& list);
  Use* begin() { return many ? many.get() : few; }
  Use* end() { return begin() + use_count; }

  std::unique_ptr<Operation> op;  // null: only holds its Vars
  Waiter* waiter = nullptr;       // is told when all is granted; runs the operation
  State state = State::kFree;
  bool orphan = false;  // lost its thread in a fork: fails instead of running
  Lane lane = Lane::kCompute;
  int priority = 0;
  uint32_t outstanding = 0;  // Vars not granted yet
  uint64_t order = 0;        // of pushes
  int64_t bytes = 0;
  std::atomic<int64_t>* epoch = nullptr;         // counts it until it is destroyed
  std::shared_ptr<std::atomic<int64_t>> parent;  // the same, for the pushing operation
  Node* next = nullptr;                          // in a NodeList or the free list

  size_t use_count = 0;
  Use few[UseList::kFew];
  std::unique_ptr<Use[]> many;
};

// A queue of nodes, through Node::next.
class NodeList {
 public:
  void Append(Node* node);
  void Append(NodeList list);
  Node* Pop();  // null when empty
  bool empty() const { return head_ == nullptr; }

 private:
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

// Nodes are used again; their memory is kept until the engine is destroyed.
class NodePool {
 public:
  Node* Get();
  void Put(Node* node);
  template <typename F>
  void ForEach(F&& f) {
    for (auto& slab : slabs_) {
      for (int i = 0; i < kSlab; ++i) f(slab[i]);
    }
  }

 private:
  static constexpr int kSlab = 64;
  std::vector<std::unique_ptr<Node[]>> slabs_;
  Node* free_ = nullptr;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_NODE_H_
