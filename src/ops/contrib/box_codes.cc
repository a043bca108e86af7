// _contrib_box_iou, box_encode, box_decode, bipartite_matching.

#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/contrib/boxes.h"
#include "ops/infer.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- box_iou

struct IouParams {
  BoxFormat format = BoxFormat::kCorner;
};

bool IsBoxes(const Shape& x, int rank) {
  return !x.known() || (x.rank() >= rank && x.back() == 4);
}

[[maybe_unused]] const OpDef& box_iou = Register<IouParams>({
    .name = "_contrib_box_iou",
    .doc = "Intersection over union of every box of one array with every box of "
           "another.",
    .inputs = {{"lhs", Types::kFloats, "Boxes, (..., 4)."},
               {"rhs", Types::kFloats, "Boxes, (..., 4)."}},
    .outputs = {{"output", Types::kFloats, "The leading axes of both."}},
    .params = {{"format", &IouParams::format, BoxFormatNames(),
                "How boxes are given."}},
    .infer =
        [](const IouParams&, Specs& in, Specs& out) {
          const Shape &a = in[0].shape, &b = in[1].shape;
          Check(IsBoxes(a, 2) && IsBoxes(b, 2), "_contrib_box_iou: lhs has shape ", a,
                " and rhs ", b, "; boxes of 4 numbers in the last axis were expected");
          if (!a.known() || !b.known()) return true;
          Shape y(a.begin(), a.end() - 1);
          for (int i = 0; i + 1 < b.rank(); ++i) y.Append(b[i]);
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const IouParams& p, const KernelArgs& args) {
               const View &a = args.in[0], &b = args.in[1], &y = args.out[0];
               const int64_t n = b.size() / 4;
               VisitFloat(y.dtype, [&]<typename T>() {
                 ParallelFor(
                     a.size() / 4, 1 + 512 / (1 + n), [&](int64_t first, int64_t last) {
                       for (int64_t i = first; i < last; ++i) {
                         const auto x = ReadBox(a.data<const T>() + 4 * i, p.format);
                         for (int64_t j = 0; j < n; ++j) {
                           const auto z = ReadBox(b.data<const T>() + 4 * j, p.format);
                           y.data<T>()[i * n + j] = static_cast<T>(Overlap(x, z));
                         }
                       }
                     });
               });
             }}},
    .cost =
        [](const IouParams&, const Specs&, const Specs& out) {
          return 20.0 * static_cast<double>(out[0].shape.size());
        },
    .samples = {{{Uniform({3, 4}, 0, 1), Uniform({2, 4}, 0, 1)}},
                {{Uniform({2, 2, 4}, 0.2, 1), Uniform({3, 4}, 0.2, 1)},
                 {BoxFormat::kCenter}},
                {{Normal({0, 4}), Normal({2, 4})}}},
});

// ---------------------------------------------------------------- box_encode

template <typename T>
struct Encoder {
  using A = Accumulate<T>;
  const T *samples, *matches, *anchors, *refs, *means, *stds;
  int64_t anchors_each, refs_each;

  // Four targets for anchor i, zeros when it is not a positive sample.
  void Encode(int64_t i, T* target, T* mask) const {
    const bool valid = static_cast<A>(samples[i]) > A(0.5);
    std::fill_n(mask, 4, static_cast<T>(valid ? 1.0f : 0.0f));
    std::fill_n(target, 4, T{});
    if (!valid) return;
    const auto match = static_cast<int64_t>(static_cast<A>(matches[i]));
    Check(match >= 0 && match < refs_each, ErrorKind::kIndex,
          "_contrib_box_encode: match ", match, " is out of range for ", refs_each,
          " boxes; an index below was expected");
    const auto a = ReadBox(anchors + 4 * i);
    const auto r = ReadBox(refs + 4 * (i / anchors_each * refs_each + match));
    const A codes[] = {(r.left + r.width() / 2 - a.left - a.width() / 2) / a.width(),
                       (r.top + r.height() / 2 - a.top - a.height() / 2) / a.height(),
                       std::log(r.width() / a.width()),
                       std::log(r.height() / a.height())};
    for (int k = 0; k < 4; ++k) {
      target[k] = static_cast<T>((codes[k] - static_cast<A>(means[k])) /
                                 static_cast<A>(stds[k]));
    }
  }
};

bool InferEncode(const NoParams&, Specs& in, Specs& out) {
  constexpr const char* kOp = "_contrib_box_encode";
  Shape anchors = in[2].shape;
  for (int i = 4; i < 6; ++i) {
    Shape four{4};
    const Shape given = in[i].shape;
    Check(Unify(four, in[i].shape), kOp, ": ", i == 4 ? "means" : "stds", " has shape ",
          given, "; shape (4,) was expected");
  }
  if (!anchors.known()) return true;
  Check(anchors.rank() == 3 && anchors[2] == 4, kOp, ": anchors has shape ", anchors,
        "; (batch, anchors, 4) was expected");
  for (int i = 0; i < 2; ++i) {
    Shape each{anchors[0], anchors[1]};
    const Shape given = in[i].shape;
    Check(Unify(each, in[i].shape), kOp, ": ", i == 0 ? "samples" : "matches",
          " has shape ", given, " for anchors ", anchors, "; one number for each was ",
          "expected");
  }
  Shape refs{anchors[0], kUnknownSize, 4};
  const Shape given = in[3].shape;
  Check(Unify(refs, in[3].shape), kOp, ": refs has shape ", given, " for anchors ",
        anchors, "; (batch, boxes, 4) was expected");
  return Unify(anchors, out[0].shape) && Unify(anchors, out[1].shape);
}

SampleInput Given(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& box_encode = Register<NoParams>({
    .name = "_contrib_box_encode",
    .doc = "What a box has to be moved and stretched by to reach its match: targets "
           "for training, and a mask of the anchors that have one.",
    .inputs = {{"samples", Types::kFloats, "1 for positive anchors, (batch, anchors)."},
               {"matches", Types::kFloats, "The box of each, (batch, anchors)."},
               {"anchors", Types::kFloats, "Corners, (batch, anchors, 4)."},
               {"refs", Types::kFloats,
                "Corners of the true boxes, (batch, boxes, 4)."},
               {"means", Types::kFloats, "Subtracted from targets, (4,)."},
               {"stds", Types::kFloats, "Divide targets, (4,)."}},
    .outputs = {{"output", Types::kFloats, "Targets."},
                {"mask", Types::kFloats, "0 or 1."}},
    .infer = InferEncode,
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const View& anchors = args.in[2];
               VisitFloat(anchors.dtype, [&]<typename T>() {
                 const auto in = [&](int i) { return args.in[i].data<const T>(); };
                 const Encoder<T> encoder{in(0),
                                          in(1),
                                          in(2),
                                          in(3),
                                          in(4),
                                          in(5),
                                          anchors.shape()[1],
                                          args.in[3].shape()[1]};
                 ParallelFor(anchors.size() / 4, 256, [&](int64_t first, int64_t last) {
                   for (int64_t i = first; i < last; ++i) {
                     encoder.Encode(i, args.out[0].data<T>() + 4 * i,
                                    args.out[1].data<T>() + 4 * i);
                   }
                 });
               });
             }}},
    .may_fail = true,
    .samples = {{{Given({1, 3}, {1, 0, 1}), Given({1, 3}, {1, 0, 0}),
                  Given({1, 3, 4}, {0, 0, 1, 2, 0, 0, 1, 1, 1, 1, 3, 2}),
                  Given({1, 2, 4}, {0, 0, 2, 2, 1, 0, 2, 3}),
                  Given({4}, {0, 0, 0.1, 0.1}), Given({4}, {0.1, 0.1, 0.2, 0.2})}}},
});

// ---------------------------------------------------------------- box_decode

struct DecodeParams {
  float std0 = 1, std1 = 1, std2 = 1, std3 = 1;
  float clip = -1;
  BoxFormat format = BoxFormat::kCenter;
};

template <typename T>
void Decode(const DecodeParams& p, const T* x, const T* anchor, T* y) {
  using A = Accumulate<T>;
  const auto a = ReadBox(anchor, p.format);
  A w = static_cast<A>(x[2]) * A(p.std2), h = static_cast<A>(x[3]) * A(p.std3);
  if (p.clip > 0) {
    w = std::min(w, A(p.clip));
    h = std::min(h, A(p.clip));
  }
  w = std::exp(w) * a.width() / 2;
  h = std::exp(h) * a.height() / 2;
  const A cx = static_cast<A>(x[0]) * A(p.std0) * a.width() + a.left + a.width() / 2;
  const A cy = static_cast<A>(x[1]) * A(p.std1) * a.height() + a.top + a.height() / 2;
  y[0] = static_cast<T>(cx - w);
  y[1] = static_cast<T>(cy - h);
  y[2] = static_cast<T>(cx + w);
  y[3] = static_cast<T>(cy + h);
}

[[maybe_unused]] const OpDef& box_decode = Register<DecodeParams>({
    .name = "_contrib_box_decode",
    .doc = "Boxes from what anchors are to be moved and stretched by.",
    .inputs = {{"data", Types::kFloats, "Predictions, (batch, anchors, 4)."},
               {"anchors", Types::kFloats, "(1, anchors, 4)."}},
    .outputs = {{"output", Types::kFloats, "Corners, of the shape of data."}},
    .params = {{"std0", &DecodeParams::std0, "Factor of the first prediction."},
               {"std1", &DecodeParams::std1, "Factor of the second."},
               {"std2", &DecodeParams::std2, "Factor of the third."},
               {"std3", &DecodeParams::std3, "Factor of the fourth."},
               {"clip", &DecodeParams::clip,
                "The largest logarithm of a stretch, if above 0."},
               {"format", &DecodeParams::format, BoxFormatNames(),
                "How anchors are given."}},
    .infer =
        [](const DecodeParams&, Specs& in, Specs& out) {
          const Shape &x = in[0].shape, &a = in[1].shape;
          if (!Unify(in[0].shape, out[0].shape)) return false;
          if (!x.known() || !a.known()) return true;
          Check(x.rank() == 3 && x[2] == 4 && a.rank() == 3 && a[0] == 1 &&
                    a[1] == x[1] && a[2] == 4,
                "_contrib_box_decode: data has shape ", x, " and anchors ", a,
                "; (batch, anchors, 4) and (1, anchors, 4) were expected");
          return true;
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const DecodeParams& p, const KernelArgs& args) {
               const int64_t n = args.in[1].shape()[1];
               VisitFloat(args.out[0].dtype, [&]<typename T>() {
                 ParallelFor(args.out[0].size() / 4, 256,
                             [&](int64_t first, int64_t last) {
                               for (int64_t i = first; i < last; ++i) {
                                 Decode(p, args.in[0].data<const T>() + 4 * i,
                                        args.in[1].data<const T>() + 4 * (i % n),
                                        args.out[0].data<T>() + 4 * i);
                               }
                             });
               });
             }}},
    .samples = {{{Normal({2, 3, 4}), Uniform({1, 3, 4}, 0.5, 2)}},
                {{Normal({1, 2, 4}), Uniform({1, 2, 4}, 0, 1)},
                 {0.1f, 0.1f, 0.2f, 0.2f, 0.1f, BoxFormat::kCorner}}},
});

// ---------------------------------------------------------------- bipartite_matching

struct MatchingParams {
  bool is_ascend = false;
  float threshold = 0;
  int64_t topk = -1;
};

// The best score first; its row and column are then taken.
template <typename T>
void Match(const MatchingParams& p, const T* scores, int64_t rows, int64_t columns,
           T* of_rows, T* of_columns) {
  using A = Accumulate<T>;
  std::vector<int64_t> order(static_cast<size_t>(rows * columns));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const A a = static_cast<A>(scores[i]), b = static_cast<A>(scores[j]);
    return p.is_ascend ? a < b : a > b;
  });
  const T none = static_cast<T>(-1.0f);
  std::fill_n(of_rows, rows, none);
  std::fill_n(of_columns, columns, none);
  int64_t count = 0;
  for (int64_t i : order) {
    const int64_t r = i / columns, c = i % columns;
    if (static_cast<A>(of_rows[r]) != -1 || static_cast<A>(of_columns[c]) != -1)
      continue;
    const A score = static_cast<A>(scores[i]);
    if (!(p.is_ascend ? score < p.threshold : score > p.threshold)) break;
    of_rows[r] = static_cast<T>(static_cast<A>(c));
    of_columns[c] = static_cast<T>(static_cast<A>(r));
    // MXNet stops after one match more than topk.
    if (p.topk > 0 && ++count > p.topk) break;
  }
}

[[maybe_unused]] const OpDef& matching = Register<MatchingParams>({
    .name = "_contrib_bipartite_matching",
    .doc = "Pairs of rows and columns, the pair of the best score first: the column of "
           "each row and the row of each column, or -1.",
    .inputs = {{"data", Types::kFloats, "Scores, (..., rows, columns)."}},
    .outputs = {{"rows", Types::kFloats, "Columns, (..., rows)."},
                {"columns", Types::kFloats, "Rows, (..., columns)."}},
    .params = {{"is_ascend", &MatchingParams::is_ascend, "Low scores are good."},
               Required<MatchingParams>("threshold", &MatchingParams::threshold,
                                        "Scores that are not better do not count."),
               {"topk", &MatchingParams::topk,
                "Limits the number of pairs; -1: none."}},
    .infer =
        [](const MatchingParams&, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.known()) return true;
          Check(x.rank() >= 2, "_contrib_bipartite_matching: data has shape ", x,
                "; at least two axes were expected");
          Shape rows(x.begin(), x.end() - 1), columns = rows;
          columns.back() = x.back();
          return Unify(rows, out[0].shape) && Unify(columns, out[1].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const MatchingParams& p, const KernelArgs& args) {
               const Shape& x = args.in[0].shape();
               const int64_t rows = x[x.rank() - 2], columns = x.back();
               VisitFloat(args.in[0].dtype, [&]<typename T>() {
                 ParallelFor(
                     x.size(0, x.rank() - 2), 1, [&](int64_t first, int64_t last) {
                       for (int64_t b = first; b < last; ++b) {
                         Match(p, args.in[0].data<const T>() + b * rows * columns, rows,
                               columns, args.out[0].data<T>() + b * rows,
                               args.out[1].data<T>() + b * columns);
                       }
                     });
               });
             }}},
    .cost = [](const MatchingParams&, const Specs& in,
               const Specs&) { return 50.0 * static_cast<double>(in[0].shape.size()); },
    .samples = {{{Uniform({3, 2}, 0, 1)}, {.threshold = 0.1f}},
                {{Uniform({2, 2, 3}, 0, 1)},
                 {.is_ascend = true, .threshold = 0.9f, .topk = 1}}},
});

}  // namespace
}  // namespace plait
