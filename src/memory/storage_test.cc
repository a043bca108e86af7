// Tests of Storage: blocks, statistics, bounds and the hard limit.

#include "memory/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "memory/pool.h"

namespace plait::memory {
namespace {

constexpr Device kCpu;
constexpr size_t kMiB = size_t{1} << 20;

// Other tests of the process may hold blocks: numbers are taken relative to the start.
class Storage : public testing::Test {
 protected:
  Storage() {
    EmptyCache(kCpu);
    ResetPeak(kCpu);
    before_ = GetStats(kCpu);
  }
  ~Storage() override { SetLimit(kCpu, 0); }
  size_t Live() { return GetStats(kCpu).live - before_.live; }
  size_t Peak() { return GetStats(kCpu).peak - before_.live; }
  size_t Cached() { return GetStats(kCpu).reserved - GetStats(kCpu).live; }

  Stats before_;
};

std::string ErrorOf(Device device, size_t bytes, ErrorKind kind) {
  try {
    Free(device, Allocate(device, bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << bytes << " bytes were allocated";
  return "";
}

TEST_F(Storage, BlocksAreAlignedAndReadableToTheNextMultiple) {
  std::vector<Block> blocks;
  for (size_t bytes = 1; bytes < 5 * kMiB; bytes = bytes * 3 / 2 + 1) {
    blocks.push_back(Allocate(kCpu, bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % kAlignment, 0u);
    EXPECT_GE(blocks.back().capacity,
              (bytes + kAlignment - 1) / kAlignment * kAlignment);
    std::memset(blocks.back().data, 1, blocks.back().capacity);
  }
  for (const Block& block : blocks) Free(kCpu, block);
  EXPECT_EQ(Live(), 0u);
}

TEST_F(Storage, ZeroBytesAreNoBlock) {
  const Block block = Allocate(kCpu, 0);
  EXPECT_EQ(block.data, nullptr);
  EXPECT_EQ(block.capacity, 0u);
  Free(kCpu, block);
  EXPECT_EQ(GetStats(kCpu).allocations, before_.allocations);
}

TEST_F(Storage, DevicesWithoutMemoryHereAreRefused) {
  const Device gpu{DeviceType::kGpu, 1};
  const std::string text = "memory: gpu(1) is not available in this build; cpu(0) is";
  EXPECT_EQ(ErrorOf(gpu, 8, ErrorKind::kNotImplemented), text);
  EXPECT_EQ(ErrorOf(gpu, 0, ErrorKind::kNotImplemented), text);
  EXPECT_EQ(ErrorOf(gpu, kMiB, ErrorKind::kNotImplemented), text);
  EXPECT_THROW(GetStats(gpu), Error);
  EXPECT_THROW(SetLimit(gpu, 1), Error);
  EmptyCache(gpu);
}

TEST_F(Storage, AllCpuDevicesShareOnePool) {
  const Device pinned{DeviceType::kCpuPinned, 0}, second{DeviceType::kCpu, 1};
  const Block block = Allocate(pinned, 128);
  EXPECT_EQ(GetStats(second).live - before_.live, 128u);
  Free(second, block);
  EXPECT_EQ(Live(), 0u);
}

TEST_F(Storage, StatisticsOfLargeBlocksAreExact) {
  const Block a = Allocate(kCpu, 1 * kMiB), b = Allocate(kCpu, 2 * kMiB);
  Free(kCpu, a);
  const Block c = Allocate(kCpu, 64 << 10);
  EXPECT_EQ(Live(), 2 * kMiB + (64 << 10));
  EXPECT_EQ(Peak(), 3 * kMiB);
  ResetPeak(kCpu);
  EXPECT_EQ(Peak(), Live());
  Free(kCpu, b);
  Free(kCpu, c);
  EXPECT_EQ(Live(), 0u);
  EXPECT_EQ(Peak(), 2 * kMiB + (64 << 10));
  EXPECT_EQ(GetStats(kCpu).allocations - before_.allocations, 3u);
}

TEST_F(Storage, SmallBlocksOfManyThreadsAreCountedExactly) {
  std::vector<std::vector<Block>> held(4);
  std::vector<std::thread> threads;
  for (auto& mine : held) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 1000; ++i) {
        mine.push_back(Allocate(kCpu, 640));
        Free(kCpu, Allocate(kCpu, 64));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Live(), 4u * 1000 * 640);
  EXPECT_EQ(GetStats(kCpu).allocations - before_.allocations, 8000u);
  EXPECT_GE(Peak(), Live());
  EXPECT_LE(Peak(), 4u * (1000 * 640 + 64));
  for (const auto& mine : held) {
    for (const Block& block : mine) Free(kCpu, block);
  }
  EXPECT_EQ(Live(), 0u);
}

TEST_F(Storage, PeakOfSmallBlocksIsRightWithinTheCaches) {
  std::vector<Block> held;
  size_t most = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100 * (round % 7); ++i) held.push_back(Allocate(kCpu, 1024));
    most = std::max(most, held.size() * 1024);
    for (; !held.empty(); held.pop_back()) Free(kCpu, held.back());
  }
  EXPECT_LE(Peak(), most);
  EXPECT_GE(Peak() + (kPooled ? kCacheBytesMax : 0), most);
}

TEST_F(Storage, EmptyCacheGivesEverythingBack) {
  const Block large = Allocate(kCpu, 100 * kMiB), kept = Allocate(kCpu, 3 * kMiB);
  std::vector<Block> small;
  for (size_t bytes = 64; bytes < kMiB; bytes += 4096) {
    small.push_back(Allocate(kCpu, bytes));
  }
  for (const Block& block : small) Free(kCpu, block);
  Free(kCpu, large);
  if (kPooled) {
    EXPECT_GE(Cached(), 100 * kMiB);
  }
  EmptyCache(kCpu);
  EXPECT_EQ(Cached(), 0u);
  EXPECT_EQ(Live(), kept.capacity);
  std::memset(kept.data, 1, kept.capacity);
  Free(kCpu, kept);
}

TEST_F(Storage, AFreedBlockIsUsedAgain) {
  if (!kPooled) GTEST_SKIP() << "no pool under AddressSanitizer";
  for (size_t bytes : {size_t{100}, size_t{5000}, size_t{50'000}, 50 * kMiB}) {
    const Block first = Allocate(kCpu, bytes);
    Free(kCpu, first);
    const Block again = Allocate(kCpu, bytes);
    EXPECT_EQ(first.data, again.data);
    Free(kCpu, again);
  }
}

TEST_F(Storage, ALimitRaisesAndChangesNothing) {
  const Block held = Allocate(kCpu, 1000);  // 1024 bytes of its class
  const std::string live = std::to_string(GetStats(kCpu).live);
  const size_t limit = GetStats(kCpu).live + 10'000;
  SetLimit(kCpu, limit);
  EXPECT_EQ(GetStats(kCpu).limit, limit);
  EXPECT_EQ(ErrorOf(kCpu, 400'000'000, ErrorKind::kMemory).substr(0, 9), "memory: 4");
  EXPECT_EQ(ErrorOf(kCpu, 16'384, ErrorKind::kMemory),
            "memory: 16384 bytes on cpu(0) do not fit: " + live +
                " live of a limit of " + std::to_string(limit) +
                "; free arrays, or raise the limit");
  EXPECT_EQ(Live(), held.capacity);
  Free(kCpu, Allocate(kCpu, 8'000));
  const Block fits = Allocate(kCpu, 8'192);
  EXPECT_THROW(Allocate(kCpu, 8'192), Error);
  Free(kCpu, fits);
  SetLimit(kCpu, 0);
  Free(kCpu, Allocate(kCpu, 8 * kMiB));
  Free(kCpu, held);
}

TEST_F(Storage, ALimitCountsWhatIsReserved) {
  SetLimit(kCpu, before_.live + 10 * kMiB);
  for (int round = 0; round < 50; ++round) {
    // Each kind alone fits only when the others' cached blocks go back.
    Free(kCpu, Allocate(kCpu, 9 * kMiB));
    std::vector<Block> medium, small;
    for (int i = 0; i < 9; ++i) medium.push_back(Allocate(kCpu, kMiB));
    for (const Block& block : medium) Free(kCpu, block);
    for (int i = 0; i < 9000; ++i) small.push_back(Allocate(kCpu, 1024));
    for (const Block& block : small) Free(kCpu, block);
    ASSERT_LE(GetStats(kCpu).reserved, before_.live + 10 * kMiB);
  }
  EXPECT_THROW(Allocate(kCpu, 11 * kMiB), Error);
}

TEST_F(Storage, ALowerLimitEmptiesTheCache) {
  const Block held = Allocate(kCpu, 2 * kMiB);
  Free(kCpu, Allocate(kCpu, 20 * kMiB));
  SetLimit(kCpu, before_.live + kMiB);
  EXPECT_EQ(Cached(), 0u);
  EXPECT_EQ(Live(), 2 * kMiB);
  EXPECT_THROW(Allocate(kCpu, 64), Error);
  Free(kCpu, held);
  Free(kCpu, Allocate(kCpu, 64));
}

TEST_F(Storage, AbsurdSizesRaiseAndKeepTheCache) {
  Free(kCpu, Allocate(kCpu, 10 * kMiB));
  const size_t cached = Cached();
  for (size_t bytes : {size_t{4} << 42, size_t{1} << 60, (size_t{1} << 60) + 1,
                       size_t{1} << 62, SIZE_MAX - 63, SIZE_MAX}) {
    const std::string text = ErrorOf(kCpu, bytes, ErrorKind::kMemory);
    EXPECT_EQ(text.find("memory: " + std::to_string(bytes) + " bytes on cpu(0)"), 0u);
    EXPECT_NE(text.find("that the system has; free arrays"), std::string::npos);
  }
  EXPECT_EQ(Cached(), cached);
  EXPECT_EQ(Live(), 0u);
  Free(kCpu, Allocate(kCpu, 12));
}

TEST_F(Storage, RandomLengthsStayWithinHalfMoreThanTheLargestLiveSet) {
  std::mt19937 random(3);
  const auto bytes = [&] { return (1 + random() % 4096) * size_t{1024}; };
  size_t reserved = 0, largest = 0;
  for (int step = 0; step < 2000; ++step) {
    const Block block = Allocate(kCpu, bytes());
    largest = std::max(largest, block.capacity);
    reserved = std::max(reserved, GetStats(kCpu).reserved);
    Free(kCpu, block);
  }
  EXPECT_LE(reserved - before_.reserved, largest + largest / 2);

  std::vector<Block> ring(8);
  size_t calls = 0;
  reserved = 0;
  for (int step = 0; step < 2000; ++step, ++calls) {
    Block& block = ring[random() % ring.size()];
    Free(kCpu, block);
    block = Allocate(kCpu, bytes());
    reserved = std::max(reserved, GetStats(kCpu).reserved);
  }
  EXPECT_LE(reserved - before_.reserved, Peak() + Peak() / 2);
  for (const Block& block : ring) Free(kCpu, block);
}

TEST_F(Storage, DISABLED_PrintLimit) {
  std::printf("limit=%zu\n", GetStats(kCpu).limit);
}

TEST_F(Storage, TheLimitAtStartComesFromTheOption) {
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  const std::string command =
      std::string("PLAIT_MEMORY_LIMIT=123456789 '") + self +
      "' --gtest_also_run_disabled_tests --gtest_filter=Storage.DISABLED_PrintLimit";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) output += part;
  EXPECT_EQ(pclose(pipe), 0) << output;
  EXPECT_NE(output.find("limit=123456789"), std::string::npos) << output;
}

}  // namespace
}  // namespace plait::memory
