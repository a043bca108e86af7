// gather_nd, scatter_nd and their kin: slices at points of the leading axes.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/create/given_shape.h"
#include "ops/index/indices.h"
#include "ops/index/scatter.h"
#include "ops/infer.h"

namespace plait {
namespace {

// An array of shape (d0, ..., dM-1, rest...) and indices of shape (M, points...): each
// point names a slice of shape `rest`.
Shape SlicesShape(const Shape& x, const Shape& index) {
  Shape y(index.begin() + 1, index.end());
  for (int i = static_cast<int>(index[0]); i < x.rank(); ++i) y.Append(x[i]);
  return y;
}

void CheckIndex(const Shape& x, const Shape& index, const char* op) {
  Check(index.rank() >= 2 && index[0] >= 1 && index[0] <= x.rank(), op,
        ": indices have shape ", index, " for an array of shape ", x,
        "; (number of leading axes, points...) was expected");
}

// The number of each point's slice. Coordinates may count from the end; others out of
// range are errors.
class Points {
 public:
  Points(const Shape& x, const View& index, const char* op)
      : count_(index.shape().size(1, index.shape().rank())),
        memory_(cpu::Scratch::Bytes<int64_t>(count_)) {
    ParallelFor(count_, 1 << 13, [&](int64_t first, int64_t last) {
      Resolve(x, index, op, first, last);
    });
  }
  int64_t count() const { return count_; }
  const int64_t* data() const { return memory_.As<const int64_t>(); }

 private:
  void Resolve(const Shape& x, const View& index, const char* op, int64_t first,
               int64_t last) const {
    constexpr int64_t kBlock = 256;
    int64_t at[kBlock];
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t n = std::min(kBlock, last - begin);
      int64_t* slice = memory_.As<int64_t>() + begin;
      std::fill_n(slice, n, int64_t{0});
      for (int axis = 0; axis < index.shape()[0]; ++axis) {
        ResolveIndices(index, axis * count_ + begin, n, x[axis], IndexMode::kFromEnd,
                       {op, axis}, at);
        for (int64_t i = 0; i < n; ++i) slice[i] = slice[i] * x[axis] + at[i];
      }
    }
  }

  int64_t count_;
  cpu::Scratch memory_;
};

AxisSplit Slices(const Shape& x, const Shape& index) {
  const int m = static_cast<int>(index[0]);
  return {1, x.size(0, m), x.size(m, x.rank())};
}

// y[j, :] = x[point j, :].
void Gather(const View& x, const View& index, const View& y) {
  if (y.size() == 0) return;
  const Points points(x.shape(), index, "gather_nd");
  const int64_t inner = Slices(x.shape(), index.shape()).inner;
  VisitSize(x.dtype, [&]<typename T>() {
    const T* src = x.data<const T>();
    const int64_t* at = points.data();
    ParallelFor(points.count(), 1 + (1 << 13) / inner,
                [&](int64_t first, int64_t last) {
                  T* dst = y.data<T>();
                  for (int64_t j = first; j < last; ++j) {
                    if (inner == 1) {
                      dst[j] = src[at[j]];
                    } else {
                      std::copy_n(src + at[j] * inner, inner, dst + j * inner);
                    }
                  }
                });
  });
}

// x[point j, :] = y[j, :]; of points that are equal the last one stays. Threads share
// out the columns, so that the order is kept.
void Scatter(const View& y, const View& index, const View& x, const char* op) {
  if (x.size() == 0 || y.size() == 0) return;
  const Points points(x.shape(), index, op);
  const int64_t inner = Slices(x.shape(), index.shape()).inner;
  VisitSize(x.dtype, [&]<typename T>() {
    const T* src = y.data<const T>();
    const int64_t* at = points.data();
    ParallelFor(inner, 1 + (1 << 14) / points.count(),
                [&](int64_t first, int64_t last) {
                  T* dst = x.data<T>();
                  for (int64_t j = 0; j < points.count(); ++j) {
                    std::copy(src + j * inner + first, src + j * inner + last,
                              dst + at[j] * inner + first);
                  }
                });
  });
}

struct ScatterParams {
  Shape shape = Shape::Unknown();
};

std::vector<Param<ScatterParams>> ShapeParam() {
  return {Required<ScatterParams>("shape", &ScatterParams::shape,
                                  "The shape of the result.")};
}

// The result, of the given shape, and the slices that go into it.
bool InferScatter(const ScatterParams& p, Spec& slices, const Spec& index, Spec& out,
                  const char* op) {
  Check(p.shape.rank_known(), op, ": shape is None; a shape was expected");
  if (!InferGiven(p.shape, out, op)) return false;
  if (!index.shape.known()) return true;
  CheckIndex(p.shape, index.shape, op);
  Shape expected = SlicesShape(p.shape, index.shape);
  const Shape given = slices.shape;
  Check(Unify(expected, slices.shape), op, ": data has shape ", given,
        " for indices of ", index.shape, " and the result's shape ", p.shape,
        "; data of ", expected, " was expected");
  return true;
}

[[maybe_unused]] const OpDef& gather_nd = Register<NoParams>({
    .name = "gather_nd",
    .aliases = {"_npi_gather_nd", "_npx_gather_nd"},
    .doc = "Slices at points: column j of the indices has the coordinates of slice j "
           "along the leading axes.",
    .inputs = {{"data", Types::kAny, "An array."},
               {"indices", Types::kAny,
                "Coordinates (leading axes, points...); negative: from the end."}},
    .types = TypeOfFirst,
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          const Shape &x = in[0].shape, &index = in[1].shape;
          if (!x.rank_known() || !index.known()) return true;
          CheckIndex(x, index, "gather_nd");
          Shape y = SlicesShape(x, index);
          return Unify(y, out[0].shape);
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("_backward_gather_nd", {g.dout(0), g.in(1)},
                   {{"shape", Attr(g.in_spec(0).shape)}})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               Gather(args.in[0], args.in[1], args.out[0]);
             }}},
    .may_fail = true,
    .cost = [](const NoParams&, const Specs& in,
               const Specs& out) { return CostOfPart(in[0], out[0]); },
    .samples = {{{Normal({2, 3}), Integers({2, 5}, -2, 2)}},
                {{Normal({3, 2, 4}), Integers({2, 2, 2}, 0, 2, DType::kInt64)}},
                {{Normal({4, 3}), Integers({1, 6}, -4, 4, DType::kInt32)}},
                {{Normal({4, 3}), Integers({1, 0}, 0, 4)}}},
});

[[maybe_unused]] const OpDef& backward_gather_nd = Register<ScatterParams>({
    .name = "_backward_gather_nd",
    .doc = "Slices added up at points; the order of the sums is fixed. The gradient of "
           "gather_nd.",
    .inputs = {{"data", Types::kNumbers, "The slices."},
               {"indices", Types::kAny, "Coordinates (leading axes, points...)."}},
    .params = ShapeParam(),
    .types = TypeOfFirst,
    .infer =
        [](const ScatterParams& p, Specs& in, Specs& out) {
          return InferScatter(p, in[0], in[1], out[0], "_backward_gather_nd");
        },
    .gradient = [](const ScatterParams&, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("gather_nd", {g.dout(0), g.in(1)})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const ScatterParams&, const KernelArgs& args) {
               const View &index = args.in[1], &x = args.out[0];
               if (x.size() == 0) return;
               const Points points(x.shape(), index, "gather_nd");
               ScatterAdd(x.dtype, Slices(x.shape(), index.shape()), points.count(),
                          points.data(), args.in[0].ptr, x.ptr);
             }}},
    .may_fail = true,
    .samples = {{{Normal({5}), Integers({2, 5}, -2, 2)}, {{2, 3}}},
                {{Normal({6, 3}), Integers({1, 6}, 0, 4)}, {{4, 3}}},
                {{Normal({0, 3}), Integers({1, 0}, 0, 4)}, {{4, 3}}}},
});

SampleInput Coordinates(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& scatter_nd = Register<ScatterParams>({
    .name = "scatter_nd",
    .doc = "Zeros with slices put at points; of points that are equal the last slice "
           "stays, and the gradient reaches all of them.",
    .inputs = {{"data", Types::kAny, "The slices."},
               {"indices", Types::kAny,
                "Coordinates (leading axes, points...); negative: from the end."}},
    .params = ShapeParam(),
    .types = TypeOfFirst,
    .infer =
        [](const ScatterParams& p, Specs& in, Specs& out) {
          return InferScatter(p, in[0], in[1], out[0], "scatter_nd");
        },
    .gradient = [](const ScatterParams&, const GradArgs& g) -> Values {
      if (!g.wants(0)) return {};
      return {Make("gather_nd", {g.dout(0), g.in(1)})};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const ScatterParams&, const KernelArgs& args) {
               const View& x = args.out[0];
               std::memset(x.ptr, 0, static_cast<size_t>(x.bytes()));
               Scatter(args.in[0], args.in[1], x, "scatter_nd");
             }}},
    .may_fail = true,
    .samples = {{{Normal({3}), Coordinates({2, 3}, {1, 1, 0, 0, -1, 0})}, {{2, 3}}},
                {{Normal({2, 2}), Coordinates({1, 2}, {2, 0})}, {{3, 2}}},
                {{Normal({0, 2}), Integers({1, 0}, 0, 3)}, {{3, 2}}}},
});

[[maybe_unused]] const OpDef& scatter_set_nd = Register<ScatterParams>({
    .name = "_scatter_set_nd",
    .aliases = {"_npi_scatter_set_nd"},
    .doc =
        "lhs with slices replaced at points; of points that are equal the last slice "
        "stays.",
    .inputs = {{"lhs", Types::kAny, "An array, which the result may overwrite."},
               {"rhs", Types::kAny, "The new slices."},
               {"indices", Types::kAny,
                "Coordinates (leading axes, points...); negative: from the end."}},
    .params = ShapeParam(),
    .types =
        [](const ScatterParams&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          UnifyDType(in[0].dtype, in[1].dtype);
          Check(in[0].dtype == in[1].dtype, ErrorKind::kType,
                "_scatter_set_nd: lhs is ", in[0].dtype, " and rhs is ", in[1].dtype,
                "; one dtype was expected");
        },
    .infer =
        [](const ScatterParams& p, Specs& in, Specs& out) {
          return InferScatter(p, in[1], in[2], out[0], "_scatter_set_nd") &&
                 Unify(in[0].shape, out[0].shape);
        },
    .gradient = [](const ScatterParams& p, const GradArgs& g) -> Values {
      const Value dy = g.dout(0);
      Values dx(2);
      if (g.wants(0)) {
        dx[0] = Make("_scatter_set_nd", {dy, zeros(g.in_spec(1)), g.in(2)},
                     {{"shape", Attr(p.shape)}});
      }
      if (g.wants(1)) dx[1] = Make("gather_nd", {dy, g.in(2)});
      return dx;
    },
    .uses = {.in = 0b100},
    .cpu = {{"plain",
             [](const ScatterParams&, const KernelArgs& args) {
               const View &old = args.in[0], &x = args.out[0];
               if (old.ptr != x.ptr) {
                 std::memcpy(x.ptr, old.ptr, static_cast<size_t>(x.bytes()));
               }
               Scatter(args.in[1], args.in[2], x, "_scatter_set_nd");
             }}},
    .may_fail = true,
    .in_place = {{0, 0}},
    .samples =
        {{{Normal({2, 3}), Normal({3}), Coordinates({2, 3}, {1, 1, 0, 0, -1, 0})},
          {{2, 3}}},
         {{Normal({3, 2}), Normal({2, 2}), Coordinates({1, 2}, {2, 0})}, {{3, 2}}}},
});

}  // namespace
}  // namespace plait
