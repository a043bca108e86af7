// _cond: one of two graphs, as a third one says.

#include <algorithm>
#include <cstring>

#include "run/loop.h"
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
  Part condition, branches[2];  // branches: else, then
  int num_inputs = 0, num_outputs = 0;

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
  choice->num_outputs = p.num_outputs;
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
  if (choice.draws()) out[choice.num_outputs] = {{2}, DType::kInt64};
  Specs results(1), specs = choice.condition.Select(in);
  choice.condition.body->Infer(specs, results);
  LearnOf(choice.condition, specs, in);
  for (int round = 0; round < 2; ++round) {
    for (const Part& branch : choice.branches) {
      specs = branch.Select(in);
      results.clear();
      for (int k = 0; k < choice.num_outputs; ++k) results.push_back(out[k]);
      branch.body->Infer(specs, results);
      LearnOf(branch, specs, in);
      for (int k = 0; k < choice.num_outputs; ++k) {
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
  if (choice.draws()) KeepStream(args.random, args.out[choice.num_outputs]);
  const Part& part = Chosen(choice, args.in, args.training, args.random);
  BodyCall call = CallOf(part, args.in, args.training);
  for (int k = 0; k < choice.num_outputs; ++k)
    call.outputs[k] = static_cast<char*>(args.out[k].ptr);
  call.Forward(SubStream(args.random, 1));
}

// ---------------------------------------------------------------- gradient

struct GradientParams {
  Ref<const Choice> choice;
  std::vector<bool> wanted;
  bool training = false;
};

// in: head gradients, the inputs, the stream. out: gradients of what is wanted.
void Backward(const GradientParams& p, const KernelArgs& args) {
  using Memory = std::unique_ptr<cpu::Scratch>;
  const Choice& choice = *p.choice;
  const auto given = args.in.subspan(choice.num_outputs, choice.num_inputs);
  std::vector<View> in(given.begin(), given.end());
  std::vector<Memory> memory;
  const auto reserve = [&](int64_t bytes) {
    memory.push_back(std::make_unique<cpu::Scratch>(static_cast<size_t>(bytes)));
    return memory.back()->As<char>();
  };
  for (int i = 0; i < choice.num_inputs; ++i) {
    // A second run must not show in auxiliary states.
    if (!choice.Writes(i, p.training)) continue;
    char* copy = reserve(in[i].bytes());
    std::memcpy(copy, in[i].ptr, static_cast<size_t>(in[i].bytes()));
    in[i].ptr = copy;
  }
  RandomStream random;
  if (choice.draws())
    random = StreamIn(args.in[choice.num_outputs + choice.num_inputs]);
  const Part& part = Chosen(choice, in, p.training, random);
  std::vector<bool> wanted;
  for (int i : part.inputs) wanted.push_back(p.wanted[i]);
  BodyCall call = CallOf(part, in, p.training, wanted);
  for (int k = 0; k < choice.num_outputs; ++k) {
    call.outputs[k] = reserve(args.in[k].bytes());
    call.heads[k] = static_cast<char*>(args.in[k].ptr);
  }
  call.Forward(SubStream(random, 1));
  std::vector<int> place(p.wanted.size(), -1);
  int next = 0;
  for (size_t i = 0; i < p.wanted.size(); ++i)
    if (p.wanted[i]) place[i] = next++;
  const std::vector<int>& gradient_of = call.variant().gradient_of;
  for (size_t g = 0; g < gradient_of.size(); ++g)
    call.gradients[g] = reserve(in[part.inputs[gradient_of[g]]].bytes());
  call.Backward(random);
  for (const View& dx : args.out)
    std::memset(dx.ptr, 0, static_cast<size_t>(dx.bytes()));
  for (size_t g = 0; g < gradient_of.size(); ++g) {
    const View& dx = args.out[place[part.inputs[gradient_of[g]]]];
    AddTo(static_cast<char*>(dx.ptr), call.gradients[g], dx.dtype, dx.size());
  }
}

[[maybe_unused]] const OpDef& backward_cond = Register<GradientParams>({
    .name = "_backward_cond",
    .doc = "The gradients of a choice. Made by the gradient of _cond.",
    .inputs = {{"data", Types::kAny,
                "Head gradients, the inputs of _cond, and its random stream."}},
    .variable_inputs = true,
    .num_outputs =
        [](const GradientParams& p) {
          return static_cast<int>(std::count(p.wanted.begin(), p.wanted.end(), true));
        },
    .types =
        [](const GradientParams& p, Specs& in, Specs& out) {
          size_t next = 0;
          for (size_t i = 0; i < p.wanted.size(); ++i)
            if (p.wanted[i]) out[next++] = in[p.choice->num_outputs + i];
        },
    .cpu = {{"branch", Backward}},
    .host_if = [](const GradientParams& p) { return p.choice && p.choice->is_host(); },
    .finish =
        [](GradientParams&, const std::vector<Symbol>&) {
          Fail(ErrorKind::kValue, "_backward_cond: it cannot be called by name");
        },
});

Values Gradient(const CondParams& p, const GradArgs& g) {
  const Choice& choice = p.get();
  GradientParams q{p.choice, {}, g.training};
  for (int i = 0; i < choice.num_inputs; ++i)
    q.wanted.push_back(g.wants(i) && IsFloat(g.in_spec(i).dtype));
  Values in, result(static_cast<size_t>(choice.num_inputs));
  if (std::count(q.wanted.begin(), q.wanted.end(), true) == 0) return result;
  for (int k = 0; k < choice.num_outputs; ++k) in.push_back(g.dout(k));
  for (int i = 0; i < choice.num_inputs; ++i) in.push_back(g.in(i));
  if (choice.draws()) in.push_back(g.out(choice.num_outputs));
  const std::vector<bool> wanted = q.wanted;
  Values found = Apply(backward_cond, MakeParams(std::move(q)), in);
  size_t next = 0;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) result[i] = std::move(found[next++]);
  return result;
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
