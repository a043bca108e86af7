// What is done on sparse arrays in more than one place: conversions, sums, gradients.

#ifndef PLAIT_RUN_SPARSE_H_
#define PLAIT_RUN_SPARSE_H_

#include "ndarray/sparse.h"

namespace plait {

// The dense array of the same values; x itself when it is dense.
NDArray ToDense(const NDArray& x);

// x in another storage; x itself when it has it. From dense arrays values that are zero
// (of row_sparse: rows of zeros) are left out, and x is waited for.
NDArray CastStorage(const NDArray& x, Storage storage);

// Rows `ids` (any integers as numbers; sorted and made unique here) of x, a row_sparse
// array, that x has.
NDArray Retain(const NDArray& x, std::vector<int64_t> ids);

// x + y of arrays of one shape; row_sparse when both are.
NDArray AddSparse(const NDArray& x, const NDArray& y);

// The values of a row_sparse array that has all its rows, to be written in place;
// copied first where another array shares them. No array where rows are missing.
NDArray WritableRows(const NDArray& x);

// The different numbers of `ids` (int64, in [0, size)), ascending, and where each of
// the ids is among them.
struct Distinct {
  NDArray ids, places;
};
Distinct DistinctIds(const NDArray& ids, int64_t size);

// The row_sparse array of `shape` with rows dy[j] added up at ids[j], which are clipped
// into range: the gradient of an embedding.
NDArray SumRows(const NDArray& dy, const NDArray& ids, const Shape& shape);

// dst = src, where either may be sparse; storage and dtype are those of dst.
void AssignSparse(const NDArray& src, const NDArray& dst);

}  // namespace plait

#endif  // PLAIT_RUN_SPARSE_H_
