// Pw: appending steps, with promotion of dtypes and conversion of arguments.

#include "graph/pointwise_builder.h"

#include <cmath>
#include <limits>

#include "graph/fused.h"

namespace plait {
namespace {

// The dtype that integers are computed in by functions that only floats have.
DType FloatFor(DType dtype) {
  if (IsFloat(dtype)) return dtype;
  return SizeOf(dtype) == 8 ? DType::kFloat64 : DType::kFloat32;
}

PointwiseConstant Number(double value, Compute compute) {
  PointwiseConstant c;
  if (compute == Compute::kF32 || compute == Compute::kF64) {
    c.f = value;
  } else if (compute == Compute::kU64) {
    const double whole = std::trunc(value);
    c.i = whole < 0         ? static_cast<int64_t>(whole)
          : whole >= 0x1p64 ? -1
                            : static_cast<int64_t>(static_cast<uint64_t>(whole));
  } else {
    const double whole = std::isnan(value) ? 0 : std::trunc(value);
    c.i = whole >= 0x1p63   ? std::numeric_limits<int64_t>::max()
          : whole < -0x1p63 ? std::numeric_limits<int64_t>::min()
                            : static_cast<int64_t>(whole);
  }
  return c;
}

PointwiseArg AddConstant(PointwiseProgram* p, PointwiseConstant value) {
  Check(p->num_constants < PointwiseProgram::kMaxConstants, ErrorKind::kRuntime,
        "internal: a pointwise program is full");
  p->constants[p->num_constants] = value;
  return {PointwiseArg::kConstant, p->num_constants++};
}

PointwiseArg AddStep(PointwiseProgram* p, const PointwiseStep& step) {
  Check(p->num_steps < PointwiseProgram::kMaxSteps, ErrorKind::kRuntime,
        "internal: a pointwise program is full");
  p->steps[p->num_steps] = step;
  return {PointwiseArg::kStep, p->num_steps++};
}

// x as an argument of a step that computes in `compute`.
PointwiseArg Converted(const Pw& x, PointwiseProgram* p, Compute compute) {
  if (x.is_number()) return AddConstant(p, Number(x.number(), compute));
  const Compute from = ComputeOf(x.dtype());
  if (from == compute) return x.arg();
  if (x.arg().kind == PointwiseArg::kConstant)
    Fail(ErrorKind::kRuntime, "internal: a typed constant of another dtype");
  return AddStep(p, {Fn::kCast, compute, from, DTypeOf(compute), {x.arg()}});
}

}  // namespace

Pw Call(Fn fn, std::span<const Pw> args, DType result) {
  PointwiseProgram* p = nullptr;
  DType dtype = DType::kUnknown;
  for (const Pw& x : args) {
    if (x.is_number()) continue;
    p = x.program();
    dtype = Promote(dtype, x.dtype());
  }
  Check(p != nullptr, ErrorKind::kRuntime,
        "internal: a pointwise step of numbers only");
  // Integers in a float function are computed as floats, then truncated to their dtype.
  const DType inner = Info(fn).float_only ? FloatFor(dtype) : dtype;
  const Compute compute = ComputeOf(inner);
  PointwiseStep step{.fn = fn, .compute = compute, .from = compute};
  step.dtype = inner;
  for (size_t i = 0; i < args.size(); ++i)
    step.args[i] = Converted(args[i], p, compute);
  if (result == DType::kUnknown) result = dtype;
  if (ComputeOf(result) == compute) {
    step.dtype = result;
    return Pw(p, AddStep(p, step), result);
  }
  return Cast(Pw(p, AddStep(p, step), inner), result);
}

Pw Cast(const Pw& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Compute from = ComputeOf(x.dtype()), to = ComputeOf(dtype);
  PointwiseStep step{
      .fn = from == to ? Fn::kCopy : Fn::kCast, .compute = to, .from = from};
  step.dtype = dtype;
  step.args[0] = x.arg();
  return Pw(x.program(), AddStep(x.program(), step), dtype);
}

Pw Constant(PointwiseProgram* program, DType dtype, PointwiseConstant value) {
  return Pw(program, AddConstant(program, value), dtype);
}

Pw where(const Pw& condition, const Pw& x, const Pw& y) {
  // The condition is compared in its own type, so that it takes no part in promotion.
  const Pw* typed = !x.is_number() ? &x : !y.is_number() ? &y : nullptr;
  DType dtype = typed ? typed->dtype() : condition.dtype();
  if (!x.is_number() && !y.is_number()) dtype = Promote(x.dtype(), y.dtype());
  PointwiseProgram* p = condition.program() ? condition.program() : typed->program();
  const Compute compute = ComputeOf(dtype);
  PointwiseStep step{.fn = Fn::kWhere, .compute = compute, .from = compute};
  step.dtype = dtype;
  // A converted condition must stay non-zero: 0.5 as an integer would not.
  Pw flag = condition;
  if (ComputeOf(condition.dtype()) != compute)
    flag = Call(Fn::kNotEqual, condition, Pw(0));
  step.args[0] = Converted(flag, p, compute);
  step.args[1] = Converted(x, p, compute);
  step.args[2] = Converted(y, p, compute);
  return Pw(p, AddStep(p, step), dtype);
}

// Steps only look back, so one backward sweep marks
// and one forward sweep moves.
void PruneProgram(PointwiseProgram& p) {
  bool needed[PointwiseProgram::kMaxSteps] = {};
  int first_unneeded = -1;
  for (int i = 0; i < p.num_outputs; ++i) {
    if (p.outputs[i].kind == PointwiseArg::kStep) needed[p.outputs[i].index] = true;
  }
  for (int i = p.num_steps - 1; i >= 0; --i) {
    if (!needed[i]) {
      first_unneeded = i;
      continue;
    }
    for (const PointwiseArg& arg : p.steps[i].args) {
      if (arg.kind == PointwiseArg::kStep) needed[arg.index] = true;
    }
  }
  if (first_unneeded < 0) return;
  uint8_t moved[PointwiseProgram::kMaxSteps], count = 0;
  const auto rename = [&](PointwiseArg& arg) {
    if (arg.kind == PointwiseArg::kStep) arg.index = moved[arg.index];
  };
  for (int i = 0; i < p.num_steps; ++i) {
    if (!needed[i]) continue;
    PointwiseStep step = p.steps[i];
    for (PointwiseArg& arg : step.args) rename(arg);
    moved[i] = count;
    p.steps[count++] = step;
  }
  p.num_steps = count;
  for (int i = 0; i < p.num_outputs; ++i) rename(p.outputs[i]);
}

}  // namespace plait
