// Reshape, Flatten, expand_dims, squeeze, reshape_like: other axes for the same
// elements.

#include <optional>

#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/shape/copy.h"
#include "ops/shape/reshape_codes.h"

namespace plait {
namespace {

template <typename P>
Values ShapeBack(const P&, const GradArgs& g) {
  return {reshape(g.dout(0), g.in_spec(0).shape)};
}

// What all operators here have in common; they copy, as the front ends make views.
template <typename P>
OpSpec<P> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "An array."}},
      .gradient = ShapeBack<P>,
      .cpu = {{"plain", CopyKernel<P>}},
      .in_place = {{0, 0}},
      .view = true,
  };
}

struct ReshapeParams {
  Shape shape;
  bool reverse = false;
  Shape target_shape;
  bool keep_highest = false;
};

// The old form: a single 0 stands for what is left over.
Shape OldTarget(const ReshapeParams& p, const Shape& x) {
  Shape y = p.target_shape;
  int left_over = -1;
  int64_t others = 1;
  for (int i = 0; i < y.rank(); ++i) {
    if (i == 0 && p.keep_highest) y[0] = x[0];
    if (y[i] == 0 && !(i == 0 && p.keep_highest)) {
      Check(left_over < 0, "Reshape: target_shape ", p.target_shape,
            " has several zeros; at most one was expected");
      left_over = i;
    } else {
      others *= y[i];
    }
  }
  if (left_over >= 0) {
    y[left_over] = !x.known() ? kUnknownSize : others > 0 ? x.size() / others : 0;
  }
  return y;
}

bool InferReshape(const ReshapeParams& p, Specs& in, Specs& out) {
  Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y;
  if (p.shape.rank() > 0) {
    y = ReshapedShape(x, p.shape, p.reverse, "Reshape");
  } else if (p.target_shape.rank() > 0) {
    y = OldTarget(p, x);
  } else {
    Check(!x.known() || x.size() == 1, "Reshape: no shape is given for x of shape ", x,
          "; parameter shape was expected");
  }
  CheckSameSize(x, y, "Reshape");
  if (!Unify(y, out[0].shape)) return false;
  CheckSameSize(x, y, "Reshape");
  return true;
}

struct ToParams {
  Shape shape;
};
struct AxisParams {
  int axis = 0;
};
struct SqueezeParams {
  Shape axis = Shape::Unknown();
};

bool InferFlatten(const NoParams&, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() > 0, "Flatten: x is a scalar; at least one axis was expected");
  Shape y{x[0], ProductOrUnknown(x, 1, x.rank())};
  return Unify(y, out[0].shape);
}

bool InferExpandDims(const AxisParams& p, Specs& in, Specs& out) {
  Shape& x = in[0].shape;
  if (x.rank_known()) {
    const int axis = NormalizeAxis(p.axis, x.rank() + 1, "expand_dims");
    Shape y = x;
    y.Insert(axis, 1);
    if (!Unify(y, out[0].shape)) return false;
    x = y;
    x.Erase(axis);
  } else if (out[0].shape.rank() > 0) {
    x = out[0].shape;
    x.Erase(NormalizeAxis(p.axis, x.rank(), "expand_dims"));
  }
  return true;
}

bool InferSqueeze(const SqueezeParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  uint64_t removed = 0;
  if (p.axis.rank_known()) {
    for (int64_t axis : p.axis) {
      const int i = NormalizeAxis(axis, x.rank(), "squeeze");
      Check(x[i] == 1 || x[i] == kUnknownSize, "squeeze: axis ", axis,
            " of x of shape ", x, " has size ", x[i], "; size 1 was expected");
      Check(!(removed >> i & 1), "squeeze: axes ", p.axis, " name axis ", i, " twice");
      removed |= uint64_t{1} << i;
    }
  } else {
    if (!x.known()) return true;
    for (int i = 0; i < x.rank(); ++i)
      if (x[i] == 1) removed |= uint64_t{1} << i;
  }
  Shape y;
  for (int i = 0; i < x.rank(); ++i)
    if (!(removed >> i & 1)) y.Append(x[i]);
  if (y.rank() == 0 && x.rank() > 0) y.Append(1);  // MXNet keeps one axis
  return Unify(y, out[0].shape);
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<ReshapeParams> reshape =
      Spec<ReshapeParams>("Reshape", "The same elements in another shape.");
  reshape.aliases = {"reshape"};
  reshape.params = {
      {"shape", &ReshapeParams::shape,
       "Sizes, or codes: 0 keeps a size, -1 is what is left over, -2 keeps the rest, "
       "-3 "
       "merges two axes, -4 splits one into the next two sizes."},
      {"reverse", &ReshapeParams::reverse, "Whether to read from the last axis on."},
      {"target_shape", &ReshapeParams::target_shape,
       "The old form of shape; 0 is what is left over."},
      {"keep_highest", &ReshapeParams::keep_highest,
       "Whether target_shape keeps the first axis."}};
  reshape.infer = InferReshape;
  reshape.samples = {
      {{Normal({2, 3, 4})}, {.shape = {4, 0, 2}}},
      {{Normal({2, 3, 4})}, {.shape = {-4, 1, 2, -3}}},
      {{Normal({10, 5, 4})}, {.shape = {-1, 0}, .reverse = true}},
      {{Normal({2, 3, 4})}, {.target_shape = {0, 6}}},
      {{Normal({2, 3, 4})}, {.target_shape = {9, 0}, .keep_highest = true}},
      {{Normal({3, 0})}, {.shape = {0, 0, 2}}}};
  Register(reshape);

  OpSpec<ToParams> to = Spec<ToParams>("_reshape_to", "The same elements in a shape.");
  to.params = {Required<ToParams>("shape", &ToParams::shape, "Plain sizes.")};
  to.infer = [](const ToParams& p, Specs& in, Specs& out) {
    if (in[0].shape.rank_known()) CheckSameSize(in[0].shape, p.shape, "_reshape_to");
    Shape y = p.shape;
    return Unify(y, out[0].shape);
  };
  to.samples = {{{Normal({2, 3})}, {{6, 1}}},
                {{Normal({1})}, {Shape()}},
                {{Normal({0, 3})}, {{2, 0}}}};
  Register(to);

  OpSpec<NoParams> flatten = Spec<NoParams>(
      "Flatten", "A matrix with a row for each element of the first axis.");
  flatten.aliases = {"_npx_batch_flatten", "flatten"};
  flatten.infer = InferFlatten;
  flatten.samples = {{{Normal({2, 3, 4})}}, {{Normal({3})}}, {{Normal({0, 2, 2})}}};
  Register(flatten);

  OpSpec<AxisParams> expand =
      Spec<AxisParams>("expand_dims", "x with a new axis of size 1.");
  expand.aliases = {"_npi_expand_dims"};
  expand.params = {Required<AxisParams>(
      "axis", &AxisParams::axis, "Where the new axis stands; negative: from the end.")};
  expand.infer = InferExpandDims;
  expand.samples = {
      {{Normal({2, 3})}, {1}}, {{Normal({2, 3})}, {-1}}, {{Normal({0})}, {0}}};
  Register(expand);

  OpSpec<SqueezeParams> squeeze = Spec<SqueezeParams>(
      "squeeze", "x without axes of size 1; one axis always stays.");
  squeeze.params = {{"axis", &SqueezeParams::axis,
                     "The axis or axes to take away; none: all of size 1."}};
  squeeze.infer = InferSqueeze;
  squeeze.samples = {{{Normal({1, 3, 1})}},
                     {{Normal({1, 3, 1})}, {{-1}}},
                     {{Normal({1, 1})}},
                     {{Normal({1, 0})}}};
  Register(squeeze);
  return true;
}();

// ---------------------------------------------------------------- reshape_like

struct LikeParams {
  std::optional<int> lhs_begin, lhs_end, rhs_begin, rhs_end;
};

// [begin, end) of the axes of a shape.
std::pair<int, int> AxisRange(const Shape& shape, std::optional<int> begin,
                              std::optional<int> end) {
  const int rank = shape.rank();
  const auto place = [&](int i) {
    const int at = i < 0 ? i + rank : i;
    Check(at >= 0 && at <= rank, ErrorKind::kIndex, "reshape_like: axis ", i,
          " is out of range for shape ", shape);
    return at;
  };
  const int first = place(begin.value_or(0)), last = end ? place(*end) : rank;
  Check(first <= last, "reshape_like: axes ", first, " to ", last, " of shape ", shape,
        " are none; begin <= end was expected");
  return {first, last};
}

bool InferLike(const LikeParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  const Shape& like = in[1].shape;
  if (!x.rank_known() || !like.rank_known()) return true;
  const auto [a, b] = AxisRange(x, p.lhs_begin, p.lhs_end);
  const auto [c, d] = AxisRange(like, p.rhs_begin, p.rhs_end);
  Shape y(x.begin(), x.begin() + a);
  for (int i = c; i < d; ++i) y.Append(like[i]);
  for (int i = b; i < x.rank(); ++i) y.Append(x[i]);
  CheckSameSize(in[0].shape, y, "reshape_like");
  return Unify(y, out[0].shape);
}

[[maybe_unused]] const OpDef& reshape_like = Register<LikeParams>({
    .name = "reshape_like",
    .aliases = {"_npx_reshape_like"},
    .doc = "The elements of x in the shape of another array, or with some axes of it.",
    .inputs = {{"lhs", Types::kAny, "x."},
               {"rhs", Types::kAny, "An array; only its shape counts."}},
    .params = {{"lhs_begin", &LikeParams::lhs_begin, "The first axis of x replaced."},
               {"lhs_end", &LikeParams::lhs_end, "The end of the axes replaced."},
               {"rhs_begin", &LikeParams::rhs_begin, "The first axis taken over."},
               {"rhs_end", &LikeParams::rhs_end, "The end of the axes taken over."}},
    .types = TypeOfFirst<LikeParams>,
    .infer = InferLike,
    .gradient = [](const LikeParams&, const GradArgs& g) -> Values {
      return {reshape(g.dout(0), g.in_spec(0).shape), Value()};
    },
    .cpu = {{"plain", CopyKernel<LikeParams>}},
    .view = true,
    .samples = {{{Normal({2, 6}), Normal({3, 4})}},
                {{Normal({30, 7}), Normal({15, 2, 4})},
                 {.lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0, .rhs_end = 2}},
                {{Normal({0, 6}), Normal({2, 0})}}},
});

}  // namespace
}  // namespace plait
