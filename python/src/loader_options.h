// Options of ImageLoader from Python's values.

#ifndef PLAIT_PYTHON_SRC_LOADER_OPTIONS_H_
#define PLAIT_PYTHON_SRC_LOADER_OPTIONS_H_

#include "bindings.h"
#include "data/image_loader.h"

namespace plait::python {

// From ImageDetRecordIter's own parameters by name. "samplers" is a list of tuples of
// the numbers of a CropSampler in their order.
data::DetectionOptions DetectionFrom(const nanobind::dict& options);

}  // namespace plait::python

#endif  // PLAIT_PYTHON_SRC_LOADER_OPTIONS_H_
