// Planning: dead steps out, cells given, stores placed as early as aliasing allows.

#include "cpu/pointwise_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace plait::cpu {
namespace {

bool IsBoolean(Fn fn) {
  return (fn >= Fn::kEqual && fn <= Fn::kLogicalXor) || fn == Fn::kLogicalNot ||
         (fn >= Fn::kIsNan && fn <= Fn::kIsFinite);
}

int ArityOf(Fn fn) {
  return fn == Fn::kWhere ? 3 : fn >= Fn::kAdd ? 2 : 1;
}

uint32_t SizeOf(Compute compute) {
  return compute == Compute::kF32 || compute == Compute::kI32 ? 4 : 8;
}

bool IsNatural(DType dtype) {
  return DTypeOf(ComputeOf(dtype)) == dtype;
}

int Index(Compute compute) {
  return static_cast<int>(compute);
}
int Index(Fn fn) {
  return static_cast<int>(fn);
}
int Index(DType dtype) {
  return static_cast<int>(dtype);
}

// A step's rough time in picoseconds an element.
int CostOf(Fn fn) {
  switch (fn) {
    case Fn::kCbrt:
    case Fn::kRcbrt:
    case Fn::kErfinv:
    case Fn::kGamma:
    case Fn::kGammaln:
    case Fn::kDigamma:
      return 20000;
    case Fn::kMod:
    case Fn::kPower:
    case Fn::kArctan2:
    case Fn::kHypot:
      return 2000;
    default:
      return fn >= Fn::kExp && fn <= Fn::kSoftrelu ? 800 : 50;
  }
}

// One step's element in its compute type, repeated.
void FillConstant(void* slot, Compute compute, PointwiseConstant value) {
  switch (compute) {
    case Compute::kF32:
      return FillSplat(slot, static_cast<float>(value.f));
    case Compute::kF64:
      return FillSplat(slot, value.f);
    case Compute::kI32:
      return FillSplat(slot, static_cast<int32_t>(value.i));
    default:
      return FillSplat(slot, value.i);
  }
}

void FillScalar(void* slot, DType dtype, const void* data) {
  VisitDType(dtype, [&]<typename S>() {
    using T = std::conditional_t<
        sizeof(S) == 8, S,
        std::conditional_t<
            IsFloat(kDTypeOf<S>), float,
            std::conditional_t<std::is_same_v<S, uint32_t>, int64_t, int32_t>>>;
    FillSplat(slot, static_cast<T>(*static_cast<const S*>(data)));
  });
}

}  // namespace

PointwisePlan::PointwisePlan(const PointwiseProgram& program, const Shape& space,
                             std::span<const PointwiseInput> inputs,
                             std::span<void* const> outputs)
    : program_(program), inputs_(inputs), outputs_(outputs), kernels_(GetKernels()) {
  for (int i = 0; i < program.num_inputs; ++i) {
    extents_[i] = ExtentOf(*inputs[i].shape, space);
    broadcasts_ |= extents_[i] == Extent::kBroadcast;
  }
  if (broadcasts_) broadcaster_.Init(space, inputs, extents_);
  CountUses();
  if (!outputs.empty()) CopyThreatenedInputs();
  for (int s = 0; s < program.num_steps; ++s) {
    if (step_uses_[s] > 0) AddStep(s);
  }
  AddOutputs();
  ChooseTile();
}

// Only what an output needs is counted: dead steps have no uses.
void PointwisePlan::CountUses() {
  std::memset(input_uses_, 0, program_.num_inputs);
  std::memset(step_uses_, 0, program_.num_steps);
  const auto use = [this](PointwiseArg arg) {
    if (arg.kind == PointwiseArg::kStep) ++step_uses_[arg.index];
    if (arg.kind == PointwiseArg::kInput) ++input_uses_[arg.index];
  };
  for (int o = 0; o < program_.num_outputs; ++o) use(program_.outputs[o]);
  for (int s = program_.num_steps - 1; s >= 0; --s) {
    if (step_uses_[s] == 0) continue;
    const PointwiseStep& step = program_.steps[s];
    for (int a = 0, arity = ArityOf(step.fn); a < arity; ++a) use(step.args[a]);
  }
  for (int i = 0; i < program_.num_inputs; ++i) {
    if (input_uses_[i] > 0 && extents_[i] == Extent::kFull) raw_needed_ |= 1u << i;
  }
}

// An input that is passed on as it is, but whose memory another output takes, is read
// before anything is written.
void PointwisePlan::CopyThreatenedInputs() {
  uint32_t taken = 0;
  for (int o = 0; o < program_.num_outputs; ++o) {
    alias_[o] = 0;
    for (int i = 0; i < program_.num_inputs; ++i) {
      if (inputs_[i].data == outputs_[o]) alias_[o] |= 1u << i;
    }
    taken |= alias_[o];
  }
  for (int o = 0; o < program_.num_outputs; ++o) {
    const PointwiseArg arg = program_.outputs[o];
    if (arg.kind != PointwiseArg::kInput) continue;
    const int i = arg.index;
    if (!(taken >> i & 1) || input_values_[i].known || extents_[i] != Extent::kFull)
      continue;
    const Cell buffer = NewBuffer();
    const DType dtype = program_.inputs[i];
    Emit(kernels_.load[Index(dtype)], {static_cast<Cell>(kFirstInput + i)}, {}, {},
         buffer, 0);
    wide_ |= SizeOf(ComputeOf(dtype)) == 8;
    input_values_[i] = {buffer, false, true};
    raw_needed_ &= ~(1u << i);
  }
}

PointwisePlan::Cell PointwisePlan::NewBuffer() {
  if (num_free_ > 0) return free_[--num_free_];
  return static_cast<Cell>(kFirstBuffer + num_buffers_++);
}

void PointwisePlan::Emit(Loop loop, Value x, Value y, Value z, Cell out,
                         uint32_t elements) {
  Call& call = elements > 0 ? splat_calls_[num_splat_calls_++] : calls_[num_calls_++];
  const uint32_t splat = static_cast<uint32_t>(x.splat) |
                         static_cast<uint32_t>(y.splat) << 1 |
                         static_cast<uint32_t>(z.splat) << 2;
  call = {loop, x.cell, y.cell, z.cell, out, splat, elements};
}

PointwisePlan::Value PointwisePlan::Input(int i) {
  Value& value = input_values_[i];
  if (value.known) return value;
  const DType dtype = program_.inputs[i];
  const Cell raw = static_cast<Cell>(kFirstInput + i);
  if (extents_[i] == Extent::kScalar) {
    value = {NewSplat(), true, true};
    splats_[num_constants_++] = {
        value.cell, ComputeOf(dtype), dtype, {}, inputs_[i].data};
  } else if (IsNatural(dtype)) {
    value = {raw, false, true};
  } else {
    value = {NewBuffer(), false, true};
    Emit(kernels_.load[Index(dtype)], {raw}, {}, {}, value.cell, 0);
    raw_needed_ &= ~(1u << i);
  }
  wide_ |= SizeOf(ComputeOf(dtype)) == 8;
  return value;
}

PointwisePlan::Value PointwisePlan::Constant(int index, Compute compute) {
  const PointwiseConstant constant = program_.constants[index];
  for (int i = 0; i < num_constants_; ++i) {
    if (splats_[i].data == nullptr && splats_[i].compute == compute &&
        splats_[i].constant.i == constant.i)
      return {splats_[i].cell, true, true};
  }
  const Cell cell = NewSplat();
  splats_[num_constants_++] = {cell, compute, DType::kUnknown, constant, nullptr};
  return {cell, true, true};
}

PointwisePlan::Value PointwisePlan::Argument(PointwiseArg arg, Compute compute) {
  switch (arg.kind) {
    case PointwiseArg::kInput:
      return Input(arg.index);
    case PointwiseArg::kStep:
      return step_values_[arg.index];
    case PointwiseArg::kConstant:
      return Constant(arg.index, compute);
    default:
      return {};
  }
}

// One use less; at the last one the buffer is free and the input's memory not needed.
void PointwisePlan::Release(PointwiseArg arg) {
  if (arg.kind == PointwiseArg::kStep) {
    const Cell cell = step_values_[arg.index].cell;
    if (--step_uses_[arg.index] == 0 && IsBuffer(cell)) free_[num_free_++] = cell;
  } else if (arg.kind == PointwiseArg::kInput) {
    if (--input_uses_[arg.index] > 0) return;
    raw_needed_ &= ~(1u << arg.index);
    const Cell cell = input_values_[arg.index].cell;
    if (IsBuffer(cell)) free_[num_free_++] = cell;
  }
}

// The loop of a step, and whether it already narrows to the step's dtype.
Loop PointwisePlan::LoopOf(const PointwiseStep& step, bool* narrowed) const {
  *narrowed = IsBoolean(step.fn) || kernels_.narrow[Index(step.dtype)] == nullptr;
  if (step.fn == Fn::kCopy && !*narrowed) {
    *narrowed = true;
    return kernels_.narrow[Index(step.dtype)];
  }
  if (step.fn != Fn::kCast) return kernels_.step[Index(step.compute)][Index(step.fn)];
  if (step.dtype == DType::kBool) {
    *narrowed = true;
    return kernels_.not_zero[Index(step.from)];
  }
  if (step.from == Compute::kF64 && IsHalf(step.dtype)) return kernels_.cast_to_half;
  return kernels_.cast[Index(step.from)][Index(step.compute)];
}

// An output that can take the step's values at once, or kNone.
PointwisePlan::Cell PointwisePlan::OutputCell(int s, const PointwiseStep& step) {
  if (outputs_.empty() || !IsNatural(step.dtype)) return kNone;
  for (int o = 0; o < program_.num_outputs; ++o) {
    if (program_.outputs[o] ==
            PointwiseArg{PointwiseArg::kStep, static_cast<uint8_t>(s)} &&
        Safe(o)) {
      stored_ |= 1u << o;
      --step_uses_[s];
      return static_cast<Cell>(kFirstOutput + o);
    }
  }
  return kNone;
}

void PointwisePlan::AddStep(int s) {
  const PointwiseStep& step = program_.steps[s];
  const Compute compute = step.fn == Fn::kCast ? step.from : step.compute;
  const int arity = ArityOf(step.fn);
  Value args[3];
  bool splat = true;
  for (int a = 0; a < arity; ++a) {
    args[a] = Argument(step.args[a], compute);
    splat &= args[a].splat;
  }
  bool narrowed;
  const Loop loop = LoopOf(step, &narrowed);
  const uint32_t size = SizeOf(step.compute);
  Value& value = step_values_[s];
  wide_ |= size == 8;
  if (splat) {
    value = {NewSplat(), true, true};
    const uint32_t n = kVectorBytes / size;
    Emit(loop, args[0], args[1], args[2], value.cell, n);
    if (!narrowed)
      Emit(kernels_.narrow[Index(step.dtype)], value, {}, {}, value.cell, n);
    for (int a = 0; a < arity; ++a) Release(step.args[a]);
    return;
  }
  cost_ += CostOf(step.fn);
  // A loop may write over its argument, but only if the elements are of one size.
  const bool in_place = SizeOf(compute) == size;
  Cell out = kNone;
  if (in_place) {
    for (int a = 0; a < arity; ++a) Release(step.args[a]);
  }
  out = OutputCell(s, step);
  if (out == kNone) out = NewBuffer();
  if (!in_place) Release(step.args[0]);
  value = {out, false, true};
  Emit(loop, args[0], args[1], args[2], out, 0);
  // What only outputs read is narrowed by their stores.
  int stores = 0;
  for (int o = 0; o < program_.num_outputs && !outputs_.empty(); ++o) {
    stores += !(stored_ >> o & 1) && program_.outputs[o].kind == PointwiseArg::kStep &&
              program_.outputs[o].index == s;
  }
  if (!narrowed && step_uses_[s] > stores)
    Emit(kernels_.narrow[Index(step.dtype)], value, {}, {}, out, 0);
  for (int o = 0; o < program_.num_outputs && stores > 0; ++o) {
    if (stored_ >> o & 1 || program_.outputs[o].kind != PointwiseArg::kStep ||
        program_.outputs[o].index != s || !Safe(o))
      continue;
    Store(o, value, step.dtype);
    --stores;
  }
}

void PointwisePlan::Store(int output, Value value, DType dtype) {
  stored_ |= 1u << output;
  Emit(kernels_.store[Index(dtype)], value, {}, {},
       static_cast<Cell>(kFirstOutput + output), 0);
  Release(program_.outputs[output]);
}

// The outputs that had to wait until every input was read.
void PointwisePlan::AddOutputs() {
  for (int o = 0; o < program_.num_outputs; ++o) {
    if (stored_ >> o & 1) continue;
    const PointwiseArg arg = program_.outputs[o];
    const DType dtype = program_.DTypeOfArg(arg);
    const Value value = Argument(arg, ComputeOf(dtype));
    if (!outputs_.empty()) {
      const bool itself = arg.kind == PointwiseArg::kInput &&
                          value.cell == kFirstInput + arg.index &&
                          inputs_[arg.index].data == outputs_[o];
      if (!itself) Store(o, value, dtype);
      continue;
    }
    result_ = value.cell;
    if (value.splat) {
      result_ = NewBuffer();
      Emit(kernels_.step[Index(ComputeOf(dtype))][Index(Fn::kCopy)], value, {}, {},
           result_, 0);
    }
  }
}

void PointwisePlan::ChooseTile() {
  int broadcast = 0, streams = program_.num_outputs;
  for (int i = 0; i < program_.num_inputs; ++i) {
    if (extents_[i] == Extent::kBroadcast) ++broadcast;
    if (extents_[i] == Extent::kFull) ++streams;
    cost_ += 100;
  }
  const int buffers = num_buffers_ + broadcast;
  const int64_t size = wide_ ? 8 : 4;
  // Two thirds of an L1 cache of 32 KiB for all, and never more than the scratch.
  constexpr int64_t kTarget = 24 * 1024;
  while (tile_ > 64 && (buffers + streams) * tile_ * size > kTarget) tile_ /= 2;
}

PointwiseRunner::PointwiseRunner(const PointwisePlan& plan) : plan_(plan) {
  using Plan = PointwisePlan;
  for (int i = 0; i < plan.num_splats_; ++i) {
    cells_[Plan::kFirstSplat + i] = splats_ + i * kVectorBytes;
  }
  const int64_t stride = plan.tile_ * (plan.wide_ ? 8 : 4) + kPad;
  char* buffer = scratch_;
  for (int i = 0; i < plan.num_buffers_; ++i, buffer += stride) {
    cells_[Plan::kFirstBuffer + i] = buffer;
  }
  if (plan.broadcasts_) {
    for (int i = 0; i < plan.program_.num_inputs; ++i) {
      if (plan.extents_[i] != Extent::kBroadcast) continue;
      expand_buffers_[i] = buffer;
      expanded_[i] = -1;
      buffer += stride;
    }
  }
  for (int i = 0; i < plan.num_constants_; ++i) {
    const Plan::Splat& splat = plan.splats_[i];
    if (splat.data == nullptr) {
      FillConstant(cells_[splat.cell], splat.compute, splat.constant);
    } else {
      FillScalar(cells_[splat.cell], splat.dtype, splat.data);
    }
  }
  for (int i = 0; i < plan.num_splat_calls_; ++i) {
    const Plan::Call& call = plan.splat_calls_[i];
    call.loop(cells_[call.x], cells_[call.y], cells_[call.z], cells_[call.out],
              call.elements, call.splat);
  }
}

// Points the input's cell at its elements, copied to a buffer where they do not lie
// together. A buffer that still holds them is used again.
void PointwiseRunner::PlaceBroadcast(int input, int64_t first, int64_t n) {
  const Broadcaster& b = plan_.broadcaster_;
  const void* data = plan_.inputs_[input].data;
  const size_t size = plait::SizeOf(plan_.program_.inputs[input]);
  void*& cell = cells_[PointwisePlan::kFirstInput + input];
  int64_t offset;
  if (b.Contiguous(input, first, n, &offset)) {
    cell = const_cast<char*>(static_cast<const char*>(data)) + offset * size;
    return;
  }
  cell = expand_buffers_[input];
  const int64_t key = b.Key(input, first, n);
  if (key >= 0 && key == expanded_[input] && n <= expanded_n_[input]) return;
  b.Expand(input, data, size, first, n, cell);
  expanded_[input] = key;
  expanded_n_[input] = n;
}

void PointwiseRunner::Run(int64_t first, int64_t n) {
  using Plan = PointwisePlan;
  const PointwiseProgram& program = plan_.program_;
  for (int i = 0; i < program.num_inputs; ++i) {
    if (plan_.extents_[i] == Extent::kFull) {
      const char* data = static_cast<const char*>(plan_.inputs_[i].data);
      cells_[Plan::kFirstInput + i] =
          const_cast<char*>(data) + first * plait::SizeOf(program.inputs[i]);
    } else if (plan_.extents_[i] == Extent::kBroadcast) {
      PlaceBroadcast(i, first, n);
    }
  }
  for (size_t o = 0; o < plan_.outputs_.size(); ++o) {
    const size_t size = plait::SizeOf(program.DTypeOfArg(program.outputs[o]));
    cells_[Plan::kFirstOutput + o] =
        static_cast<char*>(plan_.outputs_[o]) + first * size;
  }
  for (int i = 0; i < plan_.num_calls_; ++i) {
    const Plan::Call& call = plan_.calls_[i];
    call.loop(cells_[call.x], cells_[call.y], cells_[call.z], cells_[call.out], n,
              call.splat);
  }
}

}  // namespace plait::cpu
