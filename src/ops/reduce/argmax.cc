// argmax, argmin, argmax_channel: where the largest or smallest element is.

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/row.h"
#include "cpu/scratch.h"
#include "graph/op.h"

namespace plait {
namespace {

struct ArgParams {
  std::optional<int> axis;
  bool keepdims = false;
  DType dtype = DType::kUnknown;
};

// The dtype of x (a bool cannot hold an index), or the one asked for.
void ArgTypes(const ArgParams& p, Specs& in, Specs& out) {
  if (p.dtype != DType::kUnknown) {
    out[0].dtype = p.dtype;
  } else if (in[0].dtype != DType::kUnknown) {
    out[0].dtype = in[0].dtype == DType::kBool ? DType::kInt64 : in[0].dtype;
  } else {
    in[0].dtype = out[0].dtype;
  }
}

bool InferArg(const ArgParams& p, Specs& in, Specs& out, const char* op) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Shape y;
  if (!p.axis) {
    y = p.keepdims ? Shape::Filled(x.rank(), 1) : Shape{1};
    Check(!x.known() || x.size() > 0, op, ": x of shape ", x,
          " has no element; at least one was expected");
  } else {
    const int axis = NormalizeAxis(*p.axis, x.rank(), op);
    Check(x[axis] != 0, op, ": x of shape ", x, " has no element along axis ", axis);
    y = x;
    if (p.keepdims) {
      y[axis] = 1;
    } else {
      y.Erase(axis);
    }
    if (y.rank() == 0) y.Append(1);
  }
  return Unify(y, out[0].shape);
}

// Whether a beats b, which came first: the first of equal ones wins, and NaN wins
// always. Without branches, so that loops over columns are vector code.
template <bool kMax, typename T>
bool Beats(T a, T b) {
  const bool better = kMax ? a > b : a < b;
  if constexpr (std::is_floating_point_v<T>) return better | ((a != a) & (b == b));
  return better;
}

// Along the last axis: one row after the other, long ones in parts of which the first
// best one counts.
template <bool kMax, typename T>
void BestOfRows(const T* x, int64_t outer, int64_t n, int64_t* best) {
  const auto best_of = [](const T* row, int64_t size) {
    return kMax ? cpu::row::ArgMax(row, size) : cpu::row::ArgMin(row, size);
  };
  constexpr int64_t kPart = 1 << 16;
  const int64_t parts = outer < 8 ? (n + kPart - 1) / kPart : 1;
  if (parts == 1) {
    ParallelFor(outer, 1 + (1 << 15) / n, [&](int64_t first, int64_t last) {
      for (int64_t o = first; o < last; ++o) best[o] = best_of(x + o * n, n);
    });
    return;
  }
  cpu::Scratch memory(cpu::Scratch::Bytes<int64_t>(outer * parts));
  int64_t* found = memory.As<int64_t>();
  ParallelFor(outer * parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t w = first; w < last; ++w) {
      const int64_t begin = w % parts * kPart;
      found[w] = begin + best_of(x + w / parts * n + begin, std::min(kPart, n - begin));
    }
  });
  for (int64_t o = 0; o < outer; ++o) {
    const auto value = [&](int64_t i) {
      return static_cast<Accumulate<T>>(x[o * n + i]);
    };
    const int64_t* candidates = found + o * parts;
    best[o] = candidates[0];
    for (int64_t k = 1; k < parts; ++k) {
      if (Beats<kMax>(value(candidates[k]), value(best[o]))) best[o] = candidates[k];
    }
  }
}

// Along another axis: all columns [first, last) of one matrix at once, row by row.
template <bool kMax, typename T, typename Y>
void BestOfColumns(const T* x, int64_t n, int64_t inner, int64_t first, int64_t last,
                   Y* y) {
  constexpr int64_t kTile = 256;
  for (int64_t begin = first; begin < last; begin += kTile) {
    const int64_t width = std::min(kTile, last - begin);
    Accumulate<T> value[kTile];
    // Of the width of the values, so that both are in vectors of one length.
    using Index = std::conditional_t<sizeof(Accumulate<T>) == 8, int64_t, int32_t>;
    Index best[kTile] = {};
    for (int64_t j = 0; j < width; ++j) {
      value[j] = static_cast<Accumulate<T>>(x[begin + j]);
    }
    for (int64_t i = 1; i < n; ++i) {
      const T* row = x + i * inner + begin;
      for (int64_t j = 0; j < width; ++j) {
        const auto v = static_cast<Accumulate<T>>(row[j]);
        const bool beats = Beats<kMax>(v, value[j]);
        value[j] = beats ? v : value[j];
        best[j] = beats ? static_cast<Index>(i) : best[j];
      }
    }
    for (int64_t j = 0; j < width; ++j) y[begin + j] = static_cast<Y>(best[j]);
  }
}

template <bool kMax>
void RunArg(const View& in, const View& out, std::optional<int> given, const char* op) {
  const Shape& shape = in.shape();
  int64_t outer = 1, n = in.size(), inner = 1;
  if (given) {
    const int axis = NormalizeAxis(*given, shape.rank(), op);
    outer = shape.size(0, axis);
    n = shape[axis];
    inner = shape.size(axis + 1, shape.rank());
  }
  if (outer * inner == 0) return;
  VisitDType(in.dtype, [&]<typename T>() {
    const T* x = in.data<T>();
    const int64_t grain = 1 + (1 << 14) / n;
    cpu::Scratch indices(outer * inner * sizeof(int64_t));
    int64_t* best = indices.As<int64_t>();
    Check(inner == 1 || n < (int64_t{1} << 31), op, ": the axis has ", n,
          " elements; fewer than 2^31 were expected");
    if (inner == 1) {
      BestOfRows<kMax>(x, outer, n, best);
    } else {
      for (int64_t o = 0; o < outer; ++o) {
        ParallelFor(inner, grain, [&](int64_t first, int64_t last) {
          BestOfColumns<kMax>(x + o * n * inner, n, inner, first, last,
                              best + o * inner);
        });
      }
    }
    cpu::Convert(best, DType::kInt64, out.ptr, out.dtype, outer * inner);
  });
}

OpSpec<ArgParams> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
      .params = {{"axis", &ArgParams::axis, "The axis; none: x counts as one row."},
                 {"keepdims", &ArgParams::keepdims,
                  "Whether the axis stays, of size 1."},
                 {"dtype", &ArgParams::dtype,
                  "The dtype of the result; none: that of x, exact only as far as it "
                  "holds whole numbers."}},
      .types = ArgTypes,
      .zero_gradient = true,
      .samples = {{{Normal({2, 3})}},
                  {{Normal({2, 3})}, {.axis = 1}},
                  {{Normal({2, 3, 4})}, {.axis = -2, .keepdims = true}},
                  {{Normal({1, 3})}, {.axis = 0, .dtype = DType::kInt64}},
                  {{Normal({0, 3})}, {.axis = 1}}},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<ArgParams> max =
      Spec("argmax", "The index of the largest element, the first one of equal ones.");
  max.infer = [](const ArgParams& p, Specs& in, Specs& out) {
    return InferArg(p, in, out, "argmax");
  };
  max.cpu = {{"plain", [](const ArgParams& p, const KernelArgs& args) {
                RunArg<true>(args.in[0], args.out[0], p.axis, "argmax");
              }}};
  Register(max);
  OpSpec<ArgParams> min =
      Spec("argmin", "The index of the smallest element, the first one of equal ones.");
  min.infer = [](const ArgParams& p, Specs& in, Specs& out) {
    return InferArg(p, in, out, "argmin");
  };
  min.cpu = {{"plain", [](const ArgParams& p, const KernelArgs& args) {
                RunArg<false>(args.in[0], args.out[0], p.axis, "argmin");
              }}};
  Register(min);
  return true;
}();

[[maybe_unused]] const OpDef& argmax_channel = Register<NoParams>({
    .name = "argmax_channel",
    .doc = "The index of the largest element along the second axis.",
    .inputs = {{"data", Types::kAny, "Numbers, of at least two axes."}},
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          const int rank = in[0].shape.rank();
          Check(rank < 0 || rank >= 2, "argmax_channel: x has shape ", in[0].shape,
                "; at least two axes were expected");
          return InferArg({.axis = 1}, in, out, "argmax_channel");
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               RunArg<true>(args.in[0], args.out[0], 1, "argmax_channel");
             }}},
    .samples = {{{Normal({2, 3})}}, {{Normal({2, 3, 4})}}},
});

}  // namespace
}  // namespace plait
