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

// How the space is cut: rows of `row` elements, each into pieces of `tile` elements, of
// which the first lacks `shift` and the last what the row lacks.
struct Cut {
  int64_t row, tile, pieces, shift = 0;
  Cut(int64_t row, int64_t tile, int64_t shift = 0)
      : row(row), tile(tile), pieces(Divide(row + shift, tile)), shift(shift) {}
};

// Elements by which an array begins behind a border of 64 bytes. Whole vectors that
// straddle such borders cost twice the time, so tiles begin on them. (Arrays that other
// libraries allocate are often 16 bytes behind one, all alike.)
int64_t Misaligned(const void* data, size_t size) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % kVectorBytes / size);
}

Cut CutOf(const PointwisePlan& plan, int64_t n, int64_t shift) {
  const int64_t tile = plan.tile();
  if (!plan.broadcasts()) return {n, tile, shift};
  // Within a row, broadcast inputs are contiguous or constant. Short rows are not worth
  // a tile each; their inputs are copied out instead, a whole number of rows a time.
  const int64_t inner = plan.broadcaster().inner();
  if (inner * 2 >= tile) return {inner, Divide(inner, Divide(inner, tile))};
  return {n, tile / inner * inner};
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
  const size_t size = SizeOf(program.DTypeOfArg(program.outputs[0]));
  const Cut cut = CutOf(plan, n, Misaligned(outputs[0], size));
  const int64_t tiles = n / cut.row * cut.pieces;
  const int64_t grain = kGrain / (plan.cost() * cut.tile) + 1;
  ParallelFor(tiles, grain, [&](int64_t first, int64_t last) {
    PointwiseRunner runner(plan);
    int64_t row = first / cut.pieces, piece = first % cut.pieces;
    for (int64_t i = first; i < last; ++i) {
      const int64_t start = std::max<int64_t>(0, piece * cut.tile - cut.shift);
      const int64_t end = std::min(cut.row, (piece + 1) * cut.tile - cut.shift);
      runner.Run(row * cut.row + start, end - start);
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
