// Tests of how ranks agree on wires; they are threads of this process.

#include "kvstore/wire/meet_wires.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace plait {
namespace {

// MeetWires of `size` ranks; rank r is watched where watched[r] is.
std::vector<std::unique_ptr<Wires>> Met(const std::vector<bool>& watched) {
  const int size = static_cast<int>(watched.size());
  std::barrier<> all_here(size);
  std::string all;
  std::vector<std::unique_ptr<Wires>> met(watched.size());
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&, r] {
      met[r] = MeetWires(r, size, watched[r],
                         [&, r](const void* mine, size_t bytes, void* result) {
                           if (r == 0) all.resize(bytes * watched.size());
                           all_here.arrive_and_wait();
                           std::memcpy(all.data() + bytes * r, mine, bytes);
                           all_here.arrive_and_wait();
                           std::memcpy(result, all.data(), all.size());
                           all_here.arrive_and_wait();
                         });
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return met;
}

TEST(MeetWires, RanksOfOneMachineReachEachOther) {
  const std::vector<std::unique_ptr<Wires>> met = Met({true, true, true});
  // Where the system forbids reads of memory nobody has wires.
  for (const auto& wires : met) ASSERT_EQ(wires == nullptr, met[0] == nullptr);
  if (met[0] == nullptr) GTEST_SKIP() << "reads of memory are forbidden";
  const std::string text(100000, 'x');
  for (int from = 0; from < 3; ++from) {
    const int to = (from + 1) % 3;
    std::string got(text.size(), ' ');
    const auto receive = met[to]->Receive(from, 1, got.data(), got.size());
    const auto send = met[from]->Send(to, 1, text.data(), text.size());
    while (!met[to]->Test(*receive, nullptr)) met[from]->Probe(9);
    while (!met[from]->Test(*send, nullptr)) met[to]->Probe(9);
    EXPECT_EQ(got, text);
  }
}

TEST(MeetWires, OneThatIsNotWatchedKeepsAllFromIt) {
  for (const auto& wires : Met({true, false})) EXPECT_EQ(wires, nullptr);
}

}  // namespace
}  // namespace plait
