// zeros_like, ones_like: constants of the shape and dtype of an array.

#include <optional>

#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct FillLikeParams {
  std::optional<DType> dtype;
};
using P = FillLikeParams;

void InferTypes(const P& p, Specs& in, Specs& out) {
  if (p.dtype) {
    out[0].dtype = *p.dtype;
    return;
  }
  UnifyDType(in[0].dtype, out[0].dtype);
}

// Zero and one are the same number in every dtype; a bool of 1 is true.
template <int kValue>
void Fill(const P& p, PwCall& c) {
  const DType dtype = p.dtype.value_or(c.in(0).dtype());
  const Compute compute = ComputeOf(dtype);
  PointwiseConstant value;
  if (compute == Compute::kF32 || compute == Compute::kF64) {
    value.f = kValue;
  } else {
    value.i = kValue;
  }
  c.Return(Call(Fn::kCopy, Constant(c.in(0).program(), dtype, value)));
}

OpSpec<P> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "An array; only its shape and dtype count."}},
      .params = {{"dtype", &P::dtype, "The dtype, where it is not to be that of x."}},
      .types = InferTypes,
      .zero_gradient = true,
      .samples = {{{Normal({2, 3})}},
                  {{Normal({0, 3})}},
                  {{Normal({3})}, {DType::kInt64}},
                  {{Integers({3}, 0, 5, DType::kInt32)}, {DType::kFloat16}}},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<P> zeros = Spec("zeros_like", "Zeros of the shape and dtype of x.");
  zeros.aliases = {"_sparse_zeros_like"};
  zeros.pointwise = Fill<0>;
  Register(zeros);
  OpSpec<P> ones = Spec("ones_like", "Ones of the shape and dtype of x.");
  ones.pointwise = Fill<1>;
  Register(ones);
  return true;
}();

}  // namespace
}  // namespace plait
