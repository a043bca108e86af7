// Pass epilogue: a relu that alone reads a convolution or a layer becomes part of it.

#ifndef PLAIT_PASSES_EPILOGUE_H_
#define PLAIT_PASSES_EPILOGUE_H_

#include "graph/graph.h"

namespace plait {

Graph JoinEpilogues(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_EPILOGUE_H_
