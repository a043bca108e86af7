// tile, repeat: arrays made of copies.

#include <optional>

#include "ops/gradients.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- tile

struct TileParams {
  Shape reps;
};

// x and the repetitions with as many axes as the longer of the two.
struct Tiling {
  Shape x, reps;
};
Tiling Align(const TileParams& p, const Shape& x) {
  Tiling t{x, p.reps};
  while (t.x.rank() < t.reps.rank()) t.x.Insert(0, 1);
  while (t.reps.rank() < t.x.rank()) t.reps.Insert(0, 1);
  return t;
}

// Each axis as two: which copy, and where in x.
Shape Doubled(const Tiling& t) {
  Shape both;
  for (int i = 0; i < t.x.rank(); ++i) {
    both.Append(t.reps[i]);
    both.Append(t.x[i]);
  }
  return both;
}

bool InferTile(const TileParams& p, Specs& in, Specs& out) {
  for (int64_t n : p.reps) {
    Check(n >= 0, "tile: reps ", p.reps,
          " has a negative number; at least 0 was expected");
  }
  if (!in[0].shape.rank_known()) return true;
  const Tiling t = Align(p, in[0].shape);
  Shape y = t.x;
  for (int i = 0; i < y.rank(); ++i)
    if (y[i] != kUnknownSize) y[i] *= t.reps[i];
  return Unify(y, out[0].shape);
}

void RunTile(const TileParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const Tiling t = Align(p, x.shape());
  const Shape sizes = Doubled(t);
  const cpu::Strides steps = cpu::RowMajor(t.x);
  cpu::Strides strides;
  for (int i = 0; i < t.x.rank(); ++i) {
    strides.Append(0);
    strides.Append(steps[i]);
  }
  cpu::CopyStrided(sizes, args.out[0].ptr, cpu::RowMajor(sizes), x.ptr, strides,
                   SizeOf(x.dtype));
}

Values TileGradient(const TileParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const Tiling t = Align(p, x);
  ReduceAxes copies;
  for (int i = 0; i < t.x.rank(); ++i) copies.axes.push_back(2 * i);
  if (copies.axes.empty()) return {g.dout(0)};
  return {reshape(sum(reshape(g.dout(0), Doubled(t)), copies), x)};
}

[[maybe_unused]] const OpDef& tile = Register<TileParams>({
    .name = "tile",
    .aliases = {"_npi_tile"},
    .doc = "x repeated as a whole, along each axis.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<TileParams>(
        "reps", &TileParams::reps,
        "How often along each axis; the last entry is for the last axis.")},
    .infer = InferTile,
    .gradient = TileGradient,
    .cpu = {{"plain", RunTile}},
    .samples = {{{Normal({2, 3})}, {{2, 2}}},
                {{Normal({2, 3})}, {{2}}},
                {{Normal({3})}, {{2, 1, 2}}},
                {{Normal({2, 3})}, {{0, 1}}}},
});

// ---------------------------------------------------------------- repeat

struct RepeatParams {
  int repeats = 1;
  std::optional<int> axis;
};

// Sizes before the axis, along it, and after it.
struct Around {
  int64_t outer, n, inner;
};
Around AroundAxis(const RepeatParams& p, const Shape& x) {
  if (!p.axis) return {1, x.size(), 1};
  const int axis = NormalizeAxis(*p.axis, x.rank(), "repeat");
  return {x.size(0, axis), x[axis], x.size(axis + 1, x.rank())};
}

bool InferRepeat(const RepeatParams& p, Specs& in, Specs& out) {
  Check(p.repeats >= 0, "repeat: repeats is ", p.repeats, "; at least 0 was expected");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Shape y{x.size() * p.repeats};
  if (p.axis) {
    y = x;
    y[NormalizeAxis(*p.axis, x.rank(), "repeat")] *= p.repeats;
  }
  return Unify(y, out[0].shape);
}

void RunRepeat(const RepeatParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const Around a = AroundAxis(p, x.shape());
  const Shape sizes{a.outer, a.n, p.repeats, a.inner};
  cpu::CopyStrided(sizes, args.out[0].ptr, cpu::RowMajor(sizes), x.ptr,
                   {a.n * a.inner, a.inner, 0, 1}, SizeOf(x.dtype));
}

Values RepeatGradient(const RepeatParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const Around a = AroundAxis(p, x);
  const Value dy = reshape(g.dout(0), {a.outer, a.n, p.repeats, a.inner});
  return {reshape(sum(dy, {.axes = {2}}), x)};
}

[[maybe_unused]] const OpDef& repeat = Register<RepeatParams>({
    .name = "repeat",
    .aliases = {"_np_repeat"},
    .doc = "Each element of x several times, side by side.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<RepeatParams>("repeats", &RepeatParams::repeats, "How often."),
               {"axis", &RepeatParams::axis,
                "The axis along which; none: x counts as one row."}},
    .infer = InferRepeat,
    .gradient = RepeatGradient,
    .cpu = {{"plain", RunRepeat}},
    .samples = {{{Normal({2, 3})}, {.repeats = 2}},
                {{Normal({2, 3})}, {.repeats = 3, .axis = 1}},
                {{Normal({2, 3})}, {.repeats = 2, .axis = -2}},
                {{Normal({0, 3})}, {.repeats = 2, .axis = 1}}},
});

}  // namespace
}  // namespace plait
