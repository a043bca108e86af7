// Blocked forms: how operators run on arrays whose channels lie in blocks.
//
// (batch, channels, height, width) becomes (batch, blocks, height, width, block), the
// layout in which convolutions are fastest. Whole graphs stay in it (pass `blocked`).
// Operators with channels say how by a rule; pointwise ones need none.

#ifndef PLAIT_GRAPH_BLOCKED_FORM_H_
#define PLAIT_GRAPH_BLOCKED_FORM_H_

#include <functional>
#include <optional>

#include "graph/op.h"

namespace plait {

// The types of elements that are blocked.
inline bool IsBlockedType(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBfloat16 ||
         dtype == DType::kFloat16;
}

// What computes one input anew before the call: filters in the order of a kernel. Calls
// with equal texts of their parameters must do the same.
struct Preparation {
  int input = -1;
  const OpDef* op = nullptr;
  ParamsRef params;
};

// A call in its blocked form. Bit i of the masks: input or output i is blocked; all
// others are as in the plain call.
struct BlockedForm {
  const OpDef* op = nullptr;
  ParamsRef params;
  uint32_t blocked_in = 0, blocked_out = 0;
  Preparation preparation;
  // Multiplications that gain (above 0) or lose (below) by blocks; 0: a bystander.
  double gain = 0;
};

// Nothing where a call has no blocked form. `block`: channels of a block. REQUIRES: all
// specs are known.
using BlockedRule = std::function<std::optional<BlockedForm>(
    const void* params, const Specs& in, const Specs& out, int64_t block)>;

// For the operator of this name. Called before main().
void AddBlockedRule(const char* op, BlockedRule rule);
const BlockedRule* BlockedRuleOf(const OpDef& op);  // null: none

// What may follow a call in the same pass over its result: another array is added, then
// the values are bounded.
struct BlockedFinish {
  bool other = false;  // it becomes the last input
  bool bounded = false;
  float low = 0, high = 0;
  // Of a gradient: its first input counts only where another array, which becomes the
  // third input, is positive.
  bool masked = false;
};
// The parameters of a call that does this as well; null where it cannot.
using FinishRule = std::function<ParamsRef(const void* params, const BlockedFinish&)>;
void AddFinishRule(const char* op, FinishRule rule);
const FinishRule* FinishRuleOf(const OpDef& op);  // null: none

// Two calls as one, where the second alone reads the first's output 0 as its input 0.
// Its inputs are those of the first, then the others of the second.
struct JoinedForm {
  const OpDef* op = nullptr;
  ParamsRef params;
};
struct JoinCall {
  const OpDef* op;
  const void* params;
  const Specs& in;
};
// Nothing where they cannot be one.
using JoinRule =
    std::function<std::optional<JoinedForm>(const JoinCall&, const JoinCall&)>;
void AddJoinRule(const char* second, JoinRule rule);
const JoinRule* JoinRuleOf(const OpDef& second);  // null: none

// The shape in blocks, and back. REQUIRES: rank 4; rank 5.
Shape BlockedShape(const Shape& plain, int64_t block);
Shape PlainShape(const Shape& blocked, int64_t channels);

}  // namespace plait

#endif  // PLAIT_GRAPH_BLOCKED_FORM_H_
