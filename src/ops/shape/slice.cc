// slice, slice_axis, slice_like: parts of arrays, and their gradient.

#include "graph/blocked_form.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"
#include "ops/infer.h"
#include "ops/shape/copy.h"
#include "ops/shape/slices.h"

namespace plait {
namespace {

template <typename P>
std::vector<Param<P>> SliceFields() {
  return {
      Required<P>("begin", &P::begin, "Where each axis begins; None: at its start."),
      Required<P>("end", &P::end, "Where each axis ends; None: at its end."),
      {"step", &P::step, "The step along each axis; negative: backwards."}};
}

bool InferSlice(const SliceParams& p, Specs& in, Specs& out) {
  if (!in[0].shape.rank_known()) return true;
  Shape y = ResolveSlice(in[0].shape, p, "slice").sizes;
  return Unify(y, out[0].shape);
}

// Whole blocks of images, in steps of 1.
std::optional<BlockedForm> BlockedSlice(const void* params, const Specs& in,
                                        const Specs& out, int64_t block) {
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || !IsBlockedType(in[0].dtype) || out[0].shape.size() == 0)
    return {};
  const Slice cut = ResolveSlice(x, *static_cast<const SliceParams*>(params), "slice");
  for (int i = 0; i < 4; ++i) {
    if (cut.step[i] != 1 || (i != 1 && cut.sizes[i] != x[i])) return {};
  }
  const int64_t begin = cut.first[1], end = begin + cut.sizes[1];
  if (begin % block != 0 || end % block != 0) return {};
  return BlockedForm{
      .op = &GetOp("slice"),
      .params = MakeParams(SliceOfAxis(5, 1, begin / block, end / block)),
      .blocked_in = 1,
      .blocked_out = 1};
}
[[maybe_unused]] const bool kBlockedSlice = [] {
  AddBlockedRule("slice", BlockedSlice);
  return true;
}();

[[maybe_unused]] const OpDef& slice_op = Register<SliceParams>({
    .name = "slice",
    .aliases = {"_npi_slice", "_npx_slice", "_sparse_slice", "crop"},
    .doc = "The part of x from begin to end, in steps.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = SliceFields<SliceParams>(),
    .infer = InferSlice,
    .gradient = [](const SliceParams& p, const GradArgs& g) -> Values {
      return {slice_backward(g.dout(0), p, g.in_spec(0).shape)};
    },
    .cpu = {{"plain",
             [](const SliceParams& p, const KernelArgs& args) {
               CopyFromSlice(args.in[0], ResolveSlice(args.in[0].shape(), p, "slice"),
                             args.out[0]);
             }}},
    .cost = [](const SliceParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({3, 4})}, {{0, 1}, {2, 4}}},
                {{Normal({3, 4, 2})}, {{std::nullopt, -1}, {std::nullopt, 0}, {2, -1}}},
                {{Normal({4})}, {{2}, {std::nullopt}, {-1}}},
                {{Normal({4})}, {{2}, {-1}, {-1}}},
                {{Normal({4, 2})}, {{1}, {1}}}},
});

struct BackwardParams {
  OptionalInts begin, end, step;
  Shape shape;
  SliceParams slice() const { return {begin, end, step}; }
};

[[maybe_unused]] const OpDef& slice_backward_op = Register<BackwardParams>({
    .name = "_slice_backward",
    .doc = "Zeros of a shape in which a slice is the input: the gradient of slice.",
    .inputs = {{"data", Types::kAny, "The slice."}},
    .params = {Required<BackwardParams>("begin", &BackwardParams::begin,
                                        "As for slice."),
               Required<BackwardParams>("end", &BackwardParams::end, "As for slice."),
               {"step", &BackwardParams::step, "As for slice."},
               Required<BackwardParams>("shape", &BackwardParams::shape,
                                        "The shape of the result.")},
    .infer =
        [](const BackwardParams& p, Specs& in, Specs& out) {
          Shape dy = ResolveSlice(p.shape, p.slice(), "_slice_backward").sizes;
          Shape dx = p.shape;
          return Unify(dy, in[0].shape) && Unify(dx, out[0].shape);
        },
    .gradient = [](const BackwardParams& p, const GradArgs& g) -> Values {
      return {slice(g.dout(0), p.slice())};
    },
    .cpu = {{"plain",
             [](const BackwardParams& p, const KernelArgs& args) {
               const View& dx = args.out[0];
               cpu::FillZero(dx.ptr, dx.bytes());
               CopyToSlice(args.in[0],
                           ResolveSlice(p.shape, p.slice(), "_slice_backward"), dx);
             }}},
    .samples = {{{Normal({2, 3})}, {{0, 1}, {2, 4}, {}, {3, 4}}},
                {{Normal({3})}, {{2}, {std::nullopt}, {-1}, {4}}},
                {{Normal({0})}, {{2}, {2}, {}, {4}}}},
});

// ---------------------------------------------------------------- slice_axis

struct AxisParams {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end;
};

// As a slice; ends outside of the axis are mistakes here.
SliceParams AxisSlice(const AxisParams& p, const Shape& x) {
  const int axis = NormalizeAxis(p.axis, x.rank(), "slice_axis");
  const int64_t n = x[axis];
  if (n != kUnknownSize) {
    const int64_t begin = p.begin < 0 ? p.begin + n : p.begin;
    const int64_t end = !p.end ? n : *p.end < 0 ? *p.end + n : *p.end;
    Check(begin >= 0 && end <= n && begin <= end, ErrorKind::kIndex, "slice_axis: [",
          p.begin, ", ", p.end.value_or(n), ") of axis ", axis, " of x of shape ", x,
          "; 0 <= begin <= end <= ", n, " was expected");
  }
  return SliceOfAxis(x.rank(), axis, p.begin, p.end);
}

[[maybe_unused]] const OpDef& slice_axis = Register<AxisParams>({
    .name = "slice_axis",
    .doc = "The part of x from begin to end along one axis.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<AxisParams>("axis", &AxisParams::axis, "The axis."),
               Required<AxisParams>("begin", &AxisParams::begin,
                                    "Where to begin; negative: from the end."),
               Required<AxisParams>("end", &AxisParams::end,
                                    "Where to end; None: at the end.")},
    .infer =
        [](const AxisParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.rank_known()) return true;
          Shape y = ResolveSlice(x, AxisSlice(p, x), "slice_axis").sizes;
          return Unify(y, out[0].shape);
        },
    .gradient = [](const AxisParams& p, const GradArgs& g) -> Values {
      const Shape& x = g.in_spec(0).shape;
      return {slice_backward(g.dout(0), AxisSlice(p, x), x)};
    },
    .cpu = {{"plain",
             [](const AxisParams& p, const KernelArgs& args) {
               const View& x = args.in[0];
               CopyFromSlice(
                   x, ResolveSlice(x.shape(), AxisSlice(p, x.shape()), "slice_axis"),
                   args.out[0]);
             }}},
    .cost = [](const AxisParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({3, 4})}, {.axis = 1, .begin = 1, .end = 3}},
                {{Normal({3, 4})}, {.axis = 0, .begin = -2, .end = std::nullopt}},
                {{Normal({3, 4})}, {.axis = -1, .begin = 0, .end = -1}},
                {{Normal({3, 4})}, {.axis = 0, .begin = 1, .end = 1}}},
});

// ---------------------------------------------------------------- slice_like

struct LikeParams {
  Shape axes;
};

SliceParams LikeSlice(const LikeParams& p, const Shape& x, const Shape& like) {
  SliceParams s{OptionalInts(x.rank()), OptionalInts(x.rank()), {}};
  const auto cut = [&](int axis) {
    Check(axis < like.rank() && (like[axis] <= x[axis] || x[axis] == kUnknownSize),
          "slice_like: x of shape ", x, " is not as large as shape_like of shape ",
          like, " along axis ", axis);
    s.end[axis] = like[axis];
  };
  if (p.axes.rank() <= 0) {
    Check(x.rank() == like.rank(), "slice_like: x of shape ", x,
          " and shape_like of shape ", like,
          " differ in their number of axes; equal ones, or axes, were expected");
    for (int i = 0; i < x.rank(); ++i) cut(i);
  } else {
    for (int64_t axis : p.axes) cut(NormalizeAxis(axis, x.rank(), "slice_like"));
  }
  return s;
}

[[maybe_unused]] const OpDef& slice_like = Register<LikeParams>({
    .name = "slice_like",
    .doc = "The first elements of x, as many along each axis as another array has.",
    .inputs = {{"data", Types::kAny, "An array."},
               {"shape_like", Types::kAny, "An array; only its shape counts."}},
    .params = {{"axes", &LikeParams::axes, "The axes that are cut; none: all."}},
    .types = TypeOfFirst<LikeParams>,
    .infer =
        [](const LikeParams& p, Specs& in, Specs& out) {
          const Shape &x = in[0].shape, &like = in[1].shape;
          if (!x.rank_known() || !like.known()) return true;
          Shape y = ResolveSlice(x, LikeSlice(p, x, like), "slice_like").sizes;
          return Unify(y, out[0].shape);
        },
    .gradient = [](const LikeParams& p, const GradArgs& g) -> Values {
      const Shape& x = g.in_spec(0).shape;
      return {slice_backward(g.dout(0), LikeSlice(p, x, g.in_spec(1).shape), x),
              Value()};
    },
    .cpu = {{"plain",
             [](const LikeParams& p, const KernelArgs& args) {
               const Shape& x = args.in[0].shape();
               CopyFromSlice(
                   args.in[0],
                   ResolveSlice(x, LikeSlice(p, x, args.in[1].shape()), "slice_like"),
                   args.out[0]);
             }}},
    .cost = [](const LikeParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({3, 4}), Normal({2, 3})}},
                {{Normal({3, 4}), Normal({2, 9})}, {{0}}},
                {{Normal({3, 4, 5}), Normal({0, 2, 1})}, {{0, -1}}}},
});

}  // namespace
}  // namespace plait
