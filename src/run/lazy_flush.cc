// LazyProgram: turning what waits into one engine operation.

#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <memory>
#include <utility>

#include "base/options.h"
#include "cpu/pointwise.h"
#include "engine/engine.h"
#include "graph/fused.h"
#include "run/lazy.h"
#include "run/push.h"

namespace plait {

namespace {

// What an array waits for whose value found no memory: whoever wants it gets the error.
class Unplaced final : public Pending {
 public:
  Unplaced(std::exception_ptr error, size_t bodies) : error_(error), bodies_(bodies) {}
  void Flush() override { std::rethrow_exception(error_); }
  void Forget(ArrayBody*) noexcept override {
    if (bodies_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  const std::exception_ptr error_;
  std::atomic<size_t> bodies_;
};

using Targets = SmallVector<void*, 4>;

void RunProgram(const PointwiseProgram& program, const Shape& space,
                std::span<const cpu::PointwiseInput> inputs, const Targets& targets,
                const PointwiseReduction* reduction) {
  if (reduction == nullptr) {
    cpu::RunPointwise(program, space, inputs, targets);
    return;
  }
  const std::span<void* const> stored(targets.begin(), targets.size() - 1);
  cpu::ReducePointwise(program, space, inputs, stored, *reduction, targets.end()[-1]);
}

// Gives defined values to the outputs of a program that did not run.
void FillAll(const SmallVector<LazyOutput, 4>& outputs, const Targets& targets) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    FillFailed(targets[i], outputs[i].dtype, outputs[i].size);
  }
}

// A flushed program on its way through the engine.
class LazyOperation final : public Operation {
 public:
  PointwiseProgram program;
  Shape space;
  SmallVector<Ref<Chunk>, 8> input_chunks;
  SmallVector<Shape, 8> shapes;
  SmallVector<cpu::PointwiseInput, 8> inputs;
  SmallVector<LazyOutput, 4> outputs;
  Targets targets;
  bool reduces = false;
  PointwiseReduction reduction;
  std::string layer_name;

  void Run() override {
    RunProgram(program, space, inputs, targets, reduces ? &reduction : nullptr);
  }
  void Abandon() noexcept override { FillAll(outputs, targets); }
  const char* name() const override { return "pointwise"; }
  const char* layer() const override { return layer_name.c_str(); }
};

// One line about a program that is flushed, for PLAIT_VERBOSE.
void Tell(const PointwiseProgram& p, const Shape& space,
          const SmallVector<LazyOutput, 4>& outputs, bool reduces) {
  std::cerr << "plait: pointwise";
  for (int i = 0; i < p.num_steps; ++i) std::cerr << ' ' << Info(p.steps[i].fn).name;
  std::cerr << " on " << space << ", " << int{p.num_inputs} << " inputs, "
            << outputs.size() - (reduces ? 1 : 0) << " outputs";
  if (reduces) std::cerr << ", reduced to " << outputs.end()[-1].size;
  std::cerr << '\n';
}

void AddOnce(SmallVector<Var*, 8>& vars, Var* var) {
  if (std::find(vars.begin(), vars.end(), var) == vars.end()) vars.push_back(var);
}

void* PlaceOf(const LazyOutput& out) {
  return static_cast<char*>(out.chunk->data()) + out.offset;
}

}  // namespace

// Takes the arrays that wait for a step out of its list.
SmallVector<ArrayBody*, 2> LazyProgram::TakeOwners(int step) {
  SmallVector<ArrayBody*, 2> bodies;
  for (ArrayBody* b = owners_[step]; b != nullptr;) {
    bodies.push_back(b);
    b = std::exchange(b->next_owner, nullptr);
  }
  owners_[step] = nullptr;
  return bodies;
}

// Finds memory for what a step's arrays wait for. The arrays know it from here on, but
// nobody can read it before the push, as `pending` and the marks are still there.
// Arrays that find none keep the error; all others get their values.
void LazyProgram::PlaceOwners(int step, PointwiseArg value, Outputs& outputs,
                              Bodies& placed) {
  if (owners_[step] == nullptr) return;
  const DType dtype = owners_[step]->dtype;
  const Device device = owners_[step]->device;
  const int64_t size = owners_[step]->shape.size();
  const SmallVector<ArrayBody*, 2> bodies = TakeOwners(step);
  Ref<Chunk> chunk;
  try {
    chunk = Chunk::New(device, size * SizeOf(dtype));
  } catch (const Error&) {
    auto* refused = new Unplaced(std::current_exception(), bodies.size());
    for (ArrayBody* b : bodies) b->pending.store(refused, std::memory_order_release);
    return;
  }
  for (ArrayBody* b : bodies) {
    b->Place(chunk);
    placed.push_back(b);
  }
  program_.outputs[program_.num_outputs++] = value;
  outputs.push_back({std::move(chunk), 0, dtype, size, true});
}

void LazyProgram::Place(Outputs& outputs, Bodies& placed) {
  PointwiseProgram& p = program_;
  const auto step = [](int i) {
    return PointwiseArg{PointwiseArg::kStep, static_cast<uint8_t>(i)};
  };
  p.num_outputs = 0;
  for (Slot& slot : slots_) {
    if (slot.write_step < 0) continue;
    p.outputs[p.num_outputs++] = step(slot.write_step);
    outputs.push_back({slot.chunk, slot.offset, slot.dtype, space_.size(), false});
  }
  for (int i = 0; i < p.num_steps; ++i) PlaceOwners(i, step(i), outputs, placed);
  const size_t stored = outputs.size();
  PlaceOwners(kReduced, reduced_, outputs, placed);  // last, as a reduction must be
  reduces_ = outputs.size() > stored;
}

void LazyProgram::Reset() {
  for (Slot& slot : slots_) {
    slot.chunk->mark_writes.store(false, std::memory_order_relaxed);
    slot.chunk->mark.store(nullptr, std::memory_order_release);
  }
  slots_.clear();
  program_.num_inputs = program_.num_constants = program_.num_steps = 0;
  program_.num_outputs = 0;
  held_bytes_ = 0;
  live_ = 0;
  waiting_since_.store(0, std::memory_order_relaxed);
}

void LazyProgram::FlushLocked() {
  if (slots_.empty() && program_.num_steps == 0) return;
  Outputs outputs;
  Bodies placed;
  Place(outputs, placed);
  if (!outputs.empty() && space_.size() > 0) {
    PruneProgram(program_);
    PushProgram(outputs);
  }
  for (ArrayBody* b : placed) b->pending.store(nullptr, std::memory_order_release);
  Reset();
}

void LazyProgram::PushProgram(const Outputs& outputs) {
  static const bool verbose = GetOptionInt(Option::kVerbose) != 0;
  const PointwiseProgram& p = program_;
  if (verbose) [[unlikely]]
    Tell(p, space_, outputs, reduces_);
  SmallVector<cpu::PointwiseInput, 8> inputs;
  Targets targets;
  SmallVector<Var*, 8> reads, writes, fresh;
  for (int i = 0; i < p.num_inputs; ++i) {
    const Slot& s = slots_[input_slot_[i]];
    inputs.push_back({static_cast<char*>(s.chunk->data()) + s.offset, &s.shape});
    if (s.write_step < 0) AddOnce(reads, &s.chunk->var());
  }
  for (const LazyOutput& out : outputs) {
    targets.push_back(PlaceOf(out));
    (out.fresh ? fresh : writes).push_back(&out.chunk->var());
  }
  Engine& engine = Engine::Get();
  if (Cost() <= kInlineNanoseconds && engine.TryBegin(reads, writes)) {
    const InlineTimer timer("pointwise");
    try {
      RunProgram(p, space_, inputs, targets, reduces_ ? &reduction_ : nullptr);
    } catch (...) {  // lack of memory only
      FillAll(outputs, targets);
      engine.EndFailed(reads, writes,
                       Describe(std::current_exception(), "pointwise", ""));
      return;
    }
    engine.End(reads, writes);
    return;
  }
  auto op = std::make_unique<LazyOperation>();
  op->program = p;
  op->space = space_;
  op->shapes.reserve(p.num_inputs);
  for (int i = 0; i < p.num_inputs; ++i) {
    const Slot& s = slots_[input_slot_[i]];
    op->input_chunks.push_back(s.chunk);
    op->shapes.push_back(s.shape);
    op->inputs.push_back({inputs[i].data, &op->shapes[i]});
  }
  op->targets = targets;
  op->outputs = outputs;
  op->reduces = reduces_;
  op->reduction = reduction_;
  for (const LazyOutput& out : outputs) {
    op->bytes += static_cast<size_t>(out.size) * SizeOf(out.dtype);
  }
  op->layer_name = CurrentLayer();
  for (Var* v : fresh) writes.push_back(v);
  engine.Push(std::move(op), reads, writes);
}

}  // namespace plait
