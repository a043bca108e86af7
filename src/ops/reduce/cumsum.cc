// cumsum: running sums along an axis.

#include <optional>
#include <vector>

#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct CumsumParams {
  std::optional<int> axis;
  std::optional<DType> dtype;
};
using P = CumsumParams;

void InferTypes(const P& p, Specs& in, Specs& out) {
  if (p.dtype) {
    out[0].dtype = *p.dtype;
    return;
  }
  UnifyDType(in[0].dtype, out[0].dtype);
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape& x = in[0].shape;
  if (p.axis) {
    if (!Unify(x, out[0].shape)) return false;
    if (x.rank_known()) NormalizeAxis(*p.axis, x.rank(), "cumsum");
    return true;
  }
  if (!x.rank_known()) return true;
  return Assign(out[0].shape, {ProductOrUnknown(x, 0, x.rank())});
}

// Adds up in the dtype of the result, floats in float64: rows of `inner` elements.
template <typename T, typename Y>
void Run(const View& x, const View& y, int64_t outer, int64_t n, int64_t inner) {
  using A = std::conditional_t<std::is_integral_v<Y>, Y, double>;
  std::vector<A> sums(static_cast<size_t>(inner));
  const T* from = x.data<const T>();
  Y* to = y.data<Y>();
  for (int64_t o = 0; o < outer; ++o) {
    std::fill(sums.begin(), sums.end(), A{});
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < inner; ++j, ++from, ++to) {
        const auto v = static_cast<Accumulate<T>>(*from);
        // Integers wrap, as sums of unsigned numbers do.
        if constexpr (std::is_integral_v<A>) {
          using U = std::make_unsigned_t<
              std::conditional_t<std::is_same_v<A, bool>, uint8_t, A>>;
          sums[j] = static_cast<A>(static_cast<U>(sums[j]) +
                                   static_cast<U>(static_cast<A>(v)));
        } else {
          sums[j] += static_cast<A>(v);
        }
        *to = static_cast<Y>(static_cast<Accumulate<Y>>(sums[j]));
      }
    }
  }
}

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const Shape& shape = x.shape();
  int64_t outer = 1, n = x.size(), inner = 1;
  if (p.axis) {
    const int axis = NormalizeAxis(*p.axis, shape.rank(), "cumsum");
    outer = shape.size(0, axis);
    n = shape[axis];
    inner = shape.size(axis + 1, shape.rank());
  }
  if (x.size() == 0) return;
  VisitDType(x.dtype, [&]<typename T>() {
    VisitDType(y.dtype, [&]<typename Y>() { Run<T, Y>(x, y, outer, n, inner); });
  });
}

// dx = the running sum of dy from the end.
Values Gradient(const P& p, const GradArgs& g) {
  const Spec& x = g.in_spec(0);
  const int axis = p.axis ? NormalizeAxis(*p.axis, x.shape.rank(), "cumsum") : 0;
  const auto reversed = [&](const Value& v) {
    return Make("reverse", {v}, {{"axis", Attr(axis)}});
  };
  const Value sum =
      reversed(Make("cumsum", {reversed(g.dout(0))}, {{"axis", Attr(axis)}}));
  const Value dx = p.axis ? sum : reshape(sum, x.shape);
  return {dx.dtype() == x.dtype ? dx : cast(dx, x.dtype)};
}

[[maybe_unused]] const OpDef& cumsum = Register<P>({
    .name = "cumsum",
    .aliases = {"_np_cumsum"},
    .doc = "The sum of all elements up to each one.",
    .inputs = {{"a", Types::kAny, "An array."}},
    .params = {{"axis", &P::axis, "The axis; None: of the flattened array."},
               {"dtype", &P::dtype, "Of the result, and in which sums are taken."}},
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .cpu = {{"plain", Forward}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 2})}, {.axis = 1}},
                {{Normal({4})}, {.axis = -1, .dtype = DType::kFloat64}},
                {{Integers({3, 2}, 0, 9, DType::kInt32)}, {.axis = 0}},
                {{Normal({0, 2})}, {.axis = 0}}},
});

}  // namespace
}  // namespace plait
