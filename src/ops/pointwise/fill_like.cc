// zeros_like, ones_like: constants of the shape and dtype of an array.

#include "ops/gradients.h"

namespace plait {
namespace {

// Zero and one are the same number in every dtype; a bool of 1 is true.
template <int kValue>
void Fill(const NoParams&, PwCall& c) {
  const DType dtype = c.in(0).dtype();
  const Compute compute = ComputeOf(dtype);
  PointwiseConstant value;
  if (compute == Compute::kF32 || compute == Compute::kF64) {
    value.f = kValue;
  } else {
    value.i = kValue;
  }
  c.Return(Call(Fn::kCopy, Constant(c.in(0).program(), dtype, value)));
}

OpSpec<NoParams> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "An array; only its shape and dtype count."}},
      .zero_gradient = true,
      .samples = {{{Normal({2, 3})}}, {{Normal({0, 3})}}},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<NoParams> zeros = Spec("zeros_like", "Zeros of the shape and dtype of x.");
  zeros.aliases = {"_sparse_zeros_like"};
  zeros.pointwise = Fill<0>;
  Register(zeros);
  OpSpec<NoParams> ones = Spec("ones_like", "Ones of the shape and dtype of x.");
  ones.pointwise = Fill<1>;
  Register(ones);
  return true;
}();

}  // namespace
}  // namespace plait
