// The symbol of what the tape recorded.

#ifndef PLAIT_RUN_TAPE_SYMBOL_H_
#define PLAIT_RUN_TAPE_SYMBOL_H_

#include "graph/symbol.h"
#include "ndarray/ndarray.h"

namespace plait {

// The recorded calls behind x: leaves and arrays from outside become variables `var0`,
// `var1`, ... in the order of use. Throws kValue when x was not recorded, and
// kNotImplemented for calls that are no operators (functions, graphs).
Symbol SymbolOfTape(const NDArray& x);

}  // namespace plait

#endif  // PLAIT_RUN_TAPE_SYMBOL_H_
