// _contrib_MultiBoxTarget: which true box each anchor is to find, for training.

#include <cmath>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "graph/math.h"
#include "ops/contrib/boxes.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct TargetParams {
  float overlap_threshold = 0.5f;
  float ignore_label = -1;
  float negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int64_t minimum_negative_samples = 0;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
};
using P = TargetParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_contrib_MultiBoxTarget";
  Check(p.variances.size() == 4, kOp, ": variances has ", p.variances.size(),
        " numbers; four were expected");
  const Shape &anchor = in[0].shape, &label = in[1].shape, &pred = in[2].shape;
  if (!anchor.known() || !label.known() || !pred.known()) return true;
  const bool fits = anchor.rank() == 3 && anchor[0] == 1 && anchor[2] == 4 &&
                    label.rank() == 3 && label[2] >= 5 && pred.rank() == 3 &&
                    pred[0] == label[0] && pred[1] > 0 && pred[2] == anchor[1] &&
                    anchor[1] > 0;
  Check(fits, kOp, ": anchor ", anchor, ", label ", label, " and cls_pred ", pred,
        " do not match; (1, anchors, 4), (batch, boxes, at least 5) and (batch, "
        "classes, anchors) were expected");
  Shape moves{label[0], 4 * anchor[1]}, classes{label[0], anchor[1]};
  return Unify(moves, out[0].shape) && Unify(moves, out[1].shape) &&
         Unify(classes, out[2].shape);
}

// One image, in float.
struct Image {
  std::vector<Box<float>> anchors, boxes;
  std::vector<float> classes;     // of the true boxes
  std::vector<float> scores;      // (classes, anchors)
  std::vector<float> overlaps;    // (anchors, boxes)
  std::vector<int64_t> match;     // the box of each anchor, -1
  std::vector<float> match_size;  // their overlap, -1
  enum Kind : char { kIgnored, kNegative, kPositive };
  std::vector<Kind> kind;

  int64_t num_anchors() const { return static_cast<int64_t>(anchors.size()); }
  int64_t num_boxes() const { return static_cast<int64_t>(boxes.size()); }
  float overlap(int64_t i, int64_t k) const { return overlaps[i * num_boxes() + k]; }
};

// Every box gets the anchor that it overlaps with most, the best pair first.
int64_t MatchBoxes(Image& m) {
  std::vector<char> found(m.boxes.size(), 0);
  int64_t positive = 0;
  for (;;) {
    int64_t anchor = -1, box = -1;
    float best = 1e-6f;
    for (int64_t i = 0; i < m.num_anchors(); ++i) {
      if (m.kind[i] == Image::kPositive) continue;
      for (int64_t k = 0; k < m.num_boxes(); ++k) {
        if (found[k] || !(m.overlap(i, k) > best)) continue;
        anchor = i;
        box = k;
        best = m.overlap(i, k);
      }
    }
    if (anchor < 0) return positive;
    m.match[anchor] = box;
    m.match_size[anchor] = best;
    m.kind[anchor] = Image::kPositive;
    found[box] = 1;
    ++positive;
  }
}

// The other anchors' best boxes; those above the threshold are positive too.
int64_t MatchAnchors(const P& p, Image& m) {
  int64_t positive = 0;
  for (int64_t i = 0; i < m.num_anchors(); ++i) {
    if (m.kind[i] == Image::kPositive) continue;
    for (int64_t k = 0; k < m.num_boxes(); ++k) {
      if (!(m.overlap(i, k) > m.match_size[i])) continue;
      m.match[i] = k;
      m.match_size[i] = m.overlap(i, k);
    }
    if (p.overlap_threshold > 0 && m.match_size[i] > p.overlap_threshold) {
      m.kind[i] = Image::kPositive;
      ++positive;
    }
  }
  return positive;
}

// The chance of the background, the first class, by softmax.
float Background(const Image& m, int64_t i) {
  const int64_t n = m.num_anchors(),
                classes = static_cast<int64_t>(m.scores.size()) / n;
  float top = m.scores[i], sum = 0;
  for (int64_t k = 1; k < classes; ++k) top = std::max(top, m.scores[k * n + i]);
  for (int64_t k = 0; k < classes; ++k) sum += std::exp(m.scores[k * n + i] - top);
  return std::exp(m.scores[i] - top) / sum;
}

// Anchors that look least like background, some for each positive one.
void MineNegatives(const P& p, Image& m, int64_t positive) {
  const int64_t n = m.num_anchors();
  const auto wanted =
      std::min(static_cast<int64_t>(positive * p.negative_mining_ratio), n - positive);
  std::vector<std::pair<float, int64_t>> candidates;
  for (int64_t i = 0; i < n; ++i) {
    if (m.kind[i] != Image::kPositive && m.match_size[i] < p.negative_mining_thresh) {
      candidates.emplace_back(Background(m, i), i);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (int64_t i = 0; i < wanted && i < static_cast<int64_t>(candidates.size()); ++i) {
    m.kind[candidates[i].second] = Image::kNegative;
  }
}

void MatchAll(const P& p, Image& m) {
  const size_t n = m.anchors.size();
  m.match.assign(n, -1);
  m.match_size.assign(n, -1);
  m.kind.assign(n, Image::kIgnored);
  if (m.boxes.empty()) return;
  for (const Box<float>& a : m.anchors)
    for (const Box<float>& b : m.boxes) m.overlaps.push_back(Overlap(a, b));
  int64_t positive = MatchBoxes(m);
  positive += MatchAnchors(p, m);
  if (p.negative_mining_ratio > 0) return MineNegatives(p, m, positive);
  for (Image::Kind& kind : m.kind)
    if (kind != Image::kPositive) kind = Image::kNegative;
}

std::vector<float> Row(const View& x, int64_t i, int64_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  cpu::Convert(static_cast<const char*>(x.ptr) + i * n * SizeOf(x.dtype), x.dtype,
               row.data(), DType::kFloat32, n);
  return row;
}

Image ReadImage(const KernelArgs& args, int64_t b) {
  Image m;
  const View &anchors = args.in[0], &labels = args.in[1], &scores = args.in[2];
  const std::vector<float> a = Row(anchors, 0, anchors.size());
  for (size_t i = 0; i < a.size(); i += 4) m.anchors.push_back(ReadBox(&a[i]));
  const int64_t boxes = labels.shape()[1], width = labels.shape()[2];
  const std::vector<float> l = Row(labels, b, boxes * width);
  // A class of -1 ends the list.
  for (int64_t i = 0; i < boxes && l[i * width] != -1; ++i) {
    m.classes.push_back(l[i * width]);
    m.boxes.push_back(ReadBox(&l[i * width + 1]));
  }
  m.scores = Row(scores, b, scores.shape()[1] * scores.shape()[2]);
  return m;
}

void StoreImage(const P& p, const Image& m, const KernelArgs& args, int64_t b) {
  const int64_t n = m.num_anchors();
  std::vector<float> moves(4 * n), mask(4 * n), classes(n, p.ignore_label);
  for (int64_t i = 0; i < n; ++i) {
    if (m.kind[i] == Image::kNegative) classes[i] = 0;
    if (m.kind[i] != Image::kPositive) continue;
    classes[i] = m.classes[m.match[i]] + 1;
    const Box<float>&a = m.anchors[i], &g = m.boxes[m.match[i]];
    const float codes[] = {
        ((g.left + g.right) / 2 - (a.left + a.right) / 2) / a.width(),
        ((g.top + g.bottom) / 2 - (a.top + a.bottom) / 2) / a.height(),
        std::log(g.width() / a.width()), std::log(g.height() / a.height())};
    for (int k = 0; k < 4; ++k) {
      moves[4 * i + k] = codes[k] / static_cast<float>(p.variances[k]);
      mask[4 * i + k] = 1;
    }
  }
  const std::vector<float>* rows[] = {&moves, &mask, &classes};
  for (int k = 0; k < 3; ++k) {
    const View& y = args.out[k];
    const auto size = static_cast<int64_t>(rows[k]->size());
    cpu::Convert(rows[k]->data(), DType::kFloat32,
                 static_cast<char*>(y.ptr) + b * size * SizeOf(y.dtype), y.dtype, size);
  }
}

SampleInput Given(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}

std::vector<SampleInput> Inputs() {
  return {
      Given({1, 3, 4}, {0.1, 0.1, 0.3, 0.3, 0.2, 0.1, 0.4, 0.3, 0.6, 0.6, 0.9, 0.9}),
      Given({2, 2, 5}, {1, 0.1, 0.1, 0.3, 0.35, 0,  0.65, 0.6, 0.9, 0.9,
                        2, 0.2, 0.1, 0.4, 0.3,  -1, -1,   -1,  -1,  -1}),
      Normal({2, 3, 3})};
}

[[maybe_unused]] const OpDef& target = Register<P>({
    .name = "_contrib_MultiBoxTarget",
    .aliases = {"_npx_multibox_target"},
    .doc =
        "For each anchor: how it is to move and stretch to reach its box, whether it "
        "has one, and its class (0 is the background).",
    .inputs = {{"anchor", Types::kFloats, "Corners, (1, anchors, 4)."},
               {"label", Types::kFloats,
                "(batch, boxes, 5): class and corners; a class of -1 ends the list."},
               {"cls_pred", Types::kFloats, "Scores, (batch, classes, anchors)."}},
    .outputs = {{"loc_target", Types::kFloats, "(batch, 4 * anchors)."},
                {"loc_mask", Types::kFloats, "(batch, 4 * anchors)."},
                {"cls_target", Types::kFloats, "(batch, anchors)."}},
    .params = {{"overlap_threshold", &P::overlap_threshold,
                "Anchors that overlap more with a box are positive."},
               {"ignore_label", &P::ignore_label,
                "The class of anchors that do not count."},
               {"negative_mining_ratio", &P::negative_mining_ratio,
                "Negative anchors for each positive one; -1: all others are negative."},
               {"negative_mining_thresh", &P::negative_mining_thresh,
                "Only anchors that overlap less with all boxes can be negative then."},
               {"minimum_negative_samples", &P::minimum_negative_samples,
                "Accepted, and without effect."},
               {"variances", &P::variances, "Divide the moves."}},
    .infer = Infer,
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const P& p, const KernelArgs& args) {
               ParallelFor(args.in[1].shape()[0], 1, [&](int64_t first, int64_t last) {
                 for (int64_t b = first; b < last; ++b) {
                   Image image = ReadImage(args, b);
                   MatchAll(p, image);
                   StoreImage(p, image, args, b);
                 }
               });
             }}},
    .cost =
        [](const P&, const Specs& in, const Specs&) {
          return 20.0 * static_cast<double>(in[0].shape.size() * in[1].shape.size());
        },
    .samples = {{Inputs()},
                {Inputs(),
                 {.overlap_threshold = 0.2f,
                  .negative_mining_ratio = 1,
                  .negative_mining_thresh = 0.3f}}},
});

}  // namespace
}  // namespace plait
