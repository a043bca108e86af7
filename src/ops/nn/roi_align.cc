// ROIAlign: the average over each cell of a grid laid on regions of images, sampled
// between pixels without rounding (He et al., Mask R-CNN, 2017).

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct RoiAlignParams {
  Shape pooled_size;
  float spatial_scale = 1;
  int sample_ratio = -1;
  bool position_sensitive = false;
  bool aligned = false;
  Shape result;  // of the gradient: the shape of data
};
using P = RoiAlignParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  const Shape& size = p.pooled_size;
  Check(size.rank() == 2 && size[0] > 0 && size[1] > 0,
        "_contrib_ROIAlign: pooled_size is ", size, "; (height, width) was expected");
  Shape &x = in[0].shape, &rois = in[1].shape;
  Check(Assign(x, Shape::Filled(4, kUnknownSize)) && Assign(rois, {kUnknownSize, 5}),
        "_contrib_ROIAlign: data ", x, " and rois ", rois,
        "; (n, channels, h, w) and (regions, 5) were expected");
  int64_t channels = x[1];
  if (p.position_sensitive && channels != kUnknownSize) {
    Check(channels % (size[0] * size[1]) == 0, "_contrib_ROIAlign: data ", x, " has ",
          channels, " channels; a multiple of ", size[0] * size[1],
          " was expected with position_sensitive");
    channels /= size[0] * size[1];
  }
  return Assign(out[0].shape, {rois[0], channels, size[0], size[1]});
}

// The samples of one axis: for each cell, `count` places with two neighbours each.
struct Axis {
  struct Place {
    int64_t pixel[2];
    double weight[2];
  };
  int64_t count = 1;
  std::vector<Place> places;  // cells * count
};

Axis MakeAxis(const P& p, double from, double to, int64_t cells, int64_t size) {
  const double shift = p.aligned ? 0.5 : 0;
  const double start = from * p.spatial_scale - shift;
  double length = to * p.spatial_scale - shift - start;
  if (!p.aligned) length = std::max(length, 1.0);
  const double cell = length / static_cast<double>(cells);
  Axis axis;
  axis.count = p.sample_ratio > 0
                   ? p.sample_ratio
                   : std::clamp<int64_t>(static_cast<int64_t>(std::ceil(cell)), 0,
                                         std::max<int64_t>(size, 1) * 4);
  for (int64_t i = 0; i < cells * axis.count; ++i) {
    const double within =
        (static_cast<double>(i % axis.count) + 0.5) / static_cast<double>(axis.count);
    double at = start + (static_cast<double>(i / axis.count) + within) * cell;
    Axis::Place place{{0, 0}, {0, 0}};
    if (at >= -1 && at <= static_cast<double>(size)) {
      at = std::clamp(at, 0.0, static_cast<double>(size - 1));
      const auto low = static_cast<int64_t>(at);
      const double part = at - static_cast<double>(low);
      place = {{low, std::min(low + 1, size - 1)}, {1 - part, part}};
    }
    axis.places.push_back(place);
  }
  return axis;
}

// Calls f(element of the output, element of data, weight) for everything that is read
// of one region. A region of image -1 reads nothing.
template <typename T, typename F>
void ForEachTap(const P& p, const Shape& x, const Shape& y, const T* roi, F&& f) {
  using A = Accumulate<T>;
  const auto n = static_cast<int64_t>(std::floor(static_cast<A>(roi[0])));
  if (n < 0) return;
  Check(n < x[0], ErrorKind::kIndex, "_contrib_ROIAlign: a region is in image ", n,
        "; a number below ", x[0], " was expected");
  const int64_t ph = y[2], pw = y[3];
  const Axis rows =
      MakeAxis(p, static_cast<A>(roi[2]), static_cast<A>(roi[4]), ph, x[2]);
  const Axis columns =
      MakeAxis(p, static_cast<A>(roi[1]), static_cast<A>(roi[3]), pw, x[3]);
  const double share =
      1.0 / static_cast<double>(std::max<int64_t>(rows.count * columns.count, 1));
  for (int64_t o = 0; o < y[1] * ph * pw; ++o) {
    const int64_t c = o / (ph * pw), i = o / pw % ph, j = o % pw;
    const int64_t from = p.position_sensitive ? (c * ph + i) * pw + j : c;
    const int64_t plane = (n * x[1] + from) * x[2] * x[3];
    for (int64_t a = i * rows.count; a < (i + 1) * rows.count; ++a) {
      for (int64_t b = j * columns.count; b < (j + 1) * columns.count; ++b) {
        const Axis::Place &r = rows.places[a], &s = columns.places[b];
        for (int k = 0; k < 4; ++k) {
          const double weight = r.weight[k / 2] * s.weight[k % 2] * share;
          if (weight != 0) f(o, plane + r.pixel[k / 2] * x[3] + s.pixel[k % 2], weight);
        }
      }
    }
  }
}

void Forward(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.out[0].shape();
  const int64_t each = y.size(1, 4);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(y[0], 1, [&](int64_t first, int64_t last) {
      std::vector<A> sums(static_cast<size_t>(each));
      for (int64_t r = first; r < last; ++r) {
        std::fill(sums.begin(), sums.end(), A{0});
        ForEachTap(p, x, y, args.in[1].data<const T>() + r * 5,
                   [&](int64_t o, int64_t i, double weight) {
                     sums[o] += static_cast<A>(weight) *
                                static_cast<A>(args.in[0].data<const T>()[i]);
                   });
        for (int64_t o = 0; o < each; ++o) {
          args.out[0].data<T>()[r * each + o] = static_cast<T>(sums[o]);
        }
      }
    });
  });
}

void Transposed(const P& p, const KernelArgs& args) {
  const Shape &x = args.out[0].shape(), &y = args.in[0].shape();
  const int64_t each = y.size(1, 4);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    std::vector<A> sums(static_cast<size_t>(x.size()));
    for (int64_t r = 0; r < y[0]; ++r) {
      ForEachTap(p, x, y, args.in[1].data<const T>() + r * 5,
                 [&](int64_t o, int64_t i, double weight) {
                   sums[i] += static_cast<A>(weight) *
                              static_cast<A>(args.in[0].data<const T>()[r * each + o]);
                 });
    }
    for (int64_t i = 0; i < x.size(); ++i) {
      args.out[0].data<T>()[i] = static_cast<T>(sums[i]);
    }
  });
}

template <bool kBack>
Values Gradient(const P& p, const GradArgs& g);

SampleInput Regions() {
  SampleInput s =
      Numbers({3, 5}, {0, 0.3, 0, 2.2, 3, 1, 1, 1.4, 4, 2, 0, -1, -2, 9, 9});
  s.differentiable = false;
  return s;
}

const OpDef& roi_align = Register<P>({
    .name = "_contrib_ROIAlign",
    .doc = "The average over each cell of a pooled_size grid on every region.",
    .inputs = {{"data", Types::kFloats, "(n, channels, h, w)."},
               {"rois", Types::kFloats, "(image, x1, y1, x2, y2) of each region."}},
    .outputs = {{"output", Types::kFloats, "(regions, channels, height, width)."}},
    .params = {Required("pooled_size", &P::pooled_size, "(height, width) of the grid."),
               Required("spatial_scale", &P::spatial_scale,
                        "Multiplies the coordinates of regions."),
               {"sample_ratio", &P::sample_ratio,
                "Samples of a cell along each axis; -1: one a pixel."},
               {"position_sensitive", &P::position_sensitive,
                "Each cell reads a channel of its own."},
               {"aligned", &P::aligned,
                "Pixels are at their centres, half a pixel in."}},
    .infer = Infer,
    .gradient = Gradient<true>,
    .uses = {.in = 0b10},
    .cpu = {{"plain", Forward}},
    .may_fail = true,
    .samples = {{{Normal({2, 2, 4, 5}), Regions()}, {.pooled_size = {2, 2}}},
                {{Normal({2, 4, 4, 5}), Regions()},
                 {.pooled_size = {2, 2},
                  .spatial_scale = 0.5f,
                  .sample_ratio = 2,
                  .position_sensitive = true}},
                {{Normal({2, 2, 4, 5}), Regions()},
                 {.pooled_size = {1, 3}, .aligned = true}}},
});

const OpDef& transposed = Register<P>({
    .name = "_backward_contrib_ROIAlign",
    .doc = "The gradient of ROIAlign for its data.",
    .inputs = {{"dy", Types::kFloats}, {"rois", Types::kFloats}},
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          Specs x{{p.result, in[0].dtype}, in[1]}, y{in[0]};
          Check(p.result.known() && Infer(p, x, y), "_backward_contrib_ROIAlign: dy ",
                in[0].shape, " does not fit rois ", in[1].shape, " and x ", p.result);
          return Assign(out[0].shape, p.result);
        },
    .gradient = Gradient<false>,
    .uses = {.in = 0b10},
    .cpu = {{"plain", Transposed}},
    .may_fail = true,
    .samples = {{{Normal({3, 2, 2, 2}), Regions()},
                 {.pooled_size = {2, 2}, .result = {2, 2, 4, 5}}}},
});

template <bool kBack>
Values Gradient(const P& p, const GradArgs& g) {
  P q = p;
  if (kBack) q.result = g.in_spec(0).shape;
  const Value inputs[] = {g.dout(0), g.in(1)};
  return {ApplyOne(kBack ? transposed : roi_align, MakeParams(std::move(q)), inputs),
          {}};
}

}  // namespace
}  // namespace plait
