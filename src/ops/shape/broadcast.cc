// broadcast_to, broadcast_axis, broadcast_like: axes of size 1 stretched.

#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

void CheckStretch(const Shape& x, const Shape& y, const char* op) {
  bool fits = x.rank() <= y.rank();
  for (int i = 1; fits && i <= x.rank(); ++i) {
    const int64_t from = x[x.rank() - i], to = y[y.rank() - i];
    fits = from == to || from == 1 || from == kUnknownSize || to == kUnknownSize;
  }
  Check(fits, op, ": x of shape ", x, " does not broadcast to shape ", y,
        "; equal sizes or 1 were expected");
}

// Axes of x are those of y from the last on; size 1 is read again and again.
template <typename P>
void Stretch(const P&, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  cpu::Strides strides = Shape::Filled(y.shape().rank(), 0);
  const cpu::Strides own = cpu::RowMajor(x.shape());
  for (int i = 1; i <= x.shape().rank(); ++i) {
    if (x.shape()[x.shape().rank() - i] == 1) continue;
    strides[y.shape().rank() - i] = own[x.shape().rank() - i];
  }
  cpu::CopyStrided(y.shape(), y.ptr, cpu::RowMajor(y.shape()), x.ptr, strides,
                   SizeOf(x.dtype));
}

template <typename P>
Values SumBack(const P&, const GradArgs& g) {
  Values dx{sum_to(g.dout(0), g.in_spec(0).shape)};
  while (static_cast<int>(dx.size()) < g.num_inputs()) dx.push_back(Value());
  return dx;
}

struct ToParams {
  Shape shape;
};

// 0 keeps the size of x.
bool InferTo(const ToParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y = p.shape;
  const int more = y.rank() - x.rank();
  for (int i = 0; i < y.rank(); ++i) {
    if (y[i] == 0 && i >= more) y[i] = x[i - more];
  }
  CheckStretch(x, y, "broadcast_to");
  return Unify(y, out[0].shape);
}

struct AxisParams {
  Shape axis, size;
};

bool InferAxis(const AxisParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  Check(p.axis.rank() == p.size.rank(), "broadcast_axis: axis ", p.axis, " and size ",
        p.size, " differ in length");
  if (!x.rank_known()) return true;
  Shape y = x;
  for (int i = 0; i < p.axis.rank(); ++i) {
    const int axis = NormalizeAxis(p.axis[i], x.rank(), "broadcast_axis");
    Check(x[axis] == 1 || x[axis] == kUnknownSize, "broadcast_axis: axis ", axis,
          " of x of shape ", x, " has size ", x[axis], "; size 1 was expected");
    Check(p.size[i] >= 0, "broadcast_axis: size ", p.size, " is negative");
    y[axis] = p.size[i];
  }
  return Unify(y, out[0].shape);
}

struct LikeParams {
  Shape lhs_axes = Shape::Unknown(), rhs_axes = Shape::Unknown();
};

bool InferLike(const LikeParams& p, Specs& in, Specs& out) {
  const Shape &x = in[0].shape, &like = in[1].shape;
  if (!x.rank_known() || !like.rank_known()) return true;
  Shape y = like;
  if (p.lhs_axes.rank_known() || p.rhs_axes.rank_known()) {
    Check(p.lhs_axes.rank() == p.rhs_axes.rank() && p.lhs_axes.rank() > 0,
          "broadcast_like: lhs_axes ", p.lhs_axes, " and rhs_axes ", p.rhs_axes,
          " differ in length; as many axes of both were expected");
    y = x;
    for (int i = 0; i < p.lhs_axes.rank(); ++i) {
      y[NormalizeAxis(p.lhs_axes[i], x.rank(), "broadcast_like")] =
          like[NormalizeAxis(p.rhs_axes[i], like.rank(), "broadcast_like")];
    }
  }
  CheckStretch(x, y, "broadcast_like");
  return Unify(y, out[0].shape);
}

template <typename P>
OpSpec<P> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "An array."}},
      .gradient = SumBack<P>,
      .cpu = {{"plain", Stretch<P>}},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<ToParams> to = Spec<ToParams>(
      "broadcast_to", "x with axes of size 1 stretched to the sizes of a shape.");
  to.params = {{"shape", &ToParams::shape, "The shape; 0 keeps the size of x."}};
  to.infer = InferTo;
  to.fn = Fn::kCopy;
  to.samples = {{{Normal({1, 3})}, {{2, 3}}},
                {{Normal({2, 1, 3})}, {{0, 4, 0}}},
                {{Normal({3})}, {{2, 3}}},
                {{Normal({1, 0})}, {{2, 0}}}};
  Register(to);

  OpSpec<ToParams> plain =
      Spec<ToParams>("_broadcast_to", "x stretched to a shape of plain sizes.");
  plain.params = {Required<ToParams>("shape", &ToParams::shape, "The shape.")};
  plain.infer = [](const ToParams& p, Specs& in, Specs& out) {
    if (in[0].shape.rank_known()) CheckStretch(in[0].shape, p.shape, "_broadcast_to");
    Shape y = p.shape;
    return Unify(y, out[0].shape);
  };
  plain.fn = Fn::kCopy;
  plain.samples = {{{Normal({1, 3})}, {{2, 3}}},
                   {{Normal({})}, {{2, 2}}},
                   {{Normal({2, 1, 3, 1})}, {{2, 4, 3, 5}}},
                   {{Normal({1, 3})}, {{0, 3}}}};
  Register(plain);

  OpSpec<AxisParams> axis =
      Spec<AxisParams>("broadcast_axis", "x with some axes of size 1 stretched.");
  axis.aliases = {"broadcast_axes"};
  axis.params = {{"axis", &AxisParams::axis, "The axes."},
                 {"size", &AxisParams::size, "Their new sizes."}};
  axis.infer = InferAxis;
  axis.fn = Fn::kCopy;
  axis.samples = {{{Normal({1, 3, 1})}, {{0, 2}, {2, 4}}},
                  {{Normal({2, 1})}, {{-1}, {3}}},
                  {{Normal({2, 1})}, {{1}, {0}}}};
  Register(axis);

  OpSpec<LikeParams> like = Spec<LikeParams>(
      "broadcast_like",
      "x with axes of size 1 stretched to the sizes of another array.");
  like.inputs = {{"lhs", Types::kAny, "x."},
                 {"rhs", Types::kAny, "An array; only its shape counts."}};
  like.params = {
      {"lhs_axes", &LikeParams::lhs_axes, "The axes of x; none: all."},
      {"rhs_axes", &LikeParams::rhs_axes, "The axes that give their sizes."}};
  like.types = TypeOfFirst<LikeParams>;
  like.infer = InferLike;
  like.samples = {{{Normal({1, 3}), Normal({2, 3})}},
                  {{Normal({1, 3}), Normal({5, 7})}, {{0}, {-1}}},
                  {{Normal({1}), Normal({0})}}};
  Register(like);
  return true;
}();

}  // namespace
}  // namespace plait
