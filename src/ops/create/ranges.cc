// _arange, _linspace, _contrib_arange_like: evenly spaced numbers.

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parallel.h"
#include "ops/create/given_shape.h"
#include "ops/gradients.h"

namespace plait {
namespace {

// The largest range; sizes beyond are mistakes.
constexpr double kMostNumbers = 1e15;

struct ArangeParams {
  double start = 0;
  std::optional<double> stop;
  double step = 1;
  int repeat = 1;
  bool infer_range = false;
  std::string ctx;
  DType dtype = DType::kFloat32;
};

struct Range {
  double start, stop;
};
Range Ends(const ArangeParams& p) {
  return p.stop ? Range{p.start, *p.stop} : Range{0, p.start};
}

bool InferArange(const ArangeParams& p, Specs&, Specs& out) {
  Check(p.step != 0, "_arange: step is 0; another number was expected");
  Check(p.repeat >= 1, "_arange: repeat is ", p.repeat, "; at least 1 was expected");
  if (p.infer_range && !p.stop) return true;  // the length follows from what is known
  const Range ends = Ends(p);
  const double n = std::ceil((ends.stop - ends.start) / p.step);
  Check(n < kMostNumbers, "_arange: from ", ends.start, " to ", ends.stop,
        " in steps of ", p.step, " there are ", n, " numbers; fewer were expected");
  Shape shape{(n > 0 ? static_cast<int64_t>(n) : 0) * p.repeat};
  return Unify(shape, out[0].shape);
}

// Number k is start + k * step, so that errors do not add up.
template <typename T>
void FillFractions(T* out, int64_t first, int64_t last, double start, double step) {
  constexpr int64_t kTile = 1 << 20;
  for (int64_t begin = first; begin < last; begin += kTile) {
    // Counting in 32 bits is what every processor converts by vectors.
    const int32_t n = static_cast<int32_t>(std::min(kTile, last - begin));
    const double base = static_cast<double>(begin);
    for (int32_t i = 0; i < n; ++i) {
      out[begin + i] = static_cast<T>(start + (base + i) * step);
    }
  }
}

// Whole numbers are exact in 64 bits. Each number stands there `repeat` times.
template <typename T>
void Fill(T* out, int64_t size, double start, double step, int64_t repeat) {
  const bool whole = std::is_integral_v<T> && std::trunc(start) == start &&
                     std::trunc(step) == step && std::abs(start) < 4e18 &&
                     std::abs(step) < 4e18;
  ParallelFor(size, 1 << 14, [&](int64_t first, int64_t last) {
    if (!whole && repeat == 1) return FillFractions(out, first, last, start, step);
    for (int64_t i = first; i < last; ++i) {
      const int64_t k = repeat == 1 ? i : i / repeat;
      out[i] = whole ? static_cast<T>(static_cast<int64_t>(start) +
                                      k * static_cast<int64_t>(step))
                     : static_cast<T>(start + static_cast<double>(k) * step);
    }
  });
}

void RunArange(const ArangeParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  const double start = p.infer_range && !p.stop ? p.start : Ends(p).start;
  VisitDType(y.dtype, [&]<typename T>() {
    // As in NumPy, integers go from the whole part of start in whole steps.
    const bool whole = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    Fill(y.data<T>(), y.size(), whole ? std::trunc(start) : start,
         whole ? std::trunc(p.step) : p.step, p.repeat);
  });
}

[[maybe_unused]] const OpDef& arange = Register<ArangeParams>({
    .name = "_arange",
    .doc = "Numbers from start up to, but not including, stop, in equal steps.",
    .params = {Required<ArangeParams>("start", &ArangeParams::start,
                                      "The first number; without stop, the end."),
               {"stop", &ArangeParams::stop, "The end, not included."},
               {"step", &ArangeParams::step, "The difference of two numbers."},
               {"repeat", &ArangeParams::repeat, "How often each number is given."},
               {"infer_range", &ArangeParams::infer_range,
                "Whether the length follows from the other arrays of a graph."},
               {"ctx", &ArangeParams::ctx, "The device, as text."},
               {"dtype", &ArangeParams::dtype, "The dtype of the array."}},
    .types =
        [](const ArangeParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
        },
    .infer = InferArange,
    .zero_gradient = true,
    .cpu = {{"plain", RunArange}},
    .samples = {{{}, {.start = 5}},
                {{}, {.start = 1, .stop = 4.5, .step = 0.5, .repeat = 2}},
                {{}, {.start = 10, .stop = 0, .step = -3, .dtype = DType::kInt32}},
                {{}, {.start = 3, .stop = 1}}},
});

struct LinspaceParams {
  double start = 0, stop = 1;
  int64_t num = 0;
  bool endpoint = true;
  std::string ctx;
  DType dtype = DType::kFloat32;
};

void RunLinspace(const LinspaceParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  const int64_t gaps = p.endpoint ? p.num - 1 : p.num;
  const double step = gaps > 0 ? (p.stop - p.start) / static_cast<double>(gaps) : 0;
  VisitDType(y.dtype, [&]<typename T>() {
    T* out = y.data<T>();
    for (int64_t i = 0; i < y.size(); ++i) {
      out[i] = static_cast<T>(p.start + static_cast<double>(i) * step);
    }
    if (p.endpoint && p.num > 1) out[p.num - 1] = static_cast<T>(p.stop);
  });
}

[[maybe_unused]] const OpDef& linspace = Register<LinspaceParams>({
    .name = "_linspace",
    .aliases = {"_npi_linspace"},
    .doc = "`num` evenly spaced numbers from start to stop.",
    .params = {Required<LinspaceParams>("start", &LinspaceParams::start,
                                        "The first number."),
               Required<LinspaceParams>("stop", &LinspaceParams::stop, "The end."),
               Required<LinspaceParams>("num", &LinspaceParams::num,
                                        "How many numbers there are."),
               {"endpoint", &LinspaceParams::endpoint, "Whether stop is the last one."},
               {"ctx", &LinspaceParams::ctx, "The device, as text."},
               {"dtype", &LinspaceParams::dtype, "The dtype of the array."}},
    .types =
        [](const LinspaceParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
        },
    .infer = [](const LinspaceParams& p, Specs&,
                Specs& out) { return InferGiven({p.num}, out[0], "_linspace"); },
    .zero_gradient = true,
    .cpu = {{"plain", RunLinspace}},
    .samples = {{{}, {.start = 0, .stop = 1, .num = 5}},
                {{}, {.start = 2, .stop = -2, .num = 4, .endpoint = false}},
                {{}, {.start = 2, .stop = 3, .num = 1}},
                {{}, {.start = 2, .stop = 3, .num = 0}}},
});

struct ArangeLikeParams {
  double start = 0, step = 1;
  int repeat = 1;
  std::string ctx;
  std::optional<int> axis;
};

bool InferArangeLike(const ArangeLikeParams& p, Specs& in, Specs& out) {
  Check(p.repeat >= 1, "_contrib_arange_like: repeat is ", p.repeat,
        "; at least 1 was expected");
  const Shape& x = in[0].shape;
  if (!p.axis) return Unify(in[0].shape, out[0].shape);
  if (!x.rank_known()) return true;
  Shape shape{x[NormalizeAxis(*p.axis, x.rank(), "_contrib_arange_like")]};
  return Unify(shape, out[0].shape);
}

void RunArangeLike(const ArangeLikeParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  VisitDType(y.dtype, [&]<typename T>() {
    Fill(y.data<T>(), y.size(), p.start, p.step, p.repeat);
  });
}

[[maybe_unused]] const OpDef& arange_like = Register<ArangeLikeParams>({
    .name = "_contrib_arange_like",
    .aliases = {"_npx_arange_like"},
    .doc = "Evenly spaced numbers, as many as x has, or has along one axis.",
    .inputs = {{"data", Types::kAny, "An array; only its shape and dtype count."}},
    .params = {{"start", &ArangeLikeParams::start, "The first number."},
               {"step", &ArangeLikeParams::step, "The difference of two numbers."},
               {"repeat", &ArangeLikeParams::repeat, "How often each number is given."},
               {"ctx", &ArangeLikeParams::ctx, "Not used."},
               {"axis", &ArangeLikeParams::axis,
                "The axis that gives the length; without it the shape is that of x."}},
    .infer = InferArangeLike,
    .zero_gradient = true,
    .cpu = {{"plain", RunArangeLike}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 5})}, {.start = 1, .step = 2, .repeat = 2, .axis = 1}},
                {{Normal({0, 5})}, {.axis = -2}}},
});

}  // namespace
}  // namespace plait
