// _cond: one of two graphs, as a third one says.

#include <algorithm>

#include "run/body_gradient.h"
#include "run/random.h"

namespace plait {
namespace {

constexpr const char* kName = "_cond";
using Locations = std::vector<std::optional<int64_t>>;

// A graph and which of the operator's inputs it reads.
struct Part {
  Ref<const Body> body;
  std::vector<int> inputs;

  Specs Select(const Specs& in) const {
    Specs specs;
    for (int i : inputs) specs.push_back(in[i]);
    return specs;
  }
};

struct Choice : public RefCounted<Choice> {
  static constexpr const char* kGradientName = "_backward_cond";

  Part condition, branches[2];  // branches: else, then
  int num_inputs = 0;
  int num_outputs() const { return branches[0].body->num_outputs(); }

  template <typename F>
  bool Any(F f) const {
    return f(condition) || f(branches[0]) || f(branches[1]);
  }
  bool draws() const {
    return Any([](const Part& p) { return p.body->draws(); });
  }
  bool is_host() const {
    return Any([](const Part& p) { return p.body->is_host(); });
  }
  bool Writes(int input, bool training) const {
    return Any([&](const Part& p) {
      for (size_t j = 0; j < p.inputs.size(); ++j)
        if (p.inputs[j] == input && p.body->Writes(static_cast<int>(j), training))
          return true;
      return false;
    });
  }
};

struct CondParams {
  int num_args = 0, num_outputs = 1;
  Locations cond_input_locs, then_input_locs, else_input_locs;
  Ref<const Choice> choice;

  const Choice& get() const {
    Check(choice.get() != nullptr, kName, ": it has no subgraphs; three were expected");
    return *choice;
  }
};

Part MakePart(const Symbol& symbol, const Locations& locations, int limit) {
  Part part{Ref<const Body>(new Body(symbol, kName)), {}};
  for (const auto& location : locations) {
    const int64_t i = location.value_or(-1);
    Check(i >= 0 && i < limit, kName, ": location ", i,
          " is out of range; a number "
          "below ",
          limit, " was expected");
    part.inputs.push_back(static_cast<int>(i));
  }
  Check(part.body->num_inputs() == static_cast<int>(part.inputs.size()), kName, ": ",
        part.inputs.size(), " locations are given for a subgraph of ",
        part.body->num_inputs(), " inputs; one for each was expected");
  return part;
}

void Finish(CondParams& p, const std::vector<Symbol>& bodies) {
  Check(bodies.size() == 3, kName, ": got ", bodies.size(),
        " subgraphs; a condition and two branches were expected");
  Ref<Choice> choice(new Choice);
  choice->num_inputs = p.num_args - 3;
  choice->condition = MakePart(bodies[0], p.cond_input_locs, choice->num_inputs);
  choice->branches[1] = MakePart(bodies[1], p.then_input_locs, choice->num_inputs);
  choice->branches[0] = MakePart(bodies[2], p.else_input_locs, choice->num_inputs);
  Check(choice->condition.body->num_outputs() == 1, kName, ": the condition has ",
        choice->condition.body->num_outputs(), " outputs; one was expected");
  for (const Part& branch : choice->branches)
    Check(branch.body->num_outputs() == p.num_outputs, kName, ": a branch has ",
          branch.body->num_outputs(), " outputs; ", p.num_outputs, " were expected");
  p.choice = Ref<const Choice>(choice.get());
}

void LearnOf(const Part& part, const Specs& known, Specs& in) {
  for (size_t j = 0; j < known.size(); ++j) {
    Spec& spec = in[part.inputs[j]];
    Shape fact = known[j].shape;
    Check(Unify(spec.shape, fact), kName, ": input ", part.inputs[j], " has shapes ",
          spec.shape, " and ", known[j].shape, "; one shape was expected");
    if (spec.dtype == DType::kUnknown) spec.dtype = known[j].dtype;
  }
}

void Infer(const CondParams& p, Specs& in, Specs& out) {
  const Choice& choice = p.get();
  Check(static_cast<int>(in.size()) == choice.num_inputs, kName, ": got ", in.size(),
        " inputs; ", choice.num_inputs, " were expected");
  if (choice.draws()) out[choice.num_outputs()] = {{2}, DType::kInt64};
  Specs results(1), specs = choice.condition.Select(in);
  choice.condition.body->Infer(specs, results);
  LearnOf(choice.condition, specs, in);
  for (int round = 0; round < 2; ++round) {
    for (const Part& branch : choice.branches) {
      specs = branch.Select(in);
      results.clear();
      for (int k = 0; k < choice.num_outputs(); ++k) results.push_back(out[k]);
      branch.body->Infer(specs, results);
      LearnOf(branch, specs, in);
      for (int k = 0; k < choice.num_outputs(); ++k) {
        Check(out[k].dtype == DType::kUnknown || out[k].dtype == results[k].dtype,
              ErrorKind::kType, kName, ": output ", k, " is ", out[k].dtype,
              " in one branch and ", results[k].dtype,
              " in the other; one dtype was expected");
        out[k] = results[k];
      }
    }
  }
}

// Runs a part's graph; the inputs are bound.
BodyCall CallOf(const Part& part, std::span<const View> in, bool training,
                const std::vector<bool>& wanted = {}) {
  Specs specs;
  for (int i : part.inputs) specs.push_back({in[i].shape(), in[i].dtype});
  BodyCall call(part.body->Get(specs, training, wanted));
  for (size_t j = 0; j < part.inputs.size(); ++j)
    call.inputs[j] = static_cast<char*>(in[part.inputs[j]].ptr);
  return call;
}

const Part& Chosen(const Choice& choice, std::span<const View> in, bool training,
                   RandomStream random) {
  BodyCall call = CallOf(choice.condition, in, training);
  const Spec& spec = call.output_spec(0);
  Check(spec.shape.size() == 1, kName, ": the condition has shape ", spec.shape,
        "; one number was expected");
  alignas(8) char value[8] = {};
  call.outputs[0] = value;
  call.Forward(SubStream(random, 0));
  return choice.branches[IsTrue(value, spec.dtype) ? 1 : 0];
}

void Forward(const CondParams& p, const KernelArgs& args) {
  const Choice& choice = p.get();
  if (choice.draws()) KeepStream(args.random, args.out[choice.num_outputs()]);
  const Part& part = Chosen(choice, args.in, args.training, args.random);
  BodyCall call = CallOf(part, args.in, args.training);
  for (int k = 0; k < choice.num_outputs(); ++k)
    call.outputs[k] = static_cast<char*>(args.out[k].ptr);
  call.Forward(SubStream(args.random, 1));
}

// ---------------------------------------------------------------- gradient

void Backward(const BodyGradient<Choice>& p, const KernelArgs& args) {
  const Choice& choice = *p.holder;
  const BodyGradientArgs<Choice> given(p, args);
  const Part& part = Chosen(choice, given.in, p.training, given.random);
  std::vector<bool> wanted;
  for (int i : part.inputs) wanted.push_back(given.Wants(i));
  BodyCall call = CallOf(part, given.in, p.training, wanted);
  std::vector<BodyMemory> memory;
  const auto reserve = [&](int64_t bytes) {
    memory.push_back(Bytes(bytes));
    return memory.back()->As<char>();
  };
  for (int k = 0; k < choice.num_outputs(); ++k) {
    call.outputs[k] = reserve(given.heads[k].bytes());
    call.heads[k] = static_cast<char*>(given.heads[k].ptr);
  }
  call.Forward(SubStream(given.random, 1));
  const std::vector<int>& gradient_of = call.variant().gradient_of;
  for (size_t g = 0; g < gradient_of.size(); ++g)
    call.gradients[g] = reserve(given.in[part.inputs[gradient_of[g]]].bytes());
  call.Backward(given.random);
  given.ClearGradients();
  for (size_t g = 0; g < gradient_of.size(); ++g)
    given.AddToGradient(part.inputs[gradient_of[g]], call.gradients[g]);
}

const OpDef& backward_cond = []() -> const OpDef& {
  auto spec = BodyGradientOp<Choice>(
      "The gradients of a choice. Made by the gradient of _cond.");
  spec.cpu = {{"branch", Backward}};
  return Register<BodyGradient<Choice>>(std::move(spec));
}();

Values Gradient(const CondParams& p, const GradArgs& g) {
  p.get();
  return GradientBy(backward_cond, p.choice, g);
}

[[maybe_unused]] const OpDef& cond_op = Register<CondParams>({
    .name = kName,
    .doc = "Runs the first of two graphs if a third one gives true, else the second.",
    .inputs = {{"data", Types::kAny, "What the graphs read."}},
    .params = {Required<CondParams>("num_args", &CondParams::num_args,
                                    "The number of subgraphs and inputs."),
               Required<CondParams>("num_outputs", &CondParams::num_outputs,
                                    "The number of outputs."),
               Required<CondParams>("cond_input_locs", &CondParams::cond_input_locs,
                                    "The inputs that the condition reads."),
               Required<CondParams>("then_input_locs", &CondParams::then_input_locs,
                                    "The inputs that the first graph reads."),
               Required<CondParams>("else_input_locs", &CondParams::else_input_locs,
                                    "The inputs that the second graph reads.")},
    .variable_inputs = true,
    .count_param = "num_args",
    .num_outputs =
        [](const CondParams& p) {
          return p.num_outputs + (p.choice && p.choice->draws() ? 1 : 0);
        },
    .visible_outputs = [](const CondParams& p) { return p.num_outputs; },
    .writes =
        [](const CondParams& p, int input, bool training) {
          return p.choice && p.choice->Writes(input, training);
        },
    .types = Infer,
    .gradient = Gradient,
    .uses_for = [](const CondParams& p) -> Uses {
      const int hidden = std::min(p.num_outputs, 31);
      return {kAll, p.choice && p.choice->draws() ? 1u << hidden : 0u};
    },
    .cpu = {{"branch", Forward}},
    .random = true,
    .draws = [](const CondParams& p, bool) { return p.choice && p.choice->draws(); },
    .uses_training = true,
    .host_if = [](const CondParams& p) { return p.choice && p.choice->is_host(); },
    .finish = Finish,
});

}  // namespace
}  // namespace plait
