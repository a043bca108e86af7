// sum, mean, prod, nansum, nanprod, max, min, _square_sum: reductions along axes.

#include "graph/blocked_form.h"
#include "graph/piece_form.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/kernel.h"

namespace plait {
namespace {

struct ReduceParams {
  Shape axis = Shape::Unknown();
  bool keepdims = false;
  bool exclude = false;
  DType dtype = DType::kUnknown;
};
using P = ReduceParams;

enum class Kind { kSum, kMean, kProd, kNanSum, kNanProd, kMax, kMin, kSquareSum };
constexpr const char* kNames[] = {"sum",     "mean", "prod", "nansum",
                                  "nanprod", "max",  "min",  "_square_sum"};
template <Kind K>
constexpr const char* kName = kNames[static_cast<int>(K)];

constexpr bool IsMaximum(Kind k) {
  return k == Kind::kMax || k == Kind::kMin;
}

// The dtype of x, or the one asked for. A sum of bools counts, their mean is a
// fraction.
template <Kind K>
DType ResultType(const P& p, DType x) {
  if (p.dtype != DType::kUnknown) return p.dtype;
  if (x != DType::kBool || IsMaximum(K)) return x;
  return K == Kind::kMean ? DType::kFloat32 : DType::kInt64;
}

template <Kind K>
void ReduceTypes(const P& p, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown && p.dtype == DType::kUnknown) {
    in[0].dtype = out[0].dtype;
  }
  if (in[0].dtype != DType::kUnknown || p.dtype != DType::kUnknown) {
    out[0].dtype = ResultType<K>(p, in[0].dtype);
  }
}

template <Kind K>
uint64_t Mask(const P& p, const Shape& x) {
  return AxisMask(p.axis, p.exclude, x.rank(), kName<K>);
}

template <Kind K>
bool Infer(const P& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y = ReducedShape(x, Mask<K>(p, x), p.keepdims);
  if constexpr (K == Kind::kMax || K == Kind::kMin) {
    Check(!x.known() || x.size() != 0 || y.size() == 0, K == Kind::kMax ? "max" : "min",
          ": x ", x, " has no elements to choose from; at least one was expected");
  }
  return Unify(y, out[0].shape);
}

template <Kind K>
constexpr Reduction kReduction =
    K == Kind::kMax                           ? Reduction::kMax
    : K == Kind::kMin                         ? Reduction::kMin
    : K == Kind::kProd || K == Kind::kNanProd ? Reduction::kProd
                                              : Reduction::kSum;

// The dtype in which x is added up or multiplied, wide enough for x and the result.
template <Kind K>
DType WideType(DType x, DType y) {
  // The mean of integers is a fraction before it is truncated.
  if (K == Kind::kMean && !IsFloat(x)) return DType::kFloat64;
  if (x == y) return x;
  switch (y) {
    case DType::kFloat64:
      return DType::kFloat64;
    case DType::kFloat32:
      return IsFloat(x) && SizeOf(x) <= 4 ? DType::kFloat32 : DType::kFloat64;
    case DType::kUint64:
      return DType::kUint64;
    default:
      return IsFloat(x) ? DType::kFloat64 : DType::kInt64;
  }
}

template <Kind K>
Pw Reduce(const P& p, const Pw& x, const Shape& shape, PointwiseReduction& r) {
  r.kind = kReduction<K>;
  r.axes = Mask<K>(p, shape);
  if (K == Kind::kMean) r.scale = 1 / static_cast<double>(ReducedCount(shape, r.axes));
  if (K == Kind::kSquareSum) return square(Cast(x, SumDType(x.dtype())));
  if (IsMaximum(K)) return x;
  if (IsFloat(x.dtype()) && (K == Kind::kNanSum || K == Kind::kNanProd)) {
    return where(Call(Fn::kIsNan, x), K == Kind::kNanSum ? 0 : 1, x);
  }
  return Cast(x, WideType<K>(x.dtype(), r.dtype));
}

// ---------------------------------------------------------------- gradients

Value IsNan(const Value& x) {
  return Make("broadcast_not_equal", {x, x});
}

// The product of the other elements: also right where x is 0.
Value ProductOfOthers(const Value& x, const ReduceAxes& axes, const Shape& shape,
                      uint64_t mask) {
  const Value zero = equal(x, 0.0);
  const Value others = where(zero, ones_like(x), x);
  const Value product =
      Expand(Make("prod", {others},
                  {{"axis", Attr(Shape(std::span<const int64_t>(axes.axes)))}}),
             shape, mask);
  const Value zeros_there = Expand(sum(zero, axes), shape, mask);
  // One zero: only its own gradient is not zero. More zeros: none is.
  return product / others * equal(zeros_there - zero, 0.0);
}

ReduceAxes AxesOf(uint64_t mask, int rank) {
  ReduceAxes r;
  for (int i = 0; i < rank; ++i)
    if (mask >> i & 1) r.axes.push_back(i);
  return r;
}

template <Kind K>
Values Gradient(const P& p, const GradArgs& g) {
  const Spec& spec = g.in_spec(0);
  const Shape& shape = spec.shape;
  const uint64_t mask = Mask<K>(p, shape);
  const Value dy = Expand(FitDType(g.dout(0), spec), shape, mask);
  if constexpr (K == Kind::kSum) return {dy};
  if constexpr (K == Kind::kMean) {
    return {dy * (1 / static_cast<double>(ReducedCount(shape, mask)))};
  }
  if constexpr (K == Kind::kSquareSum) return {dy * g.in(0) * 2.0};
  if constexpr (K == Kind::kNanSum) {
    return {where(IsNan(g.in(0)), zeros_like(dy), dy)};
  }
  const ReduceAxes axes = AxesOf(mask, shape.rank());
  if constexpr (K == Kind::kProd) {
    return {dy * ProductOfOthers(g.in(0), axes, shape, mask)};
  }
  if constexpr (K == Kind::kNanProd) {
    const Value nan = IsNan(g.in(0));
    const Value x = where(nan, ones_like(g.in(0)), g.in(0));
    return {where(nan, zeros_like(dy), dy * ProductOfOthers(x, axes, shape, mask))};
  }
  if constexpr (IsMaximum(K)) {
    // Every element that equals the extreme gets the whole gradient.
    return {dy * equal(g.in(0), Expand(FitDType(g.out(0), spec), shape, mask))};
  }
}

template <Kind K>
constexpr Uses kUses = K == Kind::kSum || K == Kind::kMean ? Uses{}
                       : IsMaximum(K)                      ? Uses{.in = 1, .out = 1}
                                                           : Uses{.in = 1};

template <Kind K>
void Add(std::vector<const char*> aliases, const char* doc) {
  std::vector<Param<P>> params = {
      {"axis", &P::axis, "The axis or axes that are reduced; none: all."},
      {"keepdims", &P::keepdims, "Whether the axes stay, with size 1."},
      {"exclude", &P::exclude, "Whether to reduce the axes that are not listed."}};
  if (!IsMaximum(K) && K != Kind::kSquareSum) {
    params.push_back({"dtype", &P::dtype, "The dtype of the result; none: that of x."});
  }
  // Products far from zero; extremes without ties.
  const bool positive = K == Kind::kProd || K == Kind::kNanProd;
  const auto x = [&](Shape shape) {
    return positive ? Uniform(std::move(shape), 0.5, 1.5) : Normal(std::move(shape));
  };
  Register<P>({
      .name = kName<K>,
      .aliases = std::move(aliases),
      .doc = doc,
      .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
      .params = std::move(params),
      .types = ReduceTypes<K>,
      .infer = Infer<K>,
      .gradient = Gradient<K>,
      .uses = kUses<K>,
      .reduce = Reduce<K>,
      .cpu = {{"plain", ReduceKernel<P, Reduce<K>>}},
      .samples = {{{x({2, 3})}},
                  {{x({2, 3, 4})}, {.axis = {1}}},
                  {{x({2, 3, 4})}, {.axis = {0, -1}, .keepdims = true}},
                  {{x({2, 3, 4})}, {.axis = {1}, .exclude = true}},
                  {{x({3, 1, 2})}, {.axis = {1}}},
                  {{x({2, 0, 3})}, {.axis = {0}}}},
  });
}

[[maybe_unused]] const bool kAdded = [] {
  Add<Kind::kSum>({"_sparse_sum", "sum_axis"}, "The sum of the elements along axes.");
  Add<Kind::kMean>({"_sparse_mean"}, "The mean of the elements along axes.");
  Add<Kind::kProd>({}, "The product of the elements along axes.");
  Add<Kind::kNanSum>({}, "The sum of the elements along axes; NaN counts as 0.");
  Add<Kind::kNanProd>({}, "The product of the elements along axes; NaN counts as 1.");
  Add<Kind::kMax>({"max_axis"}, "The largest element along axes; NaN if one is NaN.");
  Add<Kind::kMin>({"min_axis"}, "The smallest element along axes; NaN if one is NaN.");
  Add<Kind::kSquareSum>({}, "The sum of the squares of the elements along axes.");
  return true;
}();

// ---------------------------------------------------------------- _sum_to

struct SumToParams {
  Shape shape;
};

uint64_t SumToMask(const Shape& x, const Shape& y) {
  Check(y.rank() <= x.rank(), "_sum_to: shape ", y, " has more axes than x of shape ",
        x);
  const int more = x.rank() - y.rank();
  uint64_t mask = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t kept = i < more ? 1 : y[i - more];
    Check(i < more || kept == x[i] || kept == 1, "_sum_to: shape ", y,
          " does not broadcast to shape ", x);
    if (i < more || kept != x[i]) mask |= uint64_t{1} << i;
  }
  return mask;
}

Pw SumTo(const SumToParams& p, const Pw& x, const Shape& shape, PointwiseReduction& r) {
  r.axes = SumToMask(shape, p.shape);
  return x;
}

[[maybe_unused]] const OpDef& sum_to_op = Register<SumToParams>({
    .name = "_sum_to",
    .doc = "Sums x over the axes along which an array of `shape` broadcasts to x.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {Required<SumToParams>("shape", &SumToParams::shape,
                                     "The shape of the result.")},
    .infer =
        [](const SumToParams& p, Specs& in, Specs& out) {
          if (in[0].shape.known()) SumToMask(in[0].shape, p.shape);
          Shape y = p.shape;
          return Unify(y, out[0].shape);
        },
    .gradient = [](const SumToParams&, const GradArgs& g) -> Values {
      return {broadcast_to(g.dout(0), g.in_spec(0).shape)};
    },
    .reduce = SumTo,
    .cpu = {{"plain", ReduceKernel<SumToParams, SumTo>}},
    .samples = {{{Normal({2, 3})}, {.shape = {1}}},
                {{Normal({2, 3, 4})}, {.shape = {3, 1}}},
                {{Normal({2, 3})}, {.shape = {}}},
                {{Normal({0, 3})}, {.shape = {1, 3}}}},
});

// The sums of each channel (gradients of biases), from whole blocks.
std::optional<BlockedForm> BlockedSum(const void* params, const Specs& in,
                                      const Specs& out, int64_t block) {
  const P& p = *static_cast<const P*>(params);
  const Shape& x = in[0].shape;
  if (x.rank() != 4 || !IsBlockedType(in[0].dtype) || x[1] % block != 0 ||
      out[0].dtype != in[0].dtype || x.size() == 0 || p.keepdims ||
      Mask<Kind::kSum>(p, x) != 0b1101)
    return {};
  P q = p;
  q.axis = {0, 2, 3};
  q.exclude = false;
  return BlockedForm{
      .op = &GetOp("sum"), .params = MakeParams(std::move(q)), .blocked_in = 1};
}
// Sums over the samples, of floats that keep their precision when parts add up.
std::optional<PieceForm> SumInPieces(const ParamsRef& params, const Specs& in,
                                     const Specs& out, int64_t) {
  const P& p = *static_cast<const P*>(params->get());
  const bool precise =
      out[0].dtype == DType::kFloat32 || out[0].dtype == DType::kFloat64;
  if (!precise || in[0].shape.rank() == 0 || !(Mask<Kind::kSum>(p, in[0].shape) & 1))
    return {};
  return PieceForm{.params = params, .sliced_in = 1};
}
[[maybe_unused]] const bool kSumRules = [] {
  AddBlockedRule("sum", BlockedSum);
  AddPieceRule("sum", SumInPieces);
  return true;
}();

}  // namespace
}  // namespace plait
