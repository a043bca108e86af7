// The symbol of what the tape recorded.

#ifndef PLAIT_RUN_TAPE_SYMBOL_H_
#define PLAIT_RUN_TAPE_SYMBOL_H_

#include <vector>

#include "graph/graph.h"
#include "graph/symbol.h"
#include "ndarray/ndarray.h"

namespace plait {

// The recorded calls behind x: leaves and arrays from outside become variables `var0`,
// `var1`, ... in the order of use; calls of graphs are as the nodes of these. Throws
// kValue when x was not recorded, and kNotImplemented for calls that are no operators.
Symbol SymbolOfTape(const NDArray& x);

// The nodes of a graph composed with symbols for its inputs: what its outputs are.
// Throws kNotImplemented for operators that hold graphs or other than plain parameters.
std::vector<SymbolEntry> SymbolsOfGraph(const Graph& graph,
                                        const std::vector<Symbol>& inputs);

}  // namespace plait

#endif  // PLAIT_RUN_TAPE_SYMBOL_H_
