// Gradients of loops: the steps once more, then their backward parts in reverse.

#include "run/body_gradient.h"

namespace plait {
namespace {

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
  std::vector<BodyMemory> outputs;
};

class BackwardLoop {
 public:
  BackwardLoop(const BodyGradient<Loop>& p, const KernelArgs& args)
      : loop_(*p.holder), training_(p.training), args_(p, args) {}

  void Run() {
    Specs specs = LoopBodySpecs(loop_, false, args_.in);
    std::vector<bool> wanted;
    for (size_t j = 0; j < loop_.body_inputs.size(); ++j) {
      const LoopInput& x = loop_.body_inputs[j];
      wanted.push_back(x.kind == LoopInput::kState ? IsFloat(specs[j].dtype)
                                                   : args_.Wants(x.number));
    }
    const auto variant = loop_.body->Get(specs, training_, wanted);
    Forward(variant);
    args_.ClearGradients();
    Backward(*variant);
  }

 private:
  void Forward(const std::shared_ptr<const GraphVariant>& variant) {
    LoopSteps at(loop_, args_.in, training_, args_.random);
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
      now.push_back(static_cast<char*>(args_.heads[loop_.num_stacked + s].ptr));
    std::vector<BodyMemory> sides[2];
    for (auto& side : sides)
      for (int s : loop_.states) side.push_back(Bytes(args_.in[s].bytes()));
    std::vector<BodyMemory> parts(args_.in.size());  // of captured values
    for (int64_t step = static_cast<int64_t>(steps_.size()); step-- > 0;) {
      BodyCall& call = steps_[step]->call;
      for (int k = 0; k < loop_.num_stacked; ++k)
        call.heads[k] = static_cast<char*>(args_.heads[k].ptr) +
                        step * (args_.heads[k].bytes() / limit_);
      for (int s = 0; s < loop_.num_states(); ++s)
        call.heads[loop_.num_stacked + s] = now[s];
      std::vector<char*> before = now;
      for (size_t g = 0; g < variant.gradient_of.size(); ++g) {
        const LoopInput& x = loop_.body_inputs[variant.gradient_of[g]];
        if (x.kind == LoopInput::kState) {
          before[x.number] = sides[step % 2][x.number]->As<char>();
          call.gradients[g] = before[x.number];
        } else if (x.kind == LoopInput::kData) {
          const View& dx = args_.Gradient(x.number);
          call.gradients[g] = static_cast<char*>(dx.ptr) + step * (dx.bytes() / limit_);
        } else {
          if (!parts[x.number]) parts[x.number] = Bytes(args_.in[x.number].bytes());
          call.gradients[g] = parts[x.number]->As<char>();
        }
      }
      call.Backward(args_.random);
      for (size_t g = 0; g < variant.gradient_of.size(); ++g) {
        const LoopInput& x = loop_.body_inputs[variant.gradient_of[g]];
        if (x.kind != LoopInput::kCaptured) continue;
        args_.AddToGradient(x.number, call.gradients[g]);
      }
      now = std::move(before);
      steps_.pop_back();
    }
    for (int s = 0; s < loop_.num_states(); ++s) {
      if (args_.Wants(loop_.states[s])) args_.AddToGradient(loop_.states[s], now[s]);
    }
  }

  const Loop& loop_;
  const bool training_;
  const BodyGradientArgs<Loop> args_;
  int64_t limit_ = 0;
  std::vector<std::unique_ptr<Step>> steps_;
};

const OpDef& backward_loop = []() -> const OpDef& {
  auto spec =
      BodyGradientOp<Loop>("The gradients of a loop. Made by the gradients of loops.");
  spec.cpu = {{"steps", [](const BodyGradient<Loop>& p, const KernelArgs& args) {
                 BackwardLoop(p, args).Run();
               }}};
  spec.cost = [](const BodyGradient<Loop>& p, const Specs& in, const Specs&) {
    Specs own;
    for (int i = 0; i < p.holder->num_inputs; ++i)
      own.push_back(in[p.holder->num_outputs() + i]);
    return 3 * p.holder->Cost(own);
  };
  return Register<BodyGradient<Loop>>(std::move(spec));
}();

}  // namespace

Values LoopGradient(const Ref<const Loop>& loop, const GradArgs& g) {
  return GradientBy(backward_loop, loop, g);
}

}  // namespace plait
