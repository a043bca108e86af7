// ParallelFor on libgomp, or on a pool of std::thread.

#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "base/options.h"

#ifndef PLAIT_USE_OPENMP
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <vector>
#endif

namespace plait {
namespace {

thread_local int compute_threads = 1;

// The cores that a cgroup's quota allows, or a large number.
int CgroupCores() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) {
    return std::max(1, static_cast<int>(std::stod(quota) / period + 0.5));
  }
  std::ifstream q1("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream p1("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota1 = 0;
  if (q1 >> quota1 && p1 >> period && quota1 > 0 && period > 0) {
    return std::max(1, static_cast<int>(quota1 / period + 0.5));
  }
  return 1 << 20;
}

// Part i of `parts` nearly equal parts of [0, n).
int64_t Cut(int64_t n, int parts, int i) {
  return n / parts * i + std::min<int64_t>(i, n % parts);
}

class FirstException {
 public:
  template <typename F>
  void Run(F&& f) {
    try {
      f();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

int AvailableThreads() {
  static const int available = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = CPU_COUNT(&mask);
    cores = std::max(1, std::min(cores, CgroupCores()));
    const int64_t asked = GetOptionInt(Option::kThreads);
    return asked > 0 ? static_cast<int>(std::min<int64_t>(asked, 1024)) : cores;
  }();
  return available;
}

int ComputeThreads() {
  return compute_threads;
}

ScopedComputeThreads::ScopedComputeThreads(int threads) : before_(compute_threads) {
  compute_threads = std::max(1, threads);
}

ScopedComputeThreads::~ScopedComputeThreads() {
  compute_threads = before_;
}

namespace internal {

#ifdef PLAIT_USE_OPENMP

// libgomp's own entry points: clang 14 ignores the pragmas for this runtime.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace {

struct Region {
  int64_t n;
  RangeFn fn;
  void* context;
  FirstException failed;

  static void RunPart(void* data) {
    Region& region = *static_cast<Region*>(data);
    const int parts = omp_get_num_threads(), i = omp_get_thread_num();
    region.failed.Run([&] {
      const ScopedComputeThreads nested(1);
      region.fn(region.context, Cut(region.n, parts, i), Cut(region.n, parts, i + 1));
    });
  }
};

}  // namespace

void ParallelRanges(int64_t n, int threads, RangeFn fn, void* context) {
  Region region{n, fn, context, {}};
  GOMP_parallel(&Region::RunPart, &region, static_cast<unsigned>(threads), 0);
  region.failed.Rethrow();
}

#else

namespace {

// One helper thread of the calling thread's pool.
class Helper {
 public:
  Helper() : thread_([this] { Loop(); }) {}
  ~Helper() {
    Give(nullptr);
    thread_.join();
  }
  template <typename F>
  void Start(F& job) {
    Give(&job);
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !full_; });
  }

  struct Job {
    virtual void Run() = 0;
  };

 private:
  void Give(Job* job) {
    const std::lock_guard lock(mutex_);
    job_ = job;
    full_ = true;
    changed_.notify_all();
  }
  void Loop() {
    for (;;) {
      Job* job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return full_; });
        job = job_;
      }
      if (job == nullptr) return;
      job->Run();
      const std::lock_guard lock(mutex_);
      full_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Job* job_ = nullptr;
  bool full_ = false;
  std::thread thread_;
};

struct RangeJob final : Helper::Job {
  RangeFn fn;
  void* context;
  int64_t first, last;
  FirstException* failed;
  void Run() override {
    failed->Run([this] { fn(context, first, last); });
  }
};

// Helpers belong to the thread that masters them, and end with it. In a forked child
// they do not exist, and can be neither used nor destroyed.
class HelperPool {
 public:
  ~HelperPool() { ForgetAfterFork(); }
  std::vector<std::unique_ptr<Helper>>& AtLeast(int count) {
    ForgetAfterFork();
    while (static_cast<int>(helpers_.size()) < count) {
      helpers_.push_back(std::make_unique<Helper>());
    }
    return helpers_;
  }

 private:
  void ForgetAfterFork() {
    if (process_ == getpid()) return;
    process_ = getpid();
    static auto* const lost = new std::vector<Helper*>;
    for (auto& helper : helpers_) lost->push_back(helper.release());
    helpers_.clear();
  }

  pid_t process_ = getpid();
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace

void ParallelRanges(int64_t n, int threads, RangeFn fn, void* context) {
  thread_local HelperPool own;
  auto& pool = own.AtLeast(threads - 1);
  FirstException failed;
  std::vector<RangeJob> jobs(threads);
  for (int i = 0; i < threads; ++i) {
    jobs[i].fn = fn;
    jobs[i].context = context;
    jobs[i].first = Cut(n, threads, i);
    jobs[i].last = Cut(n, threads, i + 1);
    jobs[i].failed = &failed;
  }
  for (int i = 1; i < threads; ++i) pool[i - 1]->Start(jobs[i]);
  {
    const ScopedComputeThreads nested(1);
    jobs[0].Run();
  }
  for (int i = 1; i < threads; ++i) pool[i - 1]->Wait();
  failed.Rethrow();
}

#endif

}  // namespace internal
}  // namespace plait
