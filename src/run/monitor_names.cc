// Names for monitors.

#include "run/monitor_names.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "graph/symbol.h"

namespace plait {
namespace {

// Operators of one input that show it by its own name.
constexpr std::string_view kNamed[] = {
    "Dropout",
    "GridGenerator",
    "L2Normalization",
    "LRN",
    "LeakyReLU",
    "MakeLoss",
    "Pad",
    "Pooling",
    "SequenceLast",
    "SequenceMask",
    "SequenceReverse",
    "SliceChannel",
    "SwapAxis",
    "_contrib_AdaptiveAvgPooling2D",
    "_contrib_BilinearResize2D",
    "_contrib_MultiBoxPrior",
    "_contrib_index_array",
    "_contrib_quadratic",
    "_histogram",
    "_image_normalize",
    "_image_to_tensor",
    "_ravel_multi_index",
    "_split_v2",
    "_unravel_index",
    "all_finite",
    "col2im",
    "depth_to_space",
    "diag",
    "im2col",
    "log_softmax",
    "moments",
    "repeat",
    "reverse",
    "softmax",
    "space_to_depth",
    "squeeze",
    "tile",
};

}  // namespace

std::vector<std::string> MonitorNames(const OpDef& op, const Params& params,
                                      size_t count) {
  std::vector<std::string> names = InputNames(op, params);
  const bool named =
      std::find(std::begin(kNamed), std::end(kNamed), op.name) != std::end(kNamed);
  if (count == 1 && names.size() == 1 && !named) names[0] = "input0";
  for (size_t i = names.size(); i < count; ++i) {
    names.push_back("arg" + std::to_string(i));
  }
  return names;
}

}  // namespace plait
