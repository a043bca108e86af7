// VarQueue: takes Vars for nodes, or lines the nodes up, and hands released Vars on.
//
// Every function wants the engine's mutex held. Invariant: under that mutex a Var has
// kQueued set exactly when its queue is not empty, and the head of a queue conflicts
// with those who hold the Var, or nobody holds it and Advance is about to be called.

#ifndef PLAIT_ENGINE_VAR_QUEUE_H_
#define PLAIT_ENGINE_VAR_QUEUE_H_

#include "engine/node.h"

namespace plait {

class VarQueue {
 public:
  // Takes every Var of the node that can be taken and queues the node at the others.
  // Returns true when it holds them all. A Var that `parents` may share (see Share) is
  // taken by `share`.
  template <typename F>
  static bool TakeAll(Node& node, F&& share) {
    node.outstanding = 0;
    for (Use& use : node) {
      if (!(!use.write && share(use)) && !Take(use)) ++node.outstanding;
    }
    node.state = node.outstanding == 0 ? Node::State::kReady : Node::State::kQueued;
    return node.outstanding == 0;
  }

  // One more reader of a Var that a running operation reads; the caller knows that it
  // does. The operation's own pushes belong before whatever is queued behind it.
  static void Share(Var& var) { var.state_.fetch_add(1, std::memory_order_acquire); }

  // Lets go of all Vars; nodes that now hold all of theirs are appended to `ready`.
  static void ReleaseAll(Node& node, NodeList& ready);

  // Grants a Var that nobody holds to the head of its queue. Does nothing when it is
  // held or has no queue (another thread came first).
  static void Advance(Var& var, NodeList& ready);

 private:
  static bool Take(Use& use);
};

}  // namespace plait

#endif  // PLAIT_ENGINE_VAR_QUEUE_H_
