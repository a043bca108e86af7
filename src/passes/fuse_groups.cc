// Growing groups: nodes are visited in order. A node joins the groups that make its
// inputs, if no path leads from such a group to the node through a node outside. A
// reduction of one of its values may end a group.

#include "passes/fuse_groups.h"

#include <algorithm>

namespace plait {
namespace {

constexpr int kMaxInputs = PointwiseProgram::kMaxInputs;
constexpr int kMaxSteps = PointwiseProgram::kMaxSteps;
constexpr int kMaxConstants = PointwiseProgram::kMaxConstants;
constexpr int kMaxOutputs = PointwiseProgram::kMaxOutputs;
// How many nodes a search for a path visits before it gives up (and does not join).
constexpr int kSearchLimit = 256;
constexpr int kStepsOfReduction = 5, kConstantsOfReduction = 2;

int64_t Key(GraphEntry e) {
  return static_cast<int64_t>(e.node) << 8 | e.index;
}

class GroupFinder {
 public:
  GroupFinder(const Graph& graph, bool join) : graph_(graph), join_(join) {
    found_.of.assign(graph.size(), -1);
    latest_.resize(graph.size());
    users_.resize(graph.size());
    for (size_t id = 0; id < graph.size(); ++id) {
      for (GraphEntry e : graph.nodes[id].inputs)
        users_[e.node].push_back(static_cast<int>(id));
    }
  }

  FusionGroups Run() {
    for (size_t id = 0; id < graph_.size(); ++id) {
      latest_[id] = static_cast<int>(id);
      if (IsFusable(graph_.nodes[id])) {
        Place(static_cast<int>(id));
      } else if (join_) {
        PlaceReduction(static_cast<int>(id));
      }
    }
    return std::move(found_);
  }

 private:
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
    AppendExpression(node, InputsOf(node, &program));
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

  void Place(int id) {
    const GraphNode& node = graph_.nodes[id];
    const auto [steps, constants] = SizeOfNode(node);
    FusionGroup fresh;
    fresh.members = {id};
    fresh.first = id;
    fresh.steps = steps;
    fresh.constants = constants;
    for (GraphEntry e : node.inputs) fresh.inputs.insert(Key(e));
    int mine = static_cast<int>(found_.groups.size());
    found_.groups.push_back(std::move(fresh));
    found_.of[id] = mine;
    if (!Joins(id)) return;
    for (GraphEntry e : node.inputs) {
      const int other = found_.of[e.node];
      if (other < 0 || other == mine || !Joins(e.node)) continue;
      if (!(SpaceOf(e.node) == SpaceOf(id)) ||
          graph_.nodes[e.node].backward != node.backward)
        continue;
      if (Fits(found_.groups[other], found_.groups[mine]) &&
          !ReadsReduction(other, mine) && !ReadsReduction(mine, other) &&
          !PathOutside(other, mine) && !PathOutside(mine, other)) {
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
    const int group = found_.of[x.node];
    if (group < 0 || !Joins(x.node) || graph_.spec(x).shape.size() == 0 ||
        graph_.nodes[x.node].backward != node.backward)
      return;
    FusionGroup& g = found_.groups[group];
    if (g.reduction >= 0 || g.steps + kStepsOfReduction > kMaxSteps ||
        g.constants + kConstantsOfReduction > kMaxConstants ||
        static_cast<int>(g.members.size()) >= kMaxOutputs)
      return;
    g.reduction = id;
    g.steps += kStepsOfReduction;
    g.constants += kConstantsOfReduction;
    found_.of[id] = group;
  }

  // Whether a member of `to` reads what the group `from` reduces: it is there only when
  // all of the group has run.
  bool ReadsReduction(int from, int to) const {
    if (found_.groups[from].reduction < 0) return false;
    for (int id : found_.groups[to].members) {
      for (GraphEntry e : graph_.nodes[id].inputs)
        if (e.node == found_.groups[from].reduction) return true;
    }
    return false;
  }

  bool Fits(const FusionGroup& a, const FusionGroup& b) const {
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
    const int first = found_.groups[from].first;
    std::vector<int> stack;
    std::unordered_set<int> seen;
    bool found = false;
    const auto push_inputs = [&](int id) {
      for (GraphEntry e : graph_.nodes[id].inputs) {
        const int group = found_.of[e.node];
        if (group == from) {
          if (found_.of[id] != to) found = true;
          continue;
        }
        if (group == to || latest_[e.node] < first) continue;
        if (seen.insert(e.node).second) stack.push_back(e.node);
      }
    };
    for (int id : found_.groups[to].members) push_inputs(id);
    while (!stack.empty() && !found) {
      if (seen.size() > kSearchLimit) return true;
      const int id = stack.back();
      stack.pop_back();
      const int group = found_.of[id];
      if (group < 0) {
        push_inputs(id);
        continue;
      }
      // It runs with its whole group.
      for (int member : found_.groups[group].members) {
        seen.insert(member);
        push_inputs(member);
      }
    }
    return found;
  }

  void Merge(int into, int from) {
    FusionGroup& a = found_.groups[into];
    FusionGroup& b = found_.groups[from];
    for (int id : b.members) found_.of[id] = into;
    if (b.reduction >= 0) {
      a.reduction = b.reduction;
      found_.of[b.reduction] = into;
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
    b = FusionGroup();
  }

  // After a merge: the group and all that waits for it wait for its last member.
  void RaiseLatest(const FusionGroup& group) {
    const int last = group.members.back();
    std::vector<int> stack;
    const auto raise = [&](int id) {
      if (latest_[id] >= last) return;
      latest_[id] = last;
      stack.push_back(id);
    };
    const auto raise_group = [&](const FusionGroup& g) {
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
        if (found_.of[user] >= 0) raise_group(found_.groups[found_.of[user]]);
      }
    }
  }

  const Graph& graph_;
  const bool join_;
  FusionGroups found_;
  // The last member, in order, of all units (a group, or a node outside groups) that
  // the node's unit waits for or is.
  std::vector<int> latest_;
  std::vector<std::vector<int>> users_;
};

}  // namespace

FusionGroups FindFusionGroups(const Graph& graph, bool join) {
  return GroupFinder(graph, join).Run();
}

PwCall AppendExpression(const GraphNode& node, std::span<const Pw> operands) {
  PwCall call(operands);
  if (node.op->fn != Fn::kCount) {
    call.Return(Call(node.op->fn, operands));
  } else {
    node.op->pointwise(node.params->get(), call);
  }
  return call;
}

}  // namespace plait
