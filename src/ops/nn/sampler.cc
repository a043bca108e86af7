// BilinearSampler, GridGenerator and SpatialTransformer: images sampled at the points
// of a grid.
//
// Two operators give derivatives of any order. Sample reads x at the points of the
// grid, Spread is its transpose; both are taken with the interpolating weights or,
// along either axis, with their derivative: the derivative for a grid is a Sample
// again.

#include "ops/nn/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

// The two neighbours of a coordinate on an axis of n pixels: the first one's index, and
// the weights of both (or their derivatives).
struct Ends {
  int64_t first;
  double weights[2];
};
Ends EndsAt(const SampleParams& p, double coordinate, int64_t n, bool slope) {
  const double scale = p.pixels ? 1 : static_cast<double>(n - 1) / 2;
  const double at = p.pixels ? coordinate : (coordinate + 1) * scale;
  const double size = static_cast<double>(n);
  // Far outside, and for NaN, nothing is read.
  if (!(p.clamp ? at >= 0 && at < size : at > -2 && at < size + 1)) return {-2, {0, 0}};
  const double first = std::floor(at), part = at - first;
  if (p.clamp && first >= size - 1) return {n - 1, {slope ? 0.0 : 1.0, 0}};
  if (slope) return {static_cast<int64_t>(first), {-scale, scale}};
  return {static_cast<int64_t>(first), {1 - part, part}};
}

// Calls f(position in the plane, weight) for the neighbours that lie inside.
template <typename F>
void ForEachNeighbour(const SampleParams& p, double x, double y, int64_t h, int64_t w,
                      F&& f) {
  const Ends ex = EndsAt(p, x, w, p.slope_x), ey = EndsAt(p, y, h, p.slope_y);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int64_t row = ey.first + i, column = ex.first + j;
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      f(row * w + column, ey.weights[i] * ex.weights[j]);
    }
  }
}

}  // namespace

void SampleAt(const SampleParams& p, const View& x, const View& grid, const View& y) {
  const Shape &xs = x.shape(), &ys = y.shape();
  const int64_t in = xs[2] * xs[3], out = ys[2] * ys[3];
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(xs[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        const T* points = grid.data<const T>() + n * 2 * out;
        for (int64_t i = 0; i < out; ++i) {
          const double px = static_cast<A>(points[p.pixels ? out + i : i]);
          const double py = static_cast<A>(points[p.pixels ? i : out + i]);
          for (int64_t c = 0; c < xs[1]; ++c) {
            const T* plane = x.data<const T>() + (n * xs[1] + c) * in;
            A total = 0;
            ForEachNeighbour(p, px, py, xs[2], xs[3], [&](int64_t j, double weight) {
              total += static_cast<A>(weight) * static_cast<A>(plane[j]);
            });
            y.data<T>()[(n * xs[1] + c) * out + i] = static_cast<T>(total);
          }
        }
      }
    });
  });
}

namespace {

void Sample(const SampleParams& p, const KernelArgs& args) {
  SampleAt(p, args.in[0], args.in[1], args.out[0]);
}

void Spread(const SampleParams& p, const KernelArgs& args) {
  const View &y = args.in[0], &grid = args.in[1], &x = args.out[0];
  const Shape &xs = x.shape(), &ys = y.shape();
  const int64_t in = xs[2] * xs[3], out = ys[2] * ys[3];
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(xs[0] * xs[1], 1, [&](int64_t first, int64_t last) {
      std::vector<A> sums(static_cast<size_t>(in));
      for (int64_t plane = first; plane < last; ++plane) {
        std::fill(sums.begin(), sums.end(), A{0});
        const T* points = grid.data<const T>() + plane / xs[1] * 2 * out;
        for (int64_t i = 0; i < out; ++i) {
          const A v = static_cast<A>(y.data<const T>()[plane * out + i]);
          const double px = static_cast<A>(points[p.pixels ? out + i : i]);
          const double py = static_cast<A>(points[p.pixels ? i : out + i]);
          ForEachNeighbour(p, px, py, xs[2], xs[3], [&](int64_t j, double weight) {
            sums[j] += static_cast<A>(weight) * v;
          });
        }
        for (int64_t j = 0; j < in; ++j) {
          x.data<T>()[plane * in + j] = static_cast<T>(sums[j]);
        }
      }
    });
  });
}

bool InferSample(const SampleParams&, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &grid = in[1].shape, &y = out[0].shape;
  const Shape four = Shape::Filled(4, kUnknownSize);
  Check(Assign(x, four) && Assign(grid, {x[0], 2, kUnknownSize, kUnknownSize}),
        "BilinearSampler: data ", x, " and grid ", grid,
        " do not match; (n, channels, h, w) and (n, 2, out_h, out_w) were expected");
  x[0] = grid[0];
  return Assign(y, {x[0], x[1], grid[2], grid[3]});
}

// dy must be what sampling an x of p.result gives.
bool InferSpread(const SampleParams& p, Specs& in, Specs& out) {
  const Shape &dy = in[0].shape, &grid = in[1].shape, &x = p.result;
  if (dy.known() && grid.known()) {
    Check(x.rank() == 4 && dy.rank() == 4 && grid.rank() == 4 &&
              dy == Shape{x[0], x[1], grid[2], grid[3]} && grid[0] == x[0] &&
              grid[1] == 2,
          "_backward_BilinearSampler: dy ", dy, " does not fit grid ", grid, " and x ",
          x, "; (n, channels, out_h, out_w) was expected");
  }
  return Assign(out[0].shape, p.result);
}

}  // namespace

Value GridGradient(const SampleParams& p, const Value& dy, const Value& x,
                   const Value& grid) {
  const auto along = [&](bool is_x) {
    SampleParams q = p;
    bool& slope = is_x ? q.slope_x : q.slope_y;
    if (slope) return zeros_like(sum(dy, {.axes = {1}, .keepdims = true}));
    slope = true;
    return sum(dy * SampleOf(q, x, grid), {.axes = {1}, .keepdims = true});
  };
  return Make("Concat", {along(!p.pixels), along(p.pixels)},
              {{"dim", Attr(1)}, {"num_args", Attr(2)}});
}

namespace {

Values SampleGradient(const SampleParams& p, const GradArgs& g) {
  Values result(2);
  const Value& dy = g.dout(0);
  if (g.wants(0)) result[0] = SpreadOf(p, dy, g.in(1), g.in_spec(0).shape);
  if (g.wants(1)) result[1] = GridGradient(p, dy, g.in(0), g.in(1));
  return result;
}
Values SpreadGradient(const SampleParams& p, const GradArgs& g) {
  Values result(2);
  const Value& u = g.dout(0);
  if (g.wants(0)) result[0] = SampleOf(p, u, g.in(1));
  if (g.wants(1)) result[1] = GridGradient(p, g.in(0), u, g.in(1));
  return result;
}

const SampleInput kGrid = Uniform({2, 2, 3, 2}, -1.2, 1.2);

const OpDef& sampler = Register<SampleParams>({
    .name = "BilinearSampler",
    .doc =
        "Samples images at the points of a grid, by bilinear interpolation; -1 and 1 "
        "are the centres of the outermost pixels, beyond them is 0.",
    .inputs = {{"data", Types::kFloats, "(n, channels, h, w)."},
               {"grid", Types::kFloats,
                "x and y of each point: (n, 2, out_h, out_w)."}},
    .params = {{"cudnn_off", &SampleParams::cudnn_off, "For GPUs."}},
    .infer = InferSample,
    .gradient = SampleGradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Sample}},
    .samples = {{{Normal({2, 2, 4, 3}), kGrid}}},
});

const OpDef& spread_op = Register<SampleParams>({
    .name = "_backward_BilinearSampler",
    .doc = "The gradient of BilinearSampler for its data.",
    .inputs = {{"dy", Types::kFloats}, {"grid", Types::kFloats}},
    .infer = InferSpread,
    .gradient = SpreadGradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Spread}},
    .samples = {{{Normal({2, 2, 3, 2}), kGrid}, {.result = {2, 2, 4, 3}}},
                {{Normal({2, 2, 3, 2}), Uniform({2, 2, 3, 2}, -1, 4)},
                 {.pixels = true, .clamp = true, .result = {2, 2, 4, 3}}}},
});

}  // namespace

Value SampleOf(SampleParams p, const Value& x, const Value& grid) {
  const Value inputs[] = {x, grid};
  return ApplyOne(sampler, MakeParams(std::move(p)), inputs);
}
Value SpreadOf(SampleParams p, const Value& y, const Value& grid, const Shape& shape) {
  p.result = shape;
  const Value inputs[] = {y, grid};
  return ApplyOne(spread_op, MakeParams(std::move(p)), inputs);
}

}  // namespace plait
