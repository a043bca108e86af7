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

// Inputs of so many bytes are not in the nearest caches: their next tile is asked for.
constexpr int64_t kFarBytes = int64_t{1} << 19;

struct Tile {
  int64_t first = 0, size = 0;
};

// How the space is cut: rows of `row` elements, each into pieces of `tile` elements, of
// which the first lacks `shift` and the last what the row lacks.
struct Cut {
  int64_t row, tile, pieces, shift = 0;
  Cut(int64_t row, int64_t tile, int64_t shift = 0)
      : row(row), tile(tile), pieces(Divide(row + shift, tile)), shift(shift) {}
  Tile At(int64_t i) const {
    const int64_t r = i / pieces, piece = i - r * pieces;
    const int64_t start = std::max<int64_t>(0, piece * tile - shift);
    return {r * row + start, std::min(row, (piece + 1) * tile - shift) - start};
  }
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

// The tiles [first, last) of a cut, whose elements begin at `offset`.
void RunTiles(const PointwisePlan& plan, const Cut& cut, int64_t offset, int64_t first,
              int64_t last, bool far) {
  PointwiseRunner runner(plan);
  if (!far) {
    for (int64_t i = first; i < last; ++i) {
      const Tile tile = cut.At(i);
      runner.Run(offset + tile.first, tile.size);
    }
    return;
  }
  for (Tile tile = cut.At(first); first < last;) {
    const Tile next = ++first < last ? cut.At(first) : Tile();
    runner.Run(offset + tile.first, tile.size, offset + next.first, next.size);
    tile = next;
  }
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
  const bool far = plan.looks_ahead() && n * plan.bytes() >= kFarBytes;
  ParallelFor(tiles, grain, [&](int64_t first, int64_t last) {
    RunTiles(plan, cut, 0, first, last, far);
  });
}

void RunPointwisePart(const PointwiseProgram& program, int64_t n,
                      std::span<const PointwiseInput> inputs,
                      std::span<void* const> outputs, int64_t first, int64_t last) {
  if (first >= last || program.num_outputs == 0) return;
  const PointwisePlan plan(program, Shape{n}, inputs, outputs);
  const size_t size = SizeOf(program.DTypeOfArg(program.outputs[0]));
  const char* start = static_cast<const char*>(outputs[0]) + first * size;
  const Cut cut(last - first, plan.tile(), Misaligned(start, size));
  RunTiles(plan, cut, first, 0, cut.pieces, plan.looks_ahead());
}

namespace {

// Between float32 and a half type: one loop, without a program. Such conversions are
// many, and of few elements each.
void ConvertHalf(Loop loop, const void* src, size_t src_size, void* dst,
                 size_t dst_size, int64_t n) {
  constexpr int64_t kCopyGrain = 1 << 18;
  ParallelFor(Divide(n, kVectorBytes), kCopyGrain / kVectorBytes,
              [&](int64_t first, int64_t last) {
                const int64_t begin = first * kVectorBytes;
                loop(static_cast<const char*>(src) + begin * src_size, nullptr, nullptr,
                     static_cast<char*>(dst) + begin * dst_size,
                     std::min(n, last * kVectorBytes) - begin, 0);
              });
}

}  // namespace

void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n) {
  if (n == 0) return;
  constexpr int64_t kCopyAtOnce = int64_t{1} << 18;
  if (src_dtype == dst_dtype && n <= kCopyAtOnce) {
    if (src != dst) std::memcpy(dst, src, static_cast<size_t>(n) * SizeOf(dst_dtype));
    return;
  }
  const bool widens = IsHalf(src_dtype) && dst_dtype == DType::kFloat32;
  if (widens || (src_dtype == DType::kFloat32 && IsHalf(dst_dtype))) {
    const Kernels& k = GetKernels();
    return ConvertHalf(widens ? k.load[static_cast<int>(src_dtype)]
                              : k.store[static_cast<int>(dst_dtype)],
                       src, SizeOf(src_dtype), dst, SizeOf(dst_dtype), n);
  }
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
