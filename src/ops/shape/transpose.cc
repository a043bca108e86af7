// transpose, SwapAxis: other orders of the axes.

#include "ops/gradients.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct TransposeParams {
  Shape axes;
};

// The axes in order, without negative ones; none at all means reversed.
Shape Order(const TransposeParams& p, int rank) {
  Shape order = p.axes;
  if (p.axes.rank() <= 0) {
    order = Shape::Filled(rank, 0);
    for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
    return order;
  }
  Check(order.rank() == rank, "transpose: axes ", p.axes, " do not fit an array of ",
        rank, " axes; each axis once was expected");
  uint64_t seen = 0;
  for (int64_t& axis : order) {
    axis = NormalizeAxis(axis, rank, "transpose");
    Check(!(seen >> axis & 1), "transpose: axes ", p.axes, " name axis ", axis,
          " twice; each axis once was expected");
    seen |= uint64_t{1} << axis;
  }
  return order;
}

Shape Inverse(const Shape& order) {
  Shape inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return inverse;
}

Shape Permuted(const Shape& x, const Shape& order) {
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) y[i] = x[static_cast<int>(order[i])];
  return y;
}

bool UnifyPermuted(Shape& x, Shape& y, const Shape& order) {
  Shape forward = Permuted(x, order);
  if (!Unify(forward, y)) return false;
  x = Permuted(y, Inverse(order));
  return true;
}

void CopyPermuted(const View& x, const View& y, const Shape& order) {
  const cpu::Strides strides = cpu::RowMajor(x.shape());
  cpu::CopyStrided(y.shape(), y.ptr, cpu::RowMajor(y.shape()), x.ptr,
                   Permuted(strides, order), SizeOf(x.dtype));
}

bool InferTranspose(const TransposeParams& p, Specs& in, Specs& out) {
  if (!in[0].shape.rank_known() && out[0].shape.rank_known()) {
    in[0].shape = Shape::Filled(out[0].shape.rank(), kUnknownSize);
  }
  if (!in[0].shape.rank_known()) return true;
  return UnifyPermuted(in[0].shape, out[0].shape, Order(p, in[0].shape.rank()));
}

[[maybe_unused]] const OpDef& transpose_op = Register<TransposeParams>({
    .name = "transpose",
    .doc = "x with its axes in another order; reversed where none is given.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {{"axes", &TransposeParams::axes,
                "For each axis of the result the axis of x that it is."}},
    .infer = InferTranspose,
    .gradient = [](const TransposeParams& p, const GradArgs& g) -> Values {
      return {transpose(g.dout(0), Inverse(Order(p, g.in_spec(0).shape.rank())))};
    },
    .cpu = {{"plain",
             [](const TransposeParams& p, const KernelArgs& args) {
               CopyPermuted(args.in[0], args.out[0],
                            Order(p, args.in[0].shape().rank()));
             }}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 4})}, {.axes = {1, 0, 2}}},
                {{Normal({2, 3, 4, 2})}, {.axes = {0, -1, 1, 2}}},
                {{Normal({40, 50})}},
                {{Normal({5})}},
                {{Normal({0, 3})}}},
});

struct SwapParams {
  int dim1 = 0, dim2 = 0;
};

Shape SwapOrder(const SwapParams& p, int rank) {
  Shape order = Shape::Filled(rank, 0);
  for (int i = 0; i < rank; ++i) order[i] = i;
  std::swap(order[NormalizeAxis(p.dim1, rank, "SwapAxis")],
            order[NormalizeAxis(p.dim2, rank, "SwapAxis")]);
  return order;
}

bool InferSwap(const SwapParams& p, Specs& in, Specs& out) {
  if (!in[0].shape.rank_known() && out[0].shape.rank_known()) {
    in[0].shape = Shape::Filled(out[0].shape.rank(), kUnknownSize);
  }
  if (!in[0].shape.rank_known()) return true;
  return UnifyPermuted(in[0].shape, out[0].shape, SwapOrder(p, in[0].shape.rank()));
}

[[maybe_unused]] const OpDef& swap_axis = Register<SwapParams>({
    .name = "SwapAxis",
    .aliases = {"_npi_swapaxes", "swapaxes"},
    .doc = "x with two axes interchanged.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {{"dim1", &SwapParams::dim1, "The first axis."},
               {"dim2", &SwapParams::dim2, "The second axis."}},
    .infer = InferSwap,
    .gradient = [](const SwapParams& p, const GradArgs& g) -> Values {
      return {transpose(g.dout(0), SwapOrder(p, g.in_spec(0).shape.rank()))};
    },
    .cpu = {{"plain",
             [](const SwapParams& p, const KernelArgs& args) {
               CopyPermuted(args.in[0], args.out[0],
                            SwapOrder(p, args.in[0].shape().rank()));
             }}},
    .samples = {{{Normal({2, 3, 4})}, {.dim1 = 0, .dim2 = 2}},
                {{Normal({2, 3})}, {.dim1 = -1, .dim2 = 0}},
                {{Normal({0, 3})}, {.dim1 = 0, .dim2 = 1}}},
});

}  // namespace
}  // namespace plait
