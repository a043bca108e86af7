// norm: sums of absolute values, and roots of sums of squares, along axes.

#include "ops/gradients.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/kernel.h"

namespace plait {
namespace {

struct NormParams {
  int ord = 2;
  Shape axis = Shape::Unknown();
  DType out_dtype = DType::kUnknown;
  bool keepdims = false;
};

uint64_t Mask(const NormParams& p, const Shape& x) {
  return AxisMask(p.axis, false, x.rank(), "norm");
}

bool Infer(const NormParams& p, Specs& in, Specs& out) {
  Check(p.ord == 1 || p.ord == 2, "norm: ord is ", p.ord, "; 1 or 2 was expected");
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y = ReducedShape(x, Mask(p, x), p.keepdims);
  return Unify(y, out[0].shape);
}

void NormTypes(const NormParams& p, Specs& in, Specs& out) {
  if (p.out_dtype != DType::kUnknown) {
    out[0].dtype = p.out_dtype;
  } else if (in[0].dtype != DType::kUnknown) {
    out[0].dtype = in[0].dtype == DType::kBool ? DType::kInt64 : in[0].dtype;
  } else {
    in[0].dtype = out[0].dtype;
  }
}

// Sums are kept in float64 for float64 and integers, else in float32, and so are roots.
DType WideFor(DType x) {
  return IsFloat(x) && x != DType::kFloat64 ? DType::kFloat32 : DType::kFloat64;
}
Pw Reduce(const NormParams& p, const Pw& x, const Shape& shape, PointwiseReduction& r) {
  r.axes = Mask(p, shape);
  r.root = p.ord == 2;
  const Pw wide = Cast(x, WideFor(x.dtype()));
  return p.ord == 1 ? abs(wide) : square(wide);
}

// x / y for ord 2 (0 where y is 0), the sign of x for ord 1.
Values Gradient(const NormParams& p, const GradArgs& g) {
  const Spec& spec = g.in_spec(0);
  const uint64_t mask = Mask(p, spec.shape);
  const Value dy = Expand(FitDType(g.dout(0), spec), spec.shape, mask);
  const Value& x = g.in(0);
  if (p.ord == 1) return {dy * sign(x)};
  const Value y = Expand(FitDType(g.out(0), spec), spec.shape, mask);
  return {dy * x / where(equal(y, 0.0), ones_like(y), y)};
}

[[maybe_unused]] const OpDef& norm = Register<NormParams>({
    .name = "norm",
    .aliases = {"_sparse_norm"},
    .doc = "The norm of the elements along axes: of order 2 the root of the sum of "
           "squares, of order 1 the sum of absolute values.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {{"ord", &NormParams::ord, "1 or 2."},
               {"axis", &NormParams::axis, "The axis or axes; none: all."},
               {"out_dtype", &NormParams::out_dtype,
                "The dtype of the result; none: that of x."},
               {"keepdims", &NormParams::keepdims,
                "Whether the axes stay, with size 1."}},
    .types = NormTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 1, .out = 1},
    .reduce = Reduce,
    .cpu = {{"plain", ReduceKernel<NormParams, Reduce>}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 4})}, {.axis = {1}}},
                {{Normal({2, 3, 4})}, {.ord = 1, .axis = {-1, 0}, .keepdims = true}},
                {{Normal({0, 2})}, {.axis = {0}}}},
});

}  // namespace
}  // namespace plait
