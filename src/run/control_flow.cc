// _foreach, _while_loop: operators over a Loop, made from MXNet's parameters.

#include "run/loop.h"

namespace plait {
namespace {

using Locations = std::vector<std::optional<int64_t>>;

int Location(const Locations& all, size_t i, int limit, const char* op) {
  const int64_t value = all[i].value_or(-1);
  Check(value >= 0 && value < limit, op, ": location ", value,
        " is out of range; a number below ", limit, " was expected");
  return static_cast<int>(value);
}

const Symbol& BodyOf(const std::vector<Symbol>& bodies, size_t i, size_t count,
                     const char* op) {
  Check(bodies.size() == count, op, ": got ", bodies.size(), " subgraphs; ", count,
        " were expected");
  return bodies[i];
}

// What both have, whatever their parameters.
struct LoopParams {
  int num_args = 0, num_outputs = 1, num_out_data = 0;
  Ref<const Loop> loop;

  const Loop& get() const {
    Check(loop.get() != nullptr, "loop: it has no body; a subgraph was expected");
    return *loop;
  }
};

template <typename P>
Param<P> NumberParam(const char* name, int LoopParams::*member, const char* doc) {
  return Required<P>(name, static_cast<int P::*>(member), doc);
}

template <typename P>
OpSpec<P> LoopSpec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "What the bodies read."}},
      .params = {NumberParam<P>("num_args", &LoopParams::num_args,
                                "The number of subgraphs and inputs."),
                 NumberParam<P>("num_outputs", &LoopParams::num_outputs,
                                "The number of outputs."),
                 NumberParam<P>("num_out_data", &LoopParams::num_out_data,
                                "How many of them are stacked; others are states.")},
      .variable_inputs = true,
      .count_param = "num_args",
      .num_outputs =
          [](const P& p) {
            return p.num_outputs + (p.loop && p.loop->draws() ? 1 : 0);
          },
      .visible_outputs = [](const P& p) { return p.num_outputs; },
      .writes = [](const P& p, int input,
                   bool training) { return p.loop && p.loop->Writes(input, training); },
      .types =
          [](const P& p, Specs& in, Specs& out) {
            const Loop& loop = p.get();
            Check(static_cast<int>(in.size()) == loop.num_inputs, "loop: got ",
                  in.size(), " inputs; ", loop.num_inputs, " were expected");
            if (loop.draws()) out[loop.num_outputs()] = {{2}, DType::kInt64};
            loop.Infer(in, out);
          },
      .gradient = [](const P& p, const GradArgs& g) { return LoopGradient(p.loop, g); },
      .uses_for = [](const P& p) -> Uses {
        const int hidden = std::min(p.num_outputs, 31);
        return {kAll, p.loop && p.loop->draws() ? 1u << hidden : 0u};
      },
      .cpu = {{"steps",
               [](const P& p, const KernelArgs& args) { p.get().Forward(args); }}},
      .random = true,
      .draws = [](const P& p, bool) { return p.loop && p.loop->draws(); },
      .uses_training = true,
      .cost = [](const P& p, const Specs& in,
                 const Specs&) { return p.get().Cost(in); },
      .host_if = [](const P& p) { return p.loop && p.loop->is_host(); },
  };
}

// ---------------------------------------------------------------- _foreach

struct ForeachParams : LoopParams {
  Locations in_state_locs, in_data_locs, remain_locs;
};

void FinishForeach(ForeachParams& p, const std::vector<Symbol>& bodies) {
  constexpr const char* kName = "_foreach";
  Ref<Loop> loop(new Loop);
  loop->body = Ref<const Body>(new Body(BodyOf(bodies, 0, 1, kName), kName));
  loop->num_stacked = p.num_out_data;
  loop->num_inputs = static_cast<int>(p.in_data_locs.size() + p.in_state_locs.size() +
                                      p.remain_locs.size());
  Check(!p.in_data_locs.empty(), kName,
        ": there is no data; at least one was expected");
  const int inputs = loop->body->num_inputs();
  loop->body_inputs.resize(static_cast<size_t>(inputs));
  int next = 0;
  const auto place = [&](const Locations& locations, LoopInput::Kind kind) {
    for (size_t i = 0; i < locations.size(); ++i, ++next) {
      LoopInput& x = loop->body_inputs[Location(locations, i, inputs, kName)];
      x = {kind, kind == LoopInput::kState ? static_cast<int>(i) : next};
      if (kind == LoopInput::kState) loop->states.push_back(next);
    }
  };
  place(p.in_data_locs, LoopInput::kData);
  place(p.in_state_locs, LoopInput::kState);
  place(p.remain_locs, LoopInput::kCaptured);
  Check(loop->num_outputs() == p.num_outputs, kName, ": num_outputs is ", p.num_outputs,
        "; ", loop->num_outputs(), " was expected");
  loop->CheckSound(kName);
  p.loop = Ref<const Loop>(loop.get());
}

[[maybe_unused]] const OpDef& foreach_op = [] {
  OpSpec<ForeachParams> spec = LoopSpec<ForeachParams>(
      "_foreach", "Runs a graph for each slice of data along axis 0, with states.");
  const auto add = [&](const char* name, Locations ForeachParams::*member,
                       const char* doc) {
    spec.params.push_back(Required<ForeachParams>(name, member, doc));
  };
  add("in_state_locs", &ForeachParams::in_state_locs, "Where the body reads states.");
  add("in_data_locs", &ForeachParams::in_data_locs, "Where the body reads slices.");
  add("remain_locs", &ForeachParams::remain_locs, "Where it reads the other inputs.");
  spec.finish = FinishForeach;
  return Register(spec);
}();

// ---------------------------------------------------------------- _while_loop

struct WhileParams : LoopParams {
  int max_iterations = 1;
  Locations cond_input_locs, func_input_locs, func_var_locs;
};

void FinishWhile(WhileParams& p, const std::vector<Symbol>& bodies) {
  constexpr const char* kName = "_while_loop";
  Ref<Loop> loop(new Loop);
  loop->condition = Ref<const Body>(new Body(BodyOf(bodies, 0, 2, kName), kName));
  loop->body = Ref<const Body>(new Body(BodyOf(bodies, 1, 2, kName), kName));
  loop->num_stacked = p.num_out_data;
  loop->num_inputs = p.num_args - 2;
  loop->max_steps = p.max_iterations;
  Check(p.max_iterations > 0, kName, ": max_iterations is ", p.max_iterations,
        "; a positive number was expected");
  std::vector<int> state_of(static_cast<size_t>(std::max(loop->num_inputs, 0)), -1);
  for (size_t s = 0; s < p.func_var_locs.size(); ++s) {
    const int at =
        Location(p.func_var_locs, s, static_cast<int>(p.func_input_locs.size()), kName);
    const int input = Location(p.func_input_locs, at, loop->num_inputs, kName);
    state_of[input] = static_cast<int>(s);
    loop->states.push_back(input);
  }
  const auto place = [&](const Locations& locations) {
    std::vector<LoopInput> inputs;
    for (size_t i = 0; i < locations.size(); ++i) {
      const int number = Location(locations, i, loop->num_inputs, kName);
      if (state_of[number] >= 0) {
        inputs.push_back({LoopInput::kState, state_of[number]});
      } else {
        inputs.push_back({LoopInput::kCaptured, number});
      }
    }
    return inputs;
  };
  loop->condition_inputs = place(p.cond_input_locs);
  loop->body_inputs = place(p.func_input_locs);
  Check(loop->num_outputs() == p.num_outputs, kName, ": num_outputs is ", p.num_outputs,
        "; ", loop->num_outputs(), " was expected");
  loop->CheckSound(kName);
  p.loop = Ref<const Loop>(loop.get());
}

[[maybe_unused]] const OpDef& while_op = [] {
  OpSpec<WhileParams> spec = LoopSpec<WhileParams>(
      "_while_loop", "Runs a graph with states as long as another one says.");
  const auto add = [&](const char* name, Locations WhileParams::*member,
                       const char* doc) {
    spec.params.push_back(Required<WhileParams>(name, member, doc));
  };
  spec.params.push_back(Required<WhileParams>(
      "max_iterations", &WhileParams::max_iterations, "The largest number of steps."));
  add("cond_input_locs", &WhileParams::cond_input_locs,
      "The inputs that the condition reads.");
  add("func_input_locs", &WhileParams::func_input_locs,
      "The inputs that the body reads.");
  add("func_var_locs", &WhileParams::func_var_locs,
      "Where the states are among the body's inputs.");
  spec.finish = FinishWhile;
  return Register(spec);
}();

}  // namespace
}  // namespace plait
