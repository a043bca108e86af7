// Benchmark of Allocate and Free: prints `name|value|unit`.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "memory/storage.h"

namespace plait::memory {
namespace {

template <typename F>
double BestNanoseconds(int calls, F&& f) {
  double best = 1e30;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f();
    const std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / calls);
  }
  return best;
}

void Print(const char* name, size_t bytes, double value, const char* unit) {
  std::printf("memory/%s/%zu|%.1f|%s\n", name, bytes, value, unit);
}

// One block at a time, and 32 held at once; malloc's for comparison.
void Pairs(size_t bytes) {
  const int calls = bytes > (size_t{1} << 20) ? 20'000 : 200'000;
  const double one = BestNanoseconds(calls, [&] { Free({}, Allocate({}, bytes)); });
  Print("pair", bytes, one, "ns");
  Block held[32];
  const double many = BestNanoseconds(calls / 32, [&] {
    for (Block& block : held) block = Allocate({}, bytes);
    for (const Block& block : held) Free({}, block);
  });
  Print("pair_of_32_held", bytes, many / 32, "ns");
  const double system = BestNanoseconds(calls, [&] {
    void* volatile data = std::aligned_alloc(kAlignment, bytes);
    std::free(data);
  });
  Print("aligned_alloc", bytes, system, "ns");
}

// One thread allocates, another frees, as a caller and a lane do.
void AcrossThreads(size_t bytes) {
  constexpr int kBatch = 64, kRounds = 4'000;
  Block blocks[2][kBatch];
  std::atomic<int> filled = 0, emptied = 0;
  std::thread other([&] {
    for (int r = 0; r < kRounds; ++r) {
      while (filled.load(std::memory_order_acquire) <= r) std::this_thread::yield();
      for (const Block& block : blocks[r % 2]) Free({}, block);
      emptied.store(r + 1, std::memory_order_release);
    }
  });
  const auto start = std::chrono::steady_clock::now();
  for (int r = 0; r < kRounds; ++r) {
    while (emptied.load(std::memory_order_acquire) < r - 1) std::this_thread::yield();
    for (Block& block : blocks[r % 2]) block = Allocate({}, bytes);
    filled.store(r + 1, std::memory_order_release);
  }
  other.join();
  const std::chrono::duration<double, std::nano> time =
      std::chrono::steady_clock::now() - start;
  Print("freed_elsewhere", bytes, time.count() / (kRounds * kBatch), "ns");
}

// Filling a block: the first time, and once it comes from the pool.
void Fill(size_t bytes) {
  const auto fill = [&] {
    const Block block = Allocate({}, bytes);
    char* data = static_cast<char*>(block.data);
    for (size_t i = 0; i < bytes; i += 64) data[i] = 1;
    Free({}, block);
  };
  EmptyCache({});
  const auto start = std::chrono::steady_clock::now();
  fill();
  const std::chrono::duration<double, std::nano> time =
      std::chrono::steady_clock::now() - start;
  Print("first_fill", bytes, time.count() / 1e3, "us");
  Print("fill_again", bytes, BestNanoseconds(5, fill) / 1e3, "us");
}

int Main() {
  for (size_t bytes : {64, 4096, 32768, 65536, 1 << 20, 4 << 20}) Pairs(bytes);
  AcrossThreads(256);
  Fill(size_t{100} << 20);
  return 0;
}

}  // namespace
}  // namespace plait::memory

int main() {
  return plait::memory::Main();
}
