// Sparse arrays: csr and row_sparse values, made of dense arrays.
//
// A sparse array is an NDArray handle whose body has no memory: its Pending is the
// SparseForm that holds the parts, for ever. So code that knows of sparse arrays asks
// IsSparse() and works on the parts, and code that does not gets an error from Flush()
// when it wants the memory. Nothing on the way of dense arrays is slower.
//
// Parts never change in place: writing to a sparse array gives it other parts. That
// makes copies free, and lets an operation that was asked for before keep what it read.
// (But data that one array alone has: see OwnedData.)
//
// row_sparse: data (k, d1, ...) are the rows `indices` (k), ascending, of an array that
// is zero elsewhere. csr, of two axes: row r holds data[j] at column indices[j] for j
// in [indptr[r], indptr[r + 1]). Indices are int64.

#ifndef PLAIT_NDARRAY_SPARSE_H_
#define PLAIT_NDARRAY_SPARSE_H_

#include <vector>

#include "ndarray/ndarray.h"

namespace plait {

enum class Storage : uint8_t { kDefault = 0, kRowSparse = 1, kCsr = 2 };
const char* Name(Storage storage);

struct SparseParts {
  Storage storage = Storage::kRowSparse;
  NDArray data, indices, indptr;  // indptr: of csr only
};

// A new sparse array. The shapes of the parts are checked against `shape`, not the
// values of the indices (CheckFormat does that). The dtype is that of the data.
NDArray MakeSparse(SparseParts parts, const Shape& shape, Device device = {});

bool IsSparse(const NDArray& x);
Storage StorageOf(const NDArray& x);
// REQUIRES: IsSparse(x).
SparseParts PartsOf(const NDArray& x);
// Other values for x: parts of its storage, shape and dtype.
void SetParts(const NDArray& x, SparseParts parts);

// The data of x, to be written in place: those that SetOwnedParts gave, while no other
// array has them too; else none.
NDArray OwnedData(const NDArray& x);
// SetParts with data that were made for x alone.
void SetOwnedParts(const NDArray& x, SparseParts parts);

// An array without a value that is not zero.
NDArray EmptySparse(Storage storage, const Shape& shape, DType dtype,
                    Device device = {});

// Throws kValue where the indices are not what the storage says: out of range, not
// ascending, or row bounds that go down. Waits for the indices.
enum class Strictness : uint8_t {
  kEnds,     // only the ends of indptr
  kInRange,  // all, but columns of csr in any order
  kOrdered,  // all
};
void CheckFormat(const NDArray& x, Strictness strictness);

// The values of an int64 array; waits.
std::vector<int64_t> Integers(const NDArray& x);

}  // namespace plait

#endif  // PLAIT_NDARRAY_SPARSE_H_
