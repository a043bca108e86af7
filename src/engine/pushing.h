// How a thread pushes: what it pushes in a scope is more urgent than it says, and
// whether it waits for room.

#ifndef PLAIT_ENGINE_PUSHING_H_
#define PLAIT_ENGINE_PUSHING_H_

namespace plait {

// Added to the priority of every operation that this thread pushes.
int& AddedPriority();

class ScopedPriority {
 public:
  explicit ScopedPriority(int more) : more_(more) { AddedPriority() += more_; }
  ~ScopedPriority() { AddedPriority() -= more_; }
  ScopedPriority(const ScopedPriority&) = delete;
  ScopedPriority& operator=(const ScopedPriority&) = delete;

 private:
  int more_;
};

// Whether this thread's pushes go on when too much is pending (see PLAIT_RUN_AHEAD).
// For threads that pending operations wait for.
bool& NeverWaitsForRoom();

}  // namespace plait

#endif  // PLAIT_ENGINE_PUSHING_H_
