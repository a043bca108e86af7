// Random programs: the fast executor against the plain one, and fused against one by
// one.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/parallel.h"
#include "cpu/pointwise_plain.h"
#include "cpu/random_program.h"
#include "cpu/simd/kernels.h"

namespace plait::cpu {
namespace {

// The oracle reads and writes element by element, so it gets memory of its own.
void RunPlainApart(const PointwiseProgram& program, const Shape& space,
                   std::span<const PointwiseInput> inputs,
                   std::span<void* const> outputs) {
  std::vector<std::vector<char>> copies;
  std::vector<PointwiseInput> in;
  for (int i = 0; i < program.num_inputs; ++i) {
    const char* data = static_cast<const char*>(inputs[i].data);
    copies.emplace_back(data,
                        data + inputs[i].shape->size() * SizeOf(program.inputs[i]));
    in.push_back({copies.back().data(), inputs[i].shape});
  }
  plain::RunPointwise(program, space, in, outputs);
}

// Every step as a program of its own, through memory.
void RunOneByOne(const PointwiseProgram& program, const Shape& space,
                 std::span<const PointwiseInput> inputs,
                 std::span<void* const> outputs) {
  const int64_t n = space.size();
  std::vector<std::vector<char>> values(program.num_steps);
  const auto run = [&](const PointwiseStep& step, void* to) {
    PointwiseProgram p;
    p.num_steps = p.num_outputs = 1;
    p.steps[0] = step;
    std::vector<PointwiseInput> in;
    for (int a = 0; a < Info(step.fn).arity; ++a) {
      const PointwiseArg arg = step.args[a];
      if (arg.kind == PointwiseArg::kConstant) {
        p.constants[p.num_constants] = program.constants[arg.index];
        p.steps[0].args[a].index = p.num_constants++;
        continue;
      }
      p.inputs[p.num_inputs] = program.DTypeOfArg(arg);
      p.steps[0].args[a] = {PointwiseArg::kInput, p.num_inputs++};
      in.push_back(arg.kind == PointwiseArg::kInput
                       ? inputs[arg.index]
                       : PointwiseInput{values[arg.index].data(), &space});
    }
    p.outputs[0] = {PointwiseArg::kStep, 0};
    RunPointwise(p, space, in, {&to, 1});
  };
  for (int s = 0; s < program.num_steps; ++s) {
    values[s].resize(n * SizeOf(program.steps[s].dtype));
    run(program.steps[s], values[s].data());
  }
  std::vector<std::vector<char>> results;
  for (int o = 0; o < program.num_outputs; ++o) {
    const PointwiseArg arg = program.outputs[o];
    if (arg.kind == PointwiseArg::kStep) {
      results.push_back(values[arg.index]);
      continue;
    }
    PointwiseStep copy;
    copy.dtype = program.inputs[arg.index];
    copy.compute = ComputeOf(copy.dtype);
    copy.args[0] = arg;
    results.emplace_back(n * SizeOf(copy.dtype));
    run(copy, results.back().data());
  }
  for (int o = 0; o < program.num_outputs; ++o) {
    std::copy(results[o].begin(), results[o].end(), static_cast<char*>(outputs[o]));
  }
}

void ExpectEqual(const RandomCase& c, const RandomCase::Outputs& a,
                 const RandomCase::Outputs& b, uint64_t seed) {
  for (int o = 0; o < c.program.num_outputs; ++o) {
    const size_t size = SizeOf(c.OutputDType(o));
    for (size_t i = 0; i < a[o].size(); i += size) {
      if (std::memcmp(&a[o][i], &b[o][i], size) == 0) continue;
      const PointwiseArg arg = c.program.outputs[o];
      ADD_FAILURE() << "seed " << seed << ", output " << o << " of "
                    << int{c.program.num_outputs} << " ("
                    << (arg.kind == PointwiseArg::kStep
                            ? Info(c.program.steps[arg.index].fn).name
                            : "input")
                    << ", " << c.OutputDType(o) << "), element " << i / size << " of "
                    << c.space << (c.in_place[o] >= 0 ? ", in place" : "");
      return;
    }
  }
}

class RandomPrograms : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { internal::UseTargetForTest(GetParam()); }
  void TearDown() override { internal::UseTargetForTest(-1); }
};

TEST_P(RandomPrograms, EqualThePlainExecutor) {
  for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    const RandomCase c(seed, true, 3000);
    ExpectEqual(c, c.Run(RunPointwise), c.Run(RunPlainApart), seed);
  }
}

TEST_P(RandomPrograms, FusedEqualOneByOne) {
  for (uint64_t seed = 10000; seed < 12000 && !HasFailure(); ++seed) {
    const RandomCase c(seed, false, 3000);
    ExpectEqual(c, c.Run(RunPointwise), c.Run(RunOneByOne), seed);
  }
}

TEST_P(RandomPrograms, DoNotDependOnThreads) {
  for (uint64_t seed = 20000; seed < 20060 && !HasFailure(); ++seed) {
    const RandomCase c(seed, false, 400000);
    const auto serial = c.Run(RunPointwise);
    const ScopedComputeThreads threads(2 + static_cast<int>(seed % 3));
    ExpectEqual(c, c.Run(RunPointwise), serial, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RandomPrograms,
                         testing::ValuesIn(internal::TargetsForTest()));

}  // namespace
}  // namespace plait::cpu
