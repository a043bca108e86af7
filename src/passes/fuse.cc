// Pass fuse: groups become programs, in an order in which each unit finds its inputs.
//
// A unit is a group (passes/fuse_groups.h) or a node outside groups.

#include "passes/fuse.h"

#include <utility>
#include <vector>

#include "graph/fused.h"
#include "passes/fuse_groups.h"

namespace plait {
namespace {

// Where each value of the old graph is in the new one.
using Moved = std::vector<std::vector<GraphEntry>>;
// Which values of the old graph are read outside the group that makes them.
using Wanted = std::vector<std::vector<bool>>;

// Turns one group into a `_fused` node.
class GroupProgram {
 public:
  GroupProgram(const Graph& graph, const Wanted& wanted, Moved& moved, Graph& out)
      : graph_(graph), wanted_(wanted), moved_(moved), out_(out) {
    node_.op = &FusedOp();
  }

  void Emit(const FusionGroup& group) {
    for (int id : group.members) AddMember(id);
    const Shape& space = graph_.nodes[group.members[0]].outputs[0].shape;
    Shape common = out_.spec(node_.inputs[0]).shape;
    for (GraphEntry e : node_.inputs)
      common = Broadcast(common, out_.spec(e).shape, "_fused");
    if (!(common == space) || group.reduction >= 0) fused_.space = space;
    for (int id : group.members) AddOutputs(id);
    AddUpdates();
    if (group.reduction >= 0) AddReduction(group.reduction, space);
    PruneProgram(program_);
    node_.params = MakeParams(std::move(fused_));
    out_.Add(std::move(node_));
  }

 private:
  const Pw* Find(GraphEntry e) const {
    for (const auto& [entry, value] : values_)
      if (entry == e) return &value;
    return nullptr;
  }

  Pw AddInput(GraphEntry e) {
    const DType dtype = graph_.spec(e).dtype;
    const Pw input(&program_, {PointwiseArg::kInput, program_.num_inputs}, dtype);
    program_.inputs[program_.num_inputs++] = dtype;
    node_.inputs.push_back(moved_[e.node][e.index]);
    values_.push_back({e, input});
    return input;
  }

  void AddMember(int id) {
    const GraphNode& from = graph_.nodes[id];
    SmallVector<Pw, 4> operands;
    for (GraphEntry e : from.inputs) {
      const Pw* known = Find(e);
      operands.push_back(known ? *known : AddInput(e));
    }
    const PwCall call = AppendExpression(from, operands);
    for (int i = 0; i < static_cast<int>(call.outputs.size()); ++i)
      values_.push_back({{id, i}, call.outputs[i]});
    updates_.insert(updates_.end(), call.updates.begin(), call.updates.end());
    node_.backward = from.backward;
    node_.recompute |= from.recompute;
    node_.name += (node_.name.empty() ? "" : "+") + from.name;
    if (node_.group.empty()) node_.group = from.group;
  }

  // An input or a constant that is passed on needs a step of its own.
  static Pw AsStep(Pw value) {
    return value.arg().kind == PointwiseArg::kStep ? value : Call(Fn::kCopy, value);
  }

  // The next output of the program.
  GraphEntry Return(Pw value) {
    program_.outputs[program_.num_outputs] = value.arg();
    return {static_cast<int>(out_.size()), program_.num_outputs++};
  }

  void AddOutputs(int id) {
    const GraphNode& from = graph_.nodes[id];
    for (int i = 0; i < static_cast<int>(from.outputs.size()); ++i) {
      if (!wanted_[id][i]) {
        moved_[id].push_back({});
        continue;
      }
      moved_[id].push_back(Return(AsStep(*Find({id, i}))));
      node_.outputs.push_back(from.outputs[i]);
    }
  }

  // Only a node that is alone has updates: its inputs are the group's.
  void AddUpdates() {
    for (const PwCall::InputUpdate& update : updates_) {
      Return(AsStep(Cast(update.value, program_.inputs[update.input])));
      fused_.updates.push_back(update.input);
      node_.mutates.push_back(update.input);
    }
  }

  void AddReduction(int id, const Shape& space) {
    const GraphNode& from = graph_.nodes[id];
    const Pw x = AsStep(*Find(from.inputs[0]));
    fused_.reduction = PointwiseReduction{.dtype = from.outputs[0].dtype};
    moved_[id].push_back(
        Return(from.op->reduce(from.params->get(), x, space, *fused_.reduction)));
    node_.outputs.push_back(from.outputs[0]);
    node_.name += "+" + from.name;
  }

  const Graph& graph_;
  const Wanted& wanted_;
  Moved& moved_;
  Graph& out_;
  FusedParams fused_;
  PointwiseProgram& program_ = fused_.program;
  GraphNode node_;
  std::vector<std::pair<GraphEntry, Pw>> values_;  // known in this program
  std::vector<PwCall::InputUpdate> updates_;
};

Wanted FindWanted(const Graph& graph, const FusionGroups& groups) {
  Wanted wanted(graph.size());
  for (size_t id = 0; id < graph.size(); ++id)
    wanted[id].assign(graph.nodes[id].outputs.size(), false);
  for (size_t id = 0; id < graph.size(); ++id) {
    for (GraphEntry e : graph.nodes[id].inputs) {
      if (groups.of[e.node] < 0 || groups.of[e.node] != groups.of[id])
        wanted[e.node][e.index] = true;
    }
  }
  for (GraphEntry e : graph.outputs) wanted[e.node][e.index] = true;
  return wanted;
}

// One node of each unit, its last, each after what the unit reads.
std::vector<int> OrderOfUnits(const Graph& graph, const FusionGroups& groups) {
  enum State : uint8_t { kUnseen, kEntered, kDone };
  std::vector<int> order, stack;
  std::vector<State> state(graph.size(), kUnseen);
  const auto unit = [&](int id) {
    return groups.of[id] < 0 ? id : groups.groups[groups.of[id]].members.back();
  };
  const auto visit_inputs = [&](int member, int of) {
    for (GraphEntry e : graph.nodes[member].inputs) {
      const int u = unit(e.node);
      if (u == of || state[u] == kDone) continue;
      Check(state[u] == kUnseen, ErrorKind::kRuntime, "fuse: ", graph.nodes[u].name,
            " and ", graph.nodes[of].name,
            " wait for each other, a fault of Plait; an order was expected");
      stack.push_back(u);
    }
  };
  for (int start = 0; start < static_cast<int>(graph.size()); ++start) {
    // A group's turn comes where its last member stands.
    if (unit(start) != start) continue;
    stack.push_back(start);
    while (!stack.empty()) {
      const int id = stack.back();
      if (state[id] == kUnseen) {
        state[id] = kEntered;
        if (groups.of[id] < 0) {
          visit_inputs(id, id);
        } else {
          for (int m : groups.groups[groups.of[id]].members) visit_inputs(m, id);
        }
        continue;
      }
      if (state[id] == kEntered) order.push_back(id);
      state[id] = kDone;
      stack.pop_back();
    }
  }
  return order;
}

// A node that stays as it is.
void Copy(const Graph& graph, int id, Moved& moved, Graph& out) {
  GraphNode node = graph.nodes[id];
  for (GraphEntry& e : node.inputs) e = moved[e.node][e.index];
  const int place = static_cast<int>(out.size());
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
    moved[id].push_back({place, i});
  out.Add(std::move(node));
}

}  // namespace

Graph Fuse(const Graph& graph, bool join) {
  const FusionGroups groups = FindFusionGroups(graph, join);
  const Wanted wanted = FindWanted(graph, groups);
  Moved moved(graph.size());
  Graph out;
  for (int id : OrderOfUnits(graph, groups)) {
    if (groups.of[id] < 0) {
      Copy(graph, id, moved, out);
    } else {
      GroupProgram(graph, wanted, moved, out).Emit(groups.groups[groups.of[id]]);
    }
  }
  for (int id : graph.inputs) out.inputs.push_back(moved[id][0].node);
  for (GraphEntry e : graph.outputs) out.outputs.push_back(moved[e.node][e.index]);
  return out;
}

}  // namespace plait
