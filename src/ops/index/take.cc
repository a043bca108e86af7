// take, Embedding: slices along an axis chosen by indices; _backward_take adds them up.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/index/indices.h"
#include "ops/index/scatter.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct TakeParams {
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
};

// y (outer, m, inner): y[o, j, :] = x[o, index[j], :].
void TakeSlices(const View& x, const AxisSplit& s, const int64_t* index, int64_t m,
                const View& y) {
  const auto* src = static_cast<const char*>(x.ptr);
  auto* dst = static_cast<char*>(y.ptr);
  const int64_t bytes = s.inner * static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t grain = 1 + (1 << 15) / (8 + bytes);
  ParallelFor(s.outer * m, grain, [&](int64_t first, int64_t last) {
    for (int64_t w = first; w < last;) {
      const int64_t o = w / m, begin = w % m, end = std::min(m, begin + (last - w));
      const char* from = src + o * s.n * bytes;
      char* to = dst + o * m * bytes;
      if (s.inner == 1) {
        VisitSize(x.dtype, [&]<typename T>() {
          const T* a = reinterpret_cast<const T*>(from);
          T* b = reinterpret_cast<T*>(to);
          for (int64_t j = begin; j < end; ++j) b[j] = a[index[j]];
        });
      } else {
        for (int64_t j = begin; j < end; ++j) {
          std::memcpy(to + j * bytes, from + index[j] * bytes,
                      static_cast<size_t>(bytes));
        }
      }
      w += end - begin;
    }
  });
}

void TakeAlong(const View& x, const View& index, int axis, IndexMode mode,
               const char* op, const View& y) {
  if (y.size() == 0) return;
  const AxisSplit s = SplitAt(x.shape(), axis);
  const ResolvedIndices resolved(index, s.n, mode, {op, axis});
  TakeSlices(x, s, resolved.data(), index.size(), y);
}

// ---------------------------------------------------------------- take

bool InferTake(const TakeParams& p, Specs& in, Specs& out) {
  const Shape &x = in[0].shape, &index = in[1].shape;
  if (!x.rank_known() || !index.rank_known()) return true;
  const int axis = NormalizeAxis(p.axis, x.rank(), "take");
  Shape y(x.begin(), x.begin() + axis);
  for (int64_t size : index) y.Append(size);
  for (int i = axis + 1; i < x.rank(); ++i) y.Append(x[i]);
  return Unify(y, out[0].shape);
}

AttrValue ModeAttr(IndexMode mode) {
  return {IndexModeNames()[static_cast<size_t>(mode)]};
}

// dx, where x has `size` slices along the axis.
Value TakeGradient(const Value& dy, const Value& index, int64_t axis, int64_t size,
                   IndexMode mode) {
  return Make("_backward_take", {dy, index},
              {{"axis", Attr(axis)}, {"size", Attr(size)}, {"mode", ModeAttr(mode)}});
}

[[maybe_unused]] const OpDef& take = Register<TakeParams>({
    .name = "take",
    .aliases = {"_npi_take"},
    .doc = "The slices of an array along an axis that indices choose.",
    .inputs = {{"a", Types::kAny, "The array, of at least one axis."},
               {"indices", Types::kAny, "Which slices, of any shape."}},
    .outputs = {{"output", Types::kAny,
                 "The shape of a with that of the indices in place of the axis."}},
    .params = {{"axis", &TakeParams::axis, "The axis; negative: from the end."},
               {"mode", &TakeParams::mode, IndexModeNames(),
                "What an index out of range means: the nearest one in range, an error, "
                "or the one that is equal modulo the size."}},
    .types = TypeOfFirst,
    .infer = InferTake,
    .gradient = [](const TakeParams& p, const GradArgs& g) -> Values {
      const Shape& x = g.in_spec(0).shape;
      if (!g.wants(0)) return {};
      const int axis = NormalizeAxis(p.axis, x.rank(), "take");
      return {TakeGradient(g.dout(0), g.in(1), axis, x[axis], p.mode)};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const TakeParams& p, const KernelArgs& args) {
               const View& x = args.in[0];
               const int axis = NormalizeAxis(p.axis, x.shape().rank(), "take");
               TakeAlong(x, args.in[1], axis, p.mode, "take", args.out[0]);
             }}},
    .may_fail = true,
    .cost = [](const TakeParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({4, 3}), Integers({5}, 0, 4)}},
                {{Normal({4, 3}), Integers({2, 2}, -5, 9)}, {.axis = 1}},
                {{Normal({2, 3, 4}), Integers({3}, -9, 9, DType::kInt64)},
                 {.axis = -2, .mode = IndexMode::kWrap}},
                {{Normal({5}), Integers({2, 1}, 0, 5, DType::kInt32)},
                 {.mode = IndexMode::kRaise}},
                {{Normal({3, 0}), Integers({2}, 0, 3)}},
                {{Normal({3, 2}), Integers({0}, 0, 3)}}},
});

// ---------------------------------------------------------------- its gradient

struct BackwardTakeParams {
  int axis = 0;
  int64_t size = 0;
  IndexMode mode = IndexMode::kClip;
};

// dx has one axis of `size` where dy has those of the indices.
bool InferBackward(const BackwardTakeParams& p, Specs& in, Specs& out) {
  const Shape &dy = in[0].shape, &index = in[1].shape;
  if (!dy.rank_known() || !index.rank_known()) return true;
  const int rank = dy.rank() - index.rank() + 1;
  bool fits = rank >= 1 && p.axis >= 0 && p.axis < rank;
  Shape x(dy.begin(), dy.begin() + (fits ? p.axis : 0));
  x.Append(p.size);
  for (int i = 0; fits && i < index.rank(); ++i) fits = dy[p.axis + i] == index[i];
  for (int i = p.axis + index.rank(); fits && i < dy.rank(); ++i) x.Append(dy[i]);
  return fits && Unify(x, out[0].shape);
}

[[maybe_unused]] const OpDef& backward_take = Register<BackwardTakeParams>({
    .name = "_backward_take",
    .doc = "The gradient of take: slices added up where the indices say. The order of "
           "the sums is fixed.",
    .inputs = {{"ograd", Types::kNumbers, "The gradient of take's result."},
               {"indices", Types::kAny, "The indices that take had."}},
    .outputs = {{"output", Types::kNumbers, "The gradient of take's array."}},
    .params = {{"axis", &BackwardTakeParams::axis, "The axis, counted from the start."},
               Required<BackwardTakeParams>("size", &BackwardTakeParams::size,
                                            "The size of the axis."),
               {"mode", &BackwardTakeParams::mode, IndexModeNames(),
                "What an index out of range means."}},
    .types = TypeOfFirst,
    .infer = InferBackward,
    .gradient = [](const BackwardTakeParams& p, const GradArgs& g) -> Values {
      return {Make("take", {g.dout(0), g.in(1)},
                   {{"axis", Attr(p.axis)}, {"mode", ModeAttr(p.mode)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const BackwardTakeParams& p, const KernelArgs& args) {
               const View &index = args.in[1], &dx = args.out[0];
               if (dx.size() == 0) return;
               const AxisSplit s = SplitAt(dx.shape(), p.axis);
               const ResolvedIndices resolved(index, s.n, p.mode, {"take", p.axis});
               ScatterAdd(dx.dtype, s, index.size(), resolved.data(), args.in[0].ptr,
                          dx.ptr);
             }}},
    .may_fail = true,
    .samples = {{{Normal({5, 3}), Integers({5}, 0, 4)}, {.size = 4}},
                {{Normal({2, 2, 3}), Integers({2, 2}, -5, 9)},
                 {.size = 4, .mode = IndexMode::kWrap}},
                {{Normal({2, 5}), Integers({5}, -1, 9)}, {.axis = 1, .size = 3}},
                {{Normal({0, 2}), Integers({0}, 0, 3)}, {.size = 3}}},
});

// ---------------------------------------------------------------- Embedding

struct EmbeddingParams {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  DType dtype = DType::kFloat32;
  bool sparse_grad = false, deterministic = false;
};

void EmbeddingTypes(const EmbeddingParams& p, Specs& in, Specs& out) {
  UnifyDType(in[1].dtype, out[0].dtype);
  if (in[1].dtype == DType::kUnknown) in[1].dtype = out[0].dtype = p.dtype;
}

bool InferEmbedding(const EmbeddingParams& p, Specs& in, Specs& out) {
  Check(p.input_dim > 0 && p.output_dim > 0, "Embedding: input_dim is ", p.input_dim,
        " and output_dim is ", p.output_dim, "; sizes of at least 1 were expected");
  Shape weight{p.input_dim, p.output_dim};
  Check(Unify(weight, in[1].shape), "Embedding: weight has shape ", in[1].shape,
        "; (input_dim, output_dim), (", p.input_dim, ", ", p.output_dim,
        "), was expected");
  if (in[0].shape.rank_known()) {
    Shape y = in[0].shape;
    y.Append(p.output_dim);
    if (!Unify(y, out[0].shape)) return false;
  }
  const Shape& y = out[0].shape;
  if (!y.rank_known()) return true;
  Shape data(y.begin(), y.end() - (y.rank() > 0));
  return Unify(data, in[0].shape);
}

OpSpec<EmbeddingParams> EmbeddingSpec() {
  return {
      .name = "Embedding",
      .aliases = {"_npx_embedding", "_sparse_Embedding"},
      .doc =
          "The rows of a weight that indices choose; one out of range means the "
          "nearest row.",
      .inputs = {{"data", Types::kAny, "Indices, of any shape."},
                 {"weight", Types::kAny, "Of shape (input_dim, output_dim)."}},
      .outputs = {{"output", Types::kAny, "The shape of data, and output_dim."}},
      .params = {Required<EmbeddingParams>("input_dim", &EmbeddingParams::input_dim,
                                           "The number of rows of the weight."),
                 Required<EmbeddingParams>("output_dim", &EmbeddingParams::output_dim,
                                           "The size of a row."),
                 {"dtype", &EmbeddingParams::dtype, "The dtype of the weight."},
                 {"sparse_grad", &EmbeddingParams::sparse_grad,
                  "Accepted: the gradient is row_sparse where the weight's gradient "
                  "array is."}},
      .types = EmbeddingTypes,
      .infer = InferEmbedding,
      .gradient = [](const EmbeddingParams& p, const GradArgs& g) -> Values {
        if (!g.wants(1)) return {};
        return {Value(),
                TakeGradient(g.dout(0), g.in(0), 0, p.input_dim, IndexMode::kClip)};
      },
      .uses = {.in = 0b01},
      .cpu = {{"plain",
               [](const EmbeddingParams&, const KernelArgs& args) {
                 TakeAlong(args.in[1], args.in[0], 0, IndexMode::kClip, "Embedding",
                           args.out[0]);
               }}},
      .cost = [](const EmbeddingParams&, const Specs& in,
                 const Specs& out) { return CostOfPart(in[1], out[0]); },
      .samples = {{{Integers({2, 3}, 0, 5), Normal({5, 4})}, {5, 4}},
                  {{Integers({4}, -3, 9, DType::kInt32), Normal({3, 2})},
                   {.input_dim = 3, .output_dim = 2, .sparse_grad = true}},
                  {{Integers({0}, 0, 3), Normal({3, 2})}, {3, 2}}},
  };
}

[[maybe_unused]] const bool kEmbeddingAdded = [] {
  Register(EmbeddingSpec());
  OpSpec<EmbeddingParams> sparse = EmbeddingSpec();
  sparse.name = "_contrib_SparseEmbedding";
  sparse.aliases = {};
  sparse.params.back() = {
      "deterministic", &EmbeddingParams::deterministic,
      "Accepted: the gradient never depends on the order of threads."};
  Register(sparse);
  return true;
}();

}  // namespace
}  // namespace plait
