// take, Embedding, batch_take: slices of an array chosen by indices.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/strided.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"

namespace plait {
namespace {

struct TakeParams {
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
};

// The shape of x with the axis replaced by the axes of the indices.
Shape TakenShape(const Shape& x, int axis, const Shape& indices) {
  Shape y(x.begin(), x.begin() + axis);
  for (int64_t size : indices) y.Append(size);
  for (int i = axis + 1; i < x.rank(); ++i) y.Append(x[i]);
  return y;
}

// y[o, i, :] = x[o, indices[i], :].
void Gather(const View& x, const AxisSizes& a, const Indices& indices, int64_t count,
            const View& y) {
  VisitSize(x.dtype, [&]<typename T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const int64_t grain = 1 + (1 << 14) / std::max<int64_t>(1, a.inner);
    ParallelFor(a.outer * count, grain, [&](int64_t first, int64_t last) {
      int64_t o = first / std::max<int64_t>(1, count), i = first - o * count;
      for (int64_t r = first; r < last; ++r) {
        const T* row = from + (o * a.n + indices[i]) * a.inner;
        if (a.inner == 1) {
          to[r] = *row;
        } else {
          std::memcpy(to + r * a.inner, row, a.inner * sizeof(T));
        }
        if (++i == count) {
          i = 0;
          ++o;
        }
      }
    });
  });
}

void IndexTypes(const TakeParams&, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  out[0].dtype = in[0].dtype;
}

bool InferTake(const TakeParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() > 0, "take: a is a scalar; at least one axis was expected");
  const int axis = NormalizeAxis(p.axis, x.rank(), "take");
  if (!in[1].shape.rank_known()) return true;
  Shape y = TakenShape(x, axis, in[1].shape);
  return Unify(y, out[0].shape);
}

void RunTake(const TakeParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const AxisSizes a =
      Around(x.shape(), NormalizeAxis(p.axis, x.shape().rank(), "take"));
  if (args.out[0].size() == 0 && p.mode != IndexMode::kRaise) return;
  const Indices indices(args.in[1], a.n, p.mode, "take");
  Gather(x, a, indices, args.in[1].size(), args.out[0]);
}

// Where dy goes: the rows named by the indices, added up.
Value TakeBackward(const Value& indices, const Value& dy, int axis, int64_t size,
                   IndexMode mode) {
  return Make("_take_backward", {indices, dy},
              {{"axis", Attr(axis)}, {"size", Attr(size)}, {"mode", Attr(mode)}});
}

Values TakeGradient(const TakeParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const int axis = NormalizeAxis(p.axis, x.rank(), "take");
  return {TakeBackward(g.in(1), g.dout(0), axis, x[axis], p.mode), Value()};
}

std::vector<Param<TakeParams>> TakeFields() {
  return {{"axis", &TakeParams::axis, "The axis that the indices choose from."},
          {"mode", &TakeParams::mode, kIndexModes,
           "For indices out of range: clip takes the nearest end, wrap counts around, "
           "raise is an error."}};
}

[[maybe_unused]] const OpDef& take = Register<TakeParams>({
    .name = "take",
    .aliases = {"_npi_take"},
    .doc = "Slices of an array along an axis, chosen by indices.",
    .inputs = {{"a", Types::kAny, "The array."},
               {"indices", Types::kAny, "Whole numbers, of any shape and dtype."}},
    .params = TakeFields(),
    .types = IndexTypes,
    .infer = InferTake,
    .gradient = TakeGradient,
    .uses = {.in = 2},
    .cpu = {{"plain", RunTake}},
    .may_fail = true,
    .samples = {{{Normal({4, 3}), Integers({2, 2}, 0, 4)}},
                {{Normal({2, 3}), Integers({3}, -5, 5)}, {1, IndexMode::kWrap}},
                {{Normal({3, 2, 2}), Integers({4}, -2, 5)}, {-2, IndexMode::kClip}},
                {{Normal({5}), Integers({2}, 0, 5, DType::kInt32)},
                 {0, IndexMode::kRaise}},
                {{Normal({3, 2}), Numbers({4}, {0, 0, 2, 0})}},
                {{Normal({3, 2}), Integers({0}, 0, 3)}}},
});

// ---------------------------------------------------------------- Embedding

struct EmbeddingParams {
  int64_t input_dim = 0, output_dim = 0;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false;
};

[[maybe_unused]] const OpDef& embedding = Register<EmbeddingParams>({
    .name = "Embedding",
    .aliases = {"_npx_embedding", "_sparse_Embedding"},
    .doc = "Rows of a table of vectors, chosen by indices; those out of range are "
           "clipped.",
    .inputs = {{"data", Types::kAny, "Indices, of any shape and dtype."},
               {"weight", Types::kAny, "The table, of shape (input_dim, output_dim)."}},
    .params = {Required<EmbeddingParams>("input_dim", &EmbeddingParams::input_dim,
                                         "Rows of the table."),
               Required<EmbeddingParams>("output_dim", &EmbeddingParams::output_dim,
                                         "Length of a vector."),
               {"dtype", &EmbeddingParams::dtype, "The dtype of the table."},
               {"sparse_grad", &EmbeddingParams::sparse_grad,
                "Whether the table's gradient holds only the rows that were used."}},
    .types =
        [](const EmbeddingParams& p, Specs& in, Specs& out) {
          if (in[1].dtype == DType::kUnknown) in[1].dtype = p.dtype;
          out[0].dtype = in[1].dtype;
        },
    .infer =
        [](const EmbeddingParams& p, Specs& in, Specs& out) {
          Shape table{p.input_dim, p.output_dim};
          Check(p.input_dim >= 1 && p.output_dim >= 1, "Embedding: input_dim is ",
                p.input_dim, " and output_dim ", p.output_dim,
                "; at least 1 was expected");
          if (!Unify(table, in[1].shape)) return false;
          if (!in[0].shape.rank_known()) return true;
          Shape y = in[0].shape;
          y.Append(p.output_dim);
          return Unify(y, out[0].shape);
        },
    .gradient = [](const EmbeddingParams& p, const GradArgs& g) -> Values {
      return {Value(), g.wants(1) ? TakeBackward(g.in(0), g.dout(0), 0, p.input_dim,
                                                 IndexMode::kClip)
                                  : Value()};
    },
    .uses = {.in = 1},
    .cpu = {{"plain",
             [](const EmbeddingParams& p, const KernelArgs& args) {
               const Indices rows(args.in[0], p.input_dim, IndexMode::kClip,
                                  "Embedding");
               Gather(args.in[1], {1, p.input_dim, p.output_dim}, rows,
                      args.in[0].size(), args.out[0]);
             }}},
    .samples = {{{Integers({2, 3}, 0, 5), Normal({5, 4})}, {5, 4}},
                {{Integers({4}, -3, 9), Normal({3, 2})}, {3, 2}},
                {{Integers({0}, 0, 3), Normal({3, 2})}, {3, 2}}},
});

// ---------------------------------------------------------------- _take_backward

struct BackwardParams {
  int axis = 0;
  int64_t size = 0;
  IndexMode mode = IndexMode::kClip;
};

// The number of axes of the indices is the difference to one.
bool InferBackward(const BackwardParams& p, Specs& in, Specs& out) {
  const Shape &indices = in[0].shape, &dy = in[1].shape;
  if (!indices.rank_known() || !dy.rank_known()) return true;
  Check(p.axis >= 0 && p.axis + indices.rank() <= dy.rank(),
        "_take_backward: indices of "
        "shape ",
        indices, " at axis ", p.axis, " do not fit dy of shape ", dy);
  Shape dx(dy.begin(), dy.begin() + p.axis);
  dx.Append(p.size);
  for (int i = p.axis + indices.rank(); i < dy.rank(); ++i) dx.Append(dy[i]);
  return Unify(dx, out[0].shape);
}

// The places in the list of indices that name each row, in order: those of row r are
// order[ends[r]] to order[ends[r + 1]].
struct Segments {
  Segments(const Indices& indices, int64_t count, int64_t rows)
      : ends(rows + 1), order(count) {
    for (int64_t i = 0; i < count; ++i) ++ends[indices[i] + 1];
    for (int64_t r = 0; r < rows; ++r) ends[r + 1] += ends[r];
    std::vector<int64_t> next(ends.begin(), ends.end() - 1);
    for (int64_t i = 0; i < count; ++i) order[next[indices[i]]++] = i;
  }
  std::vector<int64_t> ends, order;
};

// Each row of dx is the sum of its rows of dy, in their order: no two threads write one
// row, and the result does not depend on their number.
template <typename T>
void SumRows(const T* dy, const AxisSizes& a, const Segments& s, int64_t count, T* dx) {
  using Sum = Accumulate<T>;
  const int64_t grain = 1 + (1 << 14) / std::max<int64_t>(1, a.inner);
  ParallelFor(a.outer * a.n, grain, [&](int64_t first, int64_t last) {
    std::vector<Sum> sum(std::is_same_v<T, Sum> ? 0 : a.inner);
    for (int64_t row = first; row < last; ++row) {
      const int64_t o = row / a.n, r = row % a.n;
      T* to = dx + row * a.inner;
      Sum* total = sum.data();
      if constexpr (std::is_same_v<T, Sum>) total = to;
      std::fill_n(total, a.inner, Sum(0));
      for (int64_t k = s.ends[r]; k < s.ends[r + 1]; ++k) {
        const T* from = dy + (o * count + s.order[k]) * a.inner;
        for (int64_t j = 0; j < a.inner; ++j) total[j] += static_cast<Sum>(from[j]);
      }
      if constexpr (!std::is_same_v<T, Sum>) {
        for (int64_t j = 0; j < a.inner; ++j) to[j] = static_cast<T>(total[j]);
      }
    }
  });
}

void RunBackward(const BackwardParams& p, const KernelArgs& args) {
  const View& dx = args.out[0];
  const int64_t count = args.in[0].size();
  if (dx.size() == 0) return;
  const Indices indices(args.in[0], p.size, p.mode, "_take_backward");
  const Segments segments(indices, count, p.size);
  VisitDType(dx.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      SumRows(args.in[1].data<T>(), Around(dx.shape(), p.axis), segments, count,
              dx.data<T>());
    }
  });
}

[[maybe_unused]] const OpDef& take_backward = Register<BackwardParams>({
    .name = "_take_backward",
    .doc = "Adds slices to the places that indices name: the gradient of take.",
    .inputs = {{"indices", Types::kAny, "As for take."},
               {"data", Types::kNumbers, "The slices."}},
    .params = {{"axis", &BackwardParams::axis, "The axis of take."},
               Required<BackwardParams>("size", &BackwardParams::size,
                                        "The size of the result along the axis."),
               {"mode", &BackwardParams::mode, kIndexModes, "As for take."}},
    .types =
        [](const BackwardParams&, Specs& in, Specs& out) {
          if (in[1].dtype == DType::kUnknown) in[1].dtype = out[0].dtype;
          out[0].dtype = in[1].dtype;
        },
    .infer = InferBackward,
    .gradient = [](const BackwardParams& p, const GradArgs& g) -> Values {
      return {Value(), Make("take", {g.dout(0), g.in(0)},
                            {{"axis", Attr(p.axis)}, {"mode", Attr(p.mode)}})};
    },
    .uses = {.in = 1},
    .cpu = {{"plain", RunBackward}},
    .may_fail = true,
    .samples = {{{Numbers({4}, {1, 0, 1, 1}), Normal({4, 3})}, {.axis = 0, .size = 3}},
                {{Integers({2, 2}, -1, 4), Normal({2, 2, 2, 3})},
                 {.axis = 1, .size = 3}},
                {{Integers({0}, 0, 2), Normal({0, 2})}, {.axis = 0, .size = 2}}},
});

// ---------------------------------------------------------------- batch_take

[[maybe_unused]] const OpDef& batch_take = Register<NoParams>({
    .name = "batch_take",
    .doc =
        "One element of each row of a matrix, chosen by an index; those out of range "
        "are clipped.",
    .inputs = {{"a", Types::kAny, "A matrix."},
               {"indices", Types::kAny, "A column for each row."}},
    .types =
        [](const NoParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
        },
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          const Shape &a = in[0].shape, &indices = in[1].shape;
          if (a.known() && indices.known()) {
            Check(a.rank() == 2 && indices.size() == a[0], "batch_take: a of shape ", a,
                  " and indices of shape ", indices,
                  " do not fit; a matrix and one index a row were expected");
          }
          return Unify(in[1].shape, out[0].shape);
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      const int64_t rows = g.in_spec(0).shape[0];
      const Value dx =
          Make("_pick_backward", {reshape(g.in(1), {rows}), reshape(g.dout(0), {rows})},
               {{"axis", Attr(1)}, {"size", Attr(g.in_spec(0).shape[1])}});
      return {dx, Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const int64_t columns = args.in[0].shape()[1];
               if (args.out[0].size() == 0) return;
               const Indices at(args.in[1], columns, IndexMode::kClip, "batch_take");
               VisitSize(args.in[0].dtype, [&]<typename T>() {
                 const T* x = args.in[0].data<T>();
                 T* y = args.out[0].data<T>();
                 for (int64_t i = 0; i < args.out[0].size(); ++i)
                   y[i] = x[i * columns + at[i]];
               });
             }}},
    .samples = {{{Normal({3, 4}), Integers({3}, 0, 4)}},
                {{Normal({2, 3}), Integers({2}, -2, 5, DType::kInt32)}}},
});

}  // namespace
}  // namespace plait
