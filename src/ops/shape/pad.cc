// Pad: x with a border of a number, of its edge, or of its reflection.

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "ops/gradients.h"
#include "ops/shape/copy.h"
#include "ops/shape/slices.h"

namespace plait {
namespace {

enum class PadMode { kConstant, kEdge, kReflect };
const std::vector<std::string> kModes = {"constant", "edge", "reflect"};

struct PadParams {
  PadMode mode = PadMode::kConstant;
  Shape pad_width;  // before and after each axis
  double constant_value = 0;
};

void CheckPad(const PadParams& p, const Shape& x, const char* op) {
  Check(p.pad_width.rank() == 2 * x.rank(), op, ": pad_width ", p.pad_width, " has ",
        p.pad_width.rank(), " numbers for x of shape ", x, "; two for each axis, ",
        2 * x.rank(), ", were expected");
  for (int i = 0; i < p.pad_width.rank(); ++i) {
    const int64_t width = p.pad_width[i], n = x[i / 2];
    Check(width >= 0, op, ": pad_width ", p.pad_width,
          " has a negative number; at least 0 was expected");
    if (width == 0 || n == kUnknownSize || p.mode == PadMode::kConstant) continue;
    const int64_t most = p.mode == PadMode::kReflect ? n - 1 : n > 0 ? width : 0;
    Check(width <= most, op, ": a border of ", width, " does not fit axis ", i / 2,
          " of x of shape ", x, "; at most ", most, " was expected");
  }
}

Shape PaddedShape(const PadParams& p, const Shape& x) {
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] != kUnknownSize) y[i] += p.pad_width[2 * i] + p.pad_width[2 * i + 1];
  }
  return y;
}

// The part of y that is x.
SliceParams Middle(const PadParams& p, const Shape& x) {
  SliceParams s{OptionalInts(x.rank()), OptionalInts(x.rank()), {}};
  for (int i = 0; i < x.rank(); ++i) {
    s.begin[i] = p.pad_width[2 * i];
    s.end[i] = p.pad_width[2 * i] + x[i];
  }
  return s;
}

// For each place along an axis of y the place in x that it shows.
std::vector<int64_t> Sources(PadMode mode, int64_t before, int64_t n, int64_t after) {
  std::vector<int64_t> sources;
  for (int64_t i = -before; i < n + after; ++i) {
    if (mode == PadMode::kEdge) {
      sources.push_back(std::clamp<int64_t>(i, 0, n - 1));
    } else {
      sources.push_back(i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i);
    }
  }
  return sources;
}

// The sources along every axis, and how rows of the last axis correspond.
class BorderMap {
 public:
  BorderMap(const PadParams& p, const Shape& x)
      : y_(PaddedShape(p, x)), strides_(cpu::RowMajor(x)) {
    for (int i = 0; i < x.rank(); ++i) {
      sources_.push_back(
          Sources(p.mode, p.pad_width[2 * i], x[i], p.pad_width[2 * i + 1]));
    }
  }
  int64_t rows() const { return y_.size(0, y_.rank() - 1); }
  int64_t row_size() const { return y_.back(); }
  const std::vector<int64_t>& last() const { return sources_.back(); }
  // The offset in x of the row that row r of y shows.
  int64_t SourceRow(int64_t r) const {
    int64_t offset = 0;
    for (int i = y_.rank() - 2; i >= 0; --i) {
      offset += sources_[i][r % y_[i]] * strides_[i];
      r /= y_[i];
    }
    return offset;
  }

 private:
  Shape y_;
  cpu::Strides strides_;
  std::vector<std::vector<int64_t>> sources_;
};

void RunPad(const PadParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (y.size() == 0) return;
  if (p.mode == PadMode::kConstant || x.shape().rank() == 0) {
    FillValue(y, p.constant_value);
    CopyToSlice(x, ResolveSlice(y.shape(), Middle(p, x.shape()), "Pad"), y);
    return;
  }
  const BorderMap map(p, x.shape());
  VisitSize(x.dtype, [&]<typename T>() {
    const int64_t n = map.row_size();
    ParallelFor(map.rows(), 1 + (1 << 14) / n, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const T* from = x.data<T>() + map.SourceRow(r);
        T* to = y.data<T>() + r * n;
        for (int64_t i = 0; i < n; ++i) to[i] = from[map.last()[i]];
      }
    });
  });
}

bool InferPad(const PadParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  CheckPad(p, x, "Pad");
  Shape y = PaddedShape(p, x);
  return Unify(y, out[0].shape);
}

Values PadGradient(const PadParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  if (p.mode == PadMode::kConstant) return {slice(g.dout(0), Middle(p, x))};
  return {Make("_pad_backward", {g.dout(0)},
               {{"mode", Attr(kModes[static_cast<size_t>(p.mode)].c_str())},
                {"pad_width", Attr(p.pad_width)},
                {"shape", Attr(x)}})};
}

std::vector<Param<PadParams>> Fields() {
  return {
      Required<PadParams>("mode", &PadParams::mode, kModes, "What the border shows."),
      Required<PadParams>("pad_width", &PadParams::pad_width,
                          "The width before and after each axis, in one tuple."),
      {"constant_value", &PadParams::constant_value,
       "The number of a constant border."}};
}

[[maybe_unused]] const OpDef& pad = Register<PadParams>({
    .name = "Pad",
    .aliases = {"pad"},
    .doc = "x with a border: a constant, the nearest element, or a reflection.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = Fields(),
    .infer = InferPad,
    .gradient = PadGradient,
    .cpu = {{"plain", RunPad}},
    .samples =
        {{{Normal({1, 2, 3, 2})}, {PadMode::kConstant, {0, 0, 0, 0, 1, 2, 0, 1}, 1.5}},
         {{Normal({1, 2, 3, 2})}, {PadMode::kEdge, {0, 0, 0, 0, 1, 2, 2, 1}}},
         {{Normal({1, 2, 3, 3})}, {PadMode::kReflect, {0, 0, 0, 0, 1, 2, 2, 1}}},
         {{Normal({1, 1, 2, 3, 2})}, {PadMode::kEdge, {0, 0, 0, 0, 1, 1, 0, 1, 1, 0}}},
         {{Normal({1, 0, 2, 2})}, {PadMode::kConstant, {0, 0, 0, 0, 1, 1, 1, 1}}}},
});

// ---------------------------------------------------------------- _pad_backward

struct BackwardParams {
  PadMode mode = PadMode::kEdge;
  Shape pad_width;
  Shape shape;
  PadParams pad() const { return {mode, pad_width}; }
};

// Adds up what every element of x has shown, in a fixed order. Slabs of the first axis
// without border are independent.
void RunBackward(const BackwardParams& p, const KernelArgs& args) {
  const View& dy = args.in[0];
  const View& dx = args.out[0];
  const PadParams pad = p.pad();
  const BorderMap map(pad, p.shape);
  const bool apart = p.pad_width[0] == 0 && p.pad_width[1] == 0 && p.shape.rank() > 1;
  const int64_t slabs = apart ? p.shape[0] : 1;
  if (dx.size() == 0) return;
  const int64_t rows = map.rows() / slabs, slab = dx.size() / slabs, n = map.row_size();
  VisitDType(dx.dtype, [&]<typename T>() {
    using Sum = Accumulate<T>;
    cpu::Scratch sums(dx.size() * sizeof(Sum));
    ParallelFor(slabs, 1, [&](int64_t first, int64_t last) {
      Sum* sum = sums.As<Sum>();
      std::fill(sum + first * slab, sum + last * slab, Sum(0));
      for (int64_t r = first * rows; r < last * rows; ++r) {
        const T* from = dy.data<T>() + r * n;
        Sum* to = sum + map.SourceRow(r);
        for (int64_t i = 0; i < n; ++i) to[map.last()[i]] += static_cast<Sum>(from[i]);
      }
      for (int64_t i = first * slab; i < last * slab; ++i)
        dx.data<T>()[i] = static_cast<T>(sum[i]);
    });
  });
}

[[maybe_unused]] const OpDef& pad_backward = Register<BackwardParams>({
    .name = "_pad_backward",
    .doc = "The gradient of Pad with an edge or reflected border.",
    .inputs = {{"data", Types::kAny, "The gradient of the padded array."}},
    .params = {Required<BackwardParams>("mode", &BackwardParams::mode, kModes,
                                        "As for Pad."),
               Required<BackwardParams>("pad_width", &BackwardParams::pad_width,
                                        "As for Pad."),
               Required<BackwardParams>("shape", &BackwardParams::shape,
                                        "The shape of x.")},
    .infer =
        [](const BackwardParams& p, Specs& in, Specs& out) {
          Check(p.mode != PadMode::kConstant,
                "_pad_backward: mode is constant; edge or "
                "reflect was expected");
          CheckPad(p.pad(), p.shape, "_pad_backward");
          Shape x = p.shape, y = PaddedShape(p.pad(), x);
          return Unify(y, in[0].shape) && Unify(x, out[0].shape);
        },
    .gradient = [](const BackwardParams& p, const GradArgs& g) -> Values {
      return {Make("Pad", {g.dout(0)},
                   {{"mode", Attr(kModes[static_cast<size_t>(p.mode)].c_str())},
                    {"pad_width", Attr(p.pad_width)}})};
    },
    .cpu = {{"plain", RunBackward}},
    .samples = {{{Normal({1, 1, 4, 3})},
                 {PadMode::kEdge, {0, 0, 0, 0, 1, 1, 0, 1}, {1, 1, 2, 2}}},
                {{Normal({5, 3})}, {PadMode::kReflect, {1, 1, 0, 1}, {3, 2}}}},
});

}  // namespace
}  // namespace plait
