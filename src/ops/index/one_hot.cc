// one_hot and its predecessors: rows with one marked element.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "ops/index/indices.h"
#include "ops/infer.h"

namespace plait {
namespace {

// Rows of one value (which is repeated), but `on` at the index; an index out of range
// marks nothing.
void MarkRows(const View& index, int64_t depth, double on, double off, const View& y) {
  VisitDType(y.dtype, [&]<typename T>() {
    T marks[2];
    const double values[] = {on, off};
    cpu::Convert(values, DType::kFloat64, marks, y.dtype, 2);
    const int64_t grain = 1 + (1 << 14) / (1 + depth);
    ParallelFor(index.size(), grain, [&](int64_t first, int64_t last) {
      constexpr int64_t kBlock = 256;
      int64_t at[kBlock];
      for (int64_t begin = first; begin < last; begin += kBlock) {
        const int64_t n = std::min(kBlock, last - begin);
        ReadIndices(index, begin, n, at);
        T* row = y.data<T>() + begin * depth;
        std::fill_n(row, n * depth, marks[1]);
        for (int64_t i = 0; i < n; ++i) {
          if (at[i] >= 0 && at[i] < depth) row[i * depth + at[i]] = marks[0];
        }
      }
    });
  });
}

struct OneHotParams {
  int64_t depth = 0;
  double on_value = 1;
  double off_value = 0;
  DType dtype = DType::kFloat32;
};

[[maybe_unused]] const OpDef& one_hot = Register<OneHotParams>({
    .name = "one_hot",
    .aliases = {"_npx_one_hot"},
    .doc = "A new last axis with one value at the index and another elsewhere; an "
           "index out of range marks nothing.",
    .inputs = {{"indices", Types::kAny, "Indices, of any shape."}},
    .outputs = {{"output", Types::kAny, "The shape of the indices, and depth."}},
    .params = {Required<OneHotParams>("depth", &OneHotParams::depth,
                                      "The size of the new axis."),
               {"on_value", &OneHotParams::on_value, "The value at the index."},
               {"off_value", &OneHotParams::off_value, "The value elsewhere."},
               {"dtype", &OneHotParams::dtype, "The dtype of the result."}},
    .types = [](const OneHotParams& p, Specs&, Specs& out) { out[0].dtype = p.dtype; },
    .infer =
        [](const OneHotParams& p, Specs& in, Specs& out) {
          Check(p.depth >= 0, "one_hot: depth is ", p.depth,
                "; a size of at least 0 was expected");
          if (!in[0].shape.rank_known()) return true;
          Shape y = in[0].shape;
          y.Append(p.depth);
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const OneHotParams& p, const KernelArgs& args) {
               if (args.out[0].size() == 0) return;
               MarkRows(args.in[0], p.depth, p.on_value, p.off_value, args.out[0]);
             }}},
    .samples = {{{Integers({4}, -1, 4)}, {3}},
                {{Integers({2, 3}, 0, 4, DType::kInt32)},
                 {4, 8, -1.5, DType::kFloat64}},
                {{Integers({3}, 0, 2)}, {2, 300, 0, DType::kUint8}},
                {{Integers({3}, 0, 2)}, {0}},
                {{Integers({0}, 0, 2)}, {2}}},
});

using None = NoParams;

// A matrix, and one number for each of its rows.
bool InferRows(const Specs& in, int matrix, const char* op) {
  const Shape& x = in[matrix].shape;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape& s = in[i].shape;
    if (!s.known() || !x.known()) continue;
    const bool fits = static_cast<int>(i) == matrix
                          ? s.rank() == 2
                          : s.rank() == 1 && x.rank() == 2 && s[0] == x[0];
    Check(fits, op, ": inputs ", matrix, " and ", i, " have shapes ", x, " and ", s,
          "; a matrix and a vector with one number for each row were expected");
  }
  return true;
}

[[maybe_unused]] const OpDef& onehot_encode = Register<None>({
    .name = "_onehot_encode",
    .doc = "A matrix like rhs with ones where lhs says, and zeros elsewhere.",
    .inputs = {{"lhs", Types::kAny, "The column of each row's one."},
               {"rhs", Types::kAny, "A matrix; only its shape and dtype count."}},
    .types = [](const None&, Specs& in,
                Specs& out) { UnifyDType(in[1].dtype, out[0].dtype); },
    .infer =
        [](const None&, Specs& in, Specs& out) {
          return InferRows(in, 1, "_onehot_encode") && Unify(in[1].shape, out[0].shape);
        },
    .cpu = {{"plain",
             [](const None&, const KernelArgs& args) {
               const View& y = args.out[0];
               if (y.size() > 0) MarkRows(args.in[0], y.shape().back(), 1, 0, y);
             }}},
    .in_place = {{1, 0}},
    .samples = {{{Integers({4}, -1, 4), Normal({4, 3})}},
                {{Integers({0}, 0, 1), Normal({0, 3})}}},
});

[[maybe_unused]] const OpDef& fill_element = Register<None>({
    .name = "fill_element_0index",
    .doc = "lhs with the element of each row that rhs names replaced by that of mhs.",
    .inputs = {{"lhs", Types::kAny, "A matrix."},
               {"mhs", Types::kAny, "The new elements, one for each row."},
               {"rhs", Types::kAny, "Their columns; one out of range is skipped."}},
    .types =
        [](const None&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          UnifyDType(in[0].dtype, in[1].dtype);
          Check(in[0].dtype == in[1].dtype, ErrorKind::kType,
                "fill_element_0index: lhs is ", in[0].dtype, " and mhs is ",
                in[1].dtype, "; one dtype was expected");
        },
    .infer =
        [](const None&, Specs& in, Specs& out) {
          return InferRows(in, 0, "fill_element_0index") &&
                 Unify(in[0].shape, out[0].shape);
        },
    .cpu = {{"plain",
             [](const None&, const KernelArgs& args) {
               const View &x = args.in[0], &y = args.out[0];
               if (y.size() == 0) return;
               if (x.ptr != y.ptr) std::memcpy(y.ptr, x.ptr, y.bytes());
               const int64_t rows = y.shape()[0], columns = y.shape()[1];
               VisitSize(y.dtype, [&]<typename T>() {
                 for (int64_t i = 0; i < rows; ++i) {
                   int64_t at;
                   ReadIndices(args.in[2], i, 1, &at);
                   if (at < 0 || at >= columns) continue;
                   y.data<T>()[i * columns + at] = args.in[1].data<const T>()[i];
                 }
               });
             }}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({4, 3}), Normal({4}), Integers({4}, -1, 4)}}},
});

}  // namespace
}  // namespace plait
