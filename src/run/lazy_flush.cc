// LazyProgram: turning what waits into one engine operation.

#include <algorithm>
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

void LazyProgram::Place(PointwiseProgram& final, SmallVector<LazyOutput, 4>& outputs) {
  const int64_t n = space_.size();
  for (Slot& slot : slots_) {
    if (slot.write_step < 0) continue;
    final.outputs[final.num_outputs++] = {PointwiseArg::kStep,
                                          static_cast<uint8_t>(slot.write_step)};
    outputs.push_back({slot.chunk, slot.offset, slot.dtype, false});
  }
  for (int i = 0; i < program_.num_steps; ++i) {
    if (owners_[i] == nullptr) continue;
    const DType dtype = program_.steps[i].dtype;
    final.outputs[final.num_outputs++] = {PointwiseArg::kStep, static_cast<uint8_t>(i)};
    outputs.push_back(
        {Chunk::New(owners_[i]->device, n * SizeOf(dtype)), 0, dtype, true});
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
  program_.num_outputs = 0;
  SmallVector<LazyOutput, 4> outputs;
  Place(program_, outputs);  // may throw for lack of memory: nothing has changed then
  // The arrays know their memory from here on; nobody can read it before the push, as
  // `pending` and the marks are still there.
  size_t k = 0;
  while (k < outputs.size() && !outputs[k].fresh) ++k;
  SmallVector<ArrayBody*, 8> bodies;
  for (int i = 0; i < program_.num_steps; ++i) {
    if (owners_[i] == nullptr) continue;
    for (ArrayBody* b = owners_[i]; b != nullptr;) {
      ArrayBody* next = std::exchange(b->next_owner, nullptr);
      b->Place(outputs[k].chunk);
      bodies.push_back(b);
      b = next;
    }
    owners_[i] = nullptr;
    ++k;
  }
  if (!outputs.empty() && space_.size() > 0) {
    Prune(program_);
    PushProgram(outputs);
  }
  for (ArrayBody* b : bodies) b->pending.store(nullptr, std::memory_order_release);
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
