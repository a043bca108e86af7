// _contrib_Proposal, _contrib_MultiProposal: regions that may hold an object.

#include <cmath>
#include <limits>
#include <numeric>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "graph/math.h"
#include "ops/contrib/boxes.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct ProposalParams {
  int64_t rpn_pre_nms_top_n = 6000;
  int64_t rpn_post_nms_top_n = 300;
  float threshold = 0.7f;
  int64_t rpn_min_size = 16;
  std::vector<double> scales = {4, 8, 16, 32};
  std::vector<double> ratios = {0.5, 1, 2};
  int64_t feature_stride = 16;
  bool output_score = false;
  bool iou_loss = false;

  int64_t num_anchors() const {
    return static_cast<int64_t>(scales.size() * ratios.size());
  }
};
using P = ProposalParams;

bool Infer(const P& p, Specs& in, Specs& out, const char* op, bool one_image) {
  Check(p.rpn_post_nms_top_n > 0 && p.feature_stride > 0, op,
        ": rpn_post_nms_top_n is ", p.rpn_post_nms_top_n, " and feature_stride ",
        p.feature_stride, "; at least 1 was expected");
  const Shape x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() == 4 && x[1] == 2 * p.num_anchors(), op, ": cls_prob has shape ", x,
        "; (batch, 2 * ", p.num_anchors(), " anchors, height, width) was expected");
  Check(x[0] == 1 || !one_image, op, ": cls_prob has a batch of ", x[0],
        "; one image was expected, or _contrib_MultiProposal");
  Shape moves{x[0], 2 * x[1], x[2], x[3]}, info{x[0], 3};
  const Shape given[] = {in[1].shape, in[2].shape};
  Check(Unify(moves, in[1].shape) && Unify(info, in[2].shape), op,
        ": bbox_pred has shape ", given[0], " and im_info ", given[1], " for cls_prob ",
        x, "; shapes ", moves, " and ", info, " were expected");
  Shape rows{x[0] * p.rpn_post_nms_top_n, 5}, scores{rows[0], 1};
  return Unify(rows, out[0].shape) && Unify(scores, out[1].shape);
}

// A region with both ends inside, as pixels count.
struct Region {
  float x1, y1, x2, y2, score;

  float width() const { return x2 - x1 + 1; }
  float height() const { return y2 - y1 + 1; }
};

// Anchors around the first place: one for each ratio and scale.
std::vector<Region> Anchors(const P& p) {
  std::vector<Region> anchors;
  const float side = static_cast<float>(p.feature_stride), size = side * side;
  const float center = 0.5f * (side - 1);
  for (double ratio : p.ratios) {
    for (double scale : p.scales) {
      const float r = static_cast<float>(ratio), s = static_cast<float>(scale);
      const float w = std::floor(std::sqrt(std::floor(size / r)) + 0.5f) * s;
      const float h = std::floor(w / s * r + 0.5f) * s;
      anchors.push_back({center - 0.5f * (w - 1), center - 0.5f * (h - 1),
                         center + 0.5f * (w - 1), center + 0.5f * (h - 1), 0});
    }
  }
  return anchors;
}

struct ImageInfo {
  float height, width, scale;
};

// The anchor moved and stretched as predicted, and cut to the image.
Region Move(const P& p, const Region& a, const float move[4], const ImageInfo& info) {
  Region r = a;
  if (p.iou_loss) {
    r.x1 += move[0];
    r.y1 += move[1];
    r.x2 += move[2];
    r.y2 += move[3];
  } else {
    const float w = a.width(), h = a.height();
    const float x = move[0] * w + a.x1 + 0.5f * (w - 1);
    const float y = move[1] * h + a.y1 + 0.5f * (h - 1);
    const float half_w = 0.5f * (std::exp(move[2]) * w - 1);
    const float half_h = 0.5f * (std::exp(move[3]) * h - 1);
    r = {x - half_w, y - half_h, x + half_w, y + half_h, a.score};
  }
  const auto cut = [](float v, float size) {
    return std::max(std::min(v, size - 1), 0.0f);
  };
  r.x1 = cut(r.x1, info.width);
  r.y1 = cut(r.y1, info.height);
  r.x2 = cut(r.x2, info.width);
  r.y2 = cut(r.y2, info.height);
  return r;
}

// All regions of an image; a score of -1 marks those in the padding or too small.
std::vector<Region> Regions(const P& p, const float* scores, const float* moves,
                            const ImageInfo& info, int64_t height, int64_t width) {
  const std::vector<Region> anchors = Anchors(p);
  const int64_t places = height * width;
  const auto real_height = static_cast<int64_t>(info.height / p.feature_stride);
  const auto real_width = static_cast<int64_t>(info.width / p.feature_stride);
  const float least = static_cast<float>(p.rpn_min_size) * info.scale;
  std::vector<Region> regions;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const int64_t at = y * width + x;
      for (size_t i = 0; i < anchors.size(); ++i) {
        Region a = anchors[i];
        a.x1 += x * p.feature_stride;
        a.x2 += x * p.feature_stride;
        a.y1 += y * p.feature_stride;
        a.y2 += y * p.feature_stride;
        a.score = scores[i * places + at];
        float move[4];
        for (int k = 0; k < 4; ++k) move[k] = moves[(4 * i + k) * places + at];
        Region r = Move(p, a, move, info);
        if (y >= real_height || x >= real_width) r.score = -1;
        if (r.width() < least || r.height() < least) {
          r = {r.x1 - least / 2, r.y1 - least / 2, r.x2 + least / 2, r.y2 + least / 2,
               -1};
        }
        regions.push_back(r);
      }
    }
  }
  return regions;
}

bool TooClose(const Region& a, const Region& b, float threshold) {
  const float w = std::max(0.0f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1) + 1);
  const float h = std::max(0.0f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1) + 1);
  const float common = w * h;
  const float all = a.width() * a.height() + b.width() * b.height() - common;
  return common / all > threshold;
}

std::vector<float> Row(const View& x, int64_t i, int64_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  cpu::Convert(static_cast<const char*>(x.ptr) + i * n * SizeOf(x.dtype), x.dtype,
               row.data(), DType::kFloat32, n);
  return row;
}

// The best regions of image b; where there are fewer than asked for, they repeat.
void Propose(const P& p, const KernelArgs& args, int64_t b) {
  const Shape& shape = args.in[0].shape();
  const int64_t height = shape[2], width = shape[3], places = height * width;
  const int64_t n = p.num_anchors();
  const std::vector<float> scores = Row(args.in[0], b, 2 * n * places);
  const std::vector<float> moves = Row(args.in[1], b, 4 * n * places);
  const std::vector<float> info = Row(args.in[2], b, 3);
  // The second half of the scores is that of objects.
  std::vector<Region> regions = Regions(p, scores.data() + n * places, moves.data(),
                                        {info[0], info[1], info[2]}, height, width);
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Region& x, const Region& y) { return x.score > y.score; });
  const auto all = static_cast<int64_t>(regions.size());
  const int64_t best =
      p.rpn_pre_nms_top_n > 0 ? std::min(p.rpn_pre_nms_top_n, all) : all;
  const auto kept = KeepGreedily(best, p.rpn_post_nms_top_n, [&](int64_t i, int64_t j) {
    return TooClose(regions[i], regions[j], p.threshold);
  });
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    for (int64_t i = 0; i < p.rpn_post_nms_top_n; ++i) {
      const int64_t row = b * p.rpn_post_nms_top_n + i;
      const Region r = kept.empty()
                           ? Region{0, 0, 0, 0, -1}
                           : regions[kept[i % static_cast<int64_t>(kept.size())]];
      const float values[] = {static_cast<float>(b), r.x1, r.y1, r.x2, r.y2};
      for (int k = 0; k < 5; ++k) {
        args.out[0].data<T>()[row * 5 + k] = static_cast<T>(values[k]);
      }
      args.out[1].data<T>()[row] = static_cast<T>(r.score);
    }
  });
}

OpSpec<P> Spec(const char* name) {
  OpSpec<P> s = {.name = name};
  s.doc =
      "Regions of an image that may hold an object, the best ones first, without "
      "those that overlap too much.";
  s.inputs = {{"cls_prob", Types::kFloats,
               "(batch, 2 * anchors, height, width): background, then objects."},
              {"bbox_pred", Types::kFloats, "(batch, 4 * anchors, height, width)."},
              {"im_info", Types::kFloats, "Height, width and scale, (batch, 3)."}};
  s.outputs = {{"output", Types::kFloats, "Rows of image and corners."},
               {"score", Types::kFloats, "Their scores."}};
  s.params = {
      {"rpn_pre_nms_top_n", &P::rpn_pre_nms_top_n, "Only so many best ones count."},
      {"rpn_post_nms_top_n", &P::rpn_post_nms_top_n, "Regions that are returned."},
      {"threshold", &P::threshold, "The largest overlap that is kept."},
      {"rpn_min_size", &P::rpn_min_size, "The smallest side, in pixels."},
      {"scales", &P::scales, "Scales of anchors."},
      {"ratios", &P::ratios, "Ratios of anchors."},
      {"feature_stride", &P::feature_stride, "Pixels from one place to the next."},
      {"output_score", &P::output_score, "Returns the scores as well."},
      {"iou_loss", &P::iou_loss, "Predictions are moves of corners."}};
  s.visible_outputs = [](const P& p) { return p.output_score ? 2 : 1; };
  s.zero_gradient = true;
  s.cpu = {{"plain", [](const P& p, const KernelArgs& args) {
              ParallelFor(args.in[0].shape()[0], 1, [&](int64_t first, int64_t last) {
                for (int64_t b = first; b < last; ++b) Propose(p, args, b);
              });
            }}};
  s.cost = [](const P&, const Specs& in, const Specs&) {
    return 200.0 * static_cast<double>(in[0].shape.size());
  };
  return s;
}

Sample<P> SampleOf(int64_t batch, bool iou_loss) {
  Sample<P> s;
  SampleInput info = Numbers({batch, 3}, std::vector<double>(3 * batch, 64));
  for (int64_t b = 0; b < batch; ++b) info.values[3 * b + 2] = 1;
  s.inputs = {Uniform({batch, 8, 4, 4}, 0, 1), Uniform({batch, 16, 4, 4}, -0.2, 0.2),
              info};
  s.params.rpn_pre_nms_top_n = 20;
  s.params.rpn_post_nms_top_n = 6;
  s.params.rpn_min_size = 4;
  s.params.scales = {1, 2};
  s.params.ratios = {0.5, 1};
  s.params.output_score = true;
  s.params.iou_loss = iou_loss;
  return s;
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<P> one = Spec("_contrib_Proposal");
  one.infer = [](const P& p, Specs& in, Specs& out) {
    return Infer(p, in, out, "_contrib_Proposal", true);
  };
  one.samples = {SampleOf(1, false), SampleOf(1, true)};
  Register(one);
  OpSpec<P> many = Spec("_contrib_MultiProposal");
  many.infer = [](const P& p, Specs& in, Specs& out) {
    return Infer(p, in, out, "_contrib_MultiProposal", false);
  };
  many.samples = {SampleOf(2, false)};
  Register(many);
  return true;
}();

}  // namespace
}  // namespace plait
