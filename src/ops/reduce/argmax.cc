// argmax, argmin, argmax_channel: where the largest or smallest element is.

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "cpu/pointwise.h"
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

// Looks on from element `first`.
template <bool kMax, typename T>
void Improve(const T* x, int64_t first, int64_t last, Accumulate<T>& value,
             int64_t& best) {
  for (int64_t i = first; i < last; ++i) {
    const auto v = static_cast<Accumulate<T>>(x[i]);
    if (Beats<kMax>(v, value)) {
      value = v;
      best = i;
    }
  }
}

// Along the last axis: one row after the other. Blocks of which nothing beats what was
// found, nearly all of them, are passed over by vector code.
template <bool kMax, typename T>
int64_t BestOf(const T* x, int64_t n) {
  using A = Accumulate<T>;
  using Flag = std::conditional_t<sizeof(A) == 8, int64_t, int32_t>;
  constexpr int64_t kLanes = 512 / sizeof(A), kBlock = 8 * kLanes;
  int64_t best = 0, begin = 0;
  auto value = static_cast<A>(x[0]);
  for (; begin + kBlock <= n; begin += kBlock) {
    A top[kLanes];
    Flag odd[kLanes] = {};  // NaN was there
    std::fill_n(top, kLanes, value);
    for (const T* row = x + begin; row < x + begin + kBlock; row += kLanes) {
      for (int64_t j = 0; j < kLanes; ++j) {
        const auto v = static_cast<A>(row[j]);
        top[j] = (kMax ? v > top[j] : v < top[j]) ? v : top[j];
        if constexpr (std::is_floating_point_v<A>) odd[j] |= v != v ? 1 : 0;
      }
    }
    bool any = false;
    for (int64_t j = 0; j < kLanes; ++j)
      any |= Beats<kMax>(top[j], value) || odd[j] != 0;
    if (any) Improve<kMax>(x, begin, begin + kBlock, value, best);
  }
  Improve<kMax>(x, begin, n, value, best);
  return best;
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
      ParallelFor(outer, grain, [&](int64_t first, int64_t last) {
        for (int64_t o = first; o < last; ++o) best[o] = BestOf<kMax>(x + o * n, n);
      });
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
