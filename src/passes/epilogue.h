// Pass epilogue: a relu that alone reads a convolution or a layer becomes part of it, a
// cast to float32 that alone reads a product of half types part of that one.

#ifndef PLAIT_PASSES_EPILOGUE_H_
#define PLAIT_PASSES_EPILOGUE_H_

#include "graph/graph.h"

namespace plait {

Graph JoinEpilogues(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_EPILOGUE_H_
