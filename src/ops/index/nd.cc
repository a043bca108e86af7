// gather_nd, scatter_nd and their relatives: elements named by index vectors.
//
// `indices` has shape (m, ...): its first axis holds the m coordinates of each place,
// for the first m axes of the array; a place is an element, or a slice of the other
// axes.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/strided.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

void CheckDepth(const Shape& x, const Shape& indices, const char* op) {
  Check(indices.rank() >= 1, op, ": indices are a scalar; shape (m, ...) was expected");
  Check(indices[0] == kUnknownSize || indices[0] <= x.rank(), op, ": indices of shape ",
        indices, " name ", indices[0], " axes of an array of shape ", x,
        "; at most its ", x.rank(), " axes were expected");
}

// The shape of what all places hold together.
Shape GatheredShape(const Shape& x, const Shape& indices) {
  Shape y(indices.begin() + 1, indices.end());
  for (int i = static_cast<int>(indices[0]); i < x.rank(); ++i) y.Append(x[i]);
  return y;
}

// The offset of each place in an array of shape x, in units of whole slices. Throws
// kIndex for coordinates out of range; negative ones count from the end.
class Places {
 public:
  Places(const View& indices, const Shape& x, const char* op)
      : m(static_cast<int>(indices.shape()[0])),
        count(indices.shape().size(1, indices.shape().rank())),
        slice(x.size(m, x.rank())),
        memory_(static_cast<size_t>(count) * sizeof(int64_t)) {
    int64_t* offsets = memory_.As<int64_t>();
    std::fill_n(offsets, count, int64_t{0});
    const Shape one_row{count};
    for (int axis = 0; axis < m; ++axis) {
      const View row{At(indices, axis * count), &one_row, indices.dtype};
      const Indices at(row, x[axis], IndexMode::kNumpy, op);
      for (int64_t i = 0; i < count; ++i) offsets[i] = offsets[i] * x[axis] + at[i];
    }
  }
  int64_t operator[](int64_t i) const { return memory_.As<int64_t>()[i]; }

  const int m;          // coordinates of a place
  const int64_t count;  // of places
  const int64_t slice;  // elements at a place

 private:
  cpu::Scratch memory_;
};

void TypeOfData(Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  out[0].dtype = in[0].dtype;
}

// Later places win where several are the same.
void Scatter(const View& from, const Places& places, const View& to) {
  const int64_t bytes = places.slice * static_cast<int64_t>(SizeOf(to.dtype));
  for (int64_t i = 0; i < places.count; ++i) {
    std::memcpy(static_cast<char*>(to.ptr) + places[i] * bytes,
                static_cast<const char*>(from.ptr) + i * bytes, bytes);
  }
}

// ---------------------------------------------------------------- gather_nd

void RunGather(const NoParams&, const KernelArgs& args) {
  const View& x = args.in[0];
  if (args.out[0].size() == 0) return;
  const Places places(args.in[1], x.shape(), "gather_nd");
  const int64_t bytes = places.slice * static_cast<int64_t>(SizeOf(x.dtype));
  const char* from = static_cast<const char*>(x.ptr);
  char* to = static_cast<char*>(args.out[0].ptr);
  ParallelFor(places.count, 1 + (1 << 15) / bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      std::memcpy(to + i * bytes, from + places[i] * bytes, bytes);
  });
}

[[maybe_unused]] const OpDef& gather_nd = Register<NoParams>({
    .name = "gather_nd",
    .aliases = {"_npi_gather_nd", "_npx_gather_nd"},
    .doc = "The elements (or slices) of an array at given places.",
    .inputs =
        {{"data", Types::kAny, "The array."},
         {"indices", Types::kAny,
          "Places, of shape (m, ...): m coordinates each; negative ones count from "
          "the end."}},
    .types = [](const NoParams&, Specs& in, Specs& out) { TypeOfData(in, out); },
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          const Shape &x = in[0].shape, &indices = in[1].shape;
          if (!x.rank_known() || !indices.rank_known()) return true;
          CheckDepth(x, indices, "gather_nd");
          if (indices[0] == kUnknownSize) return true;
          Shape y = GatheredShape(x, indices);
          return Unify(y, out[0].shape);
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {Make("_backward_gather_nd", {g.dout(0), g.in(1)},
                   {{"shape", Attr(g.in_spec(0).shape)}}),
              Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain", RunGather}},
    .may_fail = true,
    .samples = {{{Normal({3, 4}), Numbers({2, 3}, {0, 1, 2, 3, 0, -1})}},
                {{Normal({3, 4}), Numbers({1, 4}, {2, 0, 0, 1})}},
                {{Normal({2, 3, 2}), Numbers({2, 1, 2}, {0, 1, -1, 2})}},
                {{Normal({3, 4}), Integers({2, 0}, 0, 3)}}},
});

// ---------------------------------------------------------------- scatter_nd

struct ShapeParams {
  Shape shape;
};

bool InferScatter(const ShapeParams& p, const Shape& indices, Shape& data, Spec& out,
                  const char* op) {
  Shape x = p.shape;
  if (!Unify(x, out.shape)) return false;
  if (!indices.rank_known()) return true;
  CheckDepth(p.shape, indices, op);
  if (indices[0] == kUnknownSize) return true;
  Shape expected = GatheredShape(p.shape, indices);
  Check(Unify(expected, data), op, ": data has shape ", data, "; shape ", expected,
        " was expected for indices of shape ", indices, " and shape ", p.shape);
  return true;
}

std::vector<Param<ShapeParams>> ShapeField() {
  return {
      Required<ShapeParams>("shape", &ShapeParams::shape, "The shape of the result.")};
}

[[maybe_unused]] const OpDef& scatter_nd = Register<ShapeParams>({
    .name = "scatter_nd",
    .doc = "Zeros of a shape with given elements (or slices) at given places; of equal "
           "places the last one counts.",
    .inputs = {{"data", Types::kAny, "The elements."},
               {"indices", Types::kAny, "Places, as for gather_nd."}},
    .params = ShapeField(),
    .types = [](const ShapeParams&, Specs& in, Specs& out) { TypeOfData(in, out); },
    .infer =
        [](const ShapeParams& p, Specs& in, Specs& out) {
          return InferScatter(p, in[1].shape, in[0].shape, out[0], "scatter_nd");
        },
    .gradient = [](const ShapeParams&, const GradArgs& g) -> Values {
      return {Make("gather_nd", {g.dout(0), g.in(1)}), Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain",
             [](const ShapeParams&, const KernelArgs& args) {
               const View& y = args.out[0];
               cpu::FillZero(y.ptr, y.bytes());
               if (args.in[0].size() == 0) return;
               Scatter(args.in[0], Places(args.in[1], y.shape(), "scatter_nd"), y);
             }}},
    .may_fail = true,
    .samples = {{{Normal({3}), Numbers({2, 3}, {0, 1, 2, 3, 0, 1})}, {{3, 4}}},
                {{Normal({2, 3}), Numbers({1, 2}, {3, -3})}, {{4, 3}}},
                {{Normal({0}), Integers({2, 0}, 0, 2)}, {{2, 2}}}},
});

template <typename T>
void AddPlaces(const T* from, const Places& places, int64_t size, T* to) {
  using Sum = Accumulate<T>;
  cpu::Scratch memory(static_cast<size_t>(size) * sizeof(Sum));
  Sum* sum = memory.As<Sum>();
  std::fill_n(sum, size, Sum(0));
  for (int64_t i = 0; i < places.count; ++i) {
    Sum* row = sum + places[i] * places.slice;
    for (int64_t j = 0; j < places.slice; ++j)
      row[j] += static_cast<Sum>(from[i * places.slice + j]);
  }
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<T>(sum[i]);
}

[[maybe_unused]] const OpDef& gather_backward = Register<ShapeParams>({
    .name = "_backward_gather_nd",
    .doc = "Adds elements (or slices) to given places of zeros: the gradient of "
           "gather_nd.",
    .inputs = {{"data", Types::kAny, "The elements."},
               {"indices", Types::kAny, "Places, as for gather_nd."}},
    .params = ShapeField(),
    .types = [](const ShapeParams&, Specs& in, Specs& out) { TypeOfData(in, out); },
    .infer =
        [](const ShapeParams& p, Specs& in, Specs& out) {
          return InferScatter(p, in[1].shape, in[0].shape, out[0],
                              "_backward_gather_nd");
        },
    .gradient = [](const ShapeParams&, const GradArgs& g) -> Values {
      return {Make("gather_nd", {g.dout(0), g.in(1)}), Value()};
    },
    .uses = {.in = 2},
    .cpu = {{"plain",
             [](const ShapeParams&, const KernelArgs& args) {
               const View& y = args.out[0];
               if (args.in[0].size() == 0) return cpu::FillZero(y.ptr, y.bytes());
               const Places places(args.in[1], y.shape(), "_backward_gather_nd");
               VisitDType(y.dtype, [&]<typename T>() {
                 AddPlaces(args.in[0].data<T>(), places, y.size(), y.data<T>());
               });
             }}},
    .may_fail = true,
    .samples = {{{Normal({3}), Numbers({2, 3}, {0, 0, 2, 3, 3, -1})}, {{3, 4}}},
                {{Normal({3, 2}), Numbers({1, 3}, {1, 0, 1})}, {{2, 2}}}},
});

// ---------------------------------------------------------------- _scatter_set_nd

[[maybe_unused]] const OpDef& scatter_set_nd = Register<ShapeParams>({
    .name = "_scatter_set_nd",
    .aliases = {"_npi_scatter_set_nd"},
    .doc = "An array with the elements (or slices) at given places replaced.",
    .inputs = {{"lhs", Types::kAny, "The array."},
               {"rhs", Types::kAny, "The new elements."},
               {"indices", Types::kAny, "Places, as for gather_nd."}},
    .params = ShapeField(),
    .types =
        [](const ShapeParams&, Specs& in, Specs& out) {
          TypeOfData(in, out);
          if (in[1].dtype == DType::kUnknown) in[1].dtype = in[0].dtype;
          Check(in[1].dtype == in[0].dtype, ErrorKind::kType,
                "_scatter_set_nd: lhs is ", in[0].dtype, " and rhs is ", in[1].dtype,
                "; one dtype was expected");
        },
    .infer =
        [](const ShapeParams& p, Specs& in, Specs& out) {
          return Unify(in[0].shape, out[0].shape) &&
                 InferScatter(p, in[2].shape, in[1].shape, out[0], "_scatter_set_nd");
        },
    .gradient = [](const ShapeParams& p, const GradArgs& g) -> Values {
      const Value part = Make("gather_nd", {g.dout(0), g.in(2)});
      return {g.wants(0)
                  ? Make("_scatter_set_nd", {g.dout(0), zeros_like(part), g.in(2)},
                         {{"shape", Attr(p.shape)}})
                  : Value(),
              part, Value()};
    },
    .uses = {.in = 4},
    .cpu = {{"plain",
             [](const ShapeParams& p, const KernelArgs& args) {
               const View& y = args.out[0];
               CopyKernel(p, args);
               if (args.in[1].size() == 0) return;
               Scatter(args.in[1], Places(args.in[2], y.shape(), "_scatter_set_nd"), y);
             }}},
    .may_fail = true,
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4}), Normal({3}), Numbers({2, 3}, {0, 1, 2, 3, 0, 1})},
                 {{3, 4}}},
                {{Normal({3, 2}), Normal({1, 2}), Numbers({1, 1}, {-1})}, {{3, 2}}}},
});

}  // namespace
}  // namespace plait
