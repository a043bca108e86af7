// The executor of pointwise programs: cuts the space into tiles and runs the plan.

#include "cpu/pointwise.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/pointwise_plan.h"

namespace plait::cpu {
namespace {

// Work for which it pays to wake another thread, in picoseconds.
constexpr int64_t kGrain = 20'000'000;

int64_t Divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// How the space is cut: rows of `row` elements, each into pieces of at most `tile`.
struct Cut {
  int64_t row, tile, pieces;
};

Cut CutOf(const PointwisePlan& plan, int64_t n) {
  const int64_t tile = plan.tile();
  // Within a row, broadcast inputs are contiguous or constant. Short rows are not worth
  // a tile each; their inputs are copied out instead, a whole number of rows a time.
  if (plan.broadcasts()) {
    const int64_t inner = plan.broadcaster().inner();
    if (inner * 2 >= tile) {
      const int64_t pieces = Divide(inner, tile);
      return {inner, Divide(inner, pieces), pieces};
    }
    return {n, tile / inner * inner, Divide(n, tile / inner * inner)};
  }
  return {n, tile, Divide(n, tile)};
}

}  // namespace

void RunPointwise(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs) {
  const int64_t n = space.size();
  if (n == 0 || program.num_outputs == 0) return;
  const PointwisePlan plan(program, space, inputs, outputs);
  if (n <= plan.tile()) {
    PointwiseRunner(plan).Run(0, n);
    return;
  }
  const Cut cut = CutOf(plan, n);
  const int64_t tiles = n / cut.row * cut.pieces;
  const int64_t grain = kGrain / (plan.cost() * cut.tile) + 1;
  ParallelFor(tiles, grain, [&](int64_t first, int64_t last) {
    PointwiseRunner runner(plan);
    int64_t row = first / cut.pieces, piece = first % cut.pieces;
    for (int64_t i = first; i < last; ++i) {
      const int64_t start = piece * cut.tile;
      runner.Run(row * cut.row + start, std::min(cut.tile, cut.row - start));
      if (++piece == cut.pieces) {
        piece = 0;
        ++row;
      }
    }
  });
}

void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n) {
  if (n == 0) return;
  const Compute from = ComputeOf(src_dtype), to = ComputeOf(dst_dtype);
  PointwiseProgram program;
  program.num_inputs = program.num_steps = program.num_outputs = 1;
  program.inputs[0] = src_dtype;
  program.steps[0].fn = from == to ? Fn::kCopy : Fn::kCast;
  program.steps[0].compute = to;
  program.steps[0].from = from;
  program.steps[0].dtype = dst_dtype;
  program.steps[0].args[0] = {PointwiseArg::kInput, 0};
  program.outputs[0] = {PointwiseArg::kStep, 0};
  if (src_dtype == dst_dtype) {  // the bits as they are
    program.num_steps = 0;
    program.outputs[0] = {PointwiseArg::kInput, 0};
  }
  const Shape space({n});
  const PointwiseInput input{src, &space};
  RunPointwise(program, space, {&input, 1}, {&dst, 1});
}

}  // namespace plait::cpu
