// Names under which a monitor shows what an operator reads.

#ifndef PLAIT_RUN_MONITOR_NAMES_H_
#define PLAIT_RUN_MONITOR_NAMES_H_

#include <string>
#include <vector>

#include "graph/op.h"

namespace plait {

// One name for each of `count` inputs, without the node's: MXNet's, which calls the
// input of most operators with one input `input0`, and those of any number `arg0`, ...
std::vector<std::string> MonitorNames(const OpDef& op, const Params& params,
                                      size_t count);

}  // namespace plait

#endif  // PLAIT_RUN_MONITOR_NAMES_H_
