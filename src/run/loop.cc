// Loop: checks, inference, the forward steps, and what loops and branches share.

#include "run/loop.h"

#include <cstring>

#include "run/random.h"

namespace plait {
namespace {

// One slice along axis 0; of a list of numbers one number, of shape (1,).
Spec ItemOf(const Spec& whole) {
  Spec item{Shape::Unknown(), whole.dtype};
  if (!whole.shape.rank_known()) return item;
  Check(whole.shape.rank() > 0,
        "_foreach: data is a scalar; at least one axis was expected");
  item.shape = whole.shape;
  item.shape.Erase(0);
  if (item.shape.rank() == 0) item.shape.Append(1);
  return item;
}

// `length` slices; `list`: of numbers.
Shape WholeOf(const Shape& item, int64_t length, bool list) {
  if (!item.rank_known()) return item;
  if (list) return Shape{length};
  Shape whole = item;
  whole.Insert(0, length);
  return whole;
}

void Learn(Spec& spec, const Spec& fact, const char* what) {
  Shape other = fact.shape;
  Check(Unify(spec.shape, other), "loop: ", what, " has shapes ", spec.shape, " and ",
        fact.shape, "; one shape was expected");
  if (spec.dtype == DType::kUnknown) spec.dtype = fact.dtype;
  Check(fact.dtype == DType::kUnknown || fact.dtype == spec.dtype, ErrorKind::kType,
        "loop: ", what, " has dtypes ", spec.dtype, " and ", fact.dtype,
        "; one dtype was expected");
}

// The specs of a body's inputs from those of the operator.
Specs BodySpecs(const std::vector<LoopInput>& inputs, const std::vector<int>& states,
                const Specs& in) {
  Specs specs;
  for (const LoopInput& x : inputs) {
    switch (x.kind) {
      case LoopInput::kData:
        specs.push_back(ItemOf(in[x.number]));
        break;
      case LoopInput::kState:
        specs.push_back(in[states[x.number]]);
        break;
      default:
        specs.push_back(in[x.number]);
    }
  }
  return specs;
}

void LearnBack(const std::vector<LoopInput>& inputs, const std::vector<int>& states,
               const Specs& body, int64_t length, Specs& in) {
  for (size_t j = 0; j < inputs.size(); ++j) {
    const LoopInput& x = inputs[j];
    if (x.kind == LoopInput::kData) {
      const bool list = in[x.number].shape.rank() == 1;
      Learn(in[x.number], {WholeOf(body[j].shape, length, list), body[j].dtype},
            "data");
    } else {
      Learn(in[x.kind == LoopInput::kState ? states[x.number] : x.number], body[j],
            x.kind == LoopInput::kState ? "a state" : "a captured value");
    }
  }
}

}  // namespace

void Loop::CheckSound(const char* op) const {
  const auto check = [&](const Body& b, const std::vector<LoopInput>& inputs) {
    Check(static_cast<int>(inputs.size()) == b.num_inputs(), op, ": ", inputs.size(),
          " locations are given for a body of ", b.num_inputs(),
          " inputs; one for each was expected");
    for (size_t j = 0; j < inputs.size(); ++j) {
      const LoopInput& x = inputs[j];
      const int limit = x.kind == LoopInput::kState ? num_states() : num_inputs;
      Check(x.kind != LoopInput::kNothing && x.number >= 0 && x.number < limit, op,
            ": input ", j, " of the body is not given; a location was expected");
      Check(x.kind == LoopInput::kCaptured || !b.Writes(static_cast<int>(j), true), op,
            ": input ", j,
            " of the body is an auxiliary state of a node; a variable "
            "of its own was expected");
    }
  };
  for (int state : states)
    Check(state >= 0 && state < num_inputs, op, ": a state is input ", state,
          "; one of ", num_inputs, " inputs was expected");
  Check(num_stacked >= 0 && body->num_outputs() == num_outputs(), op, ": the body has ",
        body->num_outputs(), " outputs; ", num_outputs(), " were expected");
  check(*body, body_inputs);
  if (!condition) return;
  check(*condition, condition_inputs);
  Check(condition->num_outputs() == 1, op, ": the condition has ",
        condition->num_outputs(), " outputs; one was expected");
}

bool Loop::Writes(int input, bool training) const {
  const auto writes = [&](const Body& b, const std::vector<LoopInput>& inputs) {
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (inputs[j].kind == LoopInput::kCaptured && inputs[j].number == input &&
          b.Writes(static_cast<int>(j), training))
        return true;
    }
    return false;
  };
  return writes(*body, body_inputs) ||
         (condition && writes(*condition, condition_inputs));
}

void Loop::Infer(Specs& in, Specs& out) const {
  int64_t length = condition ? max_steps : kUnknownSize;
  for (const LoopInput& x : body_inputs) {
    if (x.kind != LoopInput::kData || in[x.number].shape.rank() < 1) continue;
    Shape known{length}, here{in[x.number].shape[0]};
    Check(Unify(known, here), "_foreach: data has lengths ", known[0], " and ", here[0],
          " along axis 0; one length was expected");
    length = known[0];
  }
  for (int s = 0; s < num_states(); ++s) {
    Learn(in[states[s]], out[num_stacked + s], "a state");
    Learn(out[num_stacked + s], in[states[s]], "a state");
  }
  if (condition) {
    Specs body_in = BodySpecs(condition_inputs, states, in), body_out(1);
    condition->Infer(body_in, body_out);
    LearnBack(condition_inputs, states, body_in, length, in);
  }
  Specs body_in = BodySpecs(body_inputs, states, in), body_out;
  for (int k = 0; k < num_outputs(); ++k)
    body_out.push_back(k < num_stacked && out[k].shape.rank() > 0 ? ItemOf(out[k])
                       : k < num_stacked ? Spec{Shape::Unknown(), out[k].dtype}
                                         : out[k]);
  body->Infer(body_in, body_out);
  LearnBack(body_inputs, states, body_in, length, in);
  for (int k = 0; k < num_outputs(); ++k) {
    if (k < num_stacked) body_out[k].shape = WholeOf(body_out[k].shape, length, false);
    Learn(out[k], body_out[k], "an output");
  }
  for (int s = 0; s < num_states(); ++s)
    Learn(in[states[s]], out[num_stacked + s], "a state");
}

Specs LoopBodySpecs(const Loop& loop, bool of_condition, std::span<const View> in) {
  Specs specs;
  for (const View& x : in) specs.push_back({x.shape(), x.dtype});
  return BodySpecs(of_condition ? loop.condition_inputs : loop.body_inputs, loop.states,
                   specs);
}

LoopSteps::LoopSteps(const Loop& loop, std::span<const View> in, bool training,
                     RandomStream random)
    : loop_(loop), in_(in), random_(random) {
  limit_ = loop.max_steps;
  for (const LoopInput& x : loop.body_inputs)
    if (x.kind == LoopInput::kData) limit_ = in[x.number].shape()[0];
  for (int s : loop.states) now.push_back(static_cast<char*>(in[s].ptr));
  if (!loop.condition) return;
  condition_.emplace(loop.condition->Get(LoopBodySpecs(loop, true, in), training));
  const Spec& spec = condition_->output_spec(0);
  Check(spec.shape.size() == 1, "_while_loop: the condition has shape ", spec.shape,
        "; one number was expected");
  condition_->outputs[0] = condition_value_;
}

bool LoopSteps::Goes(int64_t step) {
  if (step >= limit_) return false;
  if (!condition_) return true;
  Bind(*condition_, loop_.condition_inputs, step);
  condition_->Forward(SubStream(random_, 2 * static_cast<uint64_t>(step) + 1));
  return IsTrue(condition_value_, condition_->output_spec(0).dtype);
}

void LoopSteps::Bind(BodyCall& call, const std::vector<LoopInput>& inputs,
                     int64_t step) const {
  for (size_t j = 0; j < inputs.size(); ++j) {
    const LoopInput& x = inputs[j];
    char*& place = call.inputs[j];
    if (x.kind == LoopInput::kState) {
      place = now[x.number];
      continue;
    }
    const View& whole = in_[x.number];
    place = static_cast<char*>(whole.ptr);
    if (x.kind == LoopInput::kData) place += step * (whole.bytes() / limit_);
  }
}

RandomStream LoopSteps::StreamOf(int64_t step) const {
  return SubStream(random_, 2 * static_cast<uint64_t>(step));
}

void Loop::Forward(const KernelArgs& args) const {
  const std::span<const View> in = args.in;
  if (draws()) KeepStream(args.random, args.out[num_outputs()]);
  LoopSteps steps(*this, in, args.training, args.random);
  BodyCall call(body->Get(LoopBodySpecs(*this, false, in), args.training));
  std::vector<std::unique_ptr<cpu::Scratch>> buffers[2];
  for (auto& side : buffers)
    for (int s : states)
      side.push_back(
          std::make_unique<cpu::Scratch>(static_cast<size_t>(in[s].bytes())));
  int64_t step = 0;
  for (; steps.Goes(step); ++step) {
    steps.Bind(call, body_inputs, step);
    for (int k = 0; k < num_stacked; ++k) {
      const View& y = args.out[k];
      call.outputs[k] = static_cast<char*>(y.ptr) + step * (y.bytes() / steps.limit());
    }
    // The last step's states go where they belong, if it is known to be the last.
    const bool last = !condition && step + 1 == steps.limit();
    for (int s = 0; s < num_states(); ++s)
      call.outputs[num_stacked + s] =
          last ? static_cast<char*>(args.out[num_stacked + s].ptr)
               : buffers[step % 2][s]->As<char>();
    call.Forward(steps.StreamOf(step));
    for (int s = 0; s < num_states(); ++s) steps.now[s] = call.outputs[num_stacked + s];
  }
  for (int s = 0; s < num_states(); ++s) {
    const View& y = args.out[num_stacked + s];
    if (steps.now[s] != y.ptr)
      std::memcpy(y.ptr, steps.now[s], static_cast<size_t>(y.bytes()));
  }
  for (int k = 0; k < num_stacked && step < steps.limit(); ++k) {
    const View& y = args.out[k];
    const int64_t done = step * (y.bytes() / steps.limit());
    std::memset(static_cast<char*>(y.ptr) + done, 0,
                static_cast<size_t>(y.bytes() - done));
  }
}

double Loop::Cost(const Specs& in) const {
  constexpr double kNode = 30000;  // about 300 ns
  double numbers = 0;
  for (const Spec& x : in) numbers += static_cast<double>(x.shape.size());
  int64_t steps = max_steps;
  for (const LoopInput& x : body_inputs)
    if (x.kind == LoopInput::kData) steps = in[x.number].shape[0];
  const double nodes = static_cast<double>(body->num_nodes());
  return static_cast<double>(steps) * nodes * (kNode + numbers);
}

bool IsTrue(const void* value, DType dtype) {
  return VisitDType(dtype, [&]<typename T>() {
    return static_cast<double>(*static_cast<const T*>(value)) != 0;
  });
}

RandomStream StreamIn(const View& x) {
  const auto* words = x.data<uint64_t>();
  return {words[0], words[1]};
}

void KeepStream(RandomStream stream, const View& y) {
  auto* words = y.data<uint64_t>();
  words[0] = stream.seed;
  words[1] = stream.offset;
}

void AddTo(char* dst, const char* src, DType dtype, int64_t size) {
  VisitFloat(dtype, [&]<typename T>() {
    auto* y = reinterpret_cast<T*>(dst);
    const auto* x = reinterpret_cast<const T*>(src);
    for (int64_t i = 0; i < size; ++i)
      y[i] = static_cast<T>(static_cast<Accumulate<T>>(y[i]) +
                            static_cast<Accumulate<T>>(x[i]));
  });
}

}  // namespace plait
