// AsyncOperation: an operation that is begun on a lane and ends by itself later.
//
// A transfer is one: a lane's worker begins it and is free for the next, so that many
// are under way on one thread. Its Vars stay held, and it counts as pending, until
// Finish.

#ifndef PLAIT_ENGINE_ASYNC_OPERATION_H_
#define PLAIT_ENGINE_ASYNC_OPERATION_H_

#include <condition_variable>
#include <exception>
#include <mutex>

#include "engine/engine.h"

namespace plait {

struct Node;
class EngineCore;

class AsyncOperation : public Operation {
 public:
  // Begins the work. After it has returned somebody must call Finish once, on any
  // thread, perhaps before it returns: `this` may be gone then. When it throws, nobody
  // calls Finish.
  virtual void Start() = 0;

  // Ends the operation, well or with an error. REQUIRES: the calling thread is not
  // itself in an operation. `this` is destroyed.
  void Finish(std::exception_ptr error = nullptr);

  // Where nothing may end later (SerialEngine): Start, and a wait for Finish.
  void Run() final;
  AsyncOperation* async() final { return this; }

 private:
  friend class EngineCore;

  EngineCore* engine_ = nullptr;  // null: Run waits
  Node* node_ = nullptr;
  int64_t start_ns_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;  // guarded by mutex_, as is the error
  std::exception_ptr error_;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_ASYNC_OPERATION_H_
