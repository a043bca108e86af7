// The backward operator of normalisation, and its own gradient.

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/normalize.h"

namespace plait {

namespace {

void InferTypes(const Norm&, Specs& in, Specs& out) {
  const DType stats = StatsDType(in[1].dtype);
  for (int i = 3; i < 5; ++i) {
    if (in[i].dtype == DType::kUnknown) in[i].dtype = stats;
    Check(in[i].dtype == stats, ErrorKind::kType,
          "_backward_Normalize: statistics are ", in[i].dtype, "; ", stats,
          " was expected for data of ", in[1].dtype);
  }
  out[0].dtype = in[1].dtype;
  out[1].dtype = out[2].dtype = in[2].dtype;
}

bool Infer(const Norm& norm, Specs& in, Specs& out) {
  Check(norm.sizes.rank() == 4, ErrorKind::kRuntime,
        "_backward_Normalize: is an operator's own; a call by name was not expected");
  const int64_t counts[] = {norm.Count(15), norm.Count(15),
                            norm.Count(norm.affine_axes), norm.Count(norm.stats_axes),
                            norm.Count(norm.stats_axes)};
  for (int i = 0; i < 5; ++i) {
    const Shape& s = in[i].shape;
    Check(!s.known() || s.size() == counts[i], "_backward_Normalize: array ", i,
          " has shape ", s, "; ", counts[i], " elements were expected");
  }
  return Unify(in[0].shape, in[1].shape) && Assign(out[0].shape, in[1].shape) &&
         Assign(out[1].shape, in[2].shape) && Assign(out[2].shape, in[2].shape);
}

void Plain(const Norm& norm, const KernelArgs& args) {
  const View &dy = args.in[0], &x = args.in[1], &mean = args.in[3], &third = args.in[4];
  PlainNormDx(norm, dy, x, args.in[2], mean, third, args.out[0]);
  PlainNormDAffine(norm, dy, x, mean, third, args.out[1], args.out[2]);
}

void Runs(const Norm& norm, const KernelArgs& args) {
  RunsNormBackward(norm, args.in[0], args.in[1], args.in[2], args.in[3], args.in[4],
                   args.out[0], args.out[1], args.out[2]);
}
const char* RunsDeclines(const Norm& norm, const Specs&, const Specs&) {
  return HasRuns(norm) ? nullptr : "no contiguous runs";
}

void Fused(const Norm& norm, const KernelArgs& args) {
  FusedNormBackward(norm, args.in[0], args.in[1], args.in[2], args.in[3], args.in[4],
                    args.out[0], args.out[1], args.out[2]);
}
const char* FusedDeclines(const Norm& norm, const Specs& in, const Specs&) {
  return FusedNormDeclines(norm, in[1].dtype, in[2].dtype);
}

std::vector<int64_t> AxesNotIn(int axes) {
  std::vector<int64_t> result;
  for (int i = 0; i < 4; ++i) {
    if (!(axes >> i & 1)) result.push_back(i);
  }
  return result;
}

// With u, v, w the gradients of dx, dgamma, dbeta, and P the projection
// P(u) = u - mean(u) - hat mean(u hat), this differentiates
//   S = sum(u r P(g)) + sum(v dy hat) + sum(w dy),   g = gamma dy.
// P is symmetric, so dS/dg = r P(u). For x, with A = sum(g P(u)) and
// K = v dy - r (mean(u hat) g + mean(g hat) u) = dS/dhat:
//   dS/dx = r P(K) - r^2 A hat / n.
// mean and r are computed from x again, so that they are differentiated in their turn.
Values Gradient(const Norm& norm, const GradArgs& a) {
  const DType stats = StatsDType(a.in_spec(1).dtype);
  const auto wide = [&](const Value& v, const Shape& s) {
    const Value r = reshape(v, s);
    return r.dtype() == stats ? r : cast(r, stats);
  };
  const Shape affine = norm.Only(norm.affine_axes);
  const ReduceAxes over{AxesNotIn(norm.stats_axes), true};
  const double n = static_cast<double>(norm.Count(15 & ~norm.stats_axes));
  const auto avg = [&](const Value& v) { return mean(v, over); };

  const Value dy = wide(a.in(0), norm.sizes), x = wide(a.in(1), norm.sizes);
  const Value centred = x - avg(x);
  const Value r = rsqrt(avg(square(centred)) + norm.eps);
  const Value hat = centred * r;
  Value gamma, g = dy;
  if (!norm.fix_gamma) {
    gamma = wide(a.in(2), affine);
    g = dy * gamma;
  }
  const auto project = [&](const Value& v) { return v - avg(v) - hat * avg(v * hat); };

  Value for_dy, for_x, for_gamma;
  const auto add = [](Value& total, const Value& term) {
    total = total ? total + term : term;
  };
  if (a.has_dout(0)) {
    const Value u = wide(a.dout(0), norm.sizes);
    const Value rpu = r * project(u);
    add(for_dy, norm.fix_gamma ? rpu : rpu * gamma);
    if (!norm.fix_gamma) for_gamma = sum_to(dy * rpu, affine);
    const Value k = -(r * (avg(u * hat) * g + avg(g * hat) * u));
    const Value A = sum(g * project(u), over);
    add(for_x, r * project(k) - square(r) * A * hat / n);
  }
  if (a.has_dout(1) && !norm.fix_gamma) {
    const Value v = wide(a.dout(1), affine);
    add(for_dy, v * hat);
    add(for_x, r * project(v * dy));
  }
  if (a.has_dout(2)) add(for_dy, broadcast_to(wide(a.dout(2), affine), norm.sizes));

  const auto back = [&](const Value& v, int i) {
    if (!v) return v;
    const Value s = reshape(v, a.in_spec(i).shape);
    return s.dtype() == a.in_spec(i).dtype ? s : cast(s, a.in_spec(i).dtype);
  };
  return {back(for_dy, 0), back(for_x, 1), back(for_gamma, 2), {}, {}};
}

SampleInput Given(SampleInput s) {
  s.differentiable = false;
  return s;
}

// The means given here are not those of x: the kernels are compared with each other,
// and gradients are checked through the operators of the family.
const OpDef& norm_backward = Register<Norm>({
    .name = "_backward_Normalize",
    .doc = "The gradient of normalisation: dx, dgamma and dbeta.",
    .inputs = {{"dy", Types::kFloats},
               {"data", Types::kFloats},
               {"gamma", Types::kFloats},
               {"mean", Types::kFloats},
               {"third", Types::kFloats}},
    .outputs = {{"dx"}, {"dgamma"}, {"dbeta"}},
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b111},
    .cpu = {{"fused", Fused, FusedDeclines},
            {"runs", Runs, RunsDeclines},
            {"plain", Plain}},
    .samples = {{{Given(Normal({2, 3, 4})), Given(Normal({2, 3, 4})),
                  Given(Normal({3})), Given(Normal({3})), Given(Uniform({3}, 1, 2))},
                 {.sizes = {2, 3, 4, 1}, .stats_axes = 0b10, .affine_axes = 0b10}},
                {{Given(Normal({2, 4, 3})), Given(Normal({2, 4, 3})),
                  Given(Normal({4})), Given(Normal({2, 2})),
                  Given(Uniform({2, 2}, 1, 2))},
                 {.sizes = {2, 2, 2, 3},
                  .stats_axes = 0b11,
                  .affine_axes = 0b110,
                  .third_is_std = true}},
                {{Given(Normal({2, 40})), Given(Normal({2, 40})), Given(Normal({40})),
                  Given(Normal({2, 1})), Given(Uniform({2, 1}, 1, 2))},
                 {.sizes = {2, 40, 1, 1}, .stats_axes = 0b101, .affine_axes = 0b10}}},
});

}  // namespace

Values NormBackward(const Norm& norm, const Value& dy, const Value& x,
                    const Value& gamma, const Value& mean, const Value& third) {
  const Value inputs[] = {dy, x, gamma, mean, third};
  return Apply(norm_backward, MakeParams(Norm(norm)), inputs);
}

}  // namespace plait
