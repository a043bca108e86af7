// LazyProgram: turning what waits into one engine operation.

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "cpu/pointwise.h"
#include "engine/engine.h"
#include "run/lazy.h"
#include "run/push.h"

namespace plait {

namespace {

// Time of a step for one element in nanoseconds on one thread, for the inline decision.
constexpr double kStepNanoseconds = 0.03, kLoadNanoseconds = 0.03;

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

// A flushed program on its way through the engine.
class LazyOperation final : public Operation {
 public:
  PointwiseProgram program;
  Shape space;
  SmallVector<Ref<Chunk>, 8> input_chunks;
  SmallVector<Shape, 8> shapes;
  SmallVector<cpu::PointwiseInput, 8> inputs;
  SmallVector<LazyOutput, 4> outputs;
  SmallVector<void*, 4> targets;
  std::string layer_name;

  void Run() override { cpu::RunPointwise(program, space, inputs, targets); }
  void Abandon() noexcept override {
    for (size_t i = 0; i < outputs.size(); ++i) {
      FillFailed(targets[i], outputs[i].dtype, space.size());
    }
  }
  const char* name() const override { return "pointwise"; }
  const char* layer() const override { return layer_name.c_str(); }
};

void AddOnce(SmallVector<Var*, 8>& vars, Var* var) {
  if (std::find(vars.begin(), vars.end(), var) == vars.end()) vars.push_back(var);
}

void* PlaceOf(const LazyOutput& out) {
  return static_cast<char*>(out.chunk->data()) + out.offset;
}

// Drops steps that no output needs. Steps only look back, so one backward sweep marks
// and one forward sweep moves.
void Prune(PointwiseProgram& p) {
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

// Finds memory for what the flush writes. The arrays know it from here on, but nobody
// can read it before the push, as `pending` and the marks are still there. Arrays that
// find none keep the error; all others get their values.
void LazyProgram::Place(SmallVector<LazyOutput, 4>& outputs,
                        SmallVector<ArrayBody*, 8>& placed) {
  PointwiseProgram& p = program_;
  p.num_outputs = 0;
  const auto add = [&](int step, LazyOutput output) {
    p.outputs[p.num_outputs++] = {PointwiseArg::kStep, static_cast<uint8_t>(step)};
    outputs.push_back(std::move(output));
  };
  for (Slot& slot : slots_) {
    if (slot.write_step < 0) continue;
    add(slot.write_step, {slot.chunk, slot.offset, slot.dtype, false});
  }
  for (int i = 0; i < p.num_steps; ++i) {
    if (owners_[i] == nullptr) continue;
    const DType dtype = p.steps[i].dtype;
    const Device device = owners_[i]->device;
    const SmallVector<ArrayBody*, 2> bodies = TakeOwners(i);
    Ref<Chunk> chunk;
    try {
      chunk = Chunk::New(device, space_.size() * SizeOf(dtype));
    } catch (const Error&) {
      auto* refused = new Unplaced(std::current_exception(), bodies.size());
      for (ArrayBody* b : bodies) b->pending.store(refused, std::memory_order_release);
      continue;
    }
    for (ArrayBody* b : bodies) {
      b->Place(chunk);
      placed.push_back(b);
    }
    add(i, {std::move(chunk), 0, dtype, true});
  }
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
}

void LazyProgram::FlushLocked() {
  if (slots_.empty() && program_.num_steps == 0) return;
  SmallVector<LazyOutput, 4> outputs;
  SmallVector<ArrayBody*, 8> placed;
  Place(outputs, placed);
  if (!outputs.empty() && space_.size() > 0) {
    Prune(program_);
    PushProgram(outputs);
  }
  for (ArrayBody* b : placed) b->pending.store(nullptr, std::memory_order_release);
  Reset();
}

void LazyProgram::PushProgram(const SmallVector<LazyOutput, 4>& outputs) {
  const PointwiseProgram& p = program_;
  SmallVector<cpu::PointwiseInput, 8> inputs;
  SmallVector<void*, 4> targets;
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
  const double n = static_cast<double>(space_.size());
  const double cost =
      n * (kStepNanoseconds * p.num_steps +
           kLoadNanoseconds * static_cast<double>(inputs.size() + outputs.size()));
  if (cost <= kInlineNanoseconds && engine.TryBegin(reads, writes)) {
    const InlineTimer timer("pointwise");
    try {
      cpu::RunPointwise(p, space_, inputs, targets);
    } catch (...) {  // lack of memory only
      for (size_t i = 0; i < outputs.size(); ++i) {
        FillFailed(targets[i], outputs[i].dtype, space_.size());
      }
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
  for (const LazyOutput& out : outputs) {
    op->bytes += static_cast<size_t>(n) * SizeOf(out.dtype);
  }
  op->layer_name = CurrentLayer();
  for (Var* v : fresh) writes.push_back(v);
  engine.Push(std::move(op), reads, writes);
}

}  // namespace plait
