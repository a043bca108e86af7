// `_in_pieces`: the operator that nodes become which run for parts of the batch.

#ifndef PLAIT_RUN_IN_PIECES_H_
#define PLAIT_RUN_IN_PIECES_H_

#include "passes/pieces.h"
#include "run/compiled_graph.h"

namespace plait {

// `part`: what the part of `pieces` was compiled to, node for node.
ParamsRef MakeInPieces(Pieces pieces, Ref<const CompiledGraph> part);

}  // namespace plait

#endif  // PLAIT_RUN_IN_PIECES_H_
