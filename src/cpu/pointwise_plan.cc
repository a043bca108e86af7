// Planning: dead steps out, cells given, stores placed as early as aliasing allows.

#include "cpu/pointwise_plan.h"

#include <algorithm>
#include <array>
#include <bit>

namespace plait::cpu {
namespace {

constexpr bool IsBoolean(Fn fn) {
  return (fn >= Fn::kEqual && fn <= Fn::kLogicalXor) || fn == Fn::kLogicalNot ||
         (fn >= Fn::kIsNan && fn <= Fn::kIsFinite);
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

// A step's rough time in picoseconds an element, for float32.
constexpr uint16_t CostOf(Fn fn) {
  switch (fn) {
    case Fn::kCbrt:
    case Fn::kRcbrt:
    case Fn::kErfinv:
    case Fn::kGamma:
    case Fn::kGammaln:
    case Fn::kDigamma:
      return 10000;
    case Fn::kMod:
    case Fn::kPower:
    case Fn::kArctan2:
      return 1000;
    default:
      return fn >= Fn::kExp && fn <= Fn::kSoftrelu ? 400 : 25;
  }
}

struct FnFacts {
  uint8_t arity;
  bool boolean;
  uint16_t cost;
};
constexpr auto kFacts = [] {
  std::array<FnFacts, kNumFns> facts{};
  for (int i = 0; i < kNumFns; ++i) {
    const Fn fn = static_cast<Fn>(i);
    facts[i].arity = fn == Fn::kWhere ? 3 : fn >= Fn::kAdd ? 2 : 1;
    facts[i].boolean = IsBoolean(fn);
    facts[i].cost = CostOf(fn);
  }
  return facts;
}();
const FnFacts& FactsOf(Fn fn) {
  return kFacts[static_cast<int>(fn)];
}

// The pair of two functions, of which the first gives the second one's left or right
// argument; false where there is none.
inline bool FindPair(Fn first, Fn second, bool left, PairFirst* pair_first,
                     PairSecond* pair_second) {
  if (first < Fn::kAdd || first > Fn::kMul || second < Fn::kAdd || second > Fn::kMul)
    return false;
  *pair_first = first == Fn::kAdd   ? PairFirst::kAdd
                : first == Fn::kSub ? PairFirst::kSub
                                    : PairFirst::kMul;
  *pair_second = second == Fn::kAdd   ? PairSecond::kAdd
                 : second == Fn::kMul ? PairSecond::kMul
                 : left               ? PairSecond::kSub
                                      : PairSecond::kSubFrom;
  return true;
}

}  // namespace

// A copy of floats needs no loop of its own where what it copies is exact, since loads
// widen and stores round: its readers read its source. A copy that rounds stays where
// something else than a store reads it.
void PointwisePlan::FindCopies() {
  uint64_t read = 0;  // bit s: not by stores alone
  const auto mark = [&read](PointwiseArg arg) {
    if (arg.kind == PointwiseArg::kStep) read |= uint64_t{1} << arg.index;
  };
  for (int s = 0; s < program_.num_steps; ++s) {
    const PointwiseStep& step = program_.steps[s];
    for (int a = 0; a < FactsOf(step.fn).arity; ++a) mark(step.args[a]);
  }
  for (int o = num_stored(); o < program_.num_outputs; ++o) mark(program_.outputs[o]);
  for (int s = 0; s < program_.num_steps; ++s) {
    const PointwiseStep& step = program_.steps[s];
    sources_[s] = {};
    if (!IsCopy(step) || (!IsNatural(step.dtype) && (read >> s & 1))) continue;
    const PointwiseArg source = Resolve(step.args[0]);
    if (source.kind == PointwiseArg::kInput ||
        (source.kind == PointwiseArg::kStep &&
         IsNatural(program_.steps[source.index].dtype)))
      sources_[s] = source;
  }
}

// Only what an output needs is counted: dead steps have no uses.
void PointwisePlan::CountUses() {
  for (int i = 0; i < program_.num_inputs; ++i) input_uses_[i] = 0;
  for (int s = 0; s < program_.num_steps; ++s) {
    step_uses_[s] = 0, outputs_of_[s] = 0;
    copies_ |= IsCopy(program_.steps[s]);
  }
  if (copies_) [[unlikely]]
    FindCopies();
  const auto use = [this](PointwiseArg arg) {
    arg = Resolve(arg);
    if (arg.kind == PointwiseArg::kStep) ++step_uses_[arg.index];
    if (arg.kind == PointwiseArg::kInput) ++input_uses_[arg.index];
  };
  for (int o = 0; o < program_.num_outputs; ++o) {
    const PointwiseArg arg = Resolve(program_.outputs[o]);
    use(arg);
    if (arg.kind == PointwiseArg::kStep && o < num_stored())
      outputs_of_[arg.index] |= 1u << o;
  }
  for (int s = program_.num_steps - 1; s >= 0; --s) {
    if (step_uses_[s] == 0) continue;
    const PointwiseStep& step = program_.steps[s];
    for (int a = 0, arity = FactsOf(step.fn).arity; a < arity; ++a) use(step.args[a]);
  }
  for (int i = 0; i < program_.num_inputs; ++i) {
    if (input_uses_[i] > 0 && extents_[i] == Extent::kFull) raw_needed_ |= 1u << i;
  }
}

// An input that is passed on as it is, but whose memory another output takes, is read
// before anything is written.
void PointwisePlan::CopyThreatenedInputs() {
  uint32_t taken = 0;
  for (int o = 0; o < num_stored(); ++o) {
    alias_[o] = 0;
    for (int i = 0; i < program_.num_inputs; ++i) {
      if (inputs_[i].data == outputs_[o]) alias_[o] |= 1u << i;
    }
    taken |= alias_[o];
  }
  if (taken == 0) return;
  for (int o = 0; o < program_.num_outputs; ++o) {
    const PointwiseArg arg = Resolve(program_.outputs[o]);
    if (arg.kind != PointwiseArg::kInput) continue;
    const int i = arg.index;
    if (!(taken >> i & 1) || input_cells_[i] != kNone || extents_[i] != Extent::kFull)
      continue;
    const DType dtype = program_.inputs[i];
    wide_ |= SizeOf(ComputeOf(dtype)) == 8;
    input_cells_[i] = NewBuffer();
    Emit(kernels_.load[Index(dtype)], static_cast<Cell>(kFirstInput + i), kNone, kNone,
         input_cells_[i]);
    raw_needed_ &= ~(1u << i);
  }
}

[[gnu::always_inline]] inline PointwisePlan::Cell PointwisePlan::NewBuffer() {
  if (num_free_ > 0) return free_[--num_free_];
  return static_cast<Cell>(kFirstBuffer + num_buffers_++);
}

[[gnu::always_inline]] inline void PointwisePlan::Emit(Loop loop, Cell x, Cell y,
                                                       Cell z, Cell out) {
  const uint32_t splat = x >> 15 | y >> 15 << 1 | z >> 15 << 2;
  calls_[num_calls_++] = {loop, Plain(x), Plain(y), Plain(z), out, splat, 0};
}

void PointwisePlan::EmitSplat(Loop loop, const Cell* args, Cell out,
                              uint32_t elements) {
  splat_calls_[num_splat_calls_++] = {
      loop, Plain(args[0]), Plain(args[1]), Plain(args[2]), Plain(out), 7, elements};
}

PointwisePlan::Cell PointwisePlan::Input(int i) {
  const DType dtype = program_.inputs[i];
  const Cell raw = static_cast<Cell>(kFirstInput + i);
  wide_ |= SizeOf(ComputeOf(dtype)) == 8;
  Cell cell = raw;
  if (extents_[i] == Extent::kScalar) {
    cell = NewSplat();
    splats_[num_constants_++] = {
        Plain(cell), ComputeOf(dtype), dtype, {}, inputs_[i].data};
  } else if (!IsNatural(dtype)) {
    cell = NewBuffer();
    Emit(kernels_.load[Index(dtype)], raw, kNone, kNone, cell);
    raw_needed_ &= ~(1u << i);
  }
  return input_cells_[i] = cell;
}

PointwisePlan::Cell PointwisePlan::Constant(int index, Compute compute) {
  const PointwiseConstant constant = program_.constants[index];
  for (int i = 0; i < num_constants_; ++i) {
    if (splats_[i].data == nullptr && splats_[i].compute == compute &&
        splats_[i].constant.i == constant.i)
      return splats_[i].cell | kSplatBit;
  }
  const Cell cell = NewSplat();
  splats_[num_constants_++] = {Plain(cell), compute, DType::kUnknown, constant,
                               nullptr};
  return cell;
}

[[gnu::always_inline]] inline PointwisePlan::Cell PointwisePlan::Argument(
    PointwiseArg arg, Compute compute) {
  if (arg.kind == PointwiseArg::kStep) return step_cells_[arg.index];
  if (arg.kind == PointwiseArg::kInput) {
    const Cell cell = input_cells_[arg.index];
    return cell != kNone ? cell : Input(arg.index);
  }
  return Constant(arg.index, compute);
}

// One use less; at the last one the buffer is free and the input's memory not needed.
[[gnu::always_inline]] inline void PointwisePlan::Release(PointwiseArg arg) {
  if (arg.kind == PointwiseArg::kStep) {
    const Cell cell = step_cells_[arg.index];
    if (--step_uses_[arg.index] == 0 && IsBuffer(cell)) free_[num_free_++] = cell;
  } else if (arg.kind == PointwiseArg::kInput) {
    if (--input_uses_[arg.index] > 0) return;
    raw_needed_ &= ~(1u << arg.index);
    const Cell cell = input_cells_[arg.index];
    if (IsBuffer(cell)) free_[num_free_++] = cell;
  }
}

// Of floats, the whole exponents that are one operation; those are exact.
Loop PointwisePlan::PowerLoop(const PointwiseStep& step) const {
  Fn fn = Fn::kPower;
  if (step.args[1].kind == PointwiseArg::kConstant && step.compute <= Compute::kF64) {
    const double exponent = program_.constants[step.args[1].index].f;
    if (exponent == 1) fn = Fn::kCopy;
    if (exponent == 2) fn = Fn::kSquare;
    if (exponent == -1) fn = Fn::kReciprocal;
  }
  return kernels_.step[Index(step.compute)][Index(fn)];
}

// The loop of a step, and whether it already narrows to the step's dtype.
[[gnu::always_inline]] inline Loop PointwisePlan::LoopOf(const PointwiseStep& step,
                                                         bool* narrowed) const {
  const Loop narrow = kernels_.narrow[Index(step.dtype)];
  *narrowed = narrow == nullptr || FactsOf(step.fn).boolean;
  if (step.fn == Fn::kPower) return PowerLoop(step);
  if (step.fn > Fn::kCast) return kernels_.step[Index(step.compute)][Index(step.fn)];
  if (step.fn == Fn::kCopy) {
    if (*narrowed) return kernels_.step[Index(step.compute)][Index(step.fn)];
    *narrowed = true;
    return narrow;
  }
  if (step.dtype == DType::kBool) {
    *narrowed = true;
    return kernels_.not_zero[Index(step.from)];
  }
  if (step.from == Compute::kF64 && IsHalf(step.dtype)) return kernels_.cast_to_half;
  return kernels_.cast[Index(step.from)][Index(step.compute)];
}

// An output that can take the step's values at once, or else a buffer.
[[gnu::always_inline]] inline PointwisePlan::Cell PointwisePlan::OutputCell(
    int s, const PointwiseStep& step) {
  if (outputs_of_[s] != 0 && IsNatural(step.dtype)) {
    const int o = std::countr_zero(outputs_of_[s]);
    if (Safe(o) && program_.DTypeOfArg(program_.outputs[o]) == step.dtype) {
      stored_ |= 1u << o;
      outputs_of_[s] &= ~(1u << o);
      --step_uses_[s];
      return static_cast<Cell>(kFirstOutput + o);
    }
  }
  return NewBuffer();
}

[[gnu::always_inline]] inline void PointwisePlan::AddStep(int s) {
  PointwiseStep resolved;
  const PointwiseStep& step =
      copies_ ? resolved = Resolved(program_.steps[s]) : program_.steps[s];
  const bool cast = step.fn == Fn::kCast;
  const Compute compute = cast ? step.from : step.compute;
  const FnFacts facts = FactsOf(step.fn);
  const int arity = facts.arity;
  const Cell x = Argument(step.args[0], compute);
  const Cell y = arity > 1 ? Argument(step.args[1], compute) : kNone;
  const Cell z = arity > 2 ? Argument(step.args[2], compute) : kNone;
  const uint32_t size = SizeOf(step.compute);
  wide_ |= size == 8;
  if (IsSplat(x) && (arity < 2 || IsSplat(y)) && (arity < 3 || IsSplat(z)))
      [[unlikely]] {
    const Cell args[] = {x, y, z};
    AddSplatStep(step, args, &step_cells_[s]);
    for (int a = 0; a < arity; ++a) Release(step.args[a]);
    return;
  }
  cost_ += facts.cost;
  // A loop may write over its argument, but only if the elements are of one size.
  const bool in_place = !cast || SizeOf(compute) == size;
  if (in_place) {
    Release(step.args[0]);
    if (arity > 1) Release(step.args[1]);
    if (arity > 2) Release(step.args[2]);
  }
  const Cell out = step_cells_[s] = OutputCell(s, step);
  if (!in_place) Release(step.args[0]);
  bool narrowed;
  const Loop loop = LoopOf(step, &narrowed);
  if (arity != 2 || !narrowed || !JoinLast(step, x, y, out)) {
    Emit(loop, x, y, z, out);
    if (arity == 2 && narrowed) last_step_ = s, last_step_calls_ = num_calls_;
  }
  // What only outputs read is narrowed by their stores.
  if (!narrowed && step_uses_[s] > std::popcount(outputs_of_[s]))
    Emit(kernels_.narrow[Index(step.dtype)], out, kNone, kNone, out);
  if (outputs_of_[s] != 0) AddStores(s);
}

// Makes one call of the last one and the step, if only the step reads its result.
[[gnu::always_inline]] inline bool PointwisePlan::JoinLast(const PointwiseStep& step,
                                                           Cell x, Cell y, Cell out) {
  if (last_step_ < 0 || last_step_calls_ != num_calls_) return false;
  const PointwiseStep& last = program_.steps[last_step_];
  if (last.compute != step.compute || step.compute > Compute::kF64) return false;
  const PointwiseArg t{PointwiseArg::kStep, static_cast<uint8_t>(last_step_)};
  const bool left = step.args[0] == t;
  if (left == (step.args[1] == t) || step_uses_[last_step_] > 0 ||
      !IsBuffer(step_cells_[last_step_]))
    return false;
  PairFirst first;
  PairSecond second;
  if (!FindPair(last.fn, step.fn, left, &first, &second)) return false;
  const Loop loop =
      kernels_
          .pair[Index(step.compute)][static_cast<int>(first)][static_cast<int>(second)];
  if (loop == nullptr) return false;
  Call& call = calls_[num_calls_ - 1];
  const Cell z = left ? y : x;
  call = {loop, call.x, call.y, Plain(z), out, call.splat | z >> 15 << 2, 0};
  last_step_ = -1;
  return true;
}

// All arguments are splats, so the result is one too, made once for each runner.
void PointwisePlan::AddSplatStep(const PointwiseStep& step, const Cell* args,
                                 Cell* result) {
  bool narrowed;
  const Loop loop = LoopOf(step, &narrowed);
  const uint32_t n = kVectorBytes / SizeOf(step.compute);
  const Cell out = *result = NewSplat();
  EmitSplat(loop, args, out, n);
  const Cell again[] = {out, kNone, kNone};
  if (!narrowed) EmitSplat(kernels_.narrow[Index(step.dtype)], again, out, n);
}

// The outputs of a step that are not threatened by a later read of their memory.
void PointwisePlan::AddStores(int s) {
  for (uint32_t rest = outputs_of_[s]; rest != 0; rest &= rest - 1) {
    const int o = std::countr_zero(rest);
    if (Safe(o)) Store(o, step_cells_[s], program_.DTypeOfArg(program_.outputs[o]));
  }
}

void PointwisePlan::Store(int output, Cell value, DType dtype) {
  stored_ |= 1u << output;
  Emit(kernels_.store[Index(dtype)], value, kNone, kNone,
       static_cast<Cell>(kFirstOutput + output));
  Release(Resolve(program_.outputs[output]));
}

// The outputs that had to wait until every input was read.
void PointwisePlan::AddOutputs() {
  for (int o = 0; o < program_.num_outputs; ++o) {
    if (stored_ >> o & 1) continue;
    const PointwiseArg arg = Resolve(program_.outputs[o]);
    const DType dtype = program_.DTypeOfArg(program_.outputs[o]);
    const Cell value = Argument(arg, ComputeOf(dtype));
    if (o < num_stored()) {
      const bool itself = arg.kind == PointwiseArg::kInput &&
                          value == kFirstInput + arg.index &&
                          inputs_[arg.index].data == outputs_[o];
      if (!itself) Store(o, value, dtype);
      continue;
    }
    result_ = value;
    if (IsSplat(value)) {
      result_ = NewBuffer();
      Emit(kernels_.step[Index(ComputeOf(dtype))][Index(Fn::kCopy)], value, kNone,
           kNone, result_);
    }
  }
}

void PointwisePlan::ChooseTile() {
  int broadcast = 0, streams = program_.num_outputs;
  for (int i = 0; i < program_.num_inputs; ++i) {
    if (extents_[i] == Extent::kBroadcast) ++broadcast;
    if (extents_[i] == Extent::kFull) {
      ++streams;
      bytes_ += static_cast<int64_t>(plait::SizeOf(program_.inputs[i]));
    }
    cost_ += 40;
  }
  const int buffers = num_buffers_ + broadcast;
  const int64_t size = wide_ ? 8 : 4;
  // Two thirds of an L1 cache of 32 KiB for all, and never more than the scratch.
  constexpr int64_t kTarget = 24 * 1024;
  while (tile_ > 64 && (buffers + streams) * tile_ * size > kTarget) tile_ /= 2;
}

PointwisePlan::PointwisePlan(const PointwiseProgram& program, const Shape& space,
                             std::span<const PointwiseInput> inputs,
                             std::span<void* const> outputs)
    : program_(program), inputs_(inputs), outputs_(outputs), kernels_(GetKernels()) {
  for (int i = 0; i < program.num_inputs; ++i) {
    extents_[i] = ExtentOf(*inputs[i].shape, space);
    broadcasts_ |= extents_[i] == Extent::kBroadcast;
    input_cells_[i] = kNone;
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

}  // namespace plait::cpu
