// _contrib_mrcnn_mask_target: the true masks of regions, cut out and scaled.

#include "graph/math.h"
#include "ops/contrib/roi_taps.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct MaskParams {
  int64_t num_rois = 0;
  int64_t num_classes = 0;
  Shape mask_size;
  int64_t sample_ratio = 2;
  bool aligned = false;
};
using P = MaskParams;

constexpr const char* kOp = "_contrib_mrcnn_mask_target";

bool Infer(const P& p, Specs& in, Specs& out) {
  const Shape& size = p.mask_size;
  Check(size.rank() == 2 && size[0] > 0 && size[1] > 0 && p.num_classes > 0 &&
            p.sample_ratio <= 1024,
        kOp, ": mask_size is ", size, ", num_classes ", p.num_classes,
        " and sample_ratio ", p.sample_ratio,
        "; (height, width), at least 1 and at most 1024 were expected");
  const Shape &rois = in[0].shape, &masks = in[1].shape;
  if (!rois.known() || !masks.known()) return true;
  Check(rois.rank() == 3 && rois[2] == 4 && masks.rank() == 4 && masks[0] == rois[0],
        kOp, ": rois has shape ", rois, " and gt_masks ", masks,
        "; (batch, regions, 4) and (batch, masks, height, width) were expected");
  Check(p.num_rois == 0 || p.num_rois == rois[1], kOp, ": num_rois is ", p.num_rois,
        " for rois of shape ", rois, "; the same number was expected");
  for (int i = 2; i < 4; ++i) {
    Shape each{rois[0], rois[1]};
    const Shape given = in[i].shape;
    Check(Unify(each, in[i].shape), kOp, ": ", i == 2 ? "matches" : "cls_targets",
          " has shape ", given, "; shape ", each, " was expected");
  }
  Shape y{rois[0], rois[1], p.num_classes, size[0], size[1]};
  return Unify(y, out[0].shape) && Unify(y, out[1].shape);
}

// Points of cell i along one side.
struct Side {
  double start, bin;
  int64_t points;

  Side(const P& p, double from, double to, int64_t cells) {
    const double half = p.aligned ? 0.5 : 0;
    double size = to - from;
    if (!p.aligned) size = std::max(size, 1.0);
    start = from - half;
    bin = size / static_cast<double>(cells);
    points = p.sample_ratio > 0
                 ? p.sample_ratio
                 : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(bin)));
  }
  double At(int64_t cell, int64_t i) const {
    return start + bin * (static_cast<double>(cell) +
                          (static_cast<double>(i) + 0.5) / static_cast<double>(points));
  }
};

// The mask of one region, (mask_size).
std::vector<double> CutOut(const P& p, const double* roi, const double* mask,
                           int64_t height, int64_t width) {
  const int64_t rows = p.mask_size[0], columns = p.mask_size[1];
  const Side down(p, roi[1], roi[3], rows), across(p, roi[0], roi[2], columns);
  std::vector<double> out(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows * columns; ++i) {
    for (int64_t a = 0; a < down.points; ++a) {
      for (int64_t b = 0; b < across.points; ++b) {
        BilinearTaps(down.At(i / columns, a), across.At(i % columns, b), height, width,
                     [&](int64_t at, double weight) { out[i] += weight * mask[at]; });
      }
    }
    const double count = static_cast<double>(down.points * across.points);
    if (count > 0) out[i] /= count;
  }
  return out;
}

void Run(const P& p, const KernelArgs& args) {
  const Shape &rois = args.in[0].shape(), &masks = args.in[1].shape();
  const std::vector<double> corners = Doubles(args.in[0]), pixels = Doubles(args.in[1]);
  const std::vector<double> matches = Doubles(args.in[2]),
                            classes = Doubles(args.in[3]);
  const int64_t area = masks[2] * masks[3], cells = p.mask_size[0] * p.mask_size[1];
  ParallelFor(rois[0] * rois[1], 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      Check(matches[r] >= 0 && matches[r] < static_cast<double>(masks[1]),
            ErrorKind::kIndex, kOp, ": region ", r, " has mask ", matches[r],
            "; a number from 0 to ", masks[1] - 1, " was expected");
      const double* roi = &corners[r * 4];
      const double w = std::abs(roi[2] - roi[0]), h = std::abs(roi[3] - roi[1]);
      Check(w < kMostPixels && h < kMostPixels, kOp, ": region ", r, " covers ", w,
            " x ", h, " pixels; sides below ", kMostPixels, " were expected");
      const int64_t plane = r / rois[1] * masks[1] + static_cast<int64_t>(matches[r]);
      const std::vector<double> mask =
          CutOut(p, roi, pixels.data() + plane * area, masks[2], masks[3]);
      VisitFloat(args.out[0].dtype, [&]<typename T>() {
        for (int64_t c = 0; c < p.num_classes; ++c) {
          const int64_t at = (r * p.num_classes + c) * cells;
          const float is_class = classes[r] == static_cast<double>(c);
          for (int64_t i = 0; i < cells; ++i) {
            args.out[0].data<T>()[at + i] =
                static_cast<T>(static_cast<Accumulate<T>>(mask[i]));
            args.out[1].data<T>()[at + i] = static_cast<T>(is_class);
          }
        }
      });
    }
  });
}

SampleInput Given(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& mask_target = Register<P>({
    .name = kOp,
    .doc = "The true mask of each region, at the size of predicted ones and for every "
           "class, and a mask of the class that counts.",
    .inputs = {{"rois", Types::kFloats, "Corners, (batch, regions, 4)."},
               {"gt_masks", Types::kFloats, "(batch, masks, height, width)."},
               {"matches", Types::kFloats, "The mask of each region."},
               {"cls_targets", Types::kFloats, "The class of each region."}},
    .outputs = {{"masks", Types::kFloats, "(batch, regions, classes, mask_size)."},
                {"classes", Types::kFloats, "Of the same shape."}},
    .params = {Required<P>("num_rois", &P::num_rois, "The number of regions."),
               Required<P>("num_classes", &P::num_classes, "The number of classes."),
               Required<P>("mask_size", &P::mask_size, "(height, width)."),
               {"sample_ratio", &P::sample_ratio,
                "Points along each side of a cell; -1: about one for each pixel."},
               {"aligned", &P::aligned, "Pixels are at the centers of their squares."}},
    .infer = Infer,
    .cpu = {{"plain", Run}},
    .may_fail = true,
    .samples = {{{Given({1, 2, 4}, {0, 0, 4, 3, 1, 1, 3, 5}), Normal({1, 2, 6, 5}),
                  Given({1, 2}, {1, 0}), Given({1, 2}, {0, 2})},
                 {.num_rois = 2, .num_classes = 3, .mask_size = {2, 2}}},
                {{Given({1, 1, 4}, {0.5, 0, 4, 3}), Normal({1, 1, 6, 5}),
                  Given({1, 1}, {0}), Given({1, 1}, {1})},
                 {1, 2, {2, 3}, -1, true}}},
});

}  // namespace
}  // namespace plait
