// LazyProgram: what waits, who waits for it, and appending more.

#include "run/lazy.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/pointwise.h"
#include "run/blocking_lock.h"
#include "run/push.h"

namespace plait {

namespace {

// Beyond this a program is flushed, so that memory is not held for long.
constexpr size_t kMaxHeldBytes = size_t{1} << 30;
constexpr int kOutputsOfAnOperator = 4;
// A result of this size is placed at once, so that lack of memory shows at the call.
constexpr int64_t kHugeBytes = int64_t{1} << 30;

}  // namespace

void LazyProgram::Flush() {
  const BlockingLock lock(mutex_);
  FlushLocked();
}

void LazyProgram::Forget(ArrayBody* array) noexcept {
  const BlockingLock lock(mutex_);
  if (array->pending.load(std::memory_order_relaxed) == this) Disown(array);
}

Ref<ArrayBody> LazyProgram::Share(ArrayBody* array) {
  const BlockingLock lock(mutex_);
  if (array->pending.load(std::memory_order_relaxed) != this) return nullptr;
  auto twin = MakeRef<ArrayBody>(array->shape, array->dtype, array->device);
  Own(twin.get(), array->step);
  return twin;
}

// ---------------------------------------------------------------- bookkeeping

void LazyProgram::Own(ArrayBody* body, int step) {
  body->step = step;
  if (owners_[step] == nullptr) ++live_;
  body->next_owner = owners_[step];
  owners_[step] = body;
  body->pending.store(this, std::memory_order_release);
}

void LazyProgram::Disown(ArrayBody* body) {
  ArrayBody** link = &owners_[body->step];
  while (*link != body) link = &(*link)->next_owner;
  *link = body->next_owner;
  body->next_owner = nullptr;
  if (owners_[body->step] == nullptr) --live_;
}

bool LazyProgram::SoleOwner(const ArrayBody* body) const {
  return owners_[body->step] == body && body->next_owner == nullptr;
}

int LazyProgram::FindSlot(const Chunk& chunk, int64_t offset, DType dtype,
                          const Shape& shape) const {
  for (int i = chunk.slot; i < static_cast<int>(slots_.size()); ++i) {
    const Slot& s = slots_[i];
    if (s.chunk.get() == &chunk && s.offset == offset && s.dtype == dtype &&
        s.shape == shape)
      return i;
  }
  return -1;
}

// Marks the region's chunk as in use here; false when another program holds it.
bool LazyProgram::Claim(const NDArray& x) {
  ArrayBody* body = x.body();
  if (Pending* p = body->pending.load(std::memory_order_acquire)) return p == this;
  Chunk& chunk = *body->chunk;
  Pending* holder = chunk.mark.load(std::memory_order_acquire);
  if (holder == this) {
    if (FindSlot(chunk, body->offset, body->dtype, body->shape) >= 0) return true;
  } else {
    if (holder != nullptr || !chunk.mark.compare_exchange_strong(holder, this))
      return false;
    chunk.slot = static_cast<int>(slots_.size());
  }
  slots_.push_back({body->chunk, body->offset, body->dtype, -1, -1, body->shape});
  held_bytes_ += chunk.bytes();
  return true;
}

// True when every array of the call is pending here or claimed; false when something
// was flushed, or another program holds an array, and the caller must look again.
bool LazyProgram::Prepare(const OpDef& op, std::span<const NDArray> in,
                          std::span<const NDArray> out, const Shape& space) {
  const int steps = op.fn != Fn::kCount ? 4
                    : op.large          ? kStepsOfALargeOperator
                                        : kStepsOfAnOperator;
  const int constants = op.large ? kConstantsOfALargeOperator : kConstantsOfAnOperator;
  const bool full =
      program_.num_steps + steps > PointwiseProgram::kMaxSteps ||
      program_.num_constants + constants > PointwiseProgram::kMaxConstants ||
      slots_.size() + in.size() + out.size() > PointwiseProgram::kMaxInputs ||
      live_ + kOutputsOfAnOperator > PointwiseProgram::kMaxOutputs;
  if (full || (program_.num_steps > 0 && !(space == space_))) {
    FlushLocked();
    return false;
  }
  const auto conflicts = [&](const NDArray& x, bool writes) {
    if (!x) return false;
    if (x.body()->pending.load(std::memory_order_acquire) == this) {
      // What is reduced exists only when all elements have been seen.
      return x.body()->step == kReduced || (writes && !SoleOwner(x.body()));
    }
    const Chunk& chunk = *x.body()->chunk;
    if (chunk.mark.load(std::memory_order_acquire) != this) return false;
    const int slot = FindSlot(chunk, x.body()->offset, x.dtype(), x.shape());
    if (!writes && !chunk.mark_writes.load(std::memory_order_relaxed)) return false;
    // Somebody writes this memory: there must be this region and no other.
    if (slot < 0) return true;
    for (const Slot& s : slots_) {
      if (s.chunk.get() == &chunk && &s != &slots_[slot]) return true;
    }
    // A broadcast reader looks at elements of other tiles.
    return !(x.shape() == space);
  };
  for (const NDArray& x : in) {
    if (conflicts(x, false)) {
      FlushLocked();
      return false;
    }
  }
  for (const NDArray& x : out) {
    if (conflicts(x, true)) {
      FlushLocked();
      return false;
    }
  }
  for (const NDArray& x : in) {
    if (!Claim(x)) return false;
  }
  for (const NDArray& x : out) {
    if (x && !Claim(x)) return false;
  }
  return true;
}

Pw LazyProgram::Operand(const NDArray& x) {
  ArrayBody* body = x.body();
  if (body->pending.load(std::memory_order_relaxed) == this) {
    return Pw(&program_, {PointwiseArg::kStep, static_cast<uint8_t>(body->step)},
              body->dtype);
  }
  const int index = FindSlot(*body->chunk, body->offset, body->dtype, body->shape);
  Slot& slot = slots_[index];
  if (slot.write_step >= 0) {
    return Pw(&program_, {PointwiseArg::kStep, static_cast<uint8_t>(slot.write_step)},
              slot.dtype);
  }
  if (slot.input < 0) {
    slot.input = program_.num_inputs;
    input_slot_[program_.num_inputs] = static_cast<int8_t>(index);
    program_.inputs[program_.num_inputs++] = slot.dtype;
  }
  return Pw(&program_, {PointwiseArg::kInput, static_cast<uint8_t>(slot.input)},
            slot.dtype);
}

void LazyProgram::Overwrite(ArrayBody* dest, int step) {
  if (dest->pending.load(std::memory_order_relaxed) == this) {
    Disown(dest);
    Own(dest, step);
    return;
  }
  const int index = FindSlot(*dest->chunk, dest->offset, dest->dtype, dest->shape);
  if (slots_[index].write_step < 0) ++live_;
  slots_[index].write_step = step;
  dest->chunk->mark_writes.store(true, std::memory_order_release);
}

// Gives the value to an array: a new one, or `dest`.
NDArray LazyProgram::Bind(Pw value, const NDArray* dest, Device device) {
  const bool overwrite = dest != nullptr && static_cast<bool>(*dest);
  if (overwrite) value = Cast(value, dest->dtype());
  // A value that another array has already is copied, so that each step has one place.
  const bool taken =
      value.arg().kind != PointwiseArg::kStep || owners_[value.arg().index] != nullptr;
  bool written = false;
  for (const Slot& s : slots_) {
    written |=
        value.arg().kind == PointwiseArg::kStep && s.write_step == value.arg().index;
  }
  if (taken || written) value = Call(Fn::kCopy, value);
  const int step = value.arg().index;
  if (overwrite) {
    Overwrite(dest->body(), step);
    return *dest;
  }
  auto body = MakeRef<ArrayBody>(space_, value.dtype(), device);
  Own(body.get(), step);
  return NDArray(std::move(body));
}

// ---------------------------------------------------------------- appending

namespace {

// The shape of the results: that to which the inputs broadcast, or the operator's own.
Shape SpaceOf(const OpDef& op, const Params& params, std::span<const NDArray> in) {
  Check(!in.empty(), ErrorKind::kType, op.name,
        ": no array is given; at least one was expected");
  bool equal = in.size() > 1 || !op.infer;
  for (const NDArray& x : in.subspan(1)) equal &= x.shape() == in[0].shape();
  if (equal) return in[0].shape();
  if (op.infer) {
    Specs specs, out(op.CountOutputs(params));
    for (const NDArray& x : in) specs.push_back({x.shape(), x.dtype()});
    if (!op.infer(params.get(), specs, out)) {
      const auto other = std::find_if(in.begin(), in.end() - 1, [&](const NDArray& x) {
        return !(x.shape() == in[0].shape());
      });
      Fail(ErrorKind::kValue, op.name, ": shapes ", in[0].shape(), " and ",
           other->shape(), " do not fit together; equal shapes were expected");
    }
    if (in.size() == 1) return out[0].shape;
  }
  Shape space = in[0].shape();
  for (const NDArray& x : in.subspan(1))
    space = Broadcast(space, x.shape(), op.name.c_str());
  for (int i : op.mutates) {
    Check(in[i].shape() == space, op.name, ": input ", i, " of shape ", in[i].shape(),
          " is updated; the shape ", space, " was expected");
  }
  return space;
}

// Flushes another program that holds x; true if there was one. One program marks a
// chunk at a time, so another's reads are flushed too.
bool FlushElsewhere(const NDArray& x, const Pending* mine) {
  if (!x) return false;
  Pending* p = x.body()->pending.load(std::memory_order_acquire);
  if (p == nullptr) p = x.body()->chunk->mark.load(std::memory_order_acquire);
  if (p == nullptr || p == mine) return false;
  p->Flush();
  return true;
}

// Both lie in one chunk and are not the same region.
bool Overlap(const NDArray& x, const NDArray& y) {
  if (x.body() == y.body() || x.body()->chunk == nullptr) return false;
  if (x.body()->chunk != y.body()->chunk || !x.SharesMemory(y)) return false;
  return x.body()->offset != y.body()->offset || !(x.shape() == y.shape()) ||
         x.dtype() != y.dtype();
}

}  // namespace

Arrays LazyProgram::Append(const OpDef& op, const Params& params,
                           std::span<const NDArray> in, std::span<const NDArray> out) {
  const Shape space = SpaceOf(op, params, in);
  for (const NDArray& dest : out) {
    if (!dest) continue;
    Check(dest.shape() == space, op.name, ": out has shape ", dest.shape(), "; shape ",
          space, " was expected");
    for (const NDArray& x : in) {
      if (Overlap(dest, x)) return AppendApart(op, params, in, out);
    }
  }
  SmallVector<NDArray, 4> written;
  for (const NDArray& dest : out) written.push_back(dest);
  for (int i : op.mutates) written.push_back(in[i]);

  for (;;) {
    // Other programs first, and without holding our lock: they may look at us too.
    bool again = false;
    for (const NDArray& x : in) again |= FlushElsewhere(x, this);
    for (const NDArray& x : written) again |= FlushElsewhere(x, this);
    if (again) continue;

    const BlockingLock lock(mutex_);
    if (!Prepare(op, in, written, space)) continue;
    space_ = space;
    SmallVector<Pw, 4> operands;
    for (const NDArray& x : in) operands.push_back(Operand(x));
    Arrays results = AppendSteps(op, params, operands, in, out);
    const bool full = held_bytes_ > kMaxHeldBytes || space_.size() * 4 > kHugeBytes;
    if (full || (Cost() > kInlineNanoseconds && WaitsTooLong())) {
      FlushLocked();
      // No memory shows here, where it was asked for.
      for (const NDArray& y : results) {
        if (y.body()->pending.load(std::memory_order_acquire) != nullptr) {
          y.body()->Materialize();
        }
      }
    }
    return results;
  }
}

Arrays LazyProgram::AppendSteps(const OpDef& op, const Params& params,
                                std::span<const Pw> operands,
                                std::span<const NDArray> in,
                                std::span<const NDArray> out) {
  const Device device = in[0].device();
  const auto dest = [&](size_t i) { return i < out.size() ? &out[i] : nullptr; };
  Arrays results;
  if (op.fn != Fn::kCount) {
    results.push_back(Bind(Call(op.fn, operands), dest(0), device));
    return results;
  }
  PwCall call(operands);
  op.pointwise(params.get(), call);
  // Updates see values from before any of them: all are bound at the end.
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    results.push_back(Bind(call.outputs[i], dest(i), device));
  }
  for (const PwCall::InputUpdate& update : call.updates) {
    Bind(update.value, &in[update.input], device);
  }
  return results;
}

NDArray LazyProgram::AppendReduction(const OpDef& op, const Params& params,
                                     const NDArray& x, const Spec& y) {
  constexpr int kMaxSteps = 4, kMaxConstants = 2;
  if (x.body()->pending.load(std::memory_order_acquire) != this) return {};
  const BlockingLock lock(mutex_);
  const int step = x.body()->step;
  if (x.body()->pending.load(std::memory_order_relaxed) != this || step == kReduced ||
      owners_[kReduced] != nullptr || space_.size() == 0 ||
      program_.num_steps + kMaxSteps > PointwiseProgram::kMaxSteps ||
      program_.num_constants + kMaxConstants > PointwiseProgram::kMaxConstants ||
      live_ == PointwiseProgram::kMaxOutputs)
    return {};
  reduction_ = {.dtype = y.dtype};
  const Pw value(&program_, {PointwiseArg::kStep, static_cast<uint8_t>(step)},
                 x.dtype());
  reduced_ = op.reduce(params.get(), value, space_, reduction_).arg();
  auto body = MakeRef<ArrayBody>(y.shape, y.dtype, x.device());
  Own(body.get(), kReduced);
  const NDArray result(std::move(body));
  if (Cost() > kInlineNanoseconds && WaitsTooLong()) FlushLocked();
  return result;
}

// The outputs overlap inputs: computes them elsewhere, then copies.
Arrays LazyProgram::AppendApart(const OpDef& op, const Params& params,
                                std::span<const NDArray> in,
                                std::span<const NDArray> out) {
  Arrays results = Append(op, params, in, {});
  Flush();
  static const OpDef& copy = GetOp("_copy");
  for (size_t i = 0; i < results.size() && i < out.size(); ++i) {
    if (out[i])
      results[i] = Append(copy, *copy.defaults, {&results[i], 1}, {&out[i], 1})[0];
  }
  return results;
}

}  // namespace plait
