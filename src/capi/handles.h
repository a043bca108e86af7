// What the pointers of plait.h point to, and how errors get out.

#ifndef PLAIT_CAPI_HANDLES_H_
#define PLAIT_CAPI_HANDLES_H_

#include <plait/plait.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "graph/symbol.h"
#include "ndarray/array_file.h"
#include "run/bind.h"
#include "train/optimizer.h"

struct plait_ndarray {
  plait::NDArray value;
};

struct plait_params {
  plait::NamedArrays content;
};

struct plait_symbol {
  explicit plait_symbol(plait::Symbol s) : value(std::move(s)) {}

  const plait::Symbol value;
  // Made when they are first asked for, and then kept.
  const std::vector<std::string>& Names(int what) const;
  const std::string& Json() const;

 private:
  mutable std::once_flag named_, written_;
  mutable std::vector<std::string> names_[3];
  mutable std::string json_;
};

struct plait_shapes {
  std::vector<plait::Shape> shapes[3];
};

struct plait_executor {
  std::unique_ptr<plait::Executor> value;
  // What it was bound with, for other shapes later.
  std::map<std::string, plait::Shape> shapes;
  plait::Gradients gradients;
};

struct plait_optimizer {
  plait::Updater value;
};

namespace plait::capi {

void SetLastError(const char* text) noexcept;
// What every front end does once.
void Start();

// Runs the body of a function of plait.h; returns its status.
template <typename Body>
int Guarded(Body&& body) noexcept {
  try {
    Start();
    body();
    return PLAIT_OK;
  } catch (const Error& e) {
    SetLastError(e.what());
    return PLAIT_VALUE_ERROR + static_cast<int>(e.kind());
  } catch (const std::bad_alloc&) {
    SetLastError("plait: the system has no memory left");
    return PLAIT_MEMORY_ERROR;
  } catch (const std::exception& e) {
    SetLastError(e.what());
  } catch (...) {
    SetLastError("plait: an unknown error");
  }
  return PLAIT_INTERNAL_ERROR;
}

// Throws where an argument is NULL.
template <typename T>
T& Need(T* pointer, const char* function, const char* argument) {
  Check(pointer != nullptr, function, ": ", argument,
        " is NULL; a pointer was expected");
  return *pointer;
}

// The same for `count` things.
template <typename T>
void NeedAll(T* pointers, int count, const char* function, const char* argument) {
  Check(count >= 0, function, ": the number of ", argument, " is ", count,
        "; 0 or more was expected");
  Check(count == 0 || pointers != nullptr, function, ": ", argument, " is NULL; ",
        count, " were expected");
}

// `count` texts, none of them NULL, as pairs.
SymbolAttrs AttrsFrom(int count, const char* const* keys, const char* const* values,
                      const char* function);
Shape ShapeFrom(const int64_t* sizes, int rank, bool may_be_unknown,
                const char* function);
// Checks a number that counts from 0.
void CheckIndex(int index, size_t count, const char* function, const char* what);
inline void CheckWhat(int what, int count, const char* function) {
  Check(what >= 0 && what < count, function, ": what is ", what, "; 0 to ", count - 1,
        " was expected");
}

plait_ndarray* NewArray(NDArray value);

}  // namespace plait::capi

#endif  // PLAIT_CAPI_HANDLES_H_
