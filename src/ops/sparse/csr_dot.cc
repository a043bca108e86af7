// _csr_dot: the product of a csr matrix, given by its parts, and a dense array.

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "graph/op.h"
#include "ops/index/indices.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct CsrDotParams {
  bool transpose_a = false;
  int64_t num_cols = 0;
};

// Values by row: row r has [bounds[r], bounds[r + 1]) of value and column; `order` is
// null, or says which value stands there.
struct Rows {
  const int64_t *bounds, *columns, *order;
  int64_t count;
};

// y[r, :] = sum of values of row r times x[column, :].
template <typename T>
void Multiply(const Rows& a, const T* value, const T* x, int64_t inner, T* y) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double,
                                 std::conditional_t<std::is_integral_v<T>, T, float>>;
  const int64_t nnz = a.count > 0 ? a.bounds[a.count] : 0;
  const int64_t work = 1 + nnz * inner / std::max<int64_t>(1, a.count);
  ParallelFor(a.count, 1 + (1 << 14) / work, [&](int64_t first, int64_t last) {
    std::vector<Sum> total(static_cast<size_t>(inner));
    Sum* t = total.data();
    for (int64_t r = first; r < last; ++r) {
      std::fill_n(t, inner, Sum{});
      for (int64_t j = a.bounds[r]; j < a.bounds[r + 1]; ++j) {
        const Sum v = static_cast<Sum>(value[a.order ? a.order[j] : j]);
        const T* row = x + a.columns[j] * inner;
        for (int64_t i = 0; i < inner; ++i) t[i] += v * static_cast<Sum>(row[i]);
      }
      for (int64_t i = 0; i < inner; ++i) y[r * inner + i] = static_cast<T>(t[i]);
    }
  });
}

// The bounds that a row may be read with, whatever indptr says.
std::vector<int64_t> SafeBounds(const View& indptr, int64_t nnz) {
  std::vector<int64_t> bounds(static_cast<size_t>(indptr.size()));
  ReadIndices(indptr, 0, indptr.size(), bounds.data());
  int64_t least = 0;
  for (int64_t& b : bounds) least = b = std::clamp(b, least, nnz);
  return bounds;
}

// The same values by column: a counting sort, so that the order of sums is fixed.
struct Transposed {
  std::vector<int64_t> bounds, rows, order;
};
Transposed Transpose(const std::vector<int64_t>& bounds, const int64_t* columns,
                     int64_t num_cols) {
  Transposed t;
  const int64_t first = bounds.front(), last = bounds.back();
  t.bounds.assign(static_cast<size_t>(num_cols + 1), 0);
  t.rows.resize(static_cast<size_t>(last - first));
  t.order.resize(t.rows.size());
  for (int64_t j = first; j < last; ++j) ++t.bounds[columns[j] + 1];
  for (int64_t c = 0; c < num_cols; ++c) t.bounds[c + 1] += t.bounds[c];
  std::vector<int64_t> next(t.bounds.begin(), t.bounds.end() - 1);
  for (size_t r = 0; r + 1 < bounds.size(); ++r) {
    for (int64_t j = bounds[r]; j < bounds[r + 1]; ++j) {
      const int64_t at = next[columns[j]]++;
      t.rows[at] = static_cast<int64_t>(r);
      t.order[at] = j;
    }
  }
  return t;
}

bool InferCsrDot(const CsrDotParams& p, Specs& in, Specs& out) {
  const Shape &indptr = in[2].shape, &x = in[3].shape;
  if (!Unify(in[0].shape, in[1].shape)) return false;
  if (!indptr.rank_known() || !x.rank_known()) return true;
  Check(indptr.rank() == 1 && indptr[0] != 0, "_csr_dot: indptr has shape ", indptr,
        "; one bound more than rows was expected");
  if (in[0].shape.rank_known()) {
    Check(in[0].shape.rank() == 1, "_csr_dot: data has shape ", in[0].shape,
          "; one axis was expected");
  }
  Check(p.num_cols >= 0, "_csr_dot: num_cols is ", p.num_cols,
        "; a number of columns was expected");
  const int64_t rows = indptr[0] == kUnknownSize ? kUnknownSize : indptr[0] - 1;
  const int64_t inner = p.transpose_a ? rows : p.num_cols;
  Check(
      x.rank() >= 1 && (x[0] == inner || x[0] == kUnknownSize || inner == kUnknownSize),
      "dot: rhs has shape ", x, " and the csr matrix ",
      p.transpose_a ? "transposed " : "", "has ", inner,
      " columns; as many rows were expected");
  Shape y = x;
  y[0] = p.transpose_a ? p.num_cols : rows;
  return Unify(y, out[0].shape);
}

void RunCsrDot(const CsrDotParams& p, const KernelArgs& args) {
  const View &data = args.in[0], &x = args.in[3], &y = args.out[0];
  if (y.size() == 0) return;
  const int64_t inner = x.shape().size(1, x.shape().rank());
  const ResolvedIndices columns(args.in[1], p.num_cols, IndexMode::kRaise, {"dot", 1});
  const std::vector<int64_t> bounds = SafeBounds(args.in[2], data.size());
  Rows a{bounds.data(), columns.data(), nullptr,
         static_cast<int64_t>(bounds.size()) - 1};
  Transposed t;
  if (p.transpose_a) {
    t = Transpose(bounds, columns.data(), p.num_cols);
    a = {t.bounds.data(), t.rows.data(), t.order.data(), p.num_cols};
  }
  VisitDType(data.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      Multiply<T>(a, data.data<const T>(), x.data<const T>(), inner, y.data<T>());
    }
  });
}

[[maybe_unused]] const OpDef& csr_dot = Register<CsrDotParams>({
    .name = "_csr_dot",
    .doc = "The product of a csr matrix, by its parts, and a dense array. Its gradient "
           "is the business of nd.dot, which calls it.",
    .inputs = {{"data", Types::kNumbers, "The values of the matrix."},
               {"indices", Types::kAny, "The column of each value."},
               {"indptr", Types::kAny,
                "Where each row begins, and where the last ends; "
                "bounds are cut off at what there is."},
               {"rhs", Types::kNumbers, "The dense array, of the dtype of data."}},
    .outputs = {{"output", Types::kNumbers, "Rows of the matrix by those of rhs."}},
    .params = {{"transpose_a", &CsrDotParams::transpose_a,
                "Whether the matrix is transposed first."},
               Required<CsrDotParams>("num_cols", &CsrDotParams::num_cols,
                                      "The number of columns of the matrix.")},
    .types =
        [](const CsrDotParams&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          UnifyDType(in[3].dtype, out[0].dtype);
          UnifyDType(in[0].dtype, out[0].dtype);
        },
    .infer = InferCsrDot,
    .cpu = {{"plain", RunCsrDot}},
    .may_fail = true,
    .cost =
        [](const CsrDotParams&, const Specs& in, const Specs& out) {
          const int64_t inner = in[3].shape.size(1, in[3].shape.rank());
          return 2.0 * static_cast<double>(in[0].shape.size() * inner) +
                 static_cast<double>(out[0].shape.size());
        },
    .samples = {{{Normal({6}), Integers({6}, 0, 4, DType::kInt64),
                  Integers({5}, 0, 7, DType::kInt64), Normal({4, 3})},
                 {.num_cols = 4}},
                {{Normal({6}), Integers({6}, 0, 4, DType::kInt64),
                  Integers({5}, -1, 9, DType::kInt64), Normal({4, 3})},
                 {.transpose_a = true, .num_cols = 4}},
                {{Normal({5}), Integers({5}, 0, 3, DType::kInt64),
                  Integers({3}, 0, 6, DType::kInt64), Normal({3})},
                 {.num_cols = 3}},
                {{Normal({0}), Integers({0}, 0, 3, DType::kInt64),
                  Integers({3}, 0, 1, DType::kInt64), Normal({3, 2})},
                 {.num_cols = 3}}},
});

}  // namespace
}  // namespace plait
