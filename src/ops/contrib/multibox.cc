// _contrib_MultiBoxPrior, MultiBoxDetection: anchors of a feature map, and detections.

#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/contrib/boxes.h"
#include "ops/infer.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- prior

struct PriorParams {
  std::vector<double> sizes = {1};
  std::vector<double> ratios = {1};
  bool clip = false;
  std::vector<double> steps = {-1, -1};
  std::vector<double> offsets = {0.5, 0.5};

  int64_t each() const {  // anchors of a place
    return static_cast<int64_t>(sizes.size() + ratios.size()) - 1;
  }
};

bool InferPrior(const PriorParams& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_contrib_MultiBoxPrior";
  Check(!p.sizes.empty() && !p.ratios.empty(), kOp,
        ": sizes or ratios are empty; at least one of each was expected");
  Check(p.steps.size() == 2 && p.offsets.size() == 2, kOp, ": steps has ",
        p.steps.size(), " numbers and offsets ", p.offsets.size(),
        "; two of each, of y and x, were expected");
  Check(p.steps[0] * p.steps[1] >= 0, kOp, ": steps are ", p.steps[0], " and ",
        p.steps[1], "; both or none were expected");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() == 4 && x[2] > 0 && x[3] > 0, kOp, ": data has shape ", x,
        "; (batch, channels, height, width) was expected");
  Shape y{1, x[2] * x[3] * p.each(), 4};
  return Unify(y, out[0].shape);
}

void RunPrior(const PriorParams& p, const KernelArgs& args) {
  const int64_t height = args.in[0].shape()[2], width = args.in[0].shape()[3];
  const bool given = p.steps[0] > 0 && p.steps[1] > 0;
  const float step_y = given ? static_cast<float>(p.steps[0]) : 1.0f / height;
  const float step_x = given ? static_cast<float>(p.steps[1]) : 1.0f / width;
  // Half sizes, the same at every place: all sizes at the first ratio, then the first
  // size at the others.
  std::vector<std::pair<float, float>> halves;
  const auto add = [&](double size, double ratio) {
    const float root = std::sqrt(static_cast<float>(ratio));
    const float s = static_cast<float>(size);
    halves.emplace_back(s * height / width * root / 2, s / root / 2);
  };
  for (double size : p.sizes) add(size, p.ratios[0]);
  for (size_t i = 1; i < p.ratios.size(); ++i) add(p.sizes[0], p.ratios[i]);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    T* y = args.out[0].data<T>();
    const auto put = [&](float v) {
      *y++ = static_cast<T>(p.clip ? std::clamp(v, 0.0f, 1.0f) : v);
    };
    for (int64_t r = 0; r < height; ++r) {
      const float cy = (r + static_cast<float>(p.offsets[0])) * step_y;
      for (int64_t c = 0; c < width; ++c) {
        const float cx = (c + static_cast<float>(p.offsets[1])) * step_x;
        for (const auto& [w, h] : halves) {
          put(cx - w);
          put(cy - h);
          put(cx + w);
          put(cy + h);
        }
      }
    }
  });
}

[[maybe_unused]] const OpDef& prior = Register<PriorParams>({
    .name = "_contrib_MultiBoxPrior",
    .aliases = {"_npx_multibox_prior"},
    .doc = "Anchor boxes at every place of a feature map, in units of the image.",
    .inputs = {{"data", Types::kFloats, "A feature map; only its shape counts."}},
    .outputs = {{"output", Types::kFloats, "Corners, (1, anchors, 4)."}},
    .params = {{"sizes", &PriorParams::sizes, "Sizes of boxes of the first ratio."},
               {"ratios", &PriorParams::ratios, "Ratios of boxes of the first size."},
               {"clip", &PriorParams::clip, "Cuts off what is outside of the image."},
               {"steps", &PriorParams::steps,
                "From one place to the next, (y, x); -1: by the shape of data."},
               {"offsets", &PriorParams::offsets, "Of centers, (y, x), in steps."}},
    .infer = InferPrior,
    .zero_gradient = true,
    .cpu = {{"plain", RunPrior}},
    .samples = {{{Normal({1, 2, 2, 3})}, {.sizes = {0.5, 0.25}, .ratios = {1, 2, 0.5}}},
                {{Normal({2, 1, 2, 2})},
                 {.sizes = {1.5},
                  .clip = true,
                  .steps = {0.4, 0.5},
                  .offsets = {0.25, 0.75}}}},
});

// ---------------------------------------------------------------- detection

struct DetectionParams {
  bool clip = true;
  float threshold = 0.01f;
  int64_t background_id = 0;
  float nms_threshold = 0.5f;
  bool force_suppress = false;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  int64_t nms_topk = -1;
};

bool InferDetection(const DetectionParams& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_contrib_MultiBoxDetection";
  Check(p.variances.size() == 4, kOp, ": variances has ", p.variances.size(),
        " numbers; four were expected");
  const Shape &prob = in[0].shape, &loc = in[1].shape, &anchor = in[2].shape;
  if (!prob.known() || !loc.known() || !anchor.known()) return true;
  const bool fits = prob.rank() == 3 && loc.rank() == 2 && anchor.rank() == 3 &&
                    anchor[0] == 1 && anchor[1] == prob[2] && anchor[2] == 4 &&
                    loc[0] == prob[0] && loc[1] == 4 * prob[2];
  Check(fits, kOp, ": cls_prob ", prob, ", loc_pred ", loc, " and anchor ", anchor,
        " do not match; (batch, classes, anchors), (batch, 4 * anchors) and "
        "(1, anchors, 4) were expected");
  Shape y{prob[0], prob[2], 6};
  return Unify(y, out[0].shape);
}

template <typename A>
struct Detection {
  int64_t id;
  A score;
  Box<A> box;
};

template <typename T, typename A = Accumulate<T>>
Box<A> Located(const DetectionParams& p, const T* anchor, const T* loc) {
  const Box<A> a = ReadBox(anchor);
  const auto v = [&](int i) {
    return static_cast<A>(loc[i]) * static_cast<A>(static_cast<float>(p.variances[i]));
  };
  const A x = v(0) * a.width() + (a.left + a.right) / 2;
  const A y = v(1) * a.height() + (a.top + a.bottom) / 2;
  const A w = std::exp(v(2)) * a.width() / 2, h = std::exp(v(3)) * a.height() / 2;
  const auto cut = [&](A z) { return p.clip ? std::clamp(z, A(0), A(1)) : z; };
  return {cut(x - w), cut(y - h), cut(x + w), cut(y + h)};
}

// The best class but the first, which is the background, of each anchor that has one.
template <typename T, typename A = Accumulate<T>>
std::vector<Detection<A>> Detect(const DetectionParams& p, const T* prob, const T* loc,
                                 const T* anchors, int64_t classes, int64_t n) {
  std::vector<Detection<A>> found;
  for (int64_t i = 0; i < n; ++i) {
    A score = -1;
    int64_t id = 0;
    for (int64_t k = 1; k < classes; ++k) {
      const A value = static_cast<A>(prob[k * n + i]);
      if (value > score) {
        score = value;
        id = k;
      }
    }
    if (id == 0 || score < p.threshold) continue;
    found.push_back({id - 1, score, Located(p, anchors + 4 * i, loc + 4 * i)});
  }
  return found;
}

// Rows of class, score and corners by score; a class of -1 marks what is suppressed.
template <typename T, typename A = Accumulate<T>>
void StoreDetections(const DetectionParams& p, std::vector<Detection<A>> found,
                     int64_t n, T* y) {
  std::fill_n(y, n * 6, static_cast<T>(-1.0f));
  auto count = static_cast<int64_t>(found.size());
  if (p.nms_threshold > 0 && p.nms_threshold <= 1) {
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    const int64_t best = p.nms_topk > 0 ? std::min(p.nms_topk, count) : count;
    const auto kept = KeepGreedily(best, best, [&](int64_t i, int64_t j) {
      return (p.force_suppress || found[i].id == found[j].id) &&
             Overlap(found[i].box, found[j].box) >= p.nms_threshold;
    });
    std::vector<char> stays(static_cast<size_t>(count), 0);
    for (int64_t i : kept) stays[i] = 1;
    for (int64_t i = 0; i < count; ++i)
      if (!stays[i]) found[i].id = -1;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Detection<A>& d = found[i];
    const A row[] = {static_cast<A>(d.id), d.score,     d.box.left, d.box.top,
                     d.box.right,          d.box.bottom};
    for (int k = 0; k < 6; ++k) y[i * 6 + k] = static_cast<T>(row[k]);
  }
}

void RunDetection(const DetectionParams& p, const KernelArgs& args) {
  const Shape& prob = args.in[0].shape();
  const int64_t classes = prob[1], n = prob[2];
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(prob[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        StoreDetections(p,
                        Detect(p, args.in[0].data<const T>() + b * classes * n,
                               args.in[1].data<const T>() + b * 4 * n,
                               args.in[2].data<const T>(), classes, n),
                        n, args.out[0].data<T>() + b * 6 * n);
      }
    });
  });
}

SampleInput Corners(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    const double at = 0.15 * static_cast<double>(i);
    for (double v : {at, at / 2, at + 0.3, at / 2 + 0.4}) values.push_back(v);
  }
  return Numbers({1, n, 4}, values);
}

[[maybe_unused]] const OpDef& detection = Register<DetectionParams>({
    .name = "_contrib_MultiBoxDetection",
    .aliases = {"_npx_multibox_detection"},
    .doc = "Detections from the probabilities of classes and the predicted moves of "
           "anchors: rows of class, score and corners; -1 marks what is none.",
    .inputs = {{"cls_prob", Types::kFloats, "(batch, classes, anchors)."},
               {"loc_pred", Types::kFloats, "(batch, 4 * anchors)."},
               {"anchor", Types::kFloats, "Corners, (1, anchors, 4)."}},
    .outputs = {{"output", Types::kFloats, "(batch, anchors, 6)."}},
    .params = {{"clip", &DetectionParams::clip, "Cuts off what is outside."},
               {"threshold", &DetectionParams::threshold,
                "The lowest probability that counts."},
               {"background_id", &DetectionParams::background_id,
                "The class of the background; it is always the first."},
               {"nms_threshold", &DetectionParams::nms_threshold,
                "Boxes of a class that overlap so much suppress each other; outside of "
                "(0, 1]: never, and rows are not sorted."},
               {"force_suppress", &DetectionParams::force_suppress,
                "Boxes of different classes as well."},
               {"variances", &DetectionParams::variances, "Factors of predictions."},
               {"nms_topk", &DetectionParams::nms_topk,
                "Only so many best ones count; -1: all."}},
    .infer = InferDetection,
    .zero_gradient = true,
    .cpu = {{"plain", RunDetection}},
    .cost = [](const DetectionParams&, const Specs& in,
               const Specs&) { return 50.0 * static_cast<double>(in[0].shape.size()); },
    .samples = {{{Uniform({2, 3, 5}, 0, 1), Normal({2, 20}), Corners(5)}},
                {{Uniform({1, 2, 4}, 0, 1), Normal({1, 16}), Corners(4)},
                 {.clip = false,
                  .threshold = 0.4f,
                  .nms_threshold = 0.1f,
                  .force_suppress = true,
                  .nms_topk = 2}},
                {{Uniform({1, 3, 4}, 0, 1), Normal({1, 16}), Corners(4)},
                 {.nms_threshold = 2}}},
});

}  // namespace
}  // namespace plait
