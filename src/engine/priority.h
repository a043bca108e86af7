// ScopedPriority: what is pushed in a scope is more urgent than it says.

#ifndef PLAIT_ENGINE_PRIORITY_H_
#define PLAIT_ENGINE_PRIORITY_H_

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

}  // namespace plait

#endif  // PLAIT_ENGINE_PRIORITY_H_
