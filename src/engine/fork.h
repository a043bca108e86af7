// ForkAware: an object that is told when the process forks.

#ifndef PLAIT_ENGINE_FORK_H_
#define PLAIT_ENGINE_FORK_H_

namespace plait {

// The three are called on the thread that forks, in the order of registration
// (BeforeFork in the opposite order). Nothing is registered or removed meanwhile.
class ForkAware {
 public:
  // Brings locks and data into a state that the child can start from. May wait.
  virtual void BeforeFork() = 0;
  virtual void AfterForkInParent() = 0;
  // No other thread exists: what waiters and workers left behind must be made anew.
  virtual void AfterForkInChild() = 0;

 protected:
  ~ForkAware() = default;
};

void RegisterForFork(ForkAware* object);
void UnregisterForFork(ForkAware* object);

}  // namespace plait

#endif  // PLAIT_ENGINE_FORK_H_
