// _contrib_box_nms: of boxes that overlap, the one of the highest score stays.

#include <numeric>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/contrib/boxes.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct NmsParams {
  float overlap_thresh = 0.5f;
  float valid_thresh = 0;
  int64_t topk = -1;
  int64_t coord_start = 2;
  int64_t score_index = 1;
  int64_t id_index = -1;
  int64_t background_id = -1;
  bool force_suppress = false;
  BoxFormat in_format = BoxFormat::kCorner;
  BoxFormat out_format = BoxFormat::kCorner;

  bool is_coordinate(int64_t i) const {
    return i >= coord_start && i < coord_start + 4;
  }
};
using P = NmsParams;

void CheckColumns(const P& p, int64_t width) {
  constexpr const char* kOp = "_contrib_box_nms";
  Check(p.coord_start >= 0 && p.coord_start + 4 <= width, kOp, ": coord_start is ",
        p.coord_start, " for boxes of ", width,
        " numbers; four coordinates inside were expected");
  Check(p.score_index >= 0 && p.score_index < width && !p.is_coordinate(p.score_index),
        kOp, ": score_index is ", p.score_index, " for boxes of ", width,
        " numbers with coordinates from ", p.coord_start,
        " on; another place inside was expected");
  if (p.id_index < 0) return;
  Check(
      p.id_index < width && !p.is_coordinate(p.id_index) && p.id_index != p.score_index,
      kOp, ": id_index is ", p.id_index, " for boxes of ", width,
      " numbers with coordinates from ", p.coord_start, " on and the score at ",
      p.score_index, "; another place inside was expected");
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape record = in[0].shape;
  if (!Unify(record, out[0].shape)) return false;
  if (!record.known()) return true;
  Check(record.rank() >= 2, "_contrib_box_nms: data has shape ", record,
        "; (..., boxes, numbers of a box) was expected");
  CheckColumns(p, record.back());
  record.back() = 1;
  return Unify(in[0].shape, out[0].shape) && Unify(record, out[1].shape);
}

// From corners to a center and sizes, or back. Boxes with a negative first coordinate
// stay, as those that are filled up with -1 must.
template <typename T>
void Reformat(BoxFormat to, T* x) {
  using A = Accumulate<T>;
  const A a = static_cast<A>(x[0]), b = static_cast<A>(x[1]);
  const A c = static_cast<A>(x[2]), d = static_cast<A>(x[3]);
  if (a < 0) return;
  const bool center = to == BoxFormat::kCenter;
  x[0] = static_cast<T>(center ? (a + c) / 2 : a - c / 2);
  x[1] = static_cast<T>(center ? (b + d) / 2 : b - d / 2);
  x[2] = static_cast<T>(center ? c - a : a + c / 2);
  x[3] = static_cast<T>(center ? d - b : b + d / 2);
}

// One batch of boxes: y gets those that stay, by score, then rows of -1. Record i is
// the row of all data that row i came from, or -1.
template <typename T>
void Suppress(const P& p, const T* x, int64_t boxes, int64_t width, int64_t first_row,
              T* y, int64_t* record) {
  using A = Accumulate<T>;
  const auto at = [&](int64_t i, int64_t column) {
    return static_cast<A>(x[i * width + column]);
  };
  std::vector<int64_t> order;
  for (int64_t i = 0; i < boxes; ++i) {
    const bool is_background =
        p.id_index >= 0 && at(i, p.id_index) == static_cast<A>(p.background_id);
    if (at(i, p.score_index) > p.valid_thresh && !is_background) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return at(i, p.score_index) > at(j, p.score_index);
  });
  if (p.topk > 0 && static_cast<int64_t>(order.size()) > p.topk) order.resize(p.topk);
  std::vector<Box<A>> corners;
  for (int64_t i : order) {
    corners.push_back(ReadBox(x + i * width + p.coord_start, p.in_format));
  }
  const bool by_class = !p.force_suppress && p.id_index >= 0;
  const auto kept = KeepGreedily(
      static_cast<int64_t>(order.size()), boxes, [&](int64_t i, int64_t j) {
        if (by_class && static_cast<int64_t>(at(order[i], p.id_index)) !=
                            static_cast<int64_t>(at(order[j], p.id_index))) {
          return false;
        }
        return Overlap(corners[i], corners[j]) > p.overlap_thresh;
      });
  std::fill_n(y, boxes * width, static_cast<T>(-1.0f));
  std::fill_n(record, boxes, int64_t{-1});
  for (size_t k = 0; k < kept.size(); ++k) {
    const int64_t i = order[kept[k]];
    T* row = y + static_cast<int64_t>(k) * width;
    std::copy_n(x + i * width, width, row);
    record[k] = first_row + i;
    if (p.in_format != p.out_format) Reformat(p.out_format, row + p.coord_start);
  }
}

void Run(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const Shape& shape = x.shape();
  const int64_t boxes = shape[shape.rank() - 2], width = shape.back();
  int64_t* record = args.out[1].data<int64_t>();
  VisitFloat(x.dtype, [&]<typename T>() {
    if (p.topk == 0) {
      std::copy_n(x.data<const T>(), x.size(), y.data<T>());
      std::iota(record, record + args.out[1].size(), int64_t{0});
      return;
    }
    ParallelFor(shape.size(0, shape.rank() - 2), 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = b * boxes * width;
        Suppress(p, x.data<const T>() + at, boxes, width, b * boxes, y.data<T>() + at,
                 record + b * boxes);
      }
    });
  });
}

// Rows go back to where they came from; a change of format is not followed.
Values Gradient(const P&, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const int64_t rows = x.size(0, x.rank() - 1), width = x.back();
  const Value record = reshape(g.out(1), {rows, 1});
  const Value dy = reshape(g.dout(0), {rows, width});
  const Value kept = dy * cast(record >= 0.0, dy.dtype());
  return {reshape(
      Make("_backward_take", {kept, reshape(record, {rows})}, {{"size", Attr(rows)}}),
      x)};
}

SampleInput Boxes() {
  return Numbers({2, 4, 6}, {0, 0.5, 0.1, 0.1, 0.2,  0.2, 1, 0.4, 0.1,  0.1, 0.2, 0.2,
                             0, 0.3, 0.1, 0.1, 0.14, 0.2, 2, 0.6, 0.5,  0.5, 0.7, 0.8,
                             0, 0.9, 0.1, 0.1, 0.5,  0.5, 0, 0.8, 0.11, 0.1, 0.5, 0.5,
                             1, 0,   0.3, 0.3, 0.6,  0.7, 1, 0.7, 0.2,  0.2, 0.6, 0.7});
}
SampleInput Constant(SampleInput s) {
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& box_nms = Register<P>({
    .name = "_contrib_box_nms",
    .aliases = {"_contrib_box_non_maximum_suppression"},
    .doc = "Boxes in order of their scores, without those that overlap too much with "
           "one before; rows of -1 fill the end.",
    .inputs = {{"data", Types::kFloats, "(..., boxes, numbers of a box)."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of data."},
                {"record", Types::kIntegers, "Where each row came from."}},
    .params =
        {{"overlap_thresh", &P::overlap_thresh, "The largest overlap that is kept."},
         {"valid_thresh", &P::valid_thresh, "Only boxes of a higher score count."},
         {"topk", &P::topk, "Only so many best boxes count; -1: all."},
         {"coord_start", &P::coord_start, "Where the four coordinates begin."},
         {"score_index", &P::score_index, "Where the score is."},
         {"id_index", &P::id_index, "Where the class is; -1: there is none."},
         {"background_id", &P::background_id, "The class of boxes that do not count."},
         {"force_suppress", &P::force_suppress,
          "Boxes of different classes suppress each other as well."},
         {"in_format", &P::in_format, BoxFormatNames(), "How boxes are given."},
         {"out_format", &P::out_format, BoxFormatNames(), "How they are returned."}},
    .visible_outputs = [](const P&) { return 1; },
    .types =
        [](const P&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          out[1].dtype = DType::kInt64;
        },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b10},
    .cpu = {{"plain", Run}},
    .cost =
        [](const P&, const Specs& in, const Specs&) {
          return 100.0 * static_cast<double>(in[0].shape.size());
        },
    .samples = {{{Boxes()}, {.id_index = 0}},
                {{Boxes()},
                 {.overlap_thresh = 0.2f, .topk = 3, .force_suppress = true}},
                {{Constant(Boxes())},
                 {.valid_thresh = 0.45f,
                  .id_index = 0,
                  .background_id = 1,
                  .in_format = BoxFormat::kCenter}},
                {{Boxes()}, {.topk = 0}},
                {{Normal({2, 0, 6})}, {}}},
});

}  // namespace
}  // namespace plait
