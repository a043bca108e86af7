// ROIPooling: the maximum over each cell of a grid laid on regions of images.

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct RoiPoolingParams {
  Shape pooled_size;
  float spatial_scale = 1;
  Shape result;  // of the gradient: the shape of data
};
using P = RoiPoolingParams;

void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = x;
  Check(in[1].dtype == x, ErrorKind::kType, "ROIPooling: data is ", x, " and rois ",
        in[1].dtype, "; equal dtypes were expected");
  out[0].dtype = x;
  out[1].dtype = DType::kInt32;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  const Shape& size = p.pooled_size;
  Check(size.rank() == 2 && size[0] > 0 && size[1] > 0, "ROIPooling: pooled_size is ",
        size, "; (height, width) was expected");
  Shape &x = in[0].shape, &rois = in[1].shape;
  Check(Assign(x, Shape::Filled(4, kUnknownSize)) && Assign(rois, {kUnknownSize, 5}),
        "ROIPooling: data ", x, " and rois ", rois,
        "; (n, channels, h, w) and (regions, 5) were expected");
  const Shape y{rois[0], x[1], size[0], size[1]};
  return Assign(out[0].shape, y) && Assign(out[1].shape, y);
}

// Pixels [first, last) of cell i of `cells` between the rounded ends of a region.
struct Span {
  int64_t first, last;
};
Span Cell(double from, double to, int64_t i, int64_t cells, int64_t size) {
  const double start = std::round(from),
               length = std::max(std::round(to) - start + 1, 1.0);
  const double bin = length / static_cast<double>(cells);
  const auto clip = [&](double v) {
    return static_cast<int64_t>(std::clamp(v, 0.0, static_cast<double>(size)));
  };
  return {clip(std::floor(static_cast<double>(i) * bin) + start),
          clip(std::ceil(static_cast<double>(i + 1) * bin) + start)};
}

// An empty cell gives 0, and -1 as the place of its maximum.
void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &rois = args.in[1];
  const Shape &xs = x.shape(), &ys = args.out[0].shape();
  const int64_t channels = xs[1], h = xs[2], w = xs[3], ph = ys[2], pw = ys[3];
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(ys[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const T* roi = rois.data<const T>() + r * 5;
        const auto n = static_cast<int64_t>(static_cast<A>(roi[0]));
        Check(n >= 0 && n < xs[0], ErrorKind::kIndex, "ROIPooling: region ", r,
              " is in image ", n, "; a number below ", xs[0], " was expected");
        double at[4];
        for (int k = 0; k < 4; ++k)
          at[k] = static_cast<A>(roi[1 + k]) * p.spatial_scale;
        for (int64_t i = 0; i < channels * ph * pw; ++i) {
          const int64_t c = i / (ph * pw), row = i / pw % ph, column = i % pw;
          const Span rows = Cell(at[1], at[3], row, ph, h);
          const Span columns = Cell(at[0], at[2], column, pw, w);
          const T* plane = x.data<const T>() + (n * channels + c) * h * w;
          int64_t best = -1;
          for (int64_t a = rows.first; a < rows.last; ++a) {
            for (int64_t b = columns.first; b < columns.last; ++b) {
              const int64_t j = a * w + b;
              if (best < 0 || static_cast<A>(plane[j]) > static_cast<A>(plane[best])) {
                best = j;
              }
            }
          }
          const int64_t o = r * channels * ph * pw + i;
          args.out[0].data<T>()[o] = best < 0 ? T(0.0f) : plane[best];
          args.out[1].data<int32_t>()[o] = static_cast<int32_t>(best);
        }
      }
    });
  });
}

// Calls f(element of data, element of the output) for every cell that is not empty.
template <typename T, typename F>
void ForEachCell(const Shape& x, const View& rois, const View& place, F&& f) {
  const Shape& y = place.shape();
  Check(x.rank() == 4 && y.rank() == 4 && rois.size() >= 5 * y[0] &&
            rois.dtype == kDTypeOf<T> && place.dtype == DType::kInt32,
        "ROIPooling: the gradient got places of shape ", y, " for data of shape ", x,
        "; those of a forward call were expected");
  const int64_t cells = y[2] * y[3];
  for (int64_t o = 0; o < y.size(); ++o) {
    const int32_t at = place.data<const int32_t>()[o];
    if (at < 0) continue;
    const int64_t plane = o / cells, r = plane / y[1], c = plane % y[1];
    const auto n =
        static_cast<int64_t>(static_cast<Accumulate<T>>(rois.data<const T>()[r * 5]));
    Check(n >= 0 && n < x[0] && c < x[1] && at < x[2] * x[3], ErrorKind::kIndex,
          "ROIPooling: place ", at, " in image ", n, " is beyond data of shape ", x);
    f((n * x[1] + c) * x[2] * x[3] + at, o);
  }
}

void Backward(const P&, const KernelArgs& args) {
  const View &dy = args.in[0], &dx = args.out[0];
  Check(dy.size() == args.in[2].size(), "ROIPooling: dy has shape ", dy.shape(),
        "; the shape ", args.in[2].shape(), " of the places was expected");
  VisitFloat(dx.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    std::vector<A> sums(static_cast<size_t>(dx.size()));
    ForEachCell<T>(dx.shape(), args.in[1], args.in[2], [&](int64_t i, int64_t o) {
      sums[i] += static_cast<A>(dy.data<const T>()[o]);
    });
    for (int64_t i = 0; i < dx.size(); ++i) dx.data<T>()[i] = static_cast<T>(sums[i]);
  });
}

void Take(const P&, const KernelArgs& args) {
  const View &u = args.in[0], &y = args.out[0];
  VisitFloat(y.dtype, [&]<typename T>() {
    std::fill_n(y.data<T>(), y.size(), T(0.0f));
    ForEachCell<T>(u.shape(), args.in[1], args.in[2], [&](int64_t i, int64_t o) {
      y.data<T>()[o] = u.data<const T>()[i];
    });
  });
}

void LinearTypes(const P&, Specs& in, Specs& out) {
  out[0].dtype = in[0].dtype;
}

Value BackwardOf(const P& p, const Value& dy, const Value& rois, const Value& place);
Value TakeOf(const P& p, const Value& u, const Value& rois, const Value& place);

Values Gradient(const P& p, const GradArgs& g) {
  P q = p;
  q.result = g.in_spec(0).shape;
  return {BackwardOf(q, g.dout(0), g.in(1), g.out(1)), {}};
}

SampleInput Regions() {
  SampleInput s = Numbers({3, 5}, {0, 0, 0, 2, 3, 1, 1, 1, 4, 2, 0, 2, 2, 9, 9});
  s.differentiable = false;
  return s;
}
SampleInput Places() {
  SampleInput s = Integers({3, 2, 2, 2}, -1, 15, DType::kInt32);
  return s;
}

const OpDef& roi_pooling = Register<P>({
    .name = "ROIPooling",
    .aliases = {"_npx_roi_pooling"},
    .doc = "The maximum over each cell of a pooled_size grid on every region.",
    .inputs = {{"data", Types::kFloats, "(n, channels, h, w)."},
               {"rois", Types::kFloats, "(image, x1, y1, x2, y2) of each region."}},
    .outputs = {{"output", Types::kFloats, "(regions, channels, height, width)."},
                {"maxidx", Types::kAny, "Where in its plane each maximum is."}},
    .params = {Required("pooled_size", &P::pooled_size, "(height, width) of the grid."),
               Required("spatial_scale", &P::spatial_scale,
                        "Multiplies the coordinates of regions.")},
    .visible_outputs = [](const P&) { return 1; },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b10, .out = 0b10},
    .cpu = {{"plain", Forward}},
    .may_fail = true,
    .samples = {{{Normal({2, 2, 3, 5}), Regions()}, {.pooled_size = {2, 2}}},
                {{Normal({2, 2, 3, 5}), Regions()},
                 {.pooled_size = {1, 3}, .spatial_scale = 0.5f}}},
});

const OpDef& backward_op = Register<P>({
    .name = "_backward_ROIPooling",
    .doc = "The gradient of ROIPooling.",
    .inputs = {{"dy", Types::kFloats}, {"rois", Types::kFloats}, {"maxidx"}},
    .types = LinearTypes,
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          const Shape &dy = in[0].shape, &x = p.result;
          Check(!dy.known() || !in[1].shape.known() ||
                    (x.rank() == 4 && dy.rank() == 4 && in[1].shape.rank() == 2 &&
                     in[1].shape[1] == 5 && dy[0] == in[1].shape[0] && dy[1] == x[1] &&
                     in[2].shape == dy),
                "_backward_ROIPooling: dy ", dy, " and maxidx ", in[2].shape,
                " do not fit rois ", in[1].shape, " and x ", x);
          return Assign(out[0].shape, x);
        },
    .gradient = [](const P& p, const GradArgs& g) -> Values {
      return {TakeOf(p, g.dout(0), g.in(1), g.in(2)), {}, {}};
    },
    .uses = {.in = 0b110},
    .cpu = {{"plain", Backward}},
    .samples = {{{Normal({3, 2, 2, 2}), Regions(), Places()},
                 {.result = {2, 2, 3, 5}}}},
});

const OpDef& take_op = Register<P>({
    .name = "_roi_pooling_take",
    .doc = "The elements of u where ROIPooling found its maxima.",
    .inputs = {{"u", Types::kFloats}, {"rois", Types::kFloats}, {"maxidx"}},
    .types = LinearTypes,
    .infer = [](const P&, Specs& in,
                Specs& out) { return Assign(out[0].shape, in[2].shape); },
    .gradient = [](const P& p, const GradArgs& g) -> Values {
      P q = p;
      q.result = g.in_spec(0).shape;
      return {BackwardOf(q, g.dout(0), g.in(1), g.in(2)), {}, {}};
    },
    .uses = {.in = 0b110},
    .cpu = {{"plain", Take}},
    .samples = {{{Normal({2, 2, 3, 5}), Regions(), Places()}}},
});

Value BackwardOf(const P& p, const Value& dy, const Value& rois, const Value& place) {
  const Value inputs[] = {dy, rois, place};
  return ApplyOne(backward_op, MakeParams(P(p)), inputs);
}
Value TakeOf(const P& p, const Value& u, const Value& rois, const Value& place) {
  const Value inputs[] = {u, rois, place};
  return ApplyOne(take_op, MakeParams(P(p)), inputs);
}

}  // namespace
}  // namespace plait
