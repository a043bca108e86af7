// GridGenerator and SpatialTransformer: grids of points, and images sampled there.

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/sampler.h"

namespace plait {
namespace {

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
          Check(Assign(in[0].shape, {kUnknownSize, 2, kUnknownSize, kUnknownSize}),
                "_backward_GridGenerator: dy ", in[0].shape,
                "; the shape (n, 2, h, w) was expected");
          if (p.transform_type == Transform::kWarp) {
            return Unify(in[0].shape, out[0].shape);
          }
          const Shape &dy = in[0].shape, &target = p.target_shape;
          Check(!dy.known() ||
                    (target.rank() == 2 && dy[2] == target[0] && dy[3] == target[1]),
                "_backward_GridGenerator: dy ", dy, " and target_shape ", target,
                "; equal sizes were expected");
          return Assign(out[0].shape, {dy[0], 6});
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
