// What the tests of stores share: ranks as threads of one process.

#ifndef PLAIT_KVSTORE_TESTING_H_
#define PLAIT_KVSTORE_TESTING_H_

#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/testing.h"
#include "engine/engine.h"
#include "kvstore/exchange.h"
#include "kvstore/outbox.h"
#include "kvstore/transport.h"

namespace plait {

// Runs f(exchange) once for each rank, at the same time.
template <typename F>
void InRanks(int ranks, F&& f) {
  const auto world = MakeLocalWorld(ranks);
  std::barrier closed(ranks);
  std::vector<std::thread> threads;
  for (const auto& comm : world) {
    threads.emplace_back([&f, &comm, &closed] {
      Exchange exchange(*comm);
      f(exchange);
      exchange.Close();  // what f left behind fails from here on, and ends
      closed.arrive_and_wait();
      ErrorOf([] { Engine::Get().WaitAll(); });  // takes the errors of all ranks
    });
  }
  for (std::thread& t : threads) t.join();
}

// Until something of a sum has come to this rank, which has not begun it: rank 0 owns
// all of a barrier's.
inline void AwaitWordOfOthers(const Exchange& exchange) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (exchange.traffic().payload_received == 0) {
    Check(std::chrono::steady_clock::now() < last, "a test: no word of other ranks");
    std::this_thread::yield();
  }
}

}  // namespace plait

#endif  // PLAIT_KVSTORE_TESTING_H_
