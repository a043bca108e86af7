// Piece forms: how operators run on a part of a batch.
//
// A call that works sample by sample along axis 0 can run part after part; only values
// of one part are then alive at once (pass `pieces`). Operators say by a rule what
// their call looks like for a part.

#ifndef PLAIT_GRAPH_PIECE_FORM_H_
#define PLAIT_GRAPH_PIECE_FORM_H_

#include <functional>
#include <optional>

#include "graph/op.h"

namespace plait {

// The same call for fewer samples. Bit i of the masks: input or output i has the
// samples along axis 0, and each part reads or gives its own. All other inputs are read
// whole by every part; all other outputs are sums over the samples, so that those of
// the parts add up.
struct PieceForm {
  ParamsRef params;
  uint32_t sliced_in = 0, sliced_out = 0;
};

// Nothing where a call cannot run in parts. `samples`: of a part. REQUIRES: all specs
// are known.
using PieceRule = std::function<std::optional<PieceForm>(
    const ParamsRef& params, const Specs& in, const Specs& out, int64_t samples)>;

// For the operator of this name. Called before main().
void AddPieceRule(const char* op, PieceRule rule);
const PieceRule* PieceRuleOf(const OpDef& op);  // null: none

}  // namespace plait

#endif  // PLAIT_GRAPH_PIECE_FORM_H_
