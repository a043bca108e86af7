// GatherRows: the batch of an array in memory.

#include <cstring>

#include "base/error.h"
#include "data/sample_maker.h"

namespace plait::data {

NDArray GatherRows(const NDArray& array, std::span<const int64_t> rows) {
  Check(array && array.shape().rank() > 0,
        "gather_rows: an array with an axis was "
        "expected");
  const int64_t count = array.shape()[0];
  for (const int64_t row : rows) {
    Check(row >= 0 && row < count, "gather_rows: row ", row, " of ", count);
  }
  Shape shape = array.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  NDArray batch = NDArray::Empty(shape, array.dtype());
  if (batch.nbytes() == 0) return batch;
  array.chunk();  // places a pending value
  array.WaitToRead();
  const int64_t size = array.nbytes() / count;
  const char* const from = array.data<char>();
  char* to = batch.data<char>();
  for (size_t i = 0, end = 0; i < rows.size(); i = end) {
    end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const size_t bytes = (end - i) * static_cast<size_t>(size);
    std::memcpy(to, from + rows[i] * size, bytes);
    to += bytes;
  }
  return batch;
}

}  // namespace plait::data
