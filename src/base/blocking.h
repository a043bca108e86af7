// ScopedBlocking: marks a stretch in which the calling thread may wait for another.
//
// A host language with a global lock (Python) registers hooks that release it on entry
// and take it again on exit, so that the thread waited for can run its callbacks.

#ifndef PLAIT_BASE_BLOCKING_H_
#define PLAIT_BASE_BLOCKING_H_

namespace plait {

struct BlockingHooks {
  void* (*enter)() = nullptr;  // returns a token for leave, or nullptr
  void (*leave)(void*) = nullptr;
};

// Not inline: a front end in a library of its own must reach the same hooks.
BlockingHooks& GlobalBlockingHooks();

class ScopedBlocking {
 public:
  ScopedBlocking() {
    const BlockingHooks& hooks = GlobalBlockingHooks();
    if (hooks.enter != nullptr) token_ = hooks.enter();
  }
  ~ScopedBlocking() {
    if (token_ != nullptr) GlobalBlockingHooks().leave(token_);
  }
  ScopedBlocking(const ScopedBlocking&) = delete;
  ScopedBlocking& operator=(const ScopedBlocking&) = delete;

 private:
  void* token_ = nullptr;
};

}  // namespace plait

#endif  // PLAIT_BASE_BLOCKING_H_
