// LibSVM files: a line is a label and then column:value pairs, columns from 0.

#ifndef PLAIT_DATA_LIBSVM_H_
#define PLAIT_DATA_LIBSVM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plait {

// The rows of a file as the parts of a csr matrix, and their labels.
struct LibSvmRows {
  std::vector<float> labels, values;
  std::vector<int64_t> columns, bounds;  // bounds: one more than rows
};

// Reads the lines that begin in part number `part` of `parts` equal pieces of the file:
// every line is in one part. A pair without a value counts as 1; '#' begins a comment.
// Columns must ascend within a line and be below `num_columns`. Throws kIo where the
// file cannot be read and kValue, with the byte, for lines that are not so.
LibSvmRows ReadLibSvm(const std::string& path, int64_t num_columns, int part,
                      int parts);

}  // namespace plait

#endif  // PLAIT_DATA_LIBSVM_H_
