// pick: one element of each row along an axis, chosen by an index.

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "cpu/strided.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"

namespace plait {
namespace {

struct PickParams {
  std::optional<int> axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::kClip;
};
const std::vector<std::string> kPickModes = {"clip", "wrap"};

// The shape with one element along the axis, or without the axis; without an axis x
// counts as one row.
Shape PickedShape(const Shape& x, std::optional<int> axis, bool keepdims) {
  if (!axis) return keepdims ? Shape::Filled(x.rank(), 1) : Shape{1};
  Shape y = x;
  const int i = NormalizeAxis(*axis, x.rank(), "pick");
  if (keepdims) {
    y[i] = 1;
  } else {
    y.Erase(i);
    if (y.rank() == 0) y.Append(1);
  }
  return y;
}

AxisSizes SizesOf(const Shape& x, std::optional<int> axis) {
  if (!axis) return {1, x.size(), 1};
  return Around(x, NormalizeAxis(*axis, x.rank(), "pick"));
}

void PickTypes(const PickParams&, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  out[0].dtype = in[0].dtype;
}

bool InferPick(const PickParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y = PickedShape(x, p.axis, p.keepdims);
  Shape& index = in[1].shape;
  if (index.known() && x.known()) {
    Check(
        index == PickedShape(x, p.axis, true) || index == PickedShape(x, p.axis, false),
        "pick: index of shape ", index, " does not fit data of shape ", x, "; shape ",
        PickedShape(x, p.axis, false), " was expected");
  } else if (!index.rank_known()) {
    index = PickedShape(x, p.axis, p.keepdims);
  }
  return Unify(y, out[0].shape);
}

void RunPick(const PickParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (y.size() == 0) return;
  const AxisSizes a = SizesOf(x.shape(), p.axis);
  const Indices at(args.in[1], a.n, p.mode, "pick");
  VisitSize(x.dtype, [&]<typename T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    ParallelFor(a.outer * a.inner, 1 << 13, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t o = i / a.inner, j = i - o * a.inner;
        to[i] = from[(o * a.n + at[i]) * a.inner + j];
      }
    });
  });
}

// pick without axis is pick along the one axis of the flat array.
Values PickGradient(const PickParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const Shape flat{x.size()};
  const Shape& space = p.axis ? x : flat;
  const int axis = p.axis ? NormalizeAxis(*p.axis, x.rank(), "pick") : 0;
  const Shape picked = PickedShape(space, axis, false);
  const Value dx =
      Make("_pick_backward", {reshape(g.in(1), picked), reshape(g.dout(0), picked)},
           {{"axis", Attr(axis)}, {"size", Attr(space[axis])}, {"mode", Attr(p.mode)}});
  return {reshape(dx, x), Value()};
}

[[maybe_unused]] const OpDef& pick = Register<PickParams>({
    .name = "pick",
    .aliases = {"_npx_pick", "choose_element_0index"},
    .doc = "One element of each row along an axis, chosen by an index.",
    .inputs = {{"data", Types::kAny, "An array."},
               {"index", Types::kAny, "A place along the axis for each row."}},
    .params = {{"axis", &PickParams::axis, "The axis; None: data counts as one row."},
               {"keepdims", &PickParams::keepdims,
                "Whether the axis stays, of size 1."},
               {"mode", &PickParams::mode, kPickModes,
                "For indices out of range: clip takes the nearest end, wrap counts "
                "around."}},
    .types = PickTypes,
    .infer = InferPick,
    .gradient = PickGradient,
    .uses = {.in = 2},
    .cpu = {{"plain", RunPick}},
    .may_fail = true,
    .samples = {{{Normal({2, 4}), Integers({2}, -2, 6)}},
                {{Normal({3, 2}), Integers({2}, 0, 3)}, {.axis = 0}},
                {{Normal({2, 3, 4}), Integers({2, 1, 4}, -9, 9)},
                 {.axis = 1, .keepdims = true, .mode = IndexMode::kWrap}},
                {{Normal({4}), Integers({1}, 0, 4)}},
                {{Normal({0, 3}), Integers({0}, 0, 3)}}},
});

struct BackwardParams {
  int axis = 0;
  int64_t size = 0;
  IndexMode mode = IndexMode::kClip;
};

// A vector of one element may stand for a picked scalar.
Shape UnpickedShape(const BackwardParams& p, const Shape& index) {
  if (p.axis == 0 && index.rank() == 1 && index[0] == 1) return {p.size};
  Shape x = index;
  x.Insert(p.axis, p.size);
  return x;
}

void RunBackward(const BackwardParams& p, const KernelArgs& args) {
  const View& dy = args.in[1];
  const View& dx = args.out[0];
  cpu::FillZero(dx.ptr, dx.bytes());
  if (dy.size() == 0) return;
  const AxisSizes a = Around(dx.shape(), p.axis);
  const Indices at(args.in[0], a.n, p.mode, "_pick_backward");
  VisitSize(dx.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < dy.size(); ++i) {
      const int64_t o = i / a.inner, j = i - o * a.inner;
      dx.data<T>()[(o * a.n + at[i]) * a.inner + j] = dy.data<T>()[i];
    }
  });
}

[[maybe_unused]] const OpDef& pick_backward = Register<BackwardParams>({
    .name = "_pick_backward",
    .doc =
        "Zeros with one given element in each row along an axis: the gradient of pick.",
    .inputs = {{"index", Types::kAny, "As for pick."},
               {"data", Types::kAny, "The elements, of the shape of index."}},
    .params = {{"axis", &BackwardParams::axis, "The axis of pick."},
               Required<BackwardParams>("size", &BackwardParams::size,
                                        "The size of the result along the axis."),
               {"mode", &BackwardParams::mode, kPickModes, "As for pick."}},
    .types =
        [](const BackwardParams&, Specs& in, Specs& out) {
          if (in[1].dtype == DType::kUnknown) in[1].dtype = out[0].dtype;
          out[0].dtype = in[1].dtype;
        },
    .infer =
        [](const BackwardParams& p, Specs& in, Specs& out) {
          if (!Unify(in[0].shape, in[1].shape)) return false;
          if (!in[0].shape.rank_known()) return true;
          Shape x = UnpickedShape(p, in[0].shape);
          return Unify(x, out[0].shape);
        },
    .gradient = [](const BackwardParams& p, const GradArgs& g) -> Values {
      return {Value(), Make("pick", {g.dout(0), g.in(0)},
                            {{"axis", Attr(p.axis)}, {"mode", Attr(p.mode)}})};
    },
    .uses = {.in = 1},
    .cpu = {{"plain", RunBackward}},
    .may_fail = true,
    .samples = {{{Integers({3}, -1, 5), Normal({3})}, {.axis = 1, .size = 4}},
                {{Integers({2, 2}, 0, 3), Normal({2, 2})}, {.axis = 1, .size = 3}},
                {{Integers({1}, 0, 3), Normal({1})}, {.axis = 0, .size = 3}}},
});

}  // namespace
}  // namespace plait
