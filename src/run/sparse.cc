// Conversions and sums of sparse arrays, on their parts.

#include "run/sparse.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/math.h"
#include "graph/trace.h"
#include "run/invoke.h"
#include "run/tape.h"

namespace plait {
namespace {

// Nothing done on parts is recorded: whoever records writes the gradient himself.
class Unrecorded {
 public:
  Unrecorded() : before_(std::exchange(Recording(), false)) {}
  ~Unrecorded() { Recording() = before_; }

 private:
  const bool before_;
};

NDArray IndexArray(const std::vector<int64_t>& values, Device device) {
  return NDArray::FromHost(values.data(), Shape{static_cast<int64_t>(values.size())},
                           DType::kInt64, device);
}

// The sum of slices of x at positions `at` of an axis of `size`.
NDArray Scatter(const NDArray& x, const NDArray& at, int64_t size) {
  const bool truth = x.dtype() == DType::kBool;
  const Value from = truth ? cast(Value(x), DType::kUint8) : Value(x);
  Value y = Make("_backward_take", {from, Value(at)},
                 {{"axis", Attr(0)}, {"size", Attr(size)}, {"mode", Attr("raise")}});
  return (truth ? cast(y, DType::kBool) : y).array();
}

NDArray Gather(const NDArray& x, const std::vector<int64_t>& at) {
  return Make("take", {Value(x), Value(IndexArray(at, x.device()))},
              {{"axis", Attr(0)}, {"mode", Attr("clip")}})
      .array();
}

NDArray OnDevice(const NDArray& x, Device device) {
  if (x.device() == device) return x;
  NDArray y = NDArray::Empty(x.shape(), x.dtype(), device);
  CopyInto(x, y);
  return y;
}

Shape WithRows(Shape shape, int64_t rows) {
  shape[0] = rows;
  return shape;
}

NDArray DenseOfCsr(const SparseParts& p, const Shape& shape) {
  const std::vector<int64_t> bound = Integers(p.indptr);
  std::vector<int64_t> at = Integers(p.indices);
  std::vector<bool> used(at.size());
  for (size_t r = 0; r + 1 < bound.size(); ++r) {
    for (int64_t j = std::max<int64_t>(0, bound[r]);
         j < std::min<int64_t>(bound[r + 1], static_cast<int64_t>(at.size())); ++j) {
      const auto k = static_cast<size_t>(j);
      Check(at[k] >= 0 && at[k] < shape[1] && !used[k], ErrorKind::kIndex,
            "csr: indices[", j, "] is ", at[k], " in row ", r, "; columns below ",
            shape[1], ", each in one row, were expected");
      used[k] = true;
      at[k] += static_cast<int64_t>(r) * shape[1];
    }
  }
  Check(std::all_of(used.begin(), used.end(), [](bool b) { return b; }),
        "csr: indptr leaves out some of ", at.size(),
        " values; bounds from 0 to the number of values were expected");
  const NDArray flat = Scatter(p.data, IndexArray(at, p.data.device()), shape.size());
  return flat.Reshape(shape);
}

// Calls f<T>() with an unsigned type of the width of a dtype; floats by f's own test.
template <typename F>
auto VisitZeroTest(DType dtype, F&& f) {
  // -0.0 is zero too: the sign of a float is left out of the test.
  const bool is_float = dtype == DType::kFloat16 || dtype == DType::kBfloat16 ||
                        dtype == DType::kFloat32 || dtype == DType::kFloat64;
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t{0xFF});
    case 2:
      return f(static_cast<uint16_t>(is_float ? 0x7FFF : 0xFFFF));
    case 4:
      return f(is_float ? 0x7FFFFFFFu : 0xFFFFFFFFu);
    default:
      return f(is_float ? uint64_t{0x7FFFFFFFFFFFFFFF} : ~uint64_t{0});
  }
}

NDArray CsrOfDense(const NDArray& x) {
  const Shape& shape = x.shape();
  Check(shape.rank() == 2, "cast_storage: a csr array of shape ", shape,
        " is asked for; two axes were expected");
  x.WaitToRead();
  std::vector<int64_t> bounds{0}, columns, at;
  VisitZeroTest(x.dtype(), [&]<typename T>(T mask) {
    const T* value = x.data<const T>();
    for (int64_t r = 0; r < shape[0]; ++r) {
      for (int64_t c = 0; c < shape[1]; ++c) {
        if ((value[r * shape[1] + c] & mask) == 0) continue;
        columns.push_back(c);
        at.push_back(r * shape[1] + c);
      }
      bounds.push_back(static_cast<int64_t>(at.size()));
    }
  });
  SparseParts p{Storage::kCsr,
                {},
                IndexArray(columns, x.device()),
                IndexArray(bounds, x.device())};
  p.data = at.empty() ? NDArray::Empty(Shape{0}, x.dtype(), x.device())
                      : Gather(x.Reshape(Shape{x.size()}), at);
  return MakeSparse(std::move(p), shape, x.device());
}

NDArray RowsOfDense(const NDArray& x) {
  const Shape& shape = x.shape();
  Check(shape.rank() >= 1, "cast_storage: a row_sparse array of shape ", shape,
        " is asked for; at least one axis was expected");
  x.WaitToRead();
  const int64_t inner = shape.size(1, shape.rank());
  std::vector<int64_t> rows;
  VisitZeroTest(x.dtype(), [&]<typename T>(T mask) {
    const T* value = x.data<const T>();
    for (int64_t r = 0; r < shape[0]; ++r) {
      const T* row = value + r * inner;
      if (std::any_of(row, row + inner, [mask](T v) { return (v & mask) != 0; }))
        rows.push_back(r);
    }
  });
  if (rows.empty())
    return EmptySparse(Storage::kRowSparse, shape, x.dtype(), x.device());
  return MakeSparse(
      {Storage::kRowSparse, Gather(x, rows), IndexArray(rows, x.device()), {}}, shape,
      x.device());
}

// The sorted unique numbers of `ids`, and where each of them is among those.
std::vector<int64_t> Unique(const std::vector<int64_t>& ids,
                            std::vector<int64_t>* place) {
  std::vector<int64_t> order(ids.size()), unique;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&ids](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return ids[i] != ids[j] ? ids[i] < ids[j] : a < b;
  });
  place->resize(ids.size());
  for (int64_t j : order) {
    const int64_t id = ids[static_cast<size_t>(j)];
    if (unique.empty() || unique.back() != id) unique.push_back(id);
    (*place)[static_cast<size_t>(j)] = static_cast<int64_t>(unique.size()) - 1;
  }
  return unique;
}

NDArray RowsAdded(const NDArray& rows, const std::vector<int64_t>& ids,
                  const Shape& shape) {
  std::vector<int64_t> place;
  const std::vector<int64_t> unique = Unique(ids, &place);
  const Device device = rows.device();
  if (unique.empty())
    return EmptySparse(Storage::kRowSparse, shape, rows.dtype(), device);
  const NDArray sums =
      Scatter(rows, IndexArray(place, device), static_cast<int64_t>(unique.size()));
  return MakeSparse({Storage::kRowSparse, sums, IndexArray(unique, device), {}}, shape,
                    device);
}

}  // namespace

NDArray ToDense(const NDArray& x) {
  if (!IsSparse(x)) return x;
  const Unrecorded mode;
  const SparseParts p = PartsOf(x);
  if (p.storage == Storage::kCsr) return DenseOfCsr(p, x.shape());
  return Scatter(p.data, p.indices, x.shape()[0]);
}

NDArray CastStorage(const NDArray& x, Storage storage) {
  if (StorageOf(x) == storage) return x;
  const Unrecorded mode;
  const NDArray dense = ToDense(x);
  return storage == Storage::kCsr         ? CsrOfDense(dense)
         : storage == Storage::kRowSparse ? RowsOfDense(dense)
                                          : dense;
}

NDArray Retain(const NDArray& x, std::vector<int64_t> ids) {
  const SparseParts p = PartsOf(x);
  Check(p.storage == Storage::kRowSparse, ErrorKind::kType,
        "sparse_retain: data is csr; a row_sparse array was expected");
  const Unrecorded mode;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const std::vector<int64_t> have = Integers(p.indices);
  std::vector<int64_t> at, rows;
  for (int64_t id : ids) {
    const auto found = std::lower_bound(have.begin(), have.end(), id);
    if (found == have.end() || *found != id) continue;
    at.push_back(found - have.begin());
    rows.push_back(id);
  }
  if (rows.empty())
    return EmptySparse(Storage::kRowSparse, x.shape(), x.dtype(), x.device());
  if (rows.size() == have.size()) return MakeSparse(p, x.shape(), x.device());
  return MakeSparse(
      {Storage::kRowSparse, Gather(p.data, at), IndexArray(rows, x.device()), {}},
      x.shape(), x.device());
}

NDArray AddSparse(const NDArray& x, const NDArray& y) {
  const Unrecorded mode;
  if (StorageOf(x) == Storage::kRowSparse && StorageOf(y) == Storage::kRowSparse) {
    Check(x.shape() == y.shape() && x.dtype() == y.dtype(), "elemwise_add: lhs is ", x,
          " and rhs ", y, "; the same shape and dtype were expected");
    const SparseParts a = PartsOf(x), b = PartsOf(y);
    std::vector<int64_t> ids = Integers(a.indices);
    const std::vector<int64_t> more = Integers(b.indices);
    if (ids == more) {
      return MakeSparse(
          {Storage::kRowSparse, (Value(a.data) + Value(b.data)).array(), a.indices, {}},
          x.shape(), x.device());
    }
    ids.insert(ids.end(), more.begin(), more.end());
    const NDArray rows = Make("Concat", {Value(a.data), Value(b.data)},
                              {{"dim", Attr(0)}, {"num_args", Attr(2)}})
                             .array();
    return RowsAdded(rows, ids, x.shape());
  }
  return (Value(ToDense(x)) + Value(ToDense(y))).array();
}

NDArray WritableRows(const NDArray& x) {
  if (NDArray data = OwnedData(x)) return data;
  SparseParts p = PartsOf(x);
  if (p.storage != Storage::kRowSparse || p.indices.size() != x.shape()[0]) return {};
  const Unrecorded mode;
  NDArray copy = NDArray::Empty(p.data.shape(), p.data.dtype(), p.data.device());
  CopyInto(p.data, copy);
  p.data = copy;
  SetOwnedParts(x, std::move(p));
  return copy;
}

Distinct DistinctIds(const NDArray& ids, int64_t size) {
  const std::vector<int64_t> all = Integers(ids);
  const auto count = static_cast<int64_t>(all.size());
  std::vector<int64_t> places, unique;
  if (size > 16 * count) {  // a table of `size` would cost more than sorting
    unique = Unique(all, &places);
  } else {
    std::vector<int64_t> place(static_cast<size_t>(size), -1);
    for (int64_t id : all) {
      Check(id >= 0 && id < size, ErrorKind::kIndex, "dot: the column ", id,
            " of lhs is out of range; one below ", size, " was expected");
      place[static_cast<size_t>(id)] = 0;
    }
    for (int64_t id = 0; id < size; ++id) {
      if (place[static_cast<size_t>(id)] < 0) continue;
      place[static_cast<size_t>(id)] = static_cast<int64_t>(unique.size());
      unique.push_back(id);
    }
    places.reserve(all.size());
    for (int64_t id : all) places.push_back(place[static_cast<size_t>(id)]);
  }
  Check(unique.empty() || (unique.front() >= 0 && unique.back() < size),
        ErrorKind::kIndex, "dot: the columns of lhs go from ",
        unique.empty() ? 0 : unique.front(), " to ", unique.empty() ? 0 : unique.back(),
        "; columns in [0, ", size, ") were expected");
  return {IndexArray(unique, ids.device()), IndexArray(places, ids.device())};
}

NDArray SumRows(const NDArray& dy, const NDArray& ids, const Shape& shape) {
  const Unrecorded mode;
  std::vector<int64_t> rows = Integers(cast(Value(ids), DType::kInt64).array());
  for (int64_t& row : rows) row = std::clamp<int64_t>(row, 0, shape[0] - 1);
  Shape flat = WithRows(shape, static_cast<int64_t>(rows.size()));
  Check(flat.size() == dy.size(), "Embedding: the gradient has shape ", dy.shape(),
        "; ", flat.size(), " values were expected");
  return RowsAdded(dy.Reshape(flat), rows, shape);
}

void AssignSparse(const NDArray& src, const NDArray& dst) {
  Check(src.shape() == dst.shape(), "copyto: the source has shape ", src.shape(),
        "; shape ", dst.shape(), " of the destination was expected");
  const Unrecorded mode;
  if (!IsSparse(dst)) {
    CopyInto(ToDense(src), dst);
    return;
  }
  SparseParts p = PartsOf(CastStorage(src, StorageOf(dst)));
  if (p.data.dtype() != dst.dtype()) p.data = cast(Value(p.data), dst.dtype()).array();
  for (NDArray* part : {&p.data, &p.indices, &p.indptr}) {
    if (*part) *part = OnDevice(*part, dst.device());
  }
  SetParts(dst, std::move(p));
}

}  // namespace plait
