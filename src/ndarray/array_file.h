// Files of arrays: MXNet's .params containers and safetensors.
//
// Reading never trusts a file: every size is checked against what is left of the file
// before memory is taken, and errors (kIo) name the file and the byte.

#ifndef PLAIT_NDARRAY_ARRAY_FILE_H_
#define PLAIT_NDARRAY_ARRAY_FILE_H_

#include <span>
#include <string>
#include <vector>

#include "ndarray/ndarray.h"

namespace plait {

struct NamedArrays {
  std::vector<std::string> names;  // empty, or one for each array
  std::vector<NDArray> arrays;
};

// MXNet's container. Arrays are written in the oldest record version that can express
// them, so that MXNet 0.12 and later read them; versions V0 to V3 are read.
void SaveParams(const std::string& path, const NamedArrays& content);
NamedArrays LoadParams(const std::string& path);
NamedArrays ParseParams(std::span<const char> bytes, const std::string& source);

// One array record, as MXNet pickles arrays.
std::string DumpArray(const NDArray& array);
NDArray ParseArray(std::span<const char> bytes);

// The safetensors format: a JSON header of names, dtypes, shapes and places, then the
// elements. Names must be there.
void SaveSafetensors(const std::string& path, const NamedArrays& content);
NamedArrays LoadSafetensors(const std::string& path);

}  // namespace plait

#endif  // PLAIT_NDARRAY_ARRAY_FILE_H_
