// Pass blocked_epilogue: sums and bounds become part of the layers before them.

#ifndef PLAIT_PASSES_BLOCKED_EPILOGUE_H_
#define PLAIT_PASSES_BLOCKED_EPILOGUE_H_

#include "graph/graph.h"

namespace plait {

// A sum, relu or clip that alone reads a blocked convolution or normalisation is done
// there, while the values are in registers (FinishRule in graph/blocked_form.h); so is
// the gradient of a relu that is read by the gradient of a normalisation.
Graph JoinBlockedEpilogues(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_BLOCKED_EPILOGUE_H_
