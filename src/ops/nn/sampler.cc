// BilinearSampler, GridGenerator and SpatialTransformer: images sampled at the points
// of a grid.
//
// Two operators give derivatives of any order. Sample reads x at the points of the
// grid, Spread is its transpose; both are taken with the interpolating weights or,
// along either axis, with their derivative: the derivative for a grid is a Sample
// again.

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct SampleParams {
  std::optional<bool> cudnn_off;
  bool slope_x = false, slope_y = false;  // derivatives of the weights
  Shape result;                           // of Spread: the shape it gives
};

// The two neighbours of a coordinate in [-1, 1] on an axis of n pixels: the first one's
// index, and the weights of both (or their derivatives).
struct Ends {
  int64_t first;
  double weights[2];
};
Ends EndsAt(double coordinate, int64_t n, bool slope) {
  const double scale = static_cast<double>(n - 1) / 2;
  const double at = (coordinate + 1) * scale;
  // Far outside, and for NaN, nothing is read.
  if (!(at > -2 && at < static_cast<double>(n) + 1)) return {-2, {0, 0}};
  const double first = std::floor(at), part = at - first;
  if (slope) return {static_cast<int64_t>(first), {-scale, scale}};
  return {static_cast<int64_t>(first), {1 - part, part}};
}

// Calls f(position in the plane, weight) for the neighbours that lie inside.
template <typename F>
void ForEachNeighbour(const SampleParams& p, double x, double y, int64_t h, int64_t w,
                      F&& f) {
  const Ends ex = EndsAt(x, w, p.slope_x), ey = EndsAt(y, h, p.slope_y);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const int64_t row = ey.first + i, column = ex.first + j;
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      f(row * w + column, ey.weights[i] * ex.weights[j]);
    }
  }
}

// y[n, c, i] = x[n, c] at grid[n, :, i].
void SampleAt(const SampleParams& p, const View& x, const View& grid, const View& y) {
  const Shape &xs = x.shape(), &ys = y.shape();
  const int64_t in = xs[2] * xs[3], out = ys[2] * ys[3];
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(xs[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n) {
        const T* points = grid.data<const T>() + n * 2 * out;
        for (int64_t i = 0; i < out; ++i) {
          const double px = static_cast<A>(points[i]);
          const double py = static_cast<A>(points[out + i]);
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
          ForEachNeighbour(
              p, static_cast<A>(points[i]), static_cast<A>(points[out + i]), xs[2],
              xs[3],
              [&](int64_t j, double weight) { sums[j] += static_cast<A>(weight) * v; });
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

bool InferSpread(const SampleParams& p, Specs&, Specs& out) {
  return Assign(out[0].shape, p.result);
}

Value SampleOf(SampleParams p, const Value& x, const Value& grid);
Value SpreadOf(SampleParams p, const Value& y, const Value& grid, const Shape& shape);

// sum over channels of dy times the slopes of x at the points: (n, 2, h, w).
Value GridGradient(const SampleParams& p, const Value& dy, const Value& x,
                   const Value& grid) {
  const auto along = [&](bool is_x) {
    SampleParams q = p;
    bool& slope = is_x ? q.slope_x : q.slope_y;
    if (slope) return zeros_like(sum(dy, {.axes = {1}, .keepdims = true}));
    slope = true;
    return sum(dy * SampleOf(q, x, grid), {.axes = {1}, .keepdims = true});
  };
  return Make("Concat", {along(true), along(false)},
              {{"dim", Attr(1)}, {"num_args", Attr(2)}});
}

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
    .samples = {{{Normal({2, 2, 3, 2}), kGrid}, {.result = {2, 2, 4, 3}}}},
});

Value SampleOf(SampleParams p, const Value& x, const Value& grid) {
  const Value inputs[] = {x, grid};
  return ApplyOne(sampler, MakeParams(std::move(p)), inputs);
}
Value SpreadOf(SampleParams p, const Value& y, const Value& grid, const Shape& shape) {
  p.result = shape;
  const Value inputs[] = {y, grid};
  return ApplyOne(spread_op, MakeParams(std::move(p)), inputs);
}

// ---------------------------------------------------------------- grids

enum class Transform { kAffine, kWarp };

struct GridParams {
  Transform transform_type = Transform::kAffine;
  Shape target_shape{0, 0};
};

bool CheckAffine(const char* op, const Shape& loc, const Shape& target) {
  Check(target.rank() == 2 && target[0] > 0 && target[1] > 0, op, ": target_shape is ",
        target, "; (height, width) was expected");
  if (!loc.rank_known()) return false;
  Check(loc.rank() == 2 && (loc[1] == 6 || loc[1] == kUnknownSize), op, ": the affine ",
        "matrices have shape ", loc, "; (n, 6) was expected");
  return true;
}

bool InferGrid(const GridParams& p, Specs& in, Specs& out) {
  Shape& x = in[0].shape;
  if (p.transform_type == Transform::kAffine) {
    if (!CheckAffine("GridGenerator", x, p.target_shape)) return true;
    return Assign(out[0].shape, {x[0], 2, p.target_shape[0], p.target_shape[1]});
  }
  Check(Assign(x, {kUnknownSize, 2, kUnknownSize, kUnknownSize}),
        "GridGenerator: data ", x, "; a flow of shape (n, 2, h, w) was expected");
  return Unify(x, out[0].shape);
}

// Pixel i of n as a coordinate in [-1, 1].
double Coordinate(int64_t i, int64_t n) {
  return n > 1 ? 2.0 * static_cast<double>(i) / static_cast<double>(n - 1) - 1 : -1;
}
double Step(int64_t n) {
  return n > 1 ? 2.0 / static_cast<double>(n - 1) : 0;
}

// theta (x, y, 1) for every point of a regular grid of height h and width w.
void AffineGrid(const View& theta, const View& grid, int64_t h, int64_t w) {
  VisitFloat(grid.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    T* out = grid.data<T>();
    for (int64_t row = 0; row < grid.shape()[0] * 2; ++row) {
      const T* t = theta.data<const T>() + row * 3;
      for (int64_t i = 0; i < h * w; ++i) {
        const A x = static_cast<A>(Coordinate(i % w, w));
        const A y = static_cast<A>(Coordinate(i / w, h));
        *out++ = static_cast<T>(static_cast<A>(t[0]) * x + static_cast<A>(t[1]) * y +
                                static_cast<A>(t[2]));
      }
    }
  });
}

void Generate(const GridParams& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const int64_t h = y.shape()[2], w = y.shape()[3];
  if (p.transform_type == Transform::kAffine) return AffineGrid(x, y, h, w);
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    for (int64_t i = 0; i < y.size(); ++i) {
      const bool is_x = i / (h * w) % 2 == 0;
      const int64_t pixel = is_x ? i % w : i / w % h;
      const A flow = static_cast<A>(x.data<const T>()[i]);
      y.data<T>()[i] = static_cast<T>(static_cast<A>(Coordinate(pixel, is_x ? w : h)) +
                                      flow * static_cast<A>(Step(is_x ? w : h)));
    }
  });
}

// The transpose of the linear part of Generate.
void GenerateBackward(const GridParams& p, const KernelArgs& args) {
  const View &dy = args.in[0], &dx = args.out[0];
  const int64_t h = dy.shape()[2], w = dy.shape()[3];
  VisitFloat(dx.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* src = dy.data<const T>();
    if (p.transform_type == Transform::kWarp) {
      for (int64_t i = 0; i < dx.size(); ++i) {
        const bool is_x = i / (h * w) % 2 == 0;
        dx.data<T>()[i] =
            static_cast<T>(static_cast<A>(src[i]) * static_cast<A>(Step(is_x ? w : h)));
      }
      return;
    }
    for (int64_t row = 0; row < dy.shape()[0] * 2; ++row) {
      double t[3] = {0, 0, 0};
      for (int64_t i = 0; i < h * w; ++i) {
        const double d = static_cast<A>(src[row * h * w + i]);
        t[0] += d * Coordinate(i % w, w);
        t[1] += d * Coordinate(i / w, h);
        t[2] += d;
      }
      for (int k = 0; k < 3; ++k) {
        dx.data<T>()[row * 3 + k] = static_cast<T>(static_cast<A>(t[k]));
      }
    }
  });
}

Value GridBackward(const GridParams& p, const Value& dy);
Value GridLinear(const GridParams& p, const Value& x);

const OpDef& grid_generator = Register<GridParams>({
    .name = "GridGenerator",
    .doc = "A grid for BilinearSampler, from affine matrices or from a flow in pixels.",
    .inputs = {{"data", Types::kFloats, "(n, 6), or a flow of shape (n, 2, h, w)."}},
    .outputs = {{"output", Types::kFloats, "x and y of each point: (n, 2, h, w)."}},
    .params = {Required("transform_type", &GridParams::transform_type,
                        {"affine", "warp"}, "What data is."),
               {"target_shape", &GridParams::target_shape, "(h, w) for affine."}},
    .infer = InferGrid,
    .gradient = [](const GridParams& p, const GradArgs& g) -> Values {
      return {GridBackward(p, g.dout(0))};
    },
    .cpu = {{"plain", Generate}},
    .samples = {{{Normal({2, 6})}, {Transform::kAffine, {3, 2}}},
                {{Normal({2, 2, 3, 4})}, {Transform::kWarp}}},
});

const OpDef& grid_backward = Register<GridParams>({
    .name = "_backward_GridGenerator",
    .doc = "The gradient of GridGenerator.",
    .inputs = {{"dy", Types::kFloats}},
    .infer =
        [](const GridParams& p, Specs& in, Specs& out) {
          if (p.transform_type == Transform::kWarp) {
            return Unify(in[0].shape, out[0].shape);
          }
          return Assign(out[0].shape, {in[0].shape[0], 6});
        },
    .gradient = [](const GridParams& p, const GradArgs& g) -> Values {
      return {GridLinear(p, g.dout(0))};
    },
    .cpu = {{"plain", GenerateBackward}},
    .samples = {{{Normal({2, 2, 3, 2})}, {Transform::kAffine, {3, 2}}},
                {{Normal({2, 2, 3, 4})}, {Transform::kWarp}}},
});

Value GridBackward(const GridParams& p, const Value& dy) {
  return ApplyOne(grid_backward, MakeParams(GridParams(p)), {&dy, 1});
}
// The linear part alone; that of a flow is its own transpose.
Value GridLinear(const GridParams& p, const Value& x) {
  if (p.transform_type == Transform::kWarp) return GridBackward(p, x);
  return ApplyOne(grid_generator, MakeParams(GridParams(p)), {&x, 1});
}

// ---------------------------------------------------------------- both at once

enum class Affine { kAffine };
enum class Bilinear { kBilinear };

struct TransformerParams {
  Shape target_shape{0, 0};
  Affine transform_type = Affine::kAffine;
  Bilinear sampler_type = Bilinear::kBilinear;
  std::optional<bool> cudnn_off;
};

bool InferTransformer(const TransformerParams& p, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &loc = in[1].shape;
  Check(Assign(x, Shape::Filled(4, kUnknownSize)), "SpatialTransformer: data ", x,
        "; (n, channels, h, w) was expected");
  if (!CheckAffine("SpatialTransformer", loc, p.target_shape)) return true;
  Check(UnifySize(x[0], loc[0]), "SpatialTransformer: data ", x, " and loc ", loc,
        " do not match; equal batches were expected");
  return Assign(out[0].shape, {x[0], x[1], p.target_shape[0], p.target_shape[1]});
}

void Transform2D(const TransformerParams& p, const KernelArgs& args) {
  const View &x = args.in[0], &theta = args.in[1], &y = args.out[0];
  const int64_t h = p.target_shape[0], w = p.target_shape[1];
  const Shape shape{x.shape()[0], 2, h, w};
  std::vector<char> memory(static_cast<size_t>(shape.size()) * SizeOf(x.dtype));
  const View grid{memory.data(), &shape, x.dtype};
  AffineGrid(theta, grid, h, w);
  SampleAt({}, x, grid, y);
}

Values TransformerGradient(const TransformerParams& p, const GradArgs& g) {
  const GridParams affine{Transform::kAffine, p.target_shape};
  const Value theta = g.in(1);
  const Value grid =
      ApplyOne(grid_generator, MakeParams(GridParams(affine)), {&theta, 1});
  Values result(2);
  if (g.wants(0)) result[0] = SpreadOf({}, g.dout(0), grid, g.in_spec(0).shape);
  if (g.wants(1)) {
    result[1] = GridBackward(affine, GridGradient({}, g.dout(0), g.in(0), grid));
  }
  return result;
}

const OpDef& transformer = Register<TransformerParams>({
    .name = "SpatialTransformer",
    .doc = "Samples images at affinely transformed points (Jaderberg et al., 2015).",
    .inputs = {{"data", Types::kFloats, "(n, channels, h, w)."},
               {"loc", Types::kFloats, "Affine matrices, (n, 6)."}},
    .params = {{"target_shape", &TransformerParams::target_shape,
                "(h, w) of the result."},
               Required("transform_type", &TransformerParams::transform_type,
                        {"affine"}, "The kind of transformation."),
               Required("sampler_type", &TransformerParams::sampler_type, {"bilinear"},
                        "The kind of interpolation."),
               {"cudnn_off", &TransformerParams::cudnn_off, "For GPUs."}},
    .infer = InferTransformer,
    .gradient = TransformerGradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Transform2D}},
    .samples = {{{Normal({2, 2, 4, 3}), Uniform({2, 6}, -0.8, 0.8)},
                 {.target_shape = {3, 2}}}},
});

}  // namespace
}  // namespace plait
