// Pass fuse: growing groups of pointwise nodes, and turning them into programs.
//
// Nodes are visited in order. A node joins the groups that make its inputs, if no path
// leads from such a group to the node through a node outside: a group runs as a whole.
// A unit is a group or a node outside groups.
// A reduction of one of its values may end a group.

#include "passes/fuse.h"

#include <algorithm>
#include <unordered_set>

#include "graph/fused.h"

namespace plait {
namespace {

constexpr int kMaxInputs = PointwiseProgram::kMaxInputs;
constexpr int kMaxSteps = PointwiseProgram::kMaxSteps;
constexpr int kMaxConstants = PointwiseProgram::kMaxConstants;
constexpr int kMaxOutputs = PointwiseProgram::kMaxOutputs;
// How many nodes a search for a path visits before it gives up (and does not join).
constexpr int kSearchLimit = 256;
constexpr int kStepsOfReduction = 5, kConstantsOfReduction = 2;

struct Group {
  std::vector<int> members;  // in order
  int first = 0;
  int steps = 0, constants = 0;
  int reduction = -1;                  // a node that reduces one of the values
  std::unordered_set<int64_t> inputs;  // values from outside, as keys
};

int64_t Key(GraphEntry e) {
  return static_cast<int64_t>(e.node) << 8 | e.index;
}

class Fusion {
 public:
  Fusion(const Graph& graph, bool join) : graph_(graph), join_(join) {
    group_of_.assign(graph.size(), -1);
    latest_.resize(graph.size());
    users_.resize(graph.size());
    for (size_t id = 0; id < graph.size(); ++id) {
      for (GraphEntry e : graph.nodes[id].inputs)
        users_[e.node].push_back(static_cast<int>(id));
    }
  }

  Graph Run() {
    for (size_t id = 0; id < graph_.size(); ++id) {
      latest_[id] = static_cast<int>(id);
      if (IsFusable(graph_.nodes[id])) {
        Place(static_cast<int>(id));
      } else if (join_) {
        PlaceReduction(static_cast<int>(id));
      }
    }
    return Emit();
  }

 private:
  // ------------------------------------------------------------ groups

  bool IsFusable(const GraphNode& node) const {
    if (node.is_input() || !node.op->IsPointwise(*node.params)) return false;
    if (node.inputs.empty() || static_cast<int>(node.inputs.size()) > kMaxInputs / 2)
      return false;
    Specs in;
    for (GraphEntry e : node.inputs) in.push_back(graph_.spec(e));
    return !PrefersKernel(*node.op, *node.params, in);
  }
  // Nodes that write inputs stay alone: others may read what they overwrite.
  bool Joins(int id) const { return join_ && graph_.nodes[id].mutates.empty(); }

  const Shape& SpaceOf(int id) const { return graph_.nodes[id].outputs[0].shape; }

  // Steps and constants that the node's expression takes.
  std::pair<int, int> SizeOfNode(const GraphNode& node) const {
    PointwiseProgram program;
    Append(node, InputsOf(node, &program));
    return {program.num_steps, program.num_constants};
  }

  SmallVector<Pw, 4> InputsOf(const GraphNode& node, PointwiseProgram* program) const {
    SmallVector<Pw, 4> operands;
    for (GraphEntry e : node.inputs) {
      const DType dtype = graph_.spec(e).dtype;
      program->inputs[program->num_inputs] = dtype;
      operands.push_back(
          Pw(program, {PointwiseArg::kInput, program->num_inputs++}, dtype));
    }
    return operands;
  }

  static PwCall Append(const GraphNode& node, std::span<const Pw> operands) {
    PwCall call(operands);
    if (node.op->fn != Fn::kCount) {
      call.Return(Call(node.op->fn, operands));
    } else {
      node.op->pointwise(node.params->get(), call);
    }
    return call;
  }

  void Place(int id) {
    const GraphNode& node = graph_.nodes[id];
    const auto [steps, constants] = SizeOfNode(node);
    Group fresh;
    fresh.members = {id};
    fresh.first = id;
    fresh.steps = steps;
    fresh.constants = constants;
    for (GraphEntry e : node.inputs) fresh.inputs.insert(Key(e));
    int mine = static_cast<int>(groups_.size());
    groups_.push_back(std::move(fresh));
    group_of_[id] = mine;
    if (!Joins(id)) return;
    for (GraphEntry e : node.inputs) {
      const int other = group_of_[e.node];
      if (other < 0 || other == mine || !Joins(e.node)) continue;
      if (!(SpaceOf(e.node) == SpaceOf(id)) ||
          graph_.nodes[e.node].backward != node.backward)
        continue;
      if (Fits(groups_[other], groups_[mine]) && !ReadsReduction(other, mine) &&
          !ReadsReduction(mine, other) && !PathOutside(other, mine) &&
          !PathOutside(mine, other)) {
        Merge(other, mine);
        mine = other;
      }
    }
  }

  // A reduction ends the group that makes what it reduces.
  void PlaceReduction(int id) {
    const GraphNode& node = graph_.nodes[id];
    if (node.is_input() || !node.op->reduce || node.inputs.size() != 1) return;
    const GraphEntry x = node.inputs[0];
    const int group = group_of_[x.node];
    if (group < 0 || !Joins(x.node) || graph_.spec(x).shape.size() == 0 ||
        graph_.nodes[x.node].backward != node.backward)
      return;
    Group& g = groups_[group];
    if (g.reduction >= 0 || g.steps + kStepsOfReduction > kMaxSteps ||
        g.constants + kConstantsOfReduction > kMaxConstants ||
        static_cast<int>(g.members.size()) >= kMaxOutputs)
      return;
    g.reduction = id;
    g.steps += kStepsOfReduction;
    g.constants += kConstantsOfReduction;
    group_of_[id] = group;
  }

  // Whether a member of `to` reads what the group `from` reduces: it is there only when
  // all of the group has run.
  bool ReadsReduction(int from, int to) const {
    if (groups_[from].reduction < 0) return false;
    for (int id : groups_[to].members) {
      for (GraphEntry e : graph_.nodes[id].inputs)
        if (e.node == groups_[from].reduction) return true;
    }
    return false;
  }

  bool Fits(const Group& a, const Group& b) const {
    if (a.reduction >= 0 && b.reduction >= 0) return false;
    if (a.steps + b.steps > kMaxSteps || a.constants + b.constants > kMaxConstants)
      return false;
    if (a.members.size() + b.members.size() > static_cast<size_t>(kMaxOutputs))
      return false;
    size_t inputs = a.inputs.size();
    for (int64_t key : b.inputs) inputs += !a.inputs.contains(key);
    return inputs <= static_cast<size_t>(kMaxInputs);
  }

  // Whether a member of `to` depends on one of `from` through a node of neither.
  bool PathOutside(int from, int to) const {
    const int first = groups_[from].first;
    std::vector<int> stack;
    std::unordered_set<int> seen;
    bool found = false;
    const auto push_inputs = [&](int id) {
      for (GraphEntry e : graph_.nodes[id].inputs) {
        const int group = group_of_[e.node];
        if (group == from) {
          if (group_of_[id] != to) found = true;
          continue;
        }
        if (group == to || latest_[e.node] < first) continue;
        if (seen.insert(e.node).second) stack.push_back(e.node);
      }
    };
    for (int id : groups_[to].members) push_inputs(id);
    while (!stack.empty() && !found) {
      if (seen.size() > kSearchLimit) return true;
      const int id = stack.back();
      stack.pop_back();
      const int group = group_of_[id];
      if (group < 0) {
        push_inputs(id);
        continue;
      }
      // It runs with its whole group.
      for (int member : groups_[group].members) {
        seen.insert(member);
        push_inputs(member);
      }
    }
    return found;
  }

  void Merge(int into, int from) {
    Group& a = groups_[into];
    Group& b = groups_[from];
    for (int id : b.members) group_of_[id] = into;
    if (b.reduction >= 0) {
      a.reduction = b.reduction;
      group_of_[b.reduction] = into;
    }
    a.members.insert(a.members.end(), b.members.begin(), b.members.end());
    std::sort(a.members.begin(), a.members.end());
    a.first = a.members.front();
    a.steps += b.steps;
    a.constants += b.constants;
    a.inputs.insert(b.inputs.begin(), b.inputs.end());
    RaiseLatest(a);
    for (int id : a.members) {
      for (int i = 0; i < static_cast<int>(graph_.nodes[id].outputs.size()); ++i)
        a.inputs.erase(Key({id, i}));
    }
    b = Group();
  }

  // After a merge: the group and all that waits for it wait for its last member.
  void RaiseLatest(const Group& group) {
    const int last = group.members.back();
    std::vector<int> stack;
    const auto raise = [&](int id) {
      if (latest_[id] >= last) return;
      latest_[id] = last;
      stack.push_back(id);
    };
    const auto raise_group = [&](const Group& g) {
      for (int id : g.members) raise(id);
      if (g.reduction >= 0) raise(g.reduction);
    };
    raise_group(group);
    stack.push_back(last);
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      for (int user : users_[id]) {
        if (user > last) break;  // not visited yet
        raise(user);
        if (group_of_[user] >= 0) raise_group(groups_[group_of_[user]]);
      }
    }
  }

  // ------------------------------------------------------------ the new graph

  // Where each value of the old graph is in the new one.
  Graph Emit() {
    MarkWanted();
    std::vector<std::vector<GraphEntry>> moved(graph_.size());
    Graph out;
    for (int id : Units()) {
      const int group = group_of_[id];
      if (group >= 0) {
        EmitGroup(groups_[group], moved, out);
        continue;
      }
      GraphNode node = graph_.nodes[id];
      for (GraphEntry& e : node.inputs) e = moved[e.node][e.index];
      const int place = static_cast<int>(out.size());
      for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
        moved[id].push_back({place, i});
      out.Add(std::move(node));
    }
    for (int id : graph_.inputs) out.inputs.push_back(moved[id][0].node);
    for (GraphEntry e : graph_.outputs) out.outputs.push_back(moved[e.node][e.index]);
    return out;
  }

  void MarkWanted() {
    wanted_.resize(graph_.size());
    for (size_t id = 0; id < graph_.size(); ++id)
      wanted_[id].assign(graph_.nodes[id].outputs.size(), false);
    for (size_t id = 0; id < graph_.size(); ++id) {
      for (GraphEntry e : graph_.nodes[id].inputs) {
        if (group_of_[e.node] < 0 || group_of_[e.node] != group_of_[id])
          wanted_[e.node][e.index] = true;
      }
    }
    for (GraphEntry e : graph_.outputs) wanted_[e.node][e.index] = true;
  }

  // One node of each unit (a group, or a node alone), each after what it reads.
  std::vector<int> Units() const {
    std::vector<int> order;
    std::vector<char> state(graph_.size(), 0);  // 1: entered, 2: done
    std::vector<int> stack;
    const auto unit = [&](int id) {
      return group_of_[id] < 0 ? id : groups_[group_of_[id]].members.back();
    };
    for (size_t start = 0; start < graph_.size(); ++start) {
      // A group's turn comes where its last member stands.
      if (unit(static_cast<int>(start)) != static_cast<int>(start)) continue;
      stack.push_back(static_cast<int>(start));
      while (!stack.empty()) {
        const int id = stack.back();
        if (state[id] == 2) {
          stack.pop_back();
          continue;
        }
        if (state[id] == 1) {
          state[id] = 2;
          order.push_back(id);
          stack.pop_back();
          continue;
        }
        state[id] = 1;
        const auto visit = [&](int member) {
          for (GraphEntry e : graph_.nodes[member].inputs) {
            const int u = unit(e.node);
            if (u == id || state[u] == 2) continue;
            Check(state[u] == 0, ErrorKind::kRuntime, "fuse: ", graph_.nodes[u].name,
                  " and ", graph_.nodes[id].name,
                  " wait for each other, a fault of Plait; an order was expected");
            stack.push_back(u);
          }
        };
        if (group_of_[id] < 0) {
          visit(id);
        } else {
          for (int member : groups_[group_of_[id]].members) visit(member);
        }
      }
    }
    return order;
  }

  void EmitGroup(const Group& group, std::vector<std::vector<GraphEntry>>& moved,
                 Graph& out) const {
    FusedParams fused;
    PointwiseProgram& p = fused.program;
    GraphNode node;
    node.op = &FusedOp();
    std::vector<std::pair<GraphEntry, Pw>> values;  // known in this program
    std::vector<PwCall::InputUpdate> updates;
    const auto find = [&](GraphEntry e) -> const Pw* {
      for (const auto& [entry, value] : values)
        if (entry == e) return &value;
      return nullptr;
    };
    for (int id : group.members) {
      const GraphNode& from = graph_.nodes[id];
      SmallVector<Pw, 4> operands;
      for (GraphEntry e : from.inputs) {
        if (const Pw* known = find(e)) {
          operands.push_back(*known);
          continue;
        }
        const DType dtype = graph_.spec(e).dtype;
        const Pw input(&p, {PointwiseArg::kInput, p.num_inputs}, dtype);
        p.inputs[p.num_inputs++] = dtype;
        node.inputs.push_back(moved[e.node][e.index]);
        values.push_back({e, input});
        operands.push_back(input);
      }
      const PwCall call = Append(from, operands);
      for (int i = 0; i < static_cast<int>(call.outputs.size()); ++i)
        values.push_back({{id, i}, call.outputs[i]});
      updates.insert(updates.end(), call.updates.begin(), call.updates.end());
      node.backward = from.backward;
      node.recompute |= from.recompute;
      node.name += (node.name.empty() ? "" : "+") + from.name;
      if (node.group.empty()) node.group = from.group;
    }
    Shape common = out.spec(node.inputs[0]).shape;
    for (GraphEntry e : node.inputs)
      common = Broadcast(common, out.spec(e).shape, "_fused");
    const Shape& space = SpaceOf(group.members[0]);
    if (!(common == space) || group.reduction >= 0) fused.space = space;
    const int place = static_cast<int>(out.size());
    for (int id : group.members) {
      const GraphNode& from = graph_.nodes[id];
      for (int i = 0; i < static_cast<int>(from.outputs.size()); ++i) {
        if (!wanted_[id][i]) {
          moved[id].push_back({});
          continue;
        }
        Pw value = *find({id, i});
        // An input or a constant that is passed on needs a step of its own.
        if (value.arg().kind != PointwiseArg::kStep) value = Call(Fn::kCopy, value);
        moved[id].push_back({place, p.num_outputs});
        p.outputs[p.num_outputs++] = value.arg();
        node.outputs.push_back(from.outputs[i]);
      }
    }
    // Only a node that is alone has updates: its inputs are the group's.
    for (const PwCall::InputUpdate& update : updates) {
      Pw value = Cast(update.value, p.inputs[update.input]);
      if (value.arg().kind != PointwiseArg::kStep) value = Call(Fn::kCopy, value);
      p.outputs[p.num_outputs++] = value.arg();
      fused.updates.push_back(update.input);
      node.mutates.push_back(update.input);
    }
    if (group.reduction >= 0) {
      const GraphNode& from = graph_.nodes[group.reduction];
      Pw x = *find(from.inputs[0]);
      if (x.arg().kind != PointwiseArg::kStep) x = Call(Fn::kCopy, x);
      fused.reduction = PointwiseReduction{.dtype = from.outputs[0].dtype};
      const Pw y = from.op->reduce(from.params->get(), x, space, *fused.reduction);
      moved[group.reduction].push_back({place, p.num_outputs});
      p.outputs[p.num_outputs++] = y.arg();
      node.outputs.push_back(from.outputs[0]);
      node.name += "+" + from.name;
    }
    PruneProgram(p);
    node.params = MakeParams(std::move(fused));
    out.Add(std::move(node));
  }

  const Graph& graph_;
  const bool join_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  // The last member, in order, of all units that the node's unit waits for or is.
  std::vector<int> latest_;
  std::vector<std::vector<int>> users_;
  std::vector<std::vector<bool>> wanted_;
};

}  // namespace

Graph Fuse(const Graph& graph, bool join) {
  return Fusion(graph, join).Run();
}

}  // namespace plait
