// ParallelFor: a loop on the threads this thread may use.
//
// Only an engine's compute worker may use more than one thread (it "masters" a pool);
// on every other thread a loop runs serially. So after fork() no pool is half alive,
// and a thread that holds a lock of the host language never waits for a team.
// The pool is libgomp's, the one oneDNN uses; with PLAIT_USE_OPENMP off it is a pool of
// std::thread (ThreadSanitizer cannot follow libgomp).

#ifndef PLAIT_BASE_PARALLEL_H_
#define PLAIT_BASE_PARALLEL_H_

#include <cstdint>
#include <type_traits>

namespace plait {

// Cores this process may use: the affinity mask, the cgroup quota, and PLAIT_THREADS.
int AvailableThreads();

// Threads that the calling thread may use now; 1 but on compute workers.
int ComputeThreads();

// Sets ComputeThreads() of the calling thread for its lifetime.
class ScopedComputeThreads {
 public:
  explicit ScopedComputeThreads(int threads);
  ~ScopedComputeThreads();
  ScopedComputeThreads(const ScopedComputeThreads&) = delete;
  ScopedComputeThreads& operator=(const ScopedComputeThreads&) = delete;

 private:
  int before_;
};

namespace internal {
using RangeFn = void (*)(void* context, int64_t first, int64_t last);
void ParallelRanges(int64_t n, int threads, RangeFn fn, void* context);
}  // namespace internal

// Calls f(first, last) on ranges that cover [0, n) once. A range has at least `grain`
// items unless n is smaller; results must not depend on how [0, n) is cut. An exception
// of f is passed on to the caller (one of them, when there are several).
template <typename F>
void ParallelFor(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int64_t most = grain <= 1 ? n : n / grain;
  const int threads = ComputeThreads();
  if (threads <= 1 || most <= 1) {
    f(int64_t{0}, n);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  internal::ParallelRanges(
      n, most < threads ? static_cast<int>(most) : threads,
      [](void* context, int64_t first, int64_t last) {
        (*static_cast<Fn*>(context))(first, last);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace plait

#endif  // PLAIT_BASE_PARALLEL_H_
