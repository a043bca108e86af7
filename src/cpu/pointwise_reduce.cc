// Fused reductions: tiles of a program's values, accumulated as they are made.
//
// The axes collapse into groups that are kept and reduced by turns. What is added to
// what depends on the shapes only: tiles of fixed size, blocks of kBlock tiles, and
// segments of blocks that may run on different threads and are combined in their order.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/pointwise_plan.h"
#include "cpu/reduce_groups.h"
#include "cpu/scratch.h"

namespace plait::cpu {
namespace {

// Tiles that are accumulated before their sum is added to a wider one.
constexpr int64_t kBlock = 64;
// Segments are made until there are so many pieces of work, each of kSegment tiles.
constexpr int64_t kPieces = 64, kSegment = 32;
constexpr int kTile = PointwisePlan::kMaxTile;
// Fewer rows an output are not worth keeping all sums at hand.
constexpr int64_t kFewSweeps = 8;
// The most outputs of a unit of columns: long stretches of memory are read faster.
constexpr int kMaxWidth = 4 * kTile;

int64_t Divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

Fn FnOf(Reduction reduction) {
  constexpr Fn kFns[] = {Fn::kAdd, Fn::kMul, Fn::kMaximum, Fn::kMinimum};
  return kFns[static_cast<int>(reduction)];
}

// The neutral element, in the accumulator's type W, of values of `dtype`.
template <typename W>
W First(Reduction reduction, DType dtype) {
  if (reduction == Reduction::kSum) return 0;
  if (reduction == Reduction::kProd) return 1;
  const bool max = reduction == Reduction::kMax;
  if constexpr (std::is_same_v<W, double>) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return max ? -kInfinity : kInfinity;
  } else {
    return VisitDType(dtype, [&]<typename S>() {
      using L = std::numeric_limits<std::conditional_t<std::is_integral_v<S>, S, W>>;
      return static_cast<W>(max ? L::lowest() : L::max());
    });
  }
}

// A unit of work makes `width` neighbouring outputs; its tiles are numbered.
class Reducer {
 public:
  Reducer(const PointwisePlan& plan, const ReduceGroups& groups, Reduction reduction,
          DType dtype, double scale, void* output);
  void Run();
  // The rows of many outputs follow each other again and again, as those of channels in
  // a batch: goes through memory in its order, with the sums of all outputs at hand.
  bool sweeps() const {
    return g_.inner_reduced && g_.outer_kept.count == 1 && kept_ > 1 &&
           kept_ <= kMaxWidth && g_.outer_reduced.count >= kFewSweeps;
  }
  void Sweep();
  // For a space without elements: `kept` outputs are neutral elements.
  void RunEmpty(int64_t kept) const;

 private:
  template <typename F>
  void ForTiles(int64_t unit, int64_t first, int64_t last, F&& f) const;
  void RunPiece(PointwiseRunner& runner, int64_t unit, int64_t segment,
                void* wide) const;
  const void* Values(PointwiseRunner& runner, int64_t start, int64_t n,
                     void* values) const;
  void SumRows(PointwiseRunner& runner, int64_t unit, int64_t first, int64_t last,
               void* wide) const;
  void SumColumns(PointwiseRunner& runner, int64_t unit, int64_t first, int64_t last,
                  void* wide) const;
  void FillFirst(void* wide, int64_t n) const;
  void FillFirstNarrow(void* narrow, int64_t n) const;
  int64_t GrainOf(int64_t elements) const;
  void Finish(int64_t first, int64_t n, void* wide) const;
  int64_t FirstOf(int64_t unit) const {
    return unit / pieces_ * kept_ + unit % pieces_ * width_;
  }
  int64_t WidthOf(int64_t unit) const {
    return std::min(width_, kept_ - unit % pieces_ * width_);
  }
  bool floating() const { return IsFloat(dtype_); }

  const PointwisePlan& plan_;
  const ReduceGroups& g_;
  const Kernels& k_;
  const Reduction reduction_;
  const DType dtype_;
  const Compute compute_;
  const double scale_;
  void* const output_;
  int64_t kept_;    // inner kept elements
  int64_t width_;   // outputs of a unit
  int64_t pieces_;  // units that share an index of the outer kept axes
  int64_t length_;  // rows: reduced elements of a tile's row; columns: rows of a tile
  int64_t tiles_;   // of a unit for one index of the outer reduced axes
  int64_t units_, segments_ = 1;
};

Reducer::Reducer(const PointwisePlan& plan, const ReduceGroups& groups,
                 Reduction reduction, DType dtype, double scale, void* output)
    : plan_(plan),
      g_(groups),
      k_(GetKernels()),
      reduction_(reduction),
      dtype_(dtype),
      compute_(ComputeOf(dtype)),
      scale_(scale),
      output_(output) {
  if (g_.inner == 0 || g_.middle == 0) return;
  constexpr int64_t tile = kTile;
  if (g_.inner_reduced) {
    kept_ = g_.middle;
    tiles_ = Divide(g_.inner, tile);
    length_ = Divide(g_.inner, tiles_);
    if (tiles_ > 1) {  // keeps vectors aligned
      length_ = Divide(length_, 16) * 16;
      tiles_ = Divide(g_.inner, length_);
    }
    width_ = tiles_ > 1 ? 1 : std::min(kept_, tile / length_);
  } else {
    kept_ = g_.inner;
    width_ = Divide(kept_, Divide(kept_, kMaxWidth));
    if (width_ < kept_) width_ = Divide(width_, 16) * 16;  // keeps vectors aligned
    length_ =
        width_ <= tile && width_ == kept_ ? std::min(g_.middle, tile / width_) : 1;
    tiles_ = Divide(g_.middle, length_);
  }
  pieces_ = Divide(kept_, width_);
  units_ = g_.outer_kept.count * pieces_;
  const int64_t tiles = tiles_ * g_.outer_reduced.count;
  if (units_ < kPieces)
    segments_ =
        std::max<int64_t>(1, std::min(Divide(kPieces, units_), tiles / kSegment));
}

// Calls f(first element, elements of a row or rows) for the tiles [first, last).
template <typename F>
void Reducer::ForTiles(int64_t unit, int64_t first, int64_t last, F&& f) const {
  const int64_t whole = g_.inner_reduced ? g_.inner : g_.middle;
  const int64_t row = g_.inner, kept = unit % pieces_ * width_;
  const int64_t base =
      g_.outer_kept.Offset(unit / pieces_) + (g_.inner_reduced ? kept * row : kept);
  for (int64_t t = first; t < last;) {
    const int64_t outer = t / tiles_;
    const int64_t from = base + g_.outer_reduced.Offset(outer);
    const int64_t end = std::min(last, (outer + 1) * tiles_);
    for (; t < end; ++t) {
      const int64_t at = (t - outer * tiles_) * length_;
      f(from + (g_.inner_reduced ? at : at * row), std::min(length_, whole - at));
    }
  }
}

void Reducer::FillFirst(void* wide, int64_t n) const {
  const auto fill = [&]<typename W>(W) {
    std::fill_n(static_cast<W*>(wide), n, First<W>(reduction_, dtype_));
  };
  switch (compute_) {
    case Compute::kI32:
      return fill(int32_t{});
    case Compute::kI64:
      return fill(int64_t{});
    case Compute::kU64:
      return fill(uint64_t{});
    default:
      return fill(double{});
  }
}

void Reducer::FillFirstNarrow(void* narrow, int64_t n) const {
  if (compute_ == Compute::kF32) {
    std::fill_n(static_cast<float*>(narrow), n,
                static_cast<float>(First<double>(reduction_, dtype_)));
  } else {
    FillFirst(narrow, n);
  }
}

// The program's values for at most kTile elements. A plan with many buffers makes them
// in pieces, which must not show: a sum is the same for a program and for its result.
const void* Reducer::Values(PointwiseRunner& runner, int64_t start, int64_t n,
                            void* values) const {
  if (n <= plan_.tile()) {
    runner.Run(start, n);
    return runner.result();
  }
  const size_t element = SizeOf(DTypeOf(compute_));
  for (int64_t done = 0, m; done < n; done += m) {
    m = std::min(n - done, plan_.tile());
    runner.Run(start + done, m);
    std::memcpy(static_cast<char*>(values) + done * element, runner.result(),
                m * element);
  }
  return values;
}

// Every row of a tile is reduced to one value at once.
void Reducer::SumRows(PointwiseRunner& runner, int64_t unit, int64_t first,
                      int64_t last, void* wide) const {
  const int64_t rows = WidthOf(unit);
  const RowsLoop loop =
      k_.rows[static_cast<int>(reduction_)][static_cast<int>(compute_)];
  const Compute wide_type = floating() ? Compute::kF64 : compute_;
  const Loop add =
      k_.step[static_cast<int>(wide_type)][static_cast<int>(FnOf(reduction_))];
  alignas(64) double block[kTile], values[kTile];
  for (int64_t t = first; t < last; t += kBlock) {
    FillFirst(block, rows);
    ForTiles(unit, t, std::min(last, t + kBlock), [&](int64_t start, int64_t n) {
      loop(Values(runner, start, rows * n, values), rows, n, block);
    });
    add(wide, block, nullptr, wide, rows, 0);
  }
}

// Tiles are added to a tile of sums, lane by lane; its rows are added up at the end.
void Reducer::SumColumns(PointwiseRunner& runner, int64_t unit, int64_t first,
                         int64_t last, void* wide) const {
  const int64_t width = WidthOf(unit);
  const int r = static_cast<int>(reduction_), c = static_cast<int>(compute_);
  const Loop add = k_.step[c][static_cast<int>(FnOf(reduction_))];
  const Loop add_wide = k_.accumulate_wide[r][c];
  alignas(64) double block[kMaxWidth], sums[kMaxWidth];
  const size_t element = SizeOf(DTypeOf(compute_));
  const int64_t n = width * length_;
  FillFirst(sums, n);
  for (int64_t t = first; t < last; t += kBlock) {
    FillFirstNarrow(block, n);
    ForTiles(unit, t, std::min(last, t + kBlock), [&](int64_t start, int64_t rows) {
      char* to = reinterpret_cast<char*>(block);
      for (int64_t left = rows * width, m; left > 0; left -= m, start += m) {
        m = std::min(left, plan_.tile());
        // The next row is far away, where the processor does not look ahead.
        if (length_ == 1) runner.Prefetch(start + g_.inner, m);
        runner.Run(start, m);
        add(to, runner.result(), nullptr, to, m, 0);
        to += m * element;
      }
    });
    add_wide(nullptr, block, nullptr, sums, n, 0);
  }
  const Compute wide_type = floating() ? Compute::kF64 : compute_;
  const Loop add_rows =
      k_.step[static_cast<int>(wide_type)][static_cast<int>(FnOf(reduction_))];
  const size_t size = SizeOf(DTypeOf(wide_type));
  for (int64_t i = 0; i < length_; ++i) {
    add_rows(wide, reinterpret_cast<char*>(sums) + i * width * size, nullptr, wide,
             width, 0);
  }
}

void Reducer::RunPiece(PointwiseRunner& runner, int64_t unit, int64_t segment,
                       void* wide) const {
  const int64_t tiles = tiles_ * g_.outer_reduced.count;
  const int64_t size = Divide(tiles, segments_);
  const int64_t first = std::min(tiles, segment * size),
                last = std::min(tiles, first + size);
  FillFirst(wide, WidthOf(unit));
  if (g_.inner_reduced) {
    SumRows(runner, unit, first, last, wide);
  } else {
    SumColumns(runner, unit, first, last, wide);
  }
}

// Scales the sums, rounds them once and writes them out.
void Reducer::Finish(int64_t first, int64_t n, void* wide) const {
  char* to = static_cast<char*>(output_) + first * SizeOf(dtype_);
  const Loop store = k_.store[static_cast<int>(dtype_)];
  if (!floating()) return store(wide, nullptr, nullptr, to, n, 0);
  constexpr int kF64 = static_cast<int>(Compute::kF64);
  if (scale_ != 1) {
    alignas(64) char scale[kVectorBytes];
    FillSplat(scale, scale_);
    k_.step[kF64][static_cast<int>(Fn::kMul)](wide, scale, nullptr, wide, n, 2);
  }
  if (dtype_ == DType::kFloat64) return store(wide, nullptr, nullptr, to, n, 0);
  if (dtype_ == DType::kFloat32)
    return k_.cast[kF64][static_cast<int>(Compute::kF32)](wide, nullptr, nullptr, to, n,
                                                          0);
  alignas(64) float narrow[kMaxWidth];
  k_.cast_to_half(wide, nullptr, nullptr, narrow, n, 0);
  store(narrow, nullptr, nullptr, to, n, 0);
}

void Reducer::RunEmpty(int64_t kept) const {
  alignas(64) double wide[kTile];
  for (int64_t first = 0; first < kept; first += kTile) {
    const int64_t n = std::min<int64_t>(kTile, kept - first);
    FillFirst(wide, n);
    Finish(first, n, wide);
  }
}

void Reducer::Sweep() {
  const int64_t outer = g_.outer_reduced.count;
  const int64_t tiles = outer * pieces_ * tiles_;
  const int64_t segments =
      std::clamp<int64_t>(tiles / kSegment, 1, std::min(outer, kPieces));
  const int64_t size = Divide(outer, segments);
  const int64_t grain = GrainOf(size * g_.middle * g_.inner);
  const int c = static_cast<int>(compute_), r = static_cast<int>(reduction_);
  const int wide_type = static_cast<int>(floating() ? Compute::kF64 : compute_);
  const size_t element = SizeOf(DTypeOf(static_cast<Compute>(wide_type)));
  const RowsLoop loop = k_.rows[r][c];
  const auto wide = std::make_unique<double[]>(segments * kept_);
  ParallelFor(segments, grain, [&](int64_t first, int64_t last) {
    PointwiseRunner runner(plan_);
    alignas(64) double values[kTile];
    for (int64_t s = first; s < last; ++s) {
      char* sums = reinterpret_cast<char*>(wide.get() + s * kept_);
      FillFirst(sums, kept_);
      for (int64_t o = s * size; o < std::min(outer, (s + 1) * size); ++o) {
        for (int64_t unit = 0; unit < pieces_; ++unit) {
          const int64_t rows = WidthOf(unit);
          ForTiles(unit, o * tiles_, (o + 1) * tiles_, [&](int64_t start, int64_t n) {
            loop(Values(runner, start, rows * n, values), rows, n,
                 sums + unit * width_ * element);
          });
        }
      }
    }
  });
  const Loop add = k_.step[wide_type][static_cast<int>(FnOf(reduction_))];
  for (int64_t s = 1; s < segments; ++s) {
    add(wide.get(), wide.get() + s * kept_, nullptr, wide.get(), kept_, 0);
  }
  Finish(0, kept_, wide.get());
}

// Pieces of work for which another thread pays: by what the program costs, and memory.
int64_t Reducer::GrainOf(int64_t elements) const {
  return 20'000'000 / (elements * (plan_.cost() + 50)) + 1;
}

void Reducer::Run() {
  if (sweeps()) return Sweep();
  const int64_t tiles = Divide(tiles_ * g_.outer_reduced.count, segments_);
  const int64_t grain = GrainOf(tiles * width_ * length_);
  if (segments_ == 1) {
    ParallelFor(units_, grain, [&](int64_t first, int64_t last) {
      PointwiseRunner runner(plan_);
      alignas(64) double wide[kMaxWidth];
      for (int64_t unit = first; unit < last; ++unit) {
        RunPiece(runner, unit, 0, wide);
        Finish(FirstOf(unit), WidthOf(unit), wide);
      }
    });
    return;
  }
  const auto wide = std::make_unique<double[]>(units_ * segments_ * width_);
  ParallelFor(units_ * segments_, grain, [&](int64_t first, int64_t last) {
    PointwiseRunner runner(plan_);
    for (int64_t i = first; i < last; ++i) {
      RunPiece(runner, i / segments_, i % segments_, wide.get() + i * width_);
    }
  });
  const int wide_type = static_cast<int>(floating() ? Compute::kF64 : compute_);
  const Loop add = k_.step[wide_type][static_cast<int>(FnOf(reduction_))];
  for (int64_t unit = 0; unit < units_; ++unit) {
    double* sum = wide.get() + unit * segments_ * width_;
    for (int64_t s = 1; s < segments_; ++s) {
      add(sum, sum + s * width_, nullptr, sum, WidthOf(unit), 0);
    }
    Finish(FirstOf(unit), WidthOf(unit), sum);
  }
}

// Reduces into `result`, in the dtype of the program's value.
void ReduceValues(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs, const PointwiseReduction& r,
                  void* result) {
  int64_t kept = 1, elements = 1;
  for (int i = 0; i < space.rank(); ++i) {
    elements *= space[i];
    if (!(r.axes >> i & 1)) kept *= space[i];
  }
  if (kept == 0) return;
  const DType dtype = program.DTypeOfArg(program.outputs[program.num_outputs - 1]);
  const PointwisePlan plan(program, space, inputs, outputs);
  const ReduceGroups groups(space, r.axes);
  Reducer reducer(plan, groups, r.kind, dtype, r.scale, result);
  if (elements == 0) return reducer.RunEmpty(kept);
  reducer.Run();
}

void TakeRoots(void* x, DType dtype, int64_t n) {
  if (!IsFloat(dtype)) return;
  VisitFloat(dtype, [&]<typename T>() {
    T* values = static_cast<T*>(x);
    for (int64_t i = 0; i < n; ++i) {
      values[i] = static_cast<T>(std::sqrt(static_cast<Accumulate<T>>(values[i])));
    }
  });
}

}  // namespace

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output) {
  PointwiseReduction r;
  r.kind = reduction;
  r.axes = axes;
  r.scale = scale;
  ReduceValues(program, space, inputs, {}, r, output);
}

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs,
                     std::span<void* const> outputs,
                     const PointwiseReduction& reduction, void* result) {
  const DType dtype = program.DTypeOfArg(program.outputs[program.num_outputs - 1]);
  int64_t n = 1;
  for (int i = 0; i < space.rank(); ++i) n *= reduction.axes >> i & 1 ? 1 : space[i];
  if (dtype == reduction.dtype) {
    ReduceValues(program, space, inputs, outputs, reduction, result);
    if (reduction.root) TakeRoots(result, dtype, n);
    return;
  }
  constexpr int64_t kFew = 64;
  alignas(64) double few[kFew];
  const Scratch many(n > kFew ? n * SizeOf(dtype) : 0);
  void* wide = n > kFew ? many.As<void>() : few;
  ReduceValues(program, space, inputs, outputs, reduction, wide);
  if (reduction.root) TakeRoots(wide, dtype, n);
  Convert(wide, dtype, result, reduction.dtype, n);
}

}  // namespace plait::cpu
