// Cast, amp_cast, amp_multicast: conversions between dtypes.

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct CastParams {
  DType dtype = DType::kFloat32;
};

void CastTypes(const CastParams& p, Specs&, Specs& out) {
  out[0].dtype = p.dtype;
}
void ApplyCast(const CastParams& p, PwCall& c) {
  c.Return(Cast(c.in(0), p.dtype));
}

// Mixed precision leaves integers alone.
void AmpTypes(const CastParams& p, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) return;
  out[0].dtype = IsFloat(in[0].dtype) ? p.dtype : in[0].dtype;
}
void ApplyAmp(const CastParams& p, PwCall& c) {
  c.Return(IsFloat(c.in(0).dtype()) ? Cast(c.in(0), p.dtype)
                                    : Call(Fn::kCopy, c.in(0)));
}

Values CastBack(const CastParams&, const GradArgs& g) {
  return {FitDType(g.dout(0), g.in_spec(0))};
}

SampleInput Fractions(Shape shape) {
  SampleInput x = Uniform(std::move(shape), -100, 100);
  x.differentiable = false;  // the narrower dtype rounds away small differences
  return x;
}

[[maybe_unused]] const OpDef& cast_op = Register<CastParams>({
    .name = "Cast",
    .aliases = {"_npi_cast", "_npx_cast", "cast"},
    .doc = "x in another dtype; floats become integers by dropping the fraction.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {Required<CastParams>("dtype", &CastParams::dtype,
                                    "The dtype of the result.")},
    .types = CastTypes,
    .gradient = CastBack,
    .pointwise = ApplyCast,
    .samples = {{{Fractions({2, 3})}, {DType::kInt32}},
                {{Fractions({5})}, {DType::kFloat16}},
                {{Uniform({2, 2}, -1, 1)}, {DType::kFloat64}},
                {{Integers({2, 2}, -5, 5, DType::kInt64)}, {DType::kFloat32}},
                {{Fractions({0})}, {DType::kUint8}}},
});

[[maybe_unused]] const OpDef& amp_cast = Register<CastParams>({
    .name = "amp_cast",
    .doc = "x in another floating dtype; integers stay what they are.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {Required<CastParams>("dtype", &CastParams::dtype,
                                    "The dtype of the result where x is floating.")},
    .types = AmpTypes,
    .gradient = CastBack,
    .pointwise = ApplyAmp,
    .samples = {{{Fractions({2, 3})}, {DType::kFloat16}},
                {{Integers({4}, -5, 5, DType::kInt32)}, {DType::kFloat16}}},
});

struct MulticastParams {
  int num_outputs = 0;
  bool cast_narrow = false;
};

int CountMulticast(const MulticastParams& p) {
  return p.num_outputs;
}

// The widest (or narrowest) floating dtype of all inputs; integers stay.
void MulticastTypes(const MulticastParams& p, Specs& in, Specs& out) {
  DType target = DType::kUnknown;
  for (const Spec& s : in) {
    if (!IsFloat(s.dtype)) continue;
    const bool better =
        target != DType::kUnknown && (p.cast_narrow ? SizeOf(s.dtype) < SizeOf(target)
                                                    : SizeOf(s.dtype) > SizeOf(target));
    if (target == DType::kUnknown || better) {
      target = s.dtype;
    } else if (s.dtype != target && SizeOf(s.dtype) == SizeOf(target) &&
               !p.cast_narrow) {
      target = DType::kFloat32;  // float16 beside bfloat16
    }
  }
  for (size_t i = 0; i < in.size() && i < out.size(); ++i) {
    if (in[i].dtype == DType::kUnknown) continue;
    out[i].dtype = IsFloat(in[i].dtype) ? target : in[i].dtype;
  }
}

bool InferMulticast(const MulticastParams& p, Specs& in, Specs& out) {
  Check(static_cast<int>(in.size()) == p.num_outputs, "amp_multicast: ", in.size(),
        " arrays were given; num_outputs = ", p.num_outputs, " were expected");
  for (size_t i = 0; i < in.size(); ++i)
    if (!Unify(in[i].shape, out[i].shape)) return false;
  return true;
}

void RunMulticast(const MulticastParams&, const KernelArgs& args) {
  for (size_t i = 0; i < args.in.size(); ++i) {
    const View& x = args.in[i];
    const View& y = args.out[i];
    cpu::Convert(x.ptr, x.dtype, y.ptr, y.dtype, x.size());
  }
}

Values MulticastGradient(const MulticastParams&, const GradArgs& g) {
  Values dx;
  for (int i = 0; i < g.num_inputs(); ++i) {
    dx.push_back(g.wants(i) ? FitDType(g.dout(i), g.in_spec(i)) : Value());
  }
  return dx;
}

[[maybe_unused]] const OpDef& amp_multicast = Register<MulticastParams>({
    .name = "amp_multicast",
    .doc = "Casts all arrays to the widest floating dtype among them.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shapes."}},
    .params = {Required<MulticastParams>("num_outputs", &MulticastParams::num_outputs,
                                         "How many arrays there are."),
               {"cast_narrow", &MulticastParams::cast_narrow,
                "Cast to the narrowest dtype instead."}},
    .variable_inputs = true,
    .num_outputs = CountMulticast,
    .types = MulticastTypes,
    .infer = InferMulticast,
    .gradient = MulticastGradient,
    .cpu = {{"plain", RunMulticast}},
    .samples = {{{Normal({2, 3}), Normal({4})}, {.num_outputs = 2}},
                {{Normal({2, 0})}, {.num_outputs = 1, .cast_narrow = true}}},
});

}  // namespace
}  // namespace plait
