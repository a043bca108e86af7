// SparseForm: the parts of a sparse array, and what is checked of them.

#include "ndarray/sparse.h"

#include <mutex>
#include <typeinfo>

#include "base/error.h"

namespace plait {
namespace {

// Owned by the one body that points to it.
class SparseForm final : public Pending {
 public:
  explicit SparseForm(SparseParts parts) : parts_(std::move(parts)) {}

  void Flush() override {
    Fail(ErrorKind::kType, "storage: a ", Name(Get().storage),
         " array is given where its elements are needed in memory; "
         "x.tostype('default') was expected");
  }
  void Forget(ArrayBody* body) noexcept override {
    body->pending.store(nullptr, std::memory_order_release);
    delete this;
  }

  SparseParts Get() {
    const std::lock_guard lock(mutex_);
    return parts_;
  }
  void Set(SparseParts parts, bool owned) {
    const std::lock_guard lock(mutex_);
    std::swap(parts_, parts);  // the old ones go after the lock
    owned_ = owned;
  }
  NDArray Owned() {
    const std::lock_guard lock(mutex_);
    return owned_ && parts_.data.body()->unique() ? parts_.data : NDArray();
  }

 private:
  std::mutex mutex_;
  SparseParts parts_;
  bool owned_ = false;  // the data were made for this array
};

SparseForm* FormOf(const NDArray& x) {
  Pending* p = x.body()->pending.load(std::memory_order_acquire);
  if (p == nullptr) return nullptr;
  const Pending& form = *p;
  return typeid(form) == typeid(SparseForm) ? static_cast<SparseForm*>(p) : nullptr;
}

void CheckIndices(const NDArray& indices, const char* what, int64_t size) {
  Check(indices.dtype() == DType::kInt64, ErrorKind::kType, "sparse: ", what, " is ",
        Name(indices.dtype()), "; int64 was expected");
  Check(indices.shape().rank() == 1 && indices.size() == size, "sparse: ", what,
        " has shape ", indices.shape(), "; (", size, ",) was expected");
}

void CheckParts(const SparseParts& p, const Shape& shape) {
  if (p.storage == Storage::kCsr) {
    Check(shape.rank() == 2, "csr: the shape is ", shape,
          "; one of two axes was expected");
    Check(p.data.shape().rank() == 1, "csr: data has shape ", p.data.shape(),
          "; one axis was expected");
    CheckIndices(p.indices, "indices", p.data.size());
    CheckIndices(p.indptr, "indptr", shape[0] + 1);
    return;
  }
  Check(shape.rank() >= 1, "row_sparse: the shape is ", shape,
        "; one of at least one axis was expected");
  Shape rows = shape;
  bool fits = p.data.shape().rank() == shape.rank();
  if (fits) rows[0] = p.data.shape()[0];
  fits = fits && rows == p.data.shape();
  Check(fits, "row_sparse: data has shape ", p.data.shape(),
        "; rows of an array of shape ", shape, " were expected");
  CheckIndices(p.indices, "indices", p.data.shape()[0]);
}

NDArray Zeros(int64_t n, Device device) {
  const std::vector<int64_t> zeros(static_cast<size_t>(n));
  return NDArray::FromHost(zeros.data(), Shape{n}, DType::kInt64, device);
}

// The first place where indices in [0, size), ascending and unique when `ordered`, are
// broken, or -1.
int64_t BrokenAt(const int64_t* index, int64_t first, int64_t last, int64_t size,
                 bool ordered) {
  for (int64_t j = first; j < last; ++j) {
    if (index[j] < 0 || index[j] >= size ||
        (ordered && j > first && index[j] <= index[j - 1]))
      return j;
  }
  return -1;
}

}  // namespace

const char* Name(Storage storage) {
  return storage == Storage::kCsr         ? "csr"
         : storage == Storage::kRowSparse ? "row_sparse"
                                          : "default";
}

NDArray MakeSparse(SparseParts parts, const Shape& shape, Device device) {
  CheckParts(parts, shape);
  auto body = MakeRef<ArrayBody>(shape, parts.data.dtype(), device);
  body->pending.store(new SparseForm(std::move(parts)), std::memory_order_release);
  return NDArray(std::move(body));
}

bool IsSparse(const NDArray& x) {
  return FormOf(x) != nullptr;
}

Storage StorageOf(const NDArray& x) {
  SparseForm* form = FormOf(x);
  return form != nullptr ? form->Get().storage : Storage::kDefault;
}

SparseParts PartsOf(const NDArray& x) {
  SparseForm* form = FormOf(x);
  Check(form != nullptr, ErrorKind::kType, "sparse: a dense array ", x,
        " is given; a csr or row_sparse one was expected");
  return form->Get();
}

namespace {

void Replace(const NDArray& x, SparseParts parts, bool owned) {
  SparseForm* form = FormOf(x);
  Check(form != nullptr && form->Get().storage == parts.storage &&
            parts.data.dtype() == x.dtype(),
        ErrorKind::kType, "sparse: ", Name(parts.storage), " parts of ",
        Name(parts.data.dtype()), " are given to ", x,
        "; its own storage and dtype were expected");
  CheckParts(parts, x.shape());
  form->Set(std::move(parts), owned);
}

}  // namespace

void SetParts(const NDArray& x, SparseParts parts) {
  Replace(x, std::move(parts), false);
}

void SetOwnedParts(const NDArray& x, SparseParts parts) {
  Replace(x, std::move(parts), true);
}

NDArray OwnedData(const NDArray& x) {
  SparseForm* form = FormOf(x);
  return form == nullptr ? NDArray() : form->Owned();
}

NDArray EmptySparse(Storage storage, const Shape& shape, DType dtype, Device device) {
  SparseParts parts{storage, {}, Zeros(0, device), {}};
  if (storage == Storage::kCsr) {
    Check(shape.rank() == 2, "csr: the shape is ", shape,
          "; one of two axes was expected");
    parts.data = NDArray::Empty(Shape{0}, dtype, device);
    parts.indptr = Zeros(shape[0] + 1, device);
  } else {
    Check(shape.rank() >= 1, "row_sparse: the shape is ", shape,
          "; one of at least one axis was expected");
    Shape rows = shape;
    rows[0] = 0;
    parts.data = NDArray::Empty(rows, dtype, device);
  }
  return MakeSparse(std::move(parts), shape, device);
}

std::vector<int64_t> Integers(const NDArray& x) {
  Check(x.dtype() == DType::kInt64, ErrorKind::kType, "sparse: indices are ",
        Name(x.dtype()), "; int64 was expected");
  std::vector<int64_t> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

void CheckFormat(const NDArray& x, Strictness strictness) {
  const bool full = strictness != Strictness::kEnds;
  const bool ordered = strictness == Strictness::kOrdered;
  const SparseParts p = PartsOf(x);
  const std::vector<int64_t> index = Integers(p.indices);
  const auto count = static_cast<int64_t>(index.size());
  const auto report = [&](int64_t j, int64_t size, const char* what) {
    Check(j < 0, "check_format: ", what, " indices[", j, "] is ",
          index[static_cast<size_t>(j < 0 ? 0 : j)],
          "; ascending indices without repetition in [0, ", size, ") were expected");
  };
  if (p.storage == Storage::kRowSparse) {
    if (full) {
      report(BrokenAt(index.data(), 0, count, x.shape()[0], true), x.shape()[0],
             "row_sparse");
    }
    return;
  }
  const std::vector<int64_t> bound = Integers(p.indptr);
  Check(bound.front() == 0 && bound.back() == count, "check_format: csr indptr goes ",
        "from ", bound.front(), " to ", bound.back(), "; from 0 to ", count,
        " was expected");
  for (size_t r = 0; full && r + 1 < bound.size(); ++r) {
    Check(bound[r] >= 0 && bound[r] <= bound[r + 1] && bound[r + 1] <= count,
          "check_format: csr indptr[", r, "] is ", bound[r], " and indptr[", r + 1,
          "] is ", bound[r + 1], "; bounds that do not go down, of ", count,
          " values, were expected");
    report(BrokenAt(index.data(), bound[r], bound[r + 1], x.shape()[1], ordered),
           x.shape()[1], "csr");
  }
}

}  // namespace plait
