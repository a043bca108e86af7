// Measured choices: which way to compute a convolution is the fastest on this machine.
//
// PLAIT_CONV=measure times the ways that there are for a problem when it comes for the
// first time, and remembers the fastest; so a problem is computed in one way as long as
// the program runs. PLAIT_CONV=measure:FILE reads earlier choices from FILE and writes
// new ones to it; with that file another run makes the same choices. The memory is
// bounded: problems beyond it are left to the rules. Thread safety: any thread.

#ifndef PLAIT_CPU_CONV_MEMORY_H_
#define PLAIT_CPU_CONV_MEMORY_H_

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "cpu/conv.h"

namespace plait::cpu {

class ConvMemory {
 public:
  static constexpr size_t kMost = 10000;  // choices

  // Reads the file if there is one; an empty path: nothing is read or saved. Throws
  // kValue where the file is not one of ours, kIo where it cannot be read.
  explicit ConvMemory(std::string path);

  // The name noted for a key, or nothing.
  std::string Find(const std::string& key) const;
  // The name that holds from now on: the one noted before, if another thread was
  // earlier. It is saved; a file that cannot be written is an error (kIo).
  std::string Note(const std::string& key, const std::string& name);
  bool full() const;

 private:
  void Read();
  void Save() const;

  const std::string path_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> choices_;
};

// A problem with a pass, a layout and the number of threads, as one word.
std::string ConvKey(const ConvProblem& p, ConvPass pass, const char* layout,
                    int threads);

// Index of the way among `names` that the memory has for a problem. Where it has none,
// `measure` says it, run with the compute threads of a worker; 0, the rules' way, where
// the memory is full.
size_t Remembered(const ConvProblem& p, ConvPass pass, const char* layout,
                  std::span<const char* const> names,
                  const std::function<size_t()>& measure);

// The fastest of `count` ways by a few runs of each, the first if it is as good.
size_t Fastest(size_t count, const std::function<void(size_t)>& run);

// Samples of a problem that suffice to measure it: its batch, or less where arrays
// would be large.
int64_t MeasuredBatch(const ConvProblem& p);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_CONV_MEMORY_H_
