// Gradients of loops: the steps once more, then their backward parts in reverse.

#include <algorithm>
#include <cstring>

#include "run/loop.h"

namespace plait {
namespace {

using Memory = std::unique_ptr<cpu::Scratch>;

Memory Bytes(int64_t bytes) {
  return std::make_unique<cpu::Scratch>(static_cast<size_t>(bytes));
}

// A forward step whose backward part is still to come.
struct Step {
  explicit Step(const std::shared_ptr<const GraphVariant>& variant) : call(variant) {
    for (size_t k = 0; k < call.outputs.size(); ++k) {
      const Spec& spec = call.output_spec(static_cast<int>(k));
      outputs.push_back(
          Bytes(spec.shape.size() * static_cast<int64_t>(SizeOf(spec.dtype))));
      call.outputs[k] = outputs.back()->As<char>();
    }
  }
  BodyCall call;
  std::vector<Memory> outputs;
};

class BackwardLoop {
 public:
  BackwardLoop(const Loop& loop, const KernelArgs& args,
               const std::vector<bool>& wanted)
      : loop_(loop), args_(args), place_(wanted.size(), -1) {
    heads_ = args.in.subspan(0, loop.num_outputs());
    const auto given = args.in.subspan(loop.num_outputs(), loop.num_inputs);
    in_.assign(given.begin(), given.end());
    int next = 0;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) place_[i] = next++;
    if (loop.draws()) random_ = StreamIn(args.in[loop.num_outputs() + loop.num_inputs]);
    KeepWrittenInputs();
  }

  void Run() {
    Specs specs = LoopBodySpecs(loop_, false, in_);
    std::vector<bool> wanted;
    for (size_t j = 0; j < loop_.body_inputs.size(); ++j) {
      const LoopInput& x = loop_.body_inputs[j];
      wanted.push_back(x.kind == LoopInput::kState ? IsFloat(specs[j].dtype)
                                                   : place_[x.number] >= 0);
    }
    const auto variant = loop_.body->Get(specs, args_.training, wanted);
    Forward(variant);
    for (const View& dx : args_.out)
      std::memset(dx.ptr, 0, static_cast<size_t>(dx.bytes()));
    Backward(*variant);
  }

 private:
  // A second run of the steps must not show in auxiliary states.
  void KeepWrittenInputs() {
    for (int i = 0; i < loop_.num_inputs; ++i) {
      if (!loop_.Writes(i, args_.training)) continue;
      copies_.push_back(Bytes(in_[i].bytes()));
      std::memcpy(copies_.back()->As<char>(), in_[i].ptr,
                  static_cast<size_t>(in_[i].bytes()));
      in_[i].ptr = copies_.back()->As<char>();
    }
  }

  void Forward(const std::shared_ptr<const GraphVariant>& variant) {
    LoopSteps at(loop_, in_, args_.training, random_);
    limit_ = at.limit();
    for (int64_t step = 0; at.Goes(step); ++step) {
      auto next = std::make_unique<Step>(variant);
      at.Bind(next->call, loop_.body_inputs, step);
      next->call.Forward(at.StreamOf(step));
      for (int s = 0; s < loop_.num_states(); ++s)
        at.now[s] = next->call.outputs[loop_.num_stacked + s];
      steps_.push_back(std::move(next));
    }
  }

  void Backward(const GraphVariant& variant) {
    std::vector<char*> now;  // gradients of the states after a step
    for (int s = 0; s < loop_.num_states(); ++s)
      now.push_back(static_cast<char*>(heads_[loop_.num_stacked + s].ptr));
    std::vector<Memory> sides[2];
    for (auto& side : sides)
      for (int s : loop_.states) side.push_back(Bytes(in_[s].bytes()));
    std::vector<Memory> parts(in_.size());  // of captured values
    for (int64_t step = static_cast<int64_t>(steps_.size()); step-- > 0;) {
      BodyCall& call = steps_[step]->call;
      for (int k = 0; k < loop_.num_stacked; ++k)
        call.heads[k] =
            static_cast<char*>(heads_[k].ptr) + step * (heads_[k].bytes() / limit_);
      for (int s = 0; s < loop_.num_states(); ++s)
        call.heads[loop_.num_stacked + s] = now[s];
      std::vector<char*> before = now;
      for (size_t g = 0; g < variant.gradient_of.size(); ++g) {
        const LoopInput& x = loop_.body_inputs[variant.gradient_of[g]];
        if (x.kind == LoopInput::kState) {
          before[x.number] = sides[step % 2][x.number]->As<char>();
          call.gradients[g] = before[x.number];
        } else if (x.kind == LoopInput::kData) {
          const View& dx = args_.out[place_[x.number]];
          call.gradients[g] = static_cast<char*>(dx.ptr) + step * (dx.bytes() / limit_);
        } else {
          if (!parts[x.number]) parts[x.number] = Bytes(in_[x.number].bytes());
          call.gradients[g] = parts[x.number]->As<char>();
        }
      }
      call.Backward(random_);
      for (size_t g = 0; g < variant.gradient_of.size(); ++g) {
        const LoopInput& x = loop_.body_inputs[variant.gradient_of[g]];
        if (x.kind != LoopInput::kCaptured) continue;
        const View& dx = args_.out[place_[x.number]];
        AddTo(static_cast<char*>(dx.ptr), call.gradients[g], dx.dtype, dx.size());
      }
      now = std::move(before);
      steps_.pop_back();
    }
    for (int s = 0; s < loop_.num_states(); ++s) {
      const int place = place_[loop_.states[s]];
      if (place < 0) continue;
      const View& dx = args_.out[place];
      AddTo(static_cast<char*>(dx.ptr), now[s], dx.dtype, dx.size());
    }
  }

  const Loop& loop_;
  const KernelArgs& args_;
  std::span<const View> heads_;
  std::vector<View> in_;
  std::vector<int> place_;  // of an input's gradient in args.out, or -1
  std::vector<Memory> copies_;
  RandomStream random_;
  int64_t limit_ = 0;
  std::vector<std::unique_ptr<Step>> steps_;
};

struct GradientParams {
  Ref<const Loop> loop;
  std::vector<bool> wanted;
  bool training = false;
};

[[maybe_unused]] const OpDef& backward_loop = Register<GradientParams>({
    .name = "_backward_loop",
    .doc = "The gradients of a loop. Made by the gradients of loops.",
    .inputs = {{"data", Types::kAny,
                "Head gradients, the loop's inputs, and its random stream."}},
    .variable_inputs = true,
    .num_outputs =
        [](const GradientParams& p) {
          return static_cast<int>(std::count(p.wanted.begin(), p.wanted.end(), true));
        },
    .types =
        [](const GradientParams& p, Specs& in, Specs& out) {
          size_t next = 0;
          for (size_t i = 0; i < p.wanted.size(); ++i)
            if (p.wanted[i]) out[next++] = in[p.loop->num_outputs() + i];
        },
    .cpu = {{"steps",
             [](const GradientParams& p, const KernelArgs& args) {
               KernelArgs same = args;
               same.training = p.training;
               BackwardLoop(*p.loop, same, p.wanted).Run();
             }}},
    .cost =
        [](const GradientParams& p, const Specs& in, const Specs&) {
          Specs own;
          for (int i = 0; i < p.loop->num_inputs; ++i)
            own.push_back(in[p.loop->num_outputs() + i]);
          return 3 * p.loop->Cost(own);
        },
    .host_if = [](const GradientParams& p) { return p.loop && p.loop->is_host(); },
    .finish =
        [](GradientParams&, const std::vector<Symbol>&) {
          Fail(ErrorKind::kValue, "_backward_loop: it cannot be called by name");
        },
});

}  // namespace

Values LoopGradient(const Ref<const Loop>& loop, const GradArgs& g) {
  GradientParams p{loop, {}, g.training};
  for (int i = 0; i < loop->num_inputs; ++i)
    p.wanted.push_back(g.wants(i) && IsFloat(g.in_spec(i).dtype));
  Values in, result(static_cast<size_t>(loop->num_inputs));
  if (std::count(p.wanted.begin(), p.wanted.end(), true) == 0) return result;
  for (int k = 0; k < loop->num_outputs(); ++k) in.push_back(g.dout(k));
  for (int i = 0; i < loop->num_inputs; ++i) in.push_back(g.in(i));
  if (loop->draws()) in.push_back(g.out(loop->num_outputs()));
  const std::vector<bool> wanted = p.wanted;
  Values found = Apply(backward_loop, MakeParams(std::move(p)), in);
  size_t next = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) result[i] = std::move(found[next++]);
  return result;
}

}  // namespace plait
