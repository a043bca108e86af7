// pick, batch_take: one element of each slice; _gather_along and _scatter_along.

#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/index/indices.h"
#include "ops/infer.h"

namespace plait {
namespace {

constexpr int64_t kBlock = 256;

// y (outer, m, inner) with indices of the same shape: y[o, j, i] = x[o, index, i].
void GatherAlong(const View& x, const AxisSplit& s, int64_t m, const View& index,
                 IndexMode mode, const IndexPlace& place, const View& y) {
  VisitSize(x.dtype, [&]<typename T>() {
    const T* src = x.data<const T>();
    T* dst = y.data<T>();
    ParallelFor(y.size(), 1 << 13, [&](int64_t first, int64_t last) {
      int64_t at[kBlock];
      for (int64_t begin = first; begin < last; begin += kBlock) {
        const int64_t n = std::min(kBlock, last - begin);
        ResolveIndices(index, begin, n, s.n, mode, place, at);
        int64_t i = begin % s.inner, row = begin / s.inner;
        for (int64_t k = 0; k < n; ++k) {
          dst[begin + k] = src[(row / m * s.n + at[k]) * s.inner + i];
          if (++i == s.inner) {
            i = 0;
            ++row;
          }
        }
      }
    });
  });
}

// x (outer, n, inner) = 0; x[o, index, i] += y[o, j, i], in the order of j.
void ScatterAlong(const View& y, int64_t m, const View& index, IndexMode mode,
                  const IndexPlace& place, const AxisSplit& s, const View& x) {
  VisitDType(x.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      const T* src = y.data<const T>();
      ParallelFor(
          s.outer, 1 + (1 << 13) / (1 + s.n * s.inner),
          [&](int64_t first, int64_t last) {
            T* dst = x.data<T>();
            std::fill(dst + first * s.n * s.inner, dst + last * s.n * s.inner, T{});
            int64_t at[kBlock];
            const int64_t end = last * m * s.inner;
            for (int64_t begin = first * m * s.inner; begin < end; begin += kBlock) {
              const int64_t n = std::min(kBlock, end - begin);
              ResolveIndices(index, begin, n, s.n, mode, place, at);
              for (int64_t k = 0; k < n; ++k) {
                const int64_t i = (begin + k) % s.inner, o = (begin + k) / s.inner / m;
                T& sum = dst[(o * s.n + at[k]) * s.inner + i];
                sum = static_cast<T>(sum + src[begin + k]);
              }
            }
          });
    }
  });
}

// ---------------------------------------------------------------- along an axis

struct AlongParams {
  int axis = 0;
  int64_t size = 0;  // of the axis of x, for _scatter_along
  IndexMode mode = IndexMode::kClip;
};

std::vector<Param<AlongParams>> AlongList() {
  return {{"axis", &AlongParams::axis, "The axis, counted from the start."},
          {"size", &AlongParams::size, "The size of the scattered axis."},
          {"mode", &AlongParams::mode, IndexModeNames(),
           "What an index out of range means."}};
}

AttrValue ModeAttr(IndexMode mode) {
  return {IndexModeNames()[static_cast<size_t>(mode)]};
}

// Indices have the shape of y: that of x, with any size along the axis.
bool InferGather(const AlongParams& p, Specs& in, Specs& out) {
  const Shape &x = in[0].shape, &index = in[1].shape;
  if (!x.rank_known() || !index.rank_known()) return true;
  bool fits = x.rank() == index.rank() && p.axis >= 0 && p.axis < x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == p.axis || x[i] == index[i];
  return fits && Unify(in[1].shape, out[0].shape);
}

bool InferScatter(const AlongParams& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, in[1].shape)) return false;
  Shape x = in[0].shape;
  if (!x.rank_known()) return true;
  if (p.axis < 0 || p.axis >= x.rank()) return false;
  x[p.axis] = p.size;
  return Unify(x, out[0].shape);
}

[[maybe_unused]] const OpDef& gather_along = Register<AlongParams>({
    .name = "_gather_along",
    .doc = "Elements along an axis: where the index, of the shape of the result, says.",
    .inputs = {{"data", Types::kAny, "x."},
               {"index", Types::kAny, "The shape of x but for the axis."}},
    .params = AlongList(),
    .types = TypeOfFirst,
    .infer = InferGather,
    .gradient = [](const AlongParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_scatter_along", {g.dout(0), g.in(1)},
                   {{"axis", Attr(p.axis)},
                    {"size", Attr(g.in_spec(0).shape[p.axis])},
                    {"mode", ModeAttr(p.mode)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const AlongParams& p, const KernelArgs& args) {
               const View &x = args.in[0], &y = args.out[0];
               GatherAlong(x, SplitAt(x.shape(), p.axis), y.shape()[p.axis], args.in[1],
                           p.mode, {"_gather_along", p.axis}, y);
             }}},
    .may_fail = true,
    .cost = [](const AlongParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({2, 3}), Integers({2, 4}, -2, 5)}, {.axis = 1}},
                {{Normal({2, 3, 4}), Integers({2, 2, 4}, -4, 5)},
                 {.axis = 1, .mode = IndexMode::kWrap}},
                {{Normal({3, 0}), Integers({2, 0}, 0, 3)}}},
});

[[maybe_unused]] const OpDef& scatter_along = Register<AlongParams>({
    .name = "_scatter_along",
    .doc = "The gradient of _gather_along: elements added up along an axis where the "
           "index says.",
    .inputs = {{"data", Types::kNumbers, "Elements."},
               {"index", Types::kAny, "Where they go, of their shape."}},
    .params = AlongList(),
    .types = TypeOfFirst,
    .infer = InferScatter,
    .gradient = [](const AlongParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_gather_along", {g.dout(0), g.in(1)},
                   {{"axis", Attr(p.axis)}, {"mode", ModeAttr(p.mode)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const AlongParams& p, const KernelArgs& args) {
               const View &y = args.in[0], &x = args.out[0];
               if (x.size() == 0 && y.size() == 0) return;
               ScatterAlong(y, y.shape()[p.axis], args.in[1], p.mode,
                            {"_scatter_along", p.axis}, SplitAt(x.shape(), p.axis), x);
             }}},
    .may_fail = true,
    .samples = {{{Normal({2, 4}), Integers({2, 4}, -2, 5)}, {.axis = 1, .size = 3}},
                {{Normal({2, 2, 4}), Integers({2, 2, 4}, -4, 5)},
                 {.axis = 1, .size = 3, .mode = IndexMode::kWrap}},
                {{Normal({0, 2}), Integers({0, 2}, 0, 3)}, {.size = 3}}},
});

// ---------------------------------------------------------------- pick

enum class PickMode { kClip, kWrap };

struct PickParams {
  std::optional<int> axis = -1;
  bool keepdims = false;
  PickMode mode = PickMode::kClip;

  IndexMode index_mode() const {
    return mode == PickMode::kClip ? IndexMode::kClip : IndexMode::kWrap;
  }
};

int AxisOf(const PickParams& p, const Shape& x) {
  Check(p.axis.has_value(), "pick: axis is None; an axis was expected");
  return NormalizeAxis(*p.axis, x.rank(), "pick");
}

Shape WithoutAxis(const Shape& x, int axis, bool keepdims) {
  Shape y = x;
  if (keepdims) {
    y[axis] = 1;
    return y;
  }
  y.Erase(axis);
  if (y.rank() == 0) y.Append(1);
  return y;
}

bool InferPick(const PickParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  const int axis = AxisOf(p, x);
  Shape y = WithoutAxis(x, axis, p.keepdims);
  if (!Unify(y, out[0].shape)) return false;
  Shape& index = in[1].shape;
  if (!index.rank_known()) return true;
  Shape expected = WithoutAxis(x, axis, index.rank() == x.rank());
  const Shape given = index;
  Check(Unify(expected, index), "pick: the index has shape ", given, " for data of ", x,
        " and axis ", axis, "; shape ", expected, " was expected");
  return true;
}

// dx from dy, both seen with the picked axis of size 1.
Value PickGradient(const Value& dy, const Value& index, const Shape& x, int axis,
                   IndexMode mode) {
  const Shape kept = WithoutAxis(x, axis, true);
  return Make(
      "_scatter_along", {reshape(dy, kept), reshape(index, kept)},
      {{"axis", Attr(axis)}, {"size", Attr(x[axis])}, {"mode", ModeAttr(mode)}});
}

[[maybe_unused]] const OpDef& pick = Register<PickParams>({
    .name = "pick",
    .aliases = {"_npx_pick", "choose_element_0index"},
    .doc = "One element of each slice along an axis, chosen by an index.",
    .inputs = {{"data", Types::kAny, "An array of at least one axis."},
               {"index", Types::kAny,
                "The shape of data without the axis, or with "
                "size 1 there."}},
    .params = {{"axis", &PickParams::axis, "The axis; negative: from the end."},
               {"keepdims", &PickParams::keepdims, "Keeps the axis, with size 1."},
               {"mode",
                &PickParams::mode,
                {"clip", "wrap"},
                "What an index out of range means: the nearest one in range, or the "
                "one that is equal modulo the size."}},
    .types = TypeOfFirst,
    .infer = InferPick,
    .gradient = [](const PickParams& p, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      const Shape& x = g.in_spec(0).shape;
      return {PickGradient(g.dout(0), g.in(1), x, AxisOf(p, x), p.index_mode())};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const PickParams& p, const KernelArgs& args) {
               const View& x = args.in[0];
               const int axis = AxisOf(p, x.shape());
               GatherAlong(x, SplitAt(x.shape(), axis), 1, args.in[1], p.index_mode(),
                           {"pick", axis}, args.out[0]);
             }}},
    .may_fail = true,
    .cost = [](const PickParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({4, 3}), Integers({4}, -2, 5)}},
                {{Normal({2, 3, 4}), Integers({2, 4}, -7, 8, DType::kInt32)},
                 {.axis = 1, .mode = PickMode::kWrap}},
                {{Normal({3, 2}), Integers({1, 2}, 0, 3)},
                 {.axis = 0, .keepdims = true}},
                {{Normal({5}), Integers({1}, 0, 5)}},
                {{Normal({0, 3}), Integers({0}, 0, 3)}}},
});

// ---------------------------------------------------------------- batch_take

Shape Rows(const Shape& x) {
  return {x.size(0, x.rank() - 1), x.back()};
}

[[maybe_unused]] const OpDef& batch_take = Register<NoParams>({
    .name = "batch_take",
    .doc = "One element of each row, chosen by an index; the predecessor of pick.",
    .inputs = {{"a", Types::kAny, "An array of at least two axes."},
               {"indices", Types::kAny, "One index for each row, of any shape."}},
    .types = TypeOfFirst,
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          if (!Unify(in[1].shape, out[0].shape)) return false;
          const Shape &x = in[0].shape, &y = out[0].shape;
          if (!x.known() || !y.known()) return true;
          Check(x.rank() >= 2, "batch_take: a has shape ", x,
                "; at least two axes were expected");
          Check(Rows(x)[0] == y.size(), "batch_take: indices of shape ", y,
                " do not fit a of shape ", x, "; one for each of ", Rows(x)[0],
                " rows was expected");
          return true;
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      const Shape& x = g.in_spec(0).shape;
      return {
          reshape(PickGradient(g.dout(0), g.in(1), Rows(x), 1, IndexMode::kClip), x)};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const View& x = args.in[0];
               GatherAlong(x, SplitAt(Rows(x.shape()), 1), 1, args.in[1],
                           IndexMode::kClip, {"batch_take", 1}, args.out[0]);
             }}},
    .may_fail = true,
    .cost = [](const NoParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({4, 3}), Integers({4}, -1, 4, DType::kInt32)}},
                {{Normal({2, 2, 3}), Integers({4}, 0, 3, DType::kInt32)}}},
});

}  // namespace
}  // namespace plait
