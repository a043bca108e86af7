// Tests of size classes and of the heap of free spans.

#include "memory/span_heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "memory/size_class.h"
#include "memory/system.h"

namespace plait::memory {
namespace {

constexpr size_t kPage = kPageBytes;

TEST(SizeClass, HoldsTheRequestWithLittleWaste) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const size_t bytes = 1 + random() % (size_t{1} << (1 + random() % 60));
    const size_t capacity = ClassBytes(bytes);
    ASSERT_GE(capacity, bytes);
    ASSERT_EQ(capacity % 64, 0u);
    ASSERT_EQ(ClassBytes(capacity), capacity) << bytes;
    if (bytes > 512) {
      ASSERT_LE(capacity - bytes, bytes / 8) << bytes;
    }
    if (bytes > kMediumMax) {
      ASSERT_LE(capacity - bytes, bytes / 32) << bytes;
    }
    if (bytes > kSmallMax) {
      ASSERT_EQ(capacity % kPage, 0u) << bytes;
    }
  }
}

TEST(SizeClass, NumbersSmallClassesInOrder) {
  int last = -1;
  for (size_t bytes = 1; bytes <= kSmallMax; ++bytes) {
    const int c = SmallClass(bytes);
    ASSERT_TRUE(c == last || c == last + 1) << bytes;
    ASSERT_EQ(SmallClassBytes(c), ClassBytes(bytes)) << bytes;
    last = c;
  }
  EXPECT_EQ(last, kSmallClasses - 1);
}

// A heap over one mapping of n pages, which goes back at the end.
class SpanHeapTest : public testing::Test {
 protected:
  SpanHeapTest() : start_(static_cast<char*>(MapPages(kPages * kPage))) {
    heap_.Give(start_, kPages * kPage);
  }
  ~SpanHeapTest() override { UnmapPages(start_, kPages * kPage); }

  static constexpr size_t kPages = 3 * kHugePageBytes / kPageBytes;
  char* start_;
  SpanHeap heap_;
};

TEST_F(SpanHeapTest, SplitsASpanAndMergesItAgain) {
  void* a = heap_.Take(3 * kPage);
  void* b = heap_.Take(5 * kPage);
  void* c = heap_.Take(2 * kPage);
  EXPECT_EQ(a, start_);
  EXPECT_EQ(b, start_ + 3 * kPage);
  EXPECT_EQ(heap_.free_bytes(), (kPages - 10) * kPage);
  heap_.Give(a, 3 * kPage);
  heap_.Give(c, 2 * kPage);
  heap_.Give(b, 5 * kPage);  // joins both neighbours
  EXPECT_EQ(heap_.Take(kPages * kPage), start_);
  EXPECT_EQ(heap_.free_bytes(), 0u);
  EXPECT_EQ(heap_.Take(kPage), nullptr);
  heap_.Give(start_, kPages * kPage);
}

TEST_F(SpanHeapTest, TakesTheSmallestSpanThatFits) {
  char* a = static_cast<char*>(heap_.Take(8 * kPage));
  heap_.Take(kPage);
  char* b = static_cast<char*>(heap_.Take(4 * kPage));
  heap_.Take(kPage);
  heap_.Give(a, 8 * kPage);
  heap_.Give(b, 4 * kPage);
  EXPECT_EQ(heap_.Take(3 * kPage), b);
  EXPECT_EQ(heap_.Take(5 * kPage), a);
}

TEST_F(SpanHeapTest, ReleasesTheSpanThatWasIdleLongest) {
  char* a = static_cast<char*>(heap_.Take(4 * kPage));
  heap_.Take(kPage);
  char* b = static_cast<char*>(heap_.Take(4 * kPage));
  while (heap_.Take(kPage) != nullptr) {
  }
  heap_.Give(b, 4 * kPage);
  heap_.Give(a, 4 * kPage);
  EXPECT_EQ(heap_.Release(1), 4 * kPage);
  EXPECT_EQ(heap_.Take(4 * kPage), a);
  EXPECT_EQ(heap_.Take(kPage), nullptr);
}

TEST_F(SpanHeapTest, ReleasesOnlyTheEndOfALongSpan) {
  EXPECT_EQ(heap_.Release(kPage), kHugePageBytes);
  EXPECT_EQ(heap_.free_bytes(), 2 * kHugePageBytes);
  start_[0] = 1;  // still mapped
  EXPECT_EQ(heap_.Release(size_t{1} << 40), 2 * kHugePageBytes);
  EXPECT_EQ(heap_.free_bytes(), 0u);
  EXPECT_EQ(heap_.Release(1), 0u);
}

TEST_F(SpanHeapTest, NeverHandsOutAPageTwice) {
  std::mt19937 random(2);
  std::map<char*, size_t> taken;
  size_t bytes = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const size_t size = (1 + random() % 64) * kPage;
      char* p = static_cast<char*>(heap_.Take(size));
      if (p == nullptr) continue;
      const auto next = taken.lower_bound(p);
      ASSERT_TRUE(next == taken.end() || p + size <= next->first);
      if (next != taken.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, p);
      }
      taken.emplace(p, size);
      bytes += size;
    } else if (!taken.empty()) {
      auto it = taken.lower_bound(start_ + random() % (kPages * kPage));
      if (it == taken.end()) it = taken.begin();
      bytes -= it->second;
      heap_.Give(it->first, it->second);
      taken.erase(it);
    }
    ASSERT_EQ(heap_.free_bytes() + bytes, kPages * kPage);
  }
}

TEST(System, HugeRegionsAreAligned) {
  for (size_t bytes : {kHugePageBytes, 3 * kHugePageBytes, kHugePageBytes + kPage}) {
    void* p = MapPages(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % kHugePageBytes, 0u);
    std::memset(p, 1, bytes);
    EXPECT_TRUE(UnmapPages(p, bytes));
  }
  EXPECT_EQ(MapPages(size_t{1} << 60), nullptr);
  EXPECT_GT(SystemBytes(), size_t{1} << 26);
}

}  // namespace
}  // namespace plait::memory
