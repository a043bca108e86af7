// Tests of the memory plan: what is alive at the same time does not overlap.

#include "passes/memory_plan.h"

#include <gtest/gtest.h>

#include <limits>

#include "passes/fuse.h"
#include "passes/gradient.h"
#include "passes/infer.h"
#include "passes/simplify.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

constexpr PlanStrategy kAllStrategies[] = {PlanStrategy::kNone, PlanStrategy::kInplace,
                                           PlanStrategy::kCoShare, PlanStrategy::kBoth};

MemoryPlan Plan(const Graph& graph, PlanStrategy strategy) {
  return PlanMemory(graph, {strategy, {}, {}});
}

struct Value {
  GraphEntry entry;
  ValuePlace place;
  int64_t bytes;
  int first, last;
};

// What a value is a view of, in the end.
GraphEntry RootOf(const Graph& graph, GraphEntry e) {
  while (true) {
    const GraphNode& node = graph.nodes[e.node];
    if (node.is_input() || !node.op->view || e.index != 0) return e;
    e = node.inputs[0];
  }
}

// Values that share memory while both are alive may do so as views, or where one ends
// at the very node that makes the other in its place.
void ExpectNoOverlap(const Graph& graph, const MemoryPlan& plan) {
  std::vector<std::vector<int>> last(graph.size());
  for (size_t id = 0; id < graph.size(); ++id)
    last[id].assign(graph.nodes[id].outputs.size(), static_cast<int>(id));
  for (size_t id = 0; id < graph.size(); ++id)
    for (GraphEntry e : graph.nodes[id].inputs)
      last[e.node][e.index] = static_cast<int>(id);
  for (GraphEntry e : graph.outputs)
    last[e.node][e.index] = std::numeric_limits<int>::max();
  std::vector<Value> values;
  for (size_t id = 0; id < graph.size(); ++id) {
    if (graph.nodes[id].is_input()) continue;
    for (int i = 0; i < static_cast<int>(graph.nodes[id].outputs.size()); ++i) {
      const GraphEntry e{static_cast<int>(id), i};
      const ValuePlace& place = plan.places[id][i];
      const int64_t bytes = graph.Bytes(e);
      if (place.kind == ValuePlace::kArena && bytes > 0) {
        EXPECT_GE(place.offset, 0);
        EXPECT_LE(place.offset + bytes, plan.arena_bytes);
      }
      if (bytes > 0)
        values.push_back({e, place, bytes, static_cast<int>(id), last[id][i]});
    }
  }
  for (const Value& a : values) {
    for (const Value& b : values) {
      if (a.entry == b.entry || b.first < a.first || a.last < b.first) continue;
      if (a.place.kind != b.place.kind || a.place.index != b.place.index) continue;
      if (a.place.kind == ValuePlace::kInput) continue;  // views of an input
      if (a.place.offset + a.bytes <= b.place.offset ||
          b.place.offset + b.bytes <= a.place.offset)
        continue;
      const bool in_place = a.last == b.first && a.first < b.first;
      EXPECT_TRUE(in_place || RootOf(graph, a.entry) == RootOf(graph, b.entry))
          << "values " << a.entry.node << '.' << a.entry.index << " and "
          << b.entry.node << '.' << b.entry.index << " overlap\n"
          << Dump(graph);
    }
  }
}

TEST(MemoryPlan, LiveValuesDoNotOverlap) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    for (bool gradients : {false, true}) {
      for (bool fused : {false, true}) {
        const Graph graph = RandomInferred(seed, 30, gradients, fused);
        int64_t none = 0;
        for (PlanStrategy strategy : kAllStrategies) {
          const MemoryPlan plan = Plan(graph, strategy);
          ExpectNoOverlap(graph, plan);
          if (HasFailure()) return;
          EXPECT_GE(plan.arena_bytes, plan.live_bytes);
          if (strategy == PlanStrategy::kNone) none = plan.arena_bytes;
          EXPECT_LE(plan.arena_bytes, none);
        }
      }
    }
  }
}

TEST(MemoryPlan, InplaceAndCoShareEachSaveMemoryInAChain) {
  // x -> tanh -> ... -> tanh, each alone.
  Symbol s = Symbol::Variable("x");
  for (int i = 0; i < 10; ++i) s = CallOp("tanh", {s});
  const Graph graph = Fuse(Inferred(s), false);
  const int64_t one = 64;  // (4, 4) floats
  EXPECT_EQ(Plan(graph, PlanStrategy::kNone).arena_bytes, 9 * one);
  EXPECT_LE(Plan(graph, PlanStrategy::kInplace).arena_bytes, one);
  EXPECT_EQ(Plan(graph, PlanStrategy::kCoShare).arena_bytes, 2 * one);
  EXPECT_LE(Plan(graph, PlanStrategy::kBoth).arena_bytes, one);
}

TEST(MemoryPlan, OutputsThatAreInputsAreCopied) {
  const Symbol x = Symbol::Variable("x"), y = CallOp("tanh", {x});
  const std::vector<Symbol> outputs{x, y, y};
  const MemoryPlan plan = PlanMemory(Inferred(Symbol::Group(outputs)));
  ASSERT_EQ(plan.copies.size(), 2u);
  EXPECT_EQ(plan.copies[0].first, 0);
  EXPECT_EQ(plan.copies[0].second.kind, ValuePlace::kInput);
  EXPECT_EQ(plan.copies[1].first, 2);
  EXPECT_EQ(plan.copies[1].second.kind, ValuePlace::kOutput);
}

}  // namespace
}  // namespace plait::testing
