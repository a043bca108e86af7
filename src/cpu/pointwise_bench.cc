// Times of pointwise programs and reductions; prints name|value|unit.
//
// Usage: pointwise_bench [--cpu] [part of a name]
// --cpu: the calling thread's processor time, for a machine that does other work too.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"

namespace plait::cpu {
namespace {

constexpr PointwiseArg In(int i) {
  return {PointwiseArg::kInput, static_cast<uint8_t>(i)};
}
constexpr PointwiseArg Const(int i) {
  return {PointwiseArg::kConstant, static_cast<uint8_t>(i)};
}
constexpr PointwiseArg Step(int i) {
  return {PointwiseArg::kStep, static_cast<uint8_t>(i)};
}

std::string g_filter;
bool g_cpu_time = false;

// Nanoseconds, of the clock on the wall or of this thread's time on a processor.
double Now() {
  timespec t;
  clock_gettime(g_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

// The best of many short runs, in nanoseconds a call: other work on the machine can
// only add to a time.
template <typename F>
double Time(F&& f) {
  const auto once = [&](int64_t n) {
    const double start = Now();
    for (int64_t i = 0; i < n; ++i) f();
    return (Now() - start) / n;
  };
  double best = once(1);
  for (int i = 0; i < 3; ++i) best = std::min(best, once(1));
  constexpr double kBlock = 2e5, kAll = 1e8;
  const int64_t n = std::max<int64_t>(1, static_cast<int64_t>(kBlock / best));
  double all = 0;
  for (int i = 0; i < 500 && all < kAll; ++i) {
    const double time = once(n);
    all += time * n;
    best = std::min(best, time);
  }
  return best;
}

template <typename F>
void Report(const std::string& name, double divisor, const char* unit, F&& f) {
  if (name.find(g_filter) == std::string::npos) return;
  std::printf("%s|%.4g|%s\n", name.c_str(), Time(f) / divisor, unit);
  std::fflush(stdout);
}

struct Arrays {
  std::vector<std::vector<double>> memory;
  template <typename T>
  T* New(int64_t n, T value) {
    memory.emplace_back((n * sizeof(T) + 7) / 8 + 8);
    // Aligned as the pool of arrays aligns.
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory.back().data());
    T* p = reinterpret_cast<T*>((start + 63) / 64 * 64);
    for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(value + T(i % 7) / 8);
    return p;
  }
};

PointwiseProgram Chain(int steps) {
  PointwiseProgram p;
  p.num_inputs = 2;
  p.num_outputs = 1;
  for (int s = 0; s < steps; ++s) {
    p.steps[s].fn = Fn::kAdd;
    p.steps[s].args[0] = s == 0 ? In(0) : Step(s - 1);
    p.steps[s].args[1] = In(1);
  }
  p.inputs[0] = p.inputs[1] = DType::kFloat32;
  p.num_steps = static_cast<uint8_t>(steps);
  p.outputs[0] = Step(steps - 1);
  return p;
}

void Small() {
  Arrays a;
  float *x = a.New(16, 1.f), *y = a.New(16, 1.f), *z = a.New(16, 1.f);
  const Shape shape({4, 4}), row({4});
  for (int steps : {1, 8, 32}) {
    const PointwiseProgram p = Chain(steps);
    const PointwiseInput in[] = {{x, &shape}, {y, &shape}},
                         wide[] = {{x, &shape}, {y, &row}};
    void* out[] = {z};
    Report("add 4x4, " + std::to_string(steps) + " steps", 1, "ns",
           [&] { RunPointwise(p, shape, in, out); });
    if (steps == 1)
      Report("add 4x4 + 4", 1, "ns", [&] { RunPointwise(p, shape, wide, out); });
  }
  PointwiseProgram p;
  p.num_inputs = p.num_outputs = 1;
  p.inputs[0] = DType::kFloat32;
  p.outputs[0] = In(0);
  const PointwiseInput in[] = {{x, &shape}};
  Report("sum 4x4", 1, "ns",
         [&] { ReducePointwise(p, shape, in, Reduction::kSum, 3, 1, z); });
  Report("sum 4x4 axis 0", 1, "ns",
         [&] { ReducePointwise(p, shape, in, Reduction::kSum, 1, 1, z); });
  Report("sum 4x4 axis 1", 1, "ns",
         [&] { ReducePointwise(p, shape, in, Reduction::kSum, 2, 1, z); });
}

// w -= lr * (g + wd * w)
PointwiseProgram Update() {
  PointwiseProgram p;
  p.num_inputs = 2;
  p.num_constants = 2;
  p.num_steps = 4;
  p.num_outputs = 1;
  p.inputs[0] = p.inputs[1] = DType::kFloat32;
  p.constants[0].f = 1e-4;
  p.constants[1].f = 0.1;
  p.steps[0].fn = Fn::kMul;
  p.steps[0].args[0] = In(0);
  p.steps[0].args[1] = Const(0);
  p.steps[1].fn = Fn::kAdd;
  p.steps[1].args[0] = In(1);
  p.steps[1].args[1] = Step(0);
  p.steps[2].fn = Fn::kMul;
  p.steps[2].args[0] = Step(1);
  p.steps[2].args[1] = Const(1);
  p.steps[3].fn = Fn::kSub;
  p.steps[3].args[0] = In(0);
  p.steps[3].args[1] = Step(2);
  p.outputs[0] = Step(3);
  return p;
}

void Updates() {
  const PointwiseProgram p = Update();
  const auto run = [&](const std::string& name, int64_t n, int64_t offset) {
    Arrays a;
    float *w = a.New(n + 16, 1.f) + offset, *g = a.New(n + 16, 1.f) + offset;
    const Shape shape({n});
    const PointwiseInput in[] = {{w, &shape}, {g, &shape}};
    void* out[] = {w};
    for (int threads : {1, 2}) {
      const ScopedComputeThreads scope(threads);
      Report(name + std::to_string(n) + ", threads " + std::to_string(threads), 1e3,
             "us", [&] { RunPointwise(p, shape, in, out); });
    }
  };
  for (int64_t n : {10'000, 1'000'000, 25'000'000}) run("update ", n, 0);
  run("update of unaligned ", 25'000'000, 4);
}

void Large() {
  constexpr int64_t kN = 10'000'000;
  Arrays a;
  float *x = a.New(kN, 1.f), *y = a.New(kN, 1.f), *z = a.New(kN, 1.f);
  const PointwiseProgram add = Chain(1);
  const Shape flat({kN}), wide({1000, 10000}), column({1000, 1}), row({10000}),
      narrow({1'000'000, 10}), ten({10}), ones({1'000'000, 1});
  void* out[] = {z};
  const auto run = [&](const char* name, const Shape& space, const Shape& b) {
    const PointwiseInput in[] = {{x, &space}, {y, &b}};
    for (int threads : {1, 2}) {
      const ScopedComputeThreads scope(threads);
      Report(std::string(name) + ", threads " + std::to_string(threads), 1e3, "us",
             [&] { RunPointwise(add, space, in, out); });
    }
  };
  run("add 1e7", flat, flat);
  run("add (1000,10000)+(1000,1)", wide, column);
  run("add (1000,10000)+(10000)", wide, row);
  run("add (1e6,10)+(10)", narrow, ten);
  run("add (1e6,10)+(1e6,1)", narrow, ones);
  PointwiseProgram p;
  p.num_inputs = p.num_outputs = 1;
  p.inputs[0] = DType::kFloat32;
  p.outputs[0] = In(0);
  const auto reduce = [&](const char* name, const Shape& space, Reduction reduction,
                          uint64_t axes) {
    const PointwiseInput in[] = {{x, &space}};
    for (int threads : {1, 2}) {
      const ScopedComputeThreads scope(threads);
      Report(std::string(name) + ", threads " + std::to_string(threads), 1e3, "us",
             [&] { ReducePointwise(p, space, in, reduction, axes, 1, z); });
    }
  };
  const Shape images({100, 100, 1000}), small({32, 64, 4882});
  reduce("sum 1e7", flat, Reduction::kSum, 1);
  reduce("max 1e7", flat, Reduction::kMax, 1);
  reduce("sum (1000,10000) axis 0", wide, Reduction::kSum, 1);
  reduce("sum (1000,10000) axis 1", wide, Reduction::kSum, 2);
  reduce("sum (1e6,10) axis 0", narrow, Reduction::kSum, 1);
  reduce("sum (1e6,10) axis 1", narrow, Reduction::kSum, 2);
  reduce("sum (100,100,1000) axes 0,2", images, Reduction::kSum, 5);
  reduce("sum (100,100,1000) axis 1", images, Reduction::kSum, 2);
}

void Functions() {
  constexpr int64_t kN = 4096;
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Arrays a;
    void *x, *y, *z;
    if (dtype == DType::kFloat32) {
      x = a.New(kN, 0.1f), y = a.New(kN, 0.5f), z = a.New(kN, 0.f);
    } else {
      x = a.New(kN, 0.1), y = a.New(kN, 0.5), z = a.New(kN, 0.0);
    }
    const Shape shape({kN});
    const PointwiseInput in[] = {{x, &shape}, {y, &shape}, {y, &shape}};
    void* out[] = {z};
    for (int f = 0; f < static_cast<int>(Fn::kCount); ++f) {
      const Fn fn = static_cast<Fn>(f);
      PointwiseProgram p;
      const int arity = Info(fn).arity;
      p.num_inputs = static_cast<uint8_t>(arity);
      p.num_steps = p.num_outputs = 1;
      p.steps[0].fn = fn;
      p.steps[0].compute = p.steps[0].from = ComputeOf(dtype);
      p.steps[0].dtype = dtype;
      for (int i = 0; i < arity; ++i) p.inputs[i] = dtype, p.steps[0].args[i] = In(i);
      p.outputs[0] = Step(0);
      Report(std::string(Info(fn).name) + " " + std::string(Name(dtype)), kN,
             "ns/element", [&] {
               RunPointwise(p, shape, {in, static_cast<size_t>(arity)}, out);
             });
    }
  }
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--cpu") {
      plait::cpu::g_cpu_time = true;
    } else {
      plait::cpu::g_filter = argv[i];
    }
  }
  plait::cpu::Small();
  plait::cpu::Updates();
  plait::cpu::Large();
  plait::cpu::Functions();
  return 0;
}
