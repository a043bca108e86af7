// InlineSections: which threads are between TryBegin and End, for forks to wait for
// them.
//
// A thread that vanishes in a forked child would hold its Vars, and the locks of the
// kernel that it runs, for ever.

#ifndef PLAIT_ENGINE_INLINE_SECTION_H_
#define PLAIT_ENGINE_INLINE_SECTION_H_

namespace plait {

class InlineSections {
 public:
  // Enters a section. False, with nothing entered, while sections are stopped; threads
  // that are in one already, or run an operation, may enter all the same: Stop waits
  // for the outermost section, and Pause for operations.
  static bool Enter();
  static void Leave();  // on the thread that entered

  // Stop asks all threads to enter no more, until as many calls of Go. Empty tells
  // whether no thread but the caller is in a section (inside an operation they do not
  // count); AwaitEmpty returns when that is so.
  static void Stop();
  static void Go();
  static bool Empty();
  static void AwaitEmpty();

  // In a forked child: sections of lost threads are gone, none are stopped.
  static void ResetInChild();

  // While it lives, this thread runs an operation.
  class ScopedOperation {
   public:
    ScopedOperation();
    ~ScopedOperation();
    ScopedOperation(const ScopedOperation&) = delete;
    ScopedOperation& operator=(const ScopedOperation&) = delete;
  };
};

}  // namespace plait

#endif  // PLAIT_ENGINE_INLINE_SECTION_H_
