// What passes ask of a node by the names of its operator's parameters.

#ifndef PLAIT_PASSES_NODE_FIELDS_H_
#define PLAIT_PASSES_NODE_FIELDS_H_

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace plait {

// A parameter's value; empty where there is none of this name. REQUIRES (here and
// below): not an input of the graph.
inline AttrValue FieldOf(const GraphNode& node, std::string_view name) {
  for (const Field& field : node.op->fields)
    if (field.name == name) return field.access->Get(node.params->get());
  return {};
}
inline std::string TextOf(const GraphNode& node, std::string_view name) {
  return FormatAttr(FieldOf(node, name));
}

inline bool IsRelu(const GraphNode& node) {
  return node.op->fn == Fn::kRelu ||
         (node.op->name == "Activation" && TextOf(node, "act_type") == "relu");
}

}  // namespace plait

#endif  // PLAIT_PASSES_NODE_FIELDS_H_
