// Pass blocked_epilogue: sums and bounds become part of the convolutions before them.

#ifndef PLAIT_PASSES_BLOCKED_EPILOGUE_H_
#define PLAIT_PASSES_BLOCKED_EPILOGUE_H_

#include "graph/graph.h"

namespace plait {

// A sum, relu or clip that alone reads a blocked convolution (graph/blocked_form.h) is
// done by the convolution, while its results are in registers.
Graph JoinBlockedEpilogues(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_BLOCKED_EPILOGUE_H_
