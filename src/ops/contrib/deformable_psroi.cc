// _contrib_DeformablePSROIPooling: averages over cells of regions which learned offsets
// move, with channels of their own for each cell.

#include "graph/math.h"
#include "ops/contrib/roi_taps.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct DeformableParams {
  float spatial_scale = 1;
  int64_t output_dim = 0;
  int64_t group_size = 0;
  int64_t pooled_size = 0;
  int64_t part_size = 0;
  int64_t sample_per_part = 1;
  float trans_std = 0;
  bool no_trans = false;

  int64_t parts() const { return part_size > 0 ? part_size : pooled_size; }
};
using P = DeformableParams;

constexpr const char* kOp = "_contrib_DeformablePSROIPooling";

bool CheckShapes(const P& p, const Shape& x, const Shape& rois, const Shape& trans) {
  Check(p.output_dim > 0 && p.group_size > 0 && p.pooled_size > 0 &&
            p.sample_per_part > 0 && p.part_size >= 0,
        kOp, ": output_dim is ", p.output_dim, ", group_size ", p.group_size,
        ", pooled_size ", p.pooled_size, ", sample_per_part ", p.sample_per_part,
        " and part_size ", p.part_size, "; sizes of at least 1 were expected");
  if (!x.known() || !rois.known() || !trans.known()) return false;
  const int64_t channels = p.output_dim * p.group_size * p.group_size;
  Check(x.rank() == 4 && x[1] == channels && x[2] > 0 && x[3] > 0 && rois.rank() == 2 &&
            rois[1] == 5,
        kOp, ": data has shape ", x, " and rois ", rois, "; (n, ", channels,
        ", h, w) and (regions, 5) were expected");
  if (p.no_trans) return true;
  const bool fits = trans.rank() == 4 && trans[0] == rois[0] && trans[1] >= 2 &&
                    trans[1] % 2 == 0 && p.output_dim % (trans[1] / 2) == 0 &&
                    trans[2] == p.parts() && trans[3] == p.parts();
  Check(fits, kOp, ": trans has shape ", trans, " for rois ", rois, "; (", rois[0],
        ", 2 * classes, ", p.parts(), ", ", p.parts(), ") was expected");
  return true;
}

// One point of a cell: its pixels, how far it is from the first, and where its offset
// is kept.
struct Point {
  int64_t pixels[4];  // top left, top right, bottom left, bottom right
  double down, across;
};

class Regions {
 public:
  Regions(const P& p, const Shape& x, const View& rois, const View* trans)
      : p_(p), x_(x), rois_(Doubles(rois)) {
    for (size_t r = 0; r < rois_.size(); r += 5) {
      ImageOf(rois_[r], x[0], static_cast<int64_t>(r / 5), kOp);
    }
    if (trans == nullptr) return;
    trans_ = Doubles(*trans);
    classes_ = trans->shape()[1] / 2;
  }

  struct Cell {
    std::vector<Point> points;
    int64_t offset_x = 0, offset_y = 0;  // elements of trans
    double width = 0, height = 0;        // of the region
  };

  // The points of a cell that are inside of the image.
  Cell CellOf(int64_t roi, int64_t c, int64_t row, int64_t column) const {
    const double* r = &rois_[roi * 5];
    const double scale = p_.spatial_scale, n = static_cast<double>(p_.pooled_size);
    const double left = std::round(r[1]) * scale - 0.5;
    const double top = std::round(r[2]) * scale - 0.5;
    Cell cell;
    cell.width = std::max((std::round(r[3]) + 1) * scale - 0.5 - left, 0.1);
    cell.height = std::max((std::round(r[4]) + 1) * scale - 0.5 - top, 0.1);
    double x = left + static_cast<double>(column) * cell.width / n;
    double y = top + static_cast<double>(row) * cell.height / n;
    if (!trans_.empty()) {
      const int64_t parts = p_.parts(), of_class = c / (p_.output_dim / classes_);
      const int64_t at =
          row * parts / p_.pooled_size * parts + column * parts / p_.pooled_size;
      cell.offset_x = (roi * classes_ + of_class) * 2 * parts * parts + at;
      cell.offset_y = cell.offset_x + parts * parts;
      x += trans_[cell.offset_x] * p_.trans_std * cell.width;
      y += trans_[cell.offset_y] * p_.trans_std * cell.height;
    }
    const int64_t g = p_.group_size;
    const int64_t channel =
        (c * g + row * g / p_.pooled_size) * g + column * g / p_.pooled_size;
    const int64_t plane =
        (static_cast<int64_t>(r[0]) * x_[1] + channel) * x_[2] * x_[3];
    const double samples = static_cast<double>(p_.sample_per_part);
    for (int64_t i = 0; i < p_.sample_per_part; ++i) {
      for (int64_t j = 0; j < p_.sample_per_part; ++j) {
        AddPoint(y + static_cast<double>(i) * cell.height / n / samples,
                 x + static_cast<double>(j) * cell.width / n / samples, plane,
                 cell.points);
      }
    }
    return cell;
  }

 private:
  void AddPoint(double y, double x, int64_t plane, std::vector<Point>& points) const {
    const double height = static_cast<double>(x_[2]),
                 width = static_cast<double>(x_[3]);
    if (!(x >= -0.5 && x <= width - 0.5 && y >= -0.5 && y <= height - 0.5)) return;
    x = std::clamp(x, 0.0, width - 1);
    y = std::clamp(y, 0.0, height - 1);
    const double left = std::floor(x), top = std::floor(y);
    const auto at = [&](double row, double column) {
      return plane + static_cast<int64_t>(row) * x_[3] + static_cast<int64_t>(column);
    };
    points.push_back({{at(top, left), at(top, std::ceil(x)), at(std::ceil(y), left),
                       at(std::ceil(y), std::ceil(x))},
                      y - top,
                      x - left});
  }

  const P& p_;
  Shape x_;
  std::vector<double> rois_, trans_;
  int64_t classes_ = 1;
};

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const Regions regions(p, x.shape(), args.in[1], p.no_trans ? nullptr : &args.in[2]);
  VisitFloat(y.dtype, [&]<typename T>() {
    const auto value = [&](int64_t i) {
      return static_cast<double>(static_cast<Accumulate<T>>(x.data<const T>()[i]));
    };
    const auto store = [](double v) {
      return static_cast<T>(static_cast<Accumulate<T>>(v));
    };
    ParallelFor(y.shape()[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t roi = first; roi < last; ++roi) {
        ForEachElement(y.shape(), roi,
                       [&](int64_t i, int64_t c, int64_t row, int64_t column) {
                         const Regions::Cell cell = regions.CellOf(roi, c, row, column);
                         double sum = 0;
                         for (const Point& q : cell.points) {
                           sum += (1 - q.down) * ((1 - q.across) * value(q.pixels[0]) +
                                                  q.across * value(q.pixels[1])) +
                                  q.down * ((1 - q.across) * value(q.pixels[2]) +
                                            q.across * value(q.pixels[3]));
                         }
                         const auto count = static_cast<double>(cell.points.size());
                         y.data<T>()[i] = store(count > 0 ? sum / count : 0);
                         args.out[1].data<T>()[i] = store(count);
                       });
      }
    });
  });
}

// Inputs: dy, data, rois, trans. Regions overlap: one thread, in a fixed order.
void Backward(const P& p, const KernelArgs& args) {
  const View &dy = args.in[0], &x = args.in[1];
  const View* trans = p.no_trans ? nullptr : &args.in[3];
  const Regions regions(p, x.shape(), args.in[2], trans);
  const std::vector<double> flow = Doubles(dy), data = Doubles(x);
  std::vector<double> dx(data.size());
  std::vector<double> dtrans(trans == nullptr ? 0 : static_cast<size_t>(trans->size()));
  for (int64_t roi = 0; roi < dy.shape()[0]; ++roi) {
    ForEachElement(
        dy.shape(), roi, [&](int64_t i, int64_t c, int64_t row, int64_t column) {
          const Regions::Cell cell = regions.CellOf(roi, c, row, column);
          const double each = flow[i] / static_cast<double>(cell.points.size());
          for (const Point& q : cell.points) {
            dx[q.pixels[0]] += each * (1 - q.down) * (1 - q.across);
            dx[q.pixels[1]] += each * (1 - q.down) * q.across;
            dx[q.pixels[2]] += each * q.down * (1 - q.across);
            dx[q.pixels[3]] += each * q.down * q.across;
            if (trans == nullptr) continue;
            const double a = data[q.pixels[0]], b = data[q.pixels[1]];
            const double d = data[q.pixels[2]], e = data[q.pixels[3]];
            const double slope_x = (b - a) * (1 - q.down) + (e - d) * q.down;
            const double slope_y = (d - a) * (1 - q.across) + (e - b) * q.across;
            dtrans[cell.offset_x] += each * slope_x * p.trans_std * cell.width;
            dtrans[cell.offset_y] += each * slope_y * p.trans_std * cell.height;
          }
        });
  }
  cpu::Convert(dx.data(), DType::kFloat64, args.out[0].ptr, args.out[0].dtype,
               args.out[0].size());
  if (trans == nullptr) return;
  cpu::Convert(dtrans.data(), DType::kFloat64, args.out[1].ptr, args.out[1].dtype,
               args.out[1].size());
}

std::vector<Param<P>> ParamList() {
  return {Required<P>("spatial_scale", &P::spatial_scale,
                      "Pixels of data for one of the regions' units."),
          Required<P>("output_dim", &P::output_dim, "Channels of the result."),
          Required<P>("group_size", &P::group_size, "Groups of channels along a side."),
          Required<P>("pooled_size", &P::pooled_size, "Cells along each side."),
          {"part_size", &P::part_size, "Offsets along each side; 0: pooled_size."},
          {"sample_per_part", &P::sample_per_part, "Points along a side of a cell."},
          {"trans_std", &P::trans_std, "Factor of the offsets."},
          {"no_trans", &P::no_trans, "There are no offsets."}};
}

std::vector<MathAttr> AttrsOf(const P& p) {
  return {{"spatial_scale", Attr(static_cast<double>(p.spatial_scale))},
          {"output_dim", Attr(p.output_dim)},
          {"group_size", Attr(p.group_size)},
          {"pooled_size", Attr(p.pooled_size)},
          {"part_size", Attr(p.part_size)},
          {"sample_per_part", Attr(p.sample_per_part)},
          {"trans_std", Attr(static_cast<double>(p.trans_std))},
          {"no_trans", Attr(p.no_trans)}};
}

Values Gradient(const P& p, const GradArgs& g) {
  static const OpDef& backward = GetOp("_backward_DeformablePSROIPooling");
  std::vector<NamedAttr> attrs;
  for (const MathAttr& a : AttrsOf(p)) attrs.push_back({a.name, a.value});
  Values in{g.dout(0), g.in(0), g.in(1)};
  if (!p.no_trans) in.push_back(g.in(2));
  const Values d = Apply(backward, MakeParams(backward, attrs), in);
  Values dx(in.size() - 1);
  dx[0] = d[0];
  if (!p.no_trans) dx[2] = d[1];
  return dx;
}

SampleInput Rois() {
  SampleInput s = Numbers({2, 5}, {0, 0, 0, 3, 3, 1, 1, 0, 4, 3});
  s.differentiable = false;
  return s;
}

const Shape kNoShape = {0};

[[maybe_unused]] const OpDef& deformable = Register<P>({
    .name = kOp,
    .doc = "Averages over the cells of regions that offsets move; each cell has "
           "channels of its own.",
    .inputs = {{"data", Types::kFloats, "(n, output_dim * group_size^2, h, w)."},
               {"rois", Types::kFloats, "Rows of image and corners."},
               {"trans", Types::kFloats,
                "Offsets, (regions, 2 * classes, parts, parts)."}},
    .outputs = {{"output", Types::kFloats,
                 "(regions, output_dim, pooled_size, pooled_size)."},
                {"top_count", Types::kFloats, "Points of each cell."}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, !p.no_trans};
    },
    .visible_outputs = [](const P&) { return 1; },
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          const Shape& trans = p.no_trans ? kNoShape : in[2].shape;
          if (!CheckShapes(p, in[0].shape, in[1].shape, trans)) return true;
          Shape y{in[1].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
          return Unify(y, out[0].shape) && Unify(y, out[1].shape);
        },
    .gradient = Gradient,
    .uses = {.in = kAll},
    .cpu = {{"plain", Forward}},
    .may_fail = true,
    .samples = {{{Normal({2, 8, 4, 5}), Rois(), Uniform({2, 2, 2, 2}, 0.1, 0.4)},
                 {.output_dim = 2,
                  .group_size = 2,
                  .pooled_size = 2,
                  .sample_per_part = 2,
                  .trans_std = 0.1f}},
                {{Normal({2, 4, 4, 5}), Rois()},
                 {.spatial_scale = 0.5f,
                  .output_dim = 1,
                  .group_size = 2,
                  .pooled_size = 3,
                  .sample_per_part = 2,
                  .no_trans = true}},
                {{Normal({2, 2, 4, 5}), Rois(), Uniform({2, 4, 1, 1}, 0.1, 0.4)},
                 {.output_dim = 2,
                  .group_size = 1,
                  .pooled_size = 2,
                  .part_size = 1,
                  .sample_per_part = 1,
                  .trans_std = 0.2f}}},
});

[[maybe_unused]] const OpDef& backward = Register<P>({
    .name = "_backward_DeformablePSROIPooling",
    .doc = "The gradient of _contrib_DeformablePSROIPooling.",
    .inputs = {{"ograd", Types::kFloats},
               {"data", Types::kFloats},
               {"rois", Types::kFloats},
               {"trans", Types::kFloats}},
    .outputs = {{"data"}, {"trans"}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, !p.no_trans};
    },
    .num_outputs = [](const P& p) { return p.no_trans ? 1 : 2; },
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          const Shape& trans = p.no_trans ? kNoShape : in[3].shape;
          if (!CheckShapes(p, in[1].shape, in[2].shape, trans)) return true;
          Shape dy{in[2].shape[0], p.output_dim, p.pooled_size, p.pooled_size};
          return Unify(dy, in[0].shape) && Unify(in[1].shape, out[0].shape) &&
                 (p.no_trans || Unify(in[3].shape, out[1].shape));
        },
    .cpu = {{"plain", Backward}},
    .may_fail = true,
    .samples = {{{Normal({2, 2, 2, 2}), Normal({2, 8, 4, 5}), Rois(),
                  Uniform({2, 2, 2, 2}, 0.1, 0.4)},
                 {.output_dim = 2,
                  .group_size = 2,
                  .pooled_size = 2,
                  .sample_per_part = 2,
                  .trans_std = 0.1f}}},
});

}  // namespace
}  // namespace plait
