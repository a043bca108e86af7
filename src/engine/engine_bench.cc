// Benchmarks of the engine alone; prints `name|value|unit` lines.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// The median of some runs of f, which returns a figure.
template <typename F>
void Report(const char* name, const char* unit, F f) {
  std::vector<double> figures;
  for (int i = 0; i < 7; ++i) figures.push_back(f());
  std::sort(figures.begin(), figures.end());
  std::printf("%s|%.3f|%s\n", name, figures[figures.size() / 2], unit);
  std::fflush(stdout);
}

// Two reads and a write, begun and ended on the calling thread.
double InlinePushes(Engine& engine) {
  Var a, b, c;
  Var* const reads[] = {&a, &b};
  Var* const writes[] = {&c};
  constexpr int kCount = 1'000'000;
  const auto start = Clock::now();
  for (int i = 0; i < kCount; ++i) {
    if (engine.TryBegin(reads, writes)) engine.End(reads, writes);
  }
  return kCount / Seconds(start) * 1e-6;
}

// Pushes of which each writes the Var of the one before.
double DependentPushes(Engine& engine) {
  Var var;
  Var* const writes[] = {&var};
  constexpr int kCount = 200'000;
  int64_t done = 0;
  const auto start = Clock::now();
  for (int i = 0; i < kCount; ++i) {
    engine.Push(MakeOperation("count", [&done] { ++done; }), {}, writes);
  }
  engine.WaitAll();
  const double rate = kCount / Seconds(start) * 1e-6;
  return done == kCount ? rate : 0;
}

double IndependentPushes(Engine& engine) {
  std::vector<Var> vars(64);
  constexpr int kCount = 200'000;
  const auto start = Clock::now();
  for (int i = 0; i < kCount; ++i) {
    Var* const writes[] = {&vars[i % vars.size()]};
    engine.Push(MakeOperation("nothing", [] {}), {}, writes);
  }
  engine.WaitAll();
  return kCount / Seconds(start) * 1e-6;
}

// From a push to the end of the wait for it, microseconds; the worker sleeps or spins.
double RoundTrip(Engine& engine, std::chrono::microseconds pause) {
  Var var;
  Var* const writes[] = {&var};
  std::vector<double> trips;
  for (int i = 0; i < 300; ++i) {
    const auto until = Clock::now() + pause;
    while (Clock::now() < until) {
    }
    const auto start = Clock::now();
    engine.Push(MakeOperation("nothing", [] {}), {}, writes);
    engine.WaitToRead(var);
    trips.push_back(Seconds(start) * 1e6);
  }
  std::sort(trips.begin(), trips.end());
  return trips[trips.size() / 2];
}

void Run() {
  const auto threaded = MakeThreadedEngine();
  const auto serial = MakeSerialEngine();
  const char* const rate = "million/s";
  Report("inline_pushes", rate, [&] { return InlinePushes(*threaded); });
  Report("dependent_pushes", rate, [&] { return DependentPushes(*threaded); });
  Report("independent_pushes", rate, [&] { return IndependentPushes(*threaded); });
  Report("serial_dependent_pushes", rate, [&] { return DependentPushes(*serial); });
  using std::chrono::microseconds;
  Report("round_trip_worker_awake", "us",
         [&] { return RoundTrip(*threaded, microseconds(1)); });
  Report("round_trip_worker_asleep", "us",
         [&] { return RoundTrip(*threaded, microseconds(200)); });
}

}  // namespace
}  // namespace plait

int main() {
  plait::Run();
}
