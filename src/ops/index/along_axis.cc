// _take_along_axis, _put_along_axis: elements named by indices along one axis.
//
// They are each other's gradients, and serve those of sort and topk.

#include <algorithm>

#include "base/parallel.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"

namespace plait {
namespace {

struct TakeParams {
  int axis = 0;
};

void CheckAround(const Shape& x, const Shape& indices, int axis, const char* op) {
  bool fits = x.rank() == indices.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || x[i] == indices[i];
  Check(fits, op, ": indices of shape ", indices, " do not fit data of shape ", x,
        "; equal sizes but along axis ", axis, " were expected");
}

void RunTake(const TakeParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (y.size() == 0) return;
  const AxisSizes a = Around(x.shape(), p.axis);
  const int64_t k = y.shape()[p.axis];
  const Indices at(args.in[1], a.n, IndexMode::kRaise, "_take_along_axis");
  VisitSize(x.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t o = i / (k * a.inner), j = i % a.inner;
      y.data<T>()[i] = x.data<T>()[(o * a.n + at[i]) * a.inner + j];
    }
  });
}

[[maybe_unused]] const OpDef& take_along = Register<TakeParams>({
    .name = "_take_along_axis",
    .doc = "The elements along an axis at the places that indices name.",
    .inputs = {{"data", Types::kAny, "An array."},
               {"indices", Types::kAny, "Places along the axis."}},
    .params = {{"axis", &TakeParams::axis, "The axis."}},
    .types =
        [](const TakeParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
        },
    .infer =
        [](const TakeParams& p, Specs& in, Specs& out) {
          if (in[0].shape.known() && in[1].shape.known()) {
            CheckAround(in[0].shape, in[1].shape, p.axis, "_take_along_axis");
          }
          return Unify(in[1].shape, out[0].shape);
        },
    .gradient = [](const TakeParams& p, const GradArgs& g) -> Values {
      return {
          Make("_put_along_axis", {g.dout(0), g.in(1)},
               {{"axis", Attr(p.axis)}, {"size", Attr(g.in_spec(0).shape[p.axis])}}),
          Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain", RunTake}},
    .may_fail = true,
    .samples = {{{Normal({2, 4}), Integers({2, 3}, 0, 4)}, {1}},
                {{Normal({3, 2, 2}), Integers({2, 2, 2}, 0, 3)}, {0}}},
});

struct PutParams {
  int axis = 0;
  int64_t size = 0;
};

void RunPut(const PutParams& p, const KernelArgs& args) {
  const View& dy = args.in[0];
  const View& dx = args.out[0];
  const AxisSizes a = Around(dx.shape(), p.axis);
  const int64_t k = dy.shape()[p.axis];
  if (dx.size() == 0) return;
  const Indices at(args.in[1], a.n, IndexMode::kRaise, "_put_along_axis");
  VisitDType(dx.dtype, [&]<typename T>() {
    using Sum = Accumulate<T>;
    ParallelFor(a.outer, 1 + (1 << 13) / (a.n * a.inner),
                [&](int64_t first, int64_t last) {
                  cpu::Scratch memory(static_cast<size_t>(a.n * a.inner) * sizeof(Sum));
                  Sum* sum = memory.As<Sum>();
                  for (int64_t o = first; o < last; ++o) {
                    std::fill_n(sum, a.n * a.inner, Sum(0));
                    for (int64_t i = 0; i < k * a.inner; ++i) {
                      const int64_t from = o * k * a.inner + i;
                      sum[at[from] * a.inner + i % a.inner] +=
                          static_cast<Sum>(dy.data<T>()[from]);
                    }
                    T* to = dx.data<T>() + o * a.n * a.inner;
                    for (int64_t i = 0; i < a.n * a.inner; ++i)
                      to[i] = static_cast<T>(sum[i]);
                  }
                });
  });
}

[[maybe_unused]] const OpDef& put_along = Register<PutParams>({
    .name = "_put_along_axis",
    .doc = "Zeros to which elements are added at the places that indices name.",
    .inputs = {{"data", Types::kAny, "The elements."},
               {"indices", Types::kAny,
                "Places along the axis, of the shape of data."}},
    .params = {{"axis", &PutParams::axis, "The axis."},
               Required<PutParams>("size", &PutParams::size,
                                   "The size of the result along the axis.")},
    .types =
        [](const PutParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
        },
    .infer =
        [](const PutParams& p, Specs& in, Specs& out) {
          if (!Unify(in[0].shape, in[1].shape)) return false;
          if (!in[0].shape.rank_known()) return true;
          Shape x = in[0].shape;
          x[NormalizeAxis(p.axis, x.rank(), "_put_along_axis")] = p.size;
          return Unify(x, out[0].shape);
        },
    .gradient = [](const PutParams& p, const GradArgs& g) -> Values {
      return {Make("_take_along_axis", {g.dout(0), g.in(1)}, {{"axis", Attr(p.axis)}}),
              Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain", RunPut}},
    .may_fail = true,
    .samples = {{{Normal({2, 3}), Numbers({2, 3}, {0, 3, 0, 1, 1, 1})}, {1, 4}},
                {{Normal({2, 2, 2}), Integers({2, 2, 2}, 0, 3)}, {0, 3}}},
});

}  // namespace
}  // namespace plait
