// Adaptive average pooling and bilinear resizing of images: linear maps along height
// and width, each with its transpose as gradient.

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

// y[i] is a sum of weight * x[j] over few neighbouring j.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};
using Map = std::vector<Taps>;

// The average over the cell that the pixel i of y covers in x.
Map AverageMap(int64_t in, int64_t out) {
  Map map(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const int64_t first = i * in / out, last = ((i + 1) * in + out - 1) / out;
    map[i].first = first;
    map[i].weights.assign(static_cast<size_t>(last - first),
                          1.0 / static_cast<double>(last - first));
  }
  return map;
}

// Between the two pixels of x nearest to the place of pixel i of y.
Map LinearMap(int64_t in, int64_t out, bool align_corners) {
  Map map(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    double at = 0;
    if (in == out) {
      at = static_cast<double>(i);
    } else if (align_corners) {
      if (out > 1) at = static_cast<double>(i) * (in - 1) / (out - 1);
    } else {
      at = std::max(0.0, (i + 0.5) * static_cast<double>(in) / out - 0.5);
    }
    const int64_t first = std::min(static_cast<int64_t>(at), in - 1);
    const double part = at - static_cast<double>(first);
    map[i].first = first;
    map[i].weights = {1 - part};
    if (first + 1 < in)
      map[i].weights.push_back(part);
    else
      map[i].weights[0] = 1;
  }
  return map;
}

template <typename T>
void Gather(const Map& rows, const Map& columns, int64_t width, const T* x, T* y) {
  using A = Accumulate<T>;
  for (const Taps& r : rows) {
    for (const Taps& c : columns) {
      A total = 0;
      for (size_t i = 0; i < r.weights.size(); ++i) {
        const T* row = x + (r.first + static_cast<int64_t>(i)) * width + c.first;
        A sum = 0;
        for (size_t j = 0; j < c.weights.size(); ++j) {
          sum += static_cast<A>(c.weights[j]) * static_cast<A>(row[j]);
        }
        total += static_cast<A>(r.weights[i]) * sum;
      }
      *y++ = static_cast<T>(total);
    }
  }
}

template <typename T>
void Scatter(const Map& rows, const Map& columns, int64_t width, const T* dy,
             Accumulate<T>* dx) {
  using A = Accumulate<T>;
  for (const Taps& r : rows) {
    for (const Taps& c : columns) {
      const A v = static_cast<A>(*dy++);
      for (size_t i = 0; i < r.weights.size(); ++i) {
        A* row = dx + (r.first + static_cast<int64_t>(i)) * width + c.first;
        for (size_t j = 0; j < c.weights.size(); ++j) {
          row[j] += static_cast<A>(r.weights[i] * c.weights[j]) * v;
        }
      }
    }
  }
}

enum class ResizeMode {
  kLike,
  kOddScale,
  kSize,
  kToEvenDown,
  kToEvenUp,
  kToOddDown,
  kToOddUp
};

struct AdaptiveParams {
  Shape output_size;
  Shape result;  // of the gradient: the shape of x

  static constexpr const char* kName = "_contrib_AdaptiveAvgPooling2D";
  Map MapOf(int64_t in, int64_t out) const { return AverageMap(in, out); }
};
struct ResizeParams {
  int height = 1, width = 1;
  std::optional<float> scale_height, scale_width;
  ResizeMode mode = ResizeMode::kSize;
  bool align_corners = true;
  Shape result;

  static constexpr const char* kName = "_contrib_BilinearResize2D";
  Map MapOf(int64_t in, int64_t out) const { return LinearMap(in, out, align_corners); }
};

void CheckImage(const char* name, const Shape& x) {
  Check(x.rank() == 4 && x[2] != 0 && x[3] != 0, name, ": x ", x,
        "; (batch, channels, height, width), not empty, was expected");
}

bool InferAdaptive(const AdaptiveParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  CheckImage(AdaptiveParams::kName, x);
  const Shape& size = p.output_size;
  Check(size.rank() <= 2, AdaptiveParams::kName, ": output_size is ", size,
        "; at most two numbers were expected");
  Shape y = x;
  y[2] = size.rank() == 0 ? 1 : size[0];
  y[3] = size.rank() == 0 ? 1 : size.back();
  Check(y[2] > 0 && y[3] > 0, AdaptiveParams::kName, ": output_size is ", size,
        "; positive numbers were expected");
  return Assign(out[0].shape, y);
}

int64_t ResizedTo(const ResizeParams& p, int64_t size, int given,
                  const std::optional<float>& scale) {
  switch (p.mode) {
    case ResizeMode::kSize:
      return scale ? static_cast<int64_t>(*scale * static_cast<float>(size)) : given;
    case ResizeMode::kOddScale:
      Check(
          scale.has_value(), ResizeParams::kName,
          ": mode odd_scale without scale_height and scale_width; both were expected");
      return size % 2 == 0
                 ? static_cast<int64_t>(static_cast<float>(size) * *scale)
                 : static_cast<int64_t>(static_cast<float>(size - 1) * *scale) + 1;
    case ResizeMode::kToEvenDown:
      return size - size % 2;
    case ResizeMode::kToEvenUp:
      return size + size % 2;
    case ResizeMode::kToOddDown:
      return size - (1 - size % 2);
    case ResizeMode::kToOddUp:
      return size + (1 - size % 2);
    case ResizeMode::kLike:
      break;
  }
  return size;
}

bool InferResize(const ResizeParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.known() || (in.size() == 2 && !in[1].shape.known())) return true;
  CheckImage(ResizeParams::kName, x);
  Shape y = x;
  y[2] = ResizedTo(p, x[2], p.height, p.scale_height);
  y[3] = ResizedTo(p, x[3], p.width, p.scale_width);
  if (in.size() == 2) {
    CheckImage(ResizeParams::kName, in[1].shape);
    y[2] = in[1].shape[2];
    y[3] = in[1].shape[3];
  }
  Check(y[2] > 0 && y[3] > 0, ResizeParams::kName, ": the result would be ", y,
        "; positive sizes were expected");
  return Assign(out[0].shape, y);
}

bool InferForward(const AdaptiveParams& p, Specs& in, Specs& out) {
  return InferAdaptive(p, in, out);
}
// With mode like, dy itself says what the size was.
bool InferForward(const ResizeParams& p, Specs& in, Specs& out) {
  if (p.mode != ResizeMode::kLike) return InferResize(p, in, out);
  CheckImage(ResizeParams::kName, in[0].shape);
  const Shape& x = in[0].shape;
  return Assign(out[0].shape, {x[0], x[1], kUnknownSize, kUnknownSize});
}

// dy must be what resampling an x of p.result gives.
template <typename P>
bool InferTransposed(const P& p, Specs& in, Specs& out) {
  Check(p.result.known(), P::kName, ": the gradient's result is ", p.result,
        "; the shape of x was expected");
  Specs x{{p.result, in[0].dtype}}, y{{Shape::Unknown(), in[0].dtype}};
  Check(InferForward(p, x, y) && Unify(in[0].shape, y[0].shape), P::kName, ": dy ",
        in[0].shape, " does not fit x ", p.result, "; ", y[0].shape, " was expected");
  return Assign(out[0].shape, p.result);
}

template <typename P>
void Forward(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.out[0].shape();
  const Map rows = p.MapOf(x[2], y[2]), columns = p.MapOf(x[3], y[3]);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(x[0] * x[1], 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Gather(rows, columns, x[3], args.in[0].data<const T>() + i * x[2] * x[3],
               args.out[0].data<T>() + i * y[2] * y[3]);
      }
    });
  });
}

template <typename P>
void Transposed(const P& p, const KernelArgs& args) {
  const Shape &x = args.out[0].shape(), &y = args.in[0].shape();
  const Map rows = p.MapOf(x[2], y[2]), columns = p.MapOf(x[3], y[3]);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(x[0] * x[1], 1, [&](int64_t first, int64_t last) {
      std::vector<Accumulate<T>> sums(static_cast<size_t>(x[2] * x[3]));
      for (int64_t i = first; i < last; ++i) {
        std::fill(sums.begin(), sums.end(), Accumulate<T>{0});
        Scatter(rows, columns, x[3], args.in[0].data<const T>() + i * y[2] * y[3],
                sums.data());
        T* dx = args.out[0].data<T>() + i * x[2] * x[3];
        for (const Accumulate<T> v : sums) *dx++ = static_cast<T>(v);
      }
    });
  });
}

template <typename P>
Values Gradient(const P& p, const GradArgs& g);
template <typename P>
Values TransposedGradient(const P& p, const GradArgs& g);

const OpDef& adaptive = Register<AdaptiveParams>({
    .name = AdaptiveParams::kName,
    .doc = "Averages images over a grid of output_size cells.",
    .inputs = {{"data", Types::kFloats, "(batch, channels, height, width)."}},
    .params = {{"output_size", &AdaptiveParams::output_size,
                "(height, width), one number for both, or () for 1."}},
    .infer = InferAdaptive,
    .gradient = Gradient<AdaptiveParams>,
    .cpu = {{"plain", Forward<AdaptiveParams>}},
    .samples = {{{Normal({2, 2, 5, 4})}, {.output_size = {2, 3}}},
                {{Normal({1, 2, 3, 3})}},
                {{Normal({1, 1, 2, 3})}, {.output_size = {4}}}},
});

const OpDef& adaptive_transposed = Register<AdaptiveParams>({
    .name = "_backward_contrib_AdaptiveAvgPooling2D",
    .doc = "The gradient of adaptive average pooling.",
    .inputs = {{"dy", Types::kFloats}},
    .infer = InferTransposed<AdaptiveParams>,
    .gradient = TransposedGradient<AdaptiveParams>,
    .cpu = {{"plain", Transposed<AdaptiveParams>}},
    .samples = {{{Normal({2, 2, 2, 3})},
                 {.output_size = {2, 3}, .result = {2, 2, 5, 4}}}},
});

SampleInput Like(Shape shape) {
  SampleInput s = Normal(std::move(shape));
  s.differentiable = false;
  return s;
}

const OpDef& resize = Register<ResizeParams>({
    .name = ResizeParams::kName,
    .doc = "Resizes images by bilinear interpolation.",
    .inputs = {{"data", Types::kFloats, "(batch, channels, height, width)."},
               {"like", Types::kFloats, "With mode like: has the size wanted."}},
    .params = {{"height", &ResizeParams::height, "Height of the result."},
               {"width", &ResizeParams::width, "Width of the result."},
               {"scale_height", &ResizeParams::scale_height, "Factor for the height."},
               {"scale_width", &ResizeParams::scale_width, "Factor for the width."},
               {"mode",
                &ResizeParams::mode,
                {"like", "odd_scale", "size", "to_even_down", "to_even_up",
                 "to_odd_down", "to_odd_up"},
                "Where the size comes from."},
               {"align_corners", &ResizeParams::align_corners,
                "The corner pixels of both images lie on each other."}},
    .optional_inputs = [](const ResizeParams& p) -> std::vector<bool> {
      return {true, p.mode == ResizeMode::kLike};
    },
    .infer = InferResize,
    .gradient = Gradient<ResizeParams>,
    .cpu = {{"plain", Forward<ResizeParams>}},
    .samples =
        {{{Normal({1, 2, 3, 4})}, {.height = 5, .width = 6}},
         {{Normal({1, 1, 4, 5})}, {.height = 3, .width = 2, .align_corners = false}},
         {{Normal({1, 1, 3, 4})},
          {.scale_height = 2.0f, .scale_width = 0.5f, .mode = ResizeMode::kOddScale}},
         {{Normal({1, 2, 3, 3}), Like({1, 1, 2, 4})}, {.mode = ResizeMode::kLike}}},
});

const OpDef& resize_transposed = Register<ResizeParams>({
    .name = "_backward_contrib_BilinearResize2D",
    .doc = "The gradient of bilinear resizing.",
    .inputs = {{"dy", Types::kFloats}},
    .infer = InferTransposed<ResizeParams>,
    .gradient = TransposedGradient<ResizeParams>,
    .cpu = {{"plain", Transposed<ResizeParams>}},
    .samples = {{{Normal({1, 2, 5, 6})},
                 {.height = 5, .width = 6, .result = {1, 2, 3, 4}}}},
});

template <typename P>
Values Gradient(const P& p, const GradArgs& g) {
  P q = p;
  q.result = g.in_spec(0).shape;
  const Value dy = g.dout(0);
  const bool adapts = std::is_same_v<P, AdaptiveParams>;
  Values result(g.num_inputs());
  result[0] = ApplyOne(adapts ? adaptive_transposed : resize_transposed,
                       MakeParams(std::move(q)), {&dy, 1});
  return result;
}

// Back to the size of dy, which the parameters may say by a second array only.
template <typename P>
Values TransposedGradient(const P& p, const GradArgs& g) {
  P q = p;
  const Shape& y = g.in_spec(0).shape;
  const Value u = g.dout(0);
  if constexpr (std::is_same_v<P, ResizeParams>) {
    q.mode = ResizeMode::kSize;
    q.scale_height = q.scale_width = std::nullopt;
    q.height = static_cast<int>(y[2]);
    q.width = static_cast<int>(y[3]);
    return {ApplyOne(resize, MakeParams(std::move(q)), {&u, 1})};
  } else {
    return {ApplyOne(adaptive, MakeParams(std::move(q)), {&u, 1})};
  }
}

}  // namespace
}  // namespace plait
