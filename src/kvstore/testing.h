// What the tests of stores share: ranks as threads of one process.

#ifndef PLAIT_KVSTORE_TESTING_H_
#define PLAIT_KVSTORE_TESTING_H_

#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/testing.h"
#include "engine/engine.h"
#include "kvstore/exchange.h"
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

}  // namespace plait

#endif  // PLAIT_KVSTORE_TESTING_H_
