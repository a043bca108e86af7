// _contrib_PSROIPooling, _contrib_RROIAlign: averages over cells of regions, with one
// channel for each place of the cell, or in rotated regions.

#include <numbers>

#include "graph/math.h"
#include "ops/contrib/roi_taps.h"
#include "ops/infer.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- PSROIPooling

struct PsRoiParams {
  float spatial_scale = 1;
  int64_t output_dim = 0;
  int64_t pooled_size = 0;
  int64_t group_size = 0;
  Shape shape;  // of data, for the transposed operator

  int64_t groups() const { return group_size > 0 ? group_size : pooled_size; }
};

class PsRegions {
 public:
  PsRegions(const PsRoiParams& p, const Shape& x, const View& rois)
      : p_(p), x_(x), rois_(Doubles(rois)) {
    for (size_t r = 0; r < rois_.size(); r += 5) {
      ImageOf(rois_[r], x[0], static_cast<int64_t>(r / 5), "_contrib_PSROIPooling");
    }
  }

  template <typename F>
  void Taps(int64_t roi, int64_t c, int64_t row, int64_t column, F&& f) const {
    const double* r = &rois_[roi * 5];
    const Span rows = Cell(r[2], r[4], row, x_[2]);
    const Span columns = Cell(r[1], r[3], column, x_[3]);
    const int64_t count = (rows.last - rows.first) * (columns.last - columns.first);
    if (rows.last <= rows.first || columns.last <= columns.first) return;
    const int64_t g = p_.groups(), n = p_.pooled_size;
    const int64_t channel = (c * g + row * g / n) * g + column * g / n;
    const int64_t plane = static_cast<int64_t>(r[0]) * x_[1] + channel;
    for (int64_t a = rows.first; a < rows.last; ++a) {
      for (int64_t b = columns.first; b < columns.last; ++b) {
        f((plane * x_[2] + a) * x_[3] + b, 1 / static_cast<double>(count));
      }
    }
  }

 private:
  struct Span {
    int64_t first, last;
  };
  // Pixels of cell i between the rounded ends of a region.
  Span Cell(double from, double to, int64_t i, int64_t size) const {
    const double start = std::round(from) * p_.spatial_scale;
    const double end = (std::round(to) + 1) * p_.spatial_scale;
    const double bin = std::max(end - start, 0.1) / static_cast<double>(p_.pooled_size);
    const auto clip = [&](double v) {
      return static_cast<int64_t>(std::clamp(v, 0.0, static_cast<double>(size)));
    };
    return {clip(std::floor(static_cast<double>(i) * bin + start)),
            clip(std::ceil(static_cast<double>(i + 1) * bin + start))};
  }

  const PsRoiParams& p_;
  Shape x_;
  std::vector<double> rois_;
};

bool CheckPs(const PsRoiParams& p, const Shape& x, const Shape& rois) {
  constexpr const char* kOp = "_contrib_PSROIPooling";
  Check(p.output_dim > 0 && p.pooled_size > 0 && p.group_size >= 0, kOp,
        ": output_dim is ", p.output_dim, ", pooled_size ", p.pooled_size,
        " and group_size ", p.group_size, "; sizes of at least 1 were expected");
  if (!x.known() || !rois.known()) return false;
  const int64_t channels = p.output_dim * p.groups() * p.groups();
  Check(x.rank() == 4 && x[1] == channels && rois.rank() == 2 && rois[1] == 5, kOp,
        ": data has shape ", x, " and rois ", rois, "; (n, ", channels,
        ", h, w) and (regions, 5) were expected");
  return true;
}

std::vector<Param<PsRoiParams>> PsList() {
  using P = PsRoiParams;
  return {Required<P>("spatial_scale", &P::spatial_scale,
                      "Pixels of data for one of the regions' units."),
          Required<P>("output_dim", &P::output_dim, "Channels of the result."),
          Required<P>("pooled_size", &P::pooled_size, "Cells along each side."),
          {"group_size", &P::group_size,
           "Groups of channels along each side; 0: pooled_size."}};
}

AttrValue Number(float v) {
  return Attr(static_cast<double>(v));
}

Value PsTransposed(const PsRoiParams& p, const Value& dy, const Value& rois,
                   const Shape& shape) {
  return Make("_backward_PSROIPooling", {dy, rois},
              {{"spatial_scale", Number(p.spatial_scale)},
               {"output_dim", Attr(p.output_dim)},
               {"pooled_size", Attr(p.pooled_size)},
               {"group_size", Attr(p.group_size)},
               {"shape", Attr(shape)}});
}

SampleInput Constant(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}
SampleInput PsRois() {
  return Constant({3, 5}, {0, 0, 0, 3, 3, 1, 1, 0, 5, 4, 0, -3, 2, 1, 9});
}

[[maybe_unused]] const OpDef& psroi = Register<PsRoiParams>({
    .name = "_contrib_PSROIPooling",
    .doc = "Averages over the cells of regions; each cell has channels of its own.",
    .inputs = {{"data", Types::kFloats, "(n, output_dim * group_size^2, h, w)."},
               {"rois", Types::kFloats, "Rows of image and corners."}},
    .outputs = {{"output", Types::kFloats,
                 "(regions, output_dim, pooled_size, pooled_size)."}},
    .params = PsList(),
    .infer =
        [](const PsRoiParams& p, Specs& in, Specs& out) {
          if (!CheckPs(p, in[0].shape, in[1].shape)) return true;
          Shape y{in[1].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const PsRoiParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {PsTransposed(p, g.dout(0), g.in(1), g.in_spec(0).shape)};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const PsRoiParams& p, const KernelArgs& args) {
               SumTaps(PsRegions(p, args.in[0].shape(), args.in[1]), args.in[0],
                       args.out[0]);
             }}},
    .may_fail = true,
    .samples =
        {{{Normal({2, 8, 4, 5}), PsRois()}, {.output_dim = 2, .pooled_size = 2}},
         {{Normal({2, 4, 4, 5}), PsRois()},
          {.spatial_scale = 0.5f, .output_dim = 1, .pooled_size = 3, .group_size = 2}}},
});

[[maybe_unused]] const OpDef& psroi_transposed = Register<PsRoiParams>({
    .name = "_backward_PSROIPooling",
    .doc = "The gradient of _contrib_PSROIPooling with respect to data.",
    .inputs = {{"ograd", Types::kFloats}, {"rois", Types::kFloats}},
    .params =
        [] {
          auto list = PsList();
          list.push_back({"shape", &PsRoiParams::shape, "The shape of data."});
          return list;
        }(),
    .infer =
        [](const PsRoiParams& p, Specs& in, Specs& out) {
          Shape x = p.shape;
          if (!CheckPs(p, x, in[1].shape)) return true;
          Shape dy{in[1].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
          return Unify(dy, in[0].shape) && Unify(x, out[0].shape);
        },
    .gradient = [](const PsRoiParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_contrib_PSROIPooling", {g.dout(0), g.in(1)},
                   {{"spatial_scale", Number(p.spatial_scale)},
                    {"output_dim", Attr(p.output_dim)},
                    {"pooled_size", Attr(p.pooled_size)},
                    {"group_size", Attr(p.group_size)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const PsRoiParams& p, const KernelArgs& args) {
               SpreadTaps(PsRegions(p, p.shape, args.in[1]), args.in[0], args.out[0]);
             }}},
    .may_fail = true,
    .samples = {{{Normal({3, 2, 2, 2}), PsRois()},
                 {.output_dim = 2, .pooled_size = 2, .shape = {2, 8, 4, 5}}}},
});

// ---------------------------------------------------------------- RROIAlign

struct RRoiParams {
  Shape pooled_size;
  float spatial_scale = 1;
  int64_t sampling_ratio = -1;
  Shape shape;  // of data, for the transposed operator
};

class RotatedRegions {
 public:
  RotatedRegions(const RRoiParams& p, const Shape& x, const View& rois)
      : p_(p), x_(x), rois_(Doubles(rois)) {
    for (size_t r = 0; r < rois_.size(); r += 6) {
      const auto roi = static_cast<int64_t>(r / 6);
      ImageOf(rois_[r], x[0], roi, "_contrib_RROIAlign");
      // The number of points grows with the region, so that sizes must be sane.
      const double w = std::abs(rois_[r + 3]) * p.spatial_scale;
      const double h = std::abs(rois_[r + 4]) * p.spatial_scale;
      Check(w < kMostPixels && h < kMostPixels, "_contrib_RROIAlign: region ", roi,
            " covers ", w, " x ", h, " pixels; sides below ", kMostPixels,
            " were expected");
    }
  }

  template <typename F>
  void Taps(int64_t roi, int64_t c, int64_t row, int64_t column, F&& f) const {
    const double* r = &rois_[roi * 6];
    const double scale = p_.spatial_scale, angle = r[5] * std::numbers::pi / 180;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const Side rows = SideOf(r[4] * scale, p_.pooled_size[0]);
    const Side columns = SideOf(r[3] * scale, p_.pooled_size[1]);
    const int64_t plane = (static_cast<int64_t>(r[0]) * x_[1] + c) * x_[2] * x_[3];
    const double weight = 1 / static_cast<double>(rows.points * columns.points);
    for (int64_t i = 0; i < rows.points; ++i) {
      const double y = rows.At(row, i);
      for (int64_t j = 0; j < columns.points; ++j) {
        const double x = columns.At(column, j);
        BilinearTaps(y * cosine - x * sine + r[2] * scale,
                     x * cosine + y * sine + r[1] * scale, x_[2], x_[3],
                     [&](int64_t at, double w) { f(plane + at, w * weight); });
      }
    }
  }

 private:
  // Points along one side of a region, from its center.
  struct Side {
    double start, bin;
    int64_t points;  // of a cell
    double At(int64_t cell, int64_t i) const {
      return start +
             bin * (static_cast<double>(cell) +
                    (static_cast<double>(i) + 0.5) / static_cast<double>(points));
    }
  };
  Side SideOf(double size, int64_t cells) const {
    size = std::max(size, 1.0);
    const double bin = size / static_cast<double>(cells);
    return {-size / 2, bin,
            p_.sampling_ratio > 0 ? p_.sampling_ratio
                                  : static_cast<int64_t>(std::ceil(bin))};
  }

  const RRoiParams& p_;
  Shape x_;
  std::vector<double> rois_;
};

bool CheckRotated(const RRoiParams& p, const Shape& x, const Shape& rois) {
  constexpr const char* kOp = "_contrib_RROIAlign";
  const Shape& size = p.pooled_size;
  Check(size.rank() == 2 && size[0] > 0 && size[1] > 0, kOp, ": pooled_size is ", size,
        "; (height, width) was expected");
  Check(p.sampling_ratio <= 1024, kOp, ": sampling_ratio is ", p.sampling_ratio,
        "; at most 1024 was expected");
  if (!x.known() || !rois.known()) return false;
  Check(x.rank() == 4 && x[2] > 0 && x[3] > 0 && rois.rank() == 2 && rois[1] == 6, kOp,
        ": data has shape ", x, " and rois ", rois,
        "; (n, channels, h, w) and (regions, 6) were expected");
  return true;
}

std::vector<Param<RRoiParams>> RotatedList() {
  using P = RRoiParams;
  return {Required<P>("pooled_size", &P::pooled_size, "Cells, (height, width)."),
          Required<P>("spatial_scale", &P::spatial_scale,
                      "Pixels of data for one of the regions' units."),
          {"sampling_ratio", &P::sampling_ratio,
           "Points along each side of a cell; -1: about one for each pixel."}};
}

SampleInput RotatedRois() {
  return Constant({3, 6}, {0, 2, 2, 3, 2, 30, 1, 1, 3, 4, 4, -75, 0, 4, 0, 2, 6, 180});
}

[[maybe_unused]] const OpDef& rroi = Register<RRoiParams>({
    .name = "_contrib_RROIAlign",
    .doc = "Averages over the cells of rotated regions, of points between pixels.",
    .inputs = {{"data", Types::kFloats, "(n, channels, h, w)."},
               {"rois", Types::kFloats,
                "Rows of image, center x, y, width, height, angle in degrees."}},
    .outputs = {{"output", Types::kFloats, "(regions, channels, height, width)."}},
    .params = RotatedList(),
    .infer =
        [](const RRoiParams& p, Specs& in, Specs& out) {
          if (!CheckRotated(p, in[0].shape, in[1].shape)) return true;
          Shape y{in[1].shape[0], in[0].shape[1], p.pooled_size[0], p.pooled_size[1]};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const RRoiParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_backward_RROIAlign", {g.dout(0), g.in(1)},
                   {{"pooled_size", Attr(p.pooled_size)},
                    {"spatial_scale", Number(p.spatial_scale)},
                    {"sampling_ratio", Attr(p.sampling_ratio)},
                    {"shape", Attr(g.in_spec(0).shape)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const RRoiParams& p, const KernelArgs& args) {
               SumTaps(RotatedRegions(p, args.in[0].shape(), args.in[1]), args.in[0],
                       args.out[0]);
             }}},
    .may_fail = true,
    .samples = {{{Normal({2, 2, 5, 4}), RotatedRois()}, {.pooled_size = {2, 2}}},
                {{Normal({2, 1, 5, 4}), RotatedRois()},
                 {.pooled_size = {1, 3}, .spatial_scale = 0.5f, .sampling_ratio = 2}}},
});

[[maybe_unused]] const OpDef& rroi_transposed = Register<RRoiParams>({
    .name = "_backward_RROIAlign",
    .doc = "The gradient of _contrib_RROIAlign with respect to data.",
    .inputs = {{"ograd", Types::kFloats}, {"rois", Types::kFloats}},
    .params =
        [] {
          auto list = RotatedList();
          list.push_back({"shape", &RRoiParams::shape, "The shape of data."});
          return list;
        }(),
    .infer =
        [](const RRoiParams& p, Specs& in, Specs& out) {
          Shape x = p.shape;
          if (!CheckRotated(p, x, in[1].shape)) return true;
          Shape dy{in[1].shape[0], x[1], p.pooled_size[0], p.pooled_size[1]};
          return Unify(dy, in[0].shape) && Unify(x, out[0].shape);
        },
    .gradient = [](const RRoiParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_contrib_RROIAlign", {g.dout(0), g.in(1)},
                   {{"pooled_size", Attr(p.pooled_size)},
                    {"spatial_scale", Number(p.spatial_scale)},
                    {"sampling_ratio", Attr(p.sampling_ratio)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const RRoiParams& p, const KernelArgs& args) {
               SpreadTaps(RotatedRegions(p, p.shape, args.in[1]), args.in[0],
                          args.out[0]);
             }}},
    .may_fail = true,
    .samples = {{{Normal({3, 2, 2, 2}), RotatedRois()},
                 {.pooled_size = {2, 2}, .shape = {2, 2, 5, 4}}}},
});

}  // namespace
}  // namespace plait
