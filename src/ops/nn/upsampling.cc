// UpSampling: larger images, by repeated pixels or by a transposed convolution.

#include <algorithm>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/conv.h"

namespace plait {
namespace {

enum class SampleType { kBilinear, kNearest };
enum class MultiInput { kConcat, kSum };

struct UpSamplingParams {
  int scale = 1;
  int num_filter = 0;
  SampleType sample_type = SampleType::kNearest;
  MultiInput multi_input_mode = MultiInput::kConcat;
  int num_args = 0;  // as many as there are
  int64_t workspace = 512;
};
using P = UpSamplingParams;

bool InferBilinear(const P& p, Specs& in, Specs& out) {
  Check(in.size() == 2, "UpSampling: got ", in.size(),
        " arrays; sample_type bilinear takes x and weight");
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() == 4, "UpSampling: x ", x,
        "; (batch, channels, height, width) was expected");
  const int64_t kernel = 2 * p.scale - p.scale % 2;
  Check(Assign(in[1].shape, {x[1], 1, kernel, kernel}), "UpSampling: weight ",
        in[1].shape, " does not fit x ", x, "; ", Shape{x[1], 1, kernel, kernel},
        " was expected");
  Shape y = x;
  for (int i = 2; i < 4; ++i) {
    if (y[i] != kUnknownSize) y[i] *= p.scale;
  }
  return Assign(out[0].shape, y);
}

// All images grow to the size that the first one gets.
bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.scale >= 1, "UpSampling: scale is ", p.scale,
        "; a positive number was expected");
  if (p.sample_type == SampleType::kBilinear) return InferBilinear(p, in, out);
  Check(!in.empty(), "UpSampling: got no arrays; at least one was expected");
  for (const Spec& s : in) {
    if (!s.shape.known()) return true;
    Check(s.shape.rank() == 4, "UpSampling: x ", s.shape,
          "; (batch, channels, height, width) was expected");
  }
  Shape y = in[0].shape;
  const bool concat = p.multi_input_mode == MultiInput::kConcat;
  y[2] *= p.scale;
  y[3] *= p.scale;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape& x = in[i].shape;
    Check(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0 && x[0] == y[0],
          "UpSampling: array ", i, " of shape ", x, " does not fit a result of ", y,
          "; its height and width must divide it");
    if (i > 0 && concat) y[1] += x[1];
    Check(concat || x[1] == y[1], "UpSampling: array ", i, " of shape ", x, " has not ",
          y[1], " channels, as multi_input_mode sum needs");
  }
  return Assign(out[0].shape, y);
}

// A channel of x onto a channel of y.
template <typename T>
void Repeat(const T* x, T* y, int64_t h, int64_t w, int64_t sy, int64_t sx, bool add) {
  for (int64_t i = 0; i < h * sy; ++i) {
    const T* row = x + i / sy * w;
    for (int64_t j = 0; j < w * sx; ++j) {
      using A = Accumulate<T>;
      const A v = static_cast<A>(row[j / sx]);
      T& to = y[i * w * sx + j];
      to = static_cast<T>(add ? static_cast<A>(to) + v : v);
    }
  }
}

void Nearest(const P& p, const KernelArgs& args) {
  const Shape& y = args.out[0].shape();
  const bool sum = p.multi_input_mode == MultiInput::kSum;
  const int64_t plane = y[2] * y[3];
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    int64_t begin = 0;
    for (size_t i = 0; i < args.in.size(); ++i) {
      const Shape& x = args.in[i].shape();
      ParallelFor(x[0] * x[1], 1, [&](int64_t first, int64_t last) {
        for (int64_t k = first; k < last; ++k) {
          const int64_t n = k / x[1], c = k % x[1];
          Repeat(args.in[i].data<const T>() + k * x[2] * x[3],
                 args.out[0].data<T>() + (n * y[1] + begin + c) * plane, x[2], x[3],
                 y[2] / x[2], y[3] / x[3], sum && i > 0);
        }
      });
      if (!sum) begin += x[1];
    }
  });
}

// The transposed convolution that bilinear sampling is, as a convolution from y to x.
ConvParams Transposed(const P& p, int64_t channels) {
  const int64_t s = p.scale, kernel = 2 * s - s % 2, pad = s / 2;
  return {.kernel = {kernel, kernel},
          .stride = {s, s},
          .pad = {pad, pad},
          .num_filter = channels,
          .num_group = channels,
          .no_bias = true};
}

void Forward(const P& p, const KernelArgs& args) {
  if (p.sample_type == SampleType::kNearest) return Nearest(p, args);
  const Shape& x = args.in[0].shape();
  FastConvData(MakeConvGeometry(Transposed(p, x[1]), args.out[0].shape(), x),
               args.in[0], args.in[1], nullptr, args.out[0]);
}

// The sum over the pixels that one pixel became.
Value PoolSum(const Value& dy, int64_t h, int64_t w) {
  const Shape& s = dy.shape();
  const AttrValue window = Attr(Shape{s[2] / h, s[3] / w});
  return Make("Pooling", {dy},
              {{"kernel", window}, {"stride", window}, {"pool_type", Attr("sum")}});
}

Values Gradient(const P& p, const GradArgs& g) {
  const Value& dy = g.dout(0);
  Values result(g.num_inputs());
  if (p.sample_type == SampleType::kBilinear) {
    const ConvParams conv = Transposed(p, g.in_spec(0).shape[1]);
    if (g.wants(0)) result[0] = ConvForward(conv, dy, g.in(1));
    if (g.wants(1)) result[1] = ConvWeight(conv, g.in(0), dy, g.in_spec(1).shape);
    return result;
  }
  int64_t begin = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const Shape& x = g.in_spec(i).shape;
    Value part = dy;
    if (p.multi_input_mode == MultiInput::kConcat && g.num_inputs() > 1) {
      part = Make(
          "slice_axis", {dy},
          {{"axis", Attr(1)}, {"begin", Attr(begin)}, {"end", Attr(begin + x[1])}});
      begin += x[1];
    }
    if (g.wants(i)) result[i] = PoolSum(part, x[2], x[3]);
  }
  return result;
}

const OpDef& upsampling = Register<P>({
    .name = "UpSampling",
    .doc = "Enlarges images `scale` times: nearest repeats pixels, bilinear is a "
           "transposed convolution with the weight given.",
    .inputs = {{"data", Types::kFloats, "Images; for bilinear, x and weight."}},
    .params = {Required("scale", &P::scale, "Factor for height and width."),
               {"num_filter", &P::num_filter, "Channels of bilinear sampling; a hint."},
               Required("sample_type", &P::sample_type, {"bilinear", "nearest"},
                        "How pixels in between are made."),
               {"multi_input_mode",
                &P::multi_input_mode,
                {"concat", "sum"},
                "How several images become one."},
               {"num_args", &P::num_args, "Number of arrays."},
               {"workspace", &P::workspace, "A hint in megabytes, not used."}},
    .variable_inputs = true,
    .count_param = "num_args",
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const P& p) -> Uses {
      return {.in = p.sample_type == SampleType::kBilinear ? 0b11u : 0u};
    },
    .cpu = {{"plain", Forward}},
    .samples = {{{Normal({2, 2, 2, 3})}, {.scale = 2}},
                {{Normal({1, 2, 2, 2}), Normal({1, 1, 4, 2})},
                 {.scale = 2, .num_args = 2}},
                {{Normal({1, 2, 2, 2}), Normal({1, 2, 1, 2})},
                 {.scale = 2, .multi_input_mode = MultiInput::kSum, .num_args = 2}},
                {{Normal({1, 2, 3, 2}), Normal({2, 1, 4, 4})},
                 {.scale = 2,
                  .num_filter = 2,
                  .sample_type = SampleType::kBilinear,
                  .num_args = 2}},
                {{Normal({1, 1, 2, 2}), Normal({1, 1, 5, 5})},
                 {.scale = 3,
                  .num_filter = 1,
                  .sample_type = SampleType::kBilinear,
                  .num_args = 2}}},
});

}  // namespace
}  // namespace plait
