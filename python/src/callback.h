// What code of the engine needs around a call of Python: the lock and the modes.

#ifndef PLAIT_PYTHON_CALLBACK_H_
#define PLAIT_PYTHON_CALLBACK_H_

#include <Python.h>

#include <utility>
#include <vector>

#include "convert.h"
#include "ndarray_type.h"
#include "run/push.h"
#include "run/tape.h"

namespace plait::python {

// Python's lock, from any thread.
class PythonLock {
 public:
  PythonLock() : state_(PyGILState_Ensure()) {}
  ~PythonLock() { PyGILState_Release(state_); }
  PythonLock(const PythonLock&) = delete;
  PythonLock& operator=(const PythonLock&) = delete;

 private:
  PyGILState_STATE state_;
};

// The modes of the thread while it runs a callback: not recording, and operators run
// under the callback's name.
class CallbackMode {
 public:
  CallbackMode(bool training, const char* scope)
      : recording_(std::exchange(Recording(), false)),
        training_(std::exchange(Training(), training)),
        layer_(std::exchange(CurrentLayer(), scope)) {}
  ~CallbackMode() {
    Recording() = recording_;
    Training() = training_;
    CurrentLayer() = layer_;
  }
  CallbackMode(const CallbackMode&) = delete;
  CallbackMode& operator=(const CallbackMode&) = delete;

 private:
  bool recording_, training_;
  const char* layer_;
};

// A list of Python's arrays; null where there is none stands as None.
Owned ListOf(std::span<const NDArray> arrays);

// Runs call() under the lock, then waits for what it left under way with the arrays.
// Throws what the call or the waits threw. `in` was only read.
template <typename F>
void RunCallback(bool training, const char* scope, std::span<const NDArray> in,
                 std::span<const NDArray> out, F&& call) {
  const PythonLock lock;
  const CallbackMode mode(training, scope);
  std::exception_ptr error;
  try {
    call();
  } catch (const PythonError&) {
    error = TakePythonError();
  } catch (...) {
    error = std::current_exception();
  }
  // Both free Python's lock while they wait.
  for (const NDArray& x : in) {
    if (x) x.WaitToWrite();
  }
  for (const NDArray& x : out) {
    try {
      x.WaitToRead();
      x.WaitToWrite();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace plait::python

#endif  // PLAIT_PYTHON_CALLBACK_H_
