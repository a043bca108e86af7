// Error and Check: the one way in which Plait says that something is wrong.
//
// Form of a message: `<operator>: <what is wrong, with the values got>; <what was
// expected>`, lower case, no full stop. Front ends map the kind to their own classes.

#ifndef PLAIT_BASE_ERROR_H_
#define PLAIT_BASE_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace plait {

enum class ErrorKind {
  kValue,           // a value or a shape that does not fit: Python's ValueError
  kType,            // a dtype or a type that does not fit: TypeError
  kIndex,           // an index out of range: IndexError
  kMemory,          // out of memory, recoverable: MemoryError
  kRuntime,         // the state does not allow this now: RuntimeError
  kNotImplemented,  // known, but not there (yet): NotImplementedError
  kIo,              // a file or a connection: OSError
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text)
      : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error with the parts printed one after the other.
template <typename... Parts>
[[noreturn]] [[gnu::noinline]] [[gnu::cold]] void Fail(ErrorKind kind,
                                                       const Parts&... parts) {
  std::ostringstream text;
  text << std::boolalpha;
  (text << ... << parts);
  throw Error(kind, text.str());
}

// The parts are printed only when the condition fails.
template <typename... Parts>
inline void Check(bool condition, ErrorKind kind, const Parts&... parts) {
  if (!condition) [[unlikely]]
    Fail(kind, parts...);
}

template <typename First, typename... Parts>
inline void Check(bool condition, const First& first, const Parts&... parts) {
  if (!condition) [[unlikely]]
    Fail(ErrorKind::kValue, first, parts...);
}

}  // namespace plait

// For our own mistakes only; nothing a user can do may reach it.
#ifdef NDEBUG
#define PLAIT_DCHECK(condition) ((void)0)
#else
#define PLAIT_DCHECK(condition) \
  ::plait::Check(condition, ::plait::ErrorKind::kRuntime, "internal: " #condition)
#endif

#endif  // PLAIT_BASE_ERROR_H_
