// sort, argsort, topk: elements in order along an axis.

#include <cstring>
#include <optional>

#include "cpu/strided.h"
#include "ops/gradients.h"
#include "ops/index/order.h"

namespace plait {
namespace {

// None counts x as one row.
AxisSizes SizesOf(const Shape& x, std::optional<int> axis, const char* op) {
  if (!axis) return {1, x.size(), 1};
  return Around(x, NormalizeAxis(*axis, x.rank(), op));
}

// The shape of the first k elements of each row.
Shape OrderedShape(const Shape& x, std::optional<int> axis, int64_t k, const char* op) {
  if (!axis) return {k};
  Shape y = x;
  y[NormalizeAxis(*axis, x.rank(), op)] = k;
  return y;
}

class Order {
 public:
  Order(const View& x, const AxisSizes& a, int64_t k, bool descending)
      : memory_(static_cast<size_t>(a.outer * k * a.inner) * sizeof(int64_t)) {
    OrderRows(x, a, k, descending, memory_.As<int64_t>());
  }
  const int64_t* data() const { return memory_.As<int64_t>(); }

 private:
  cpu::Scratch memory_;
};

// Puts the gradient of ordered elements back to their places.
Value PutBack(const Value& dy, const Value& indices, const Shape& x,
              std::optional<int> axis, const char* op) {
  const int at = axis ? NormalizeAxis(*axis, x.rank(), op) : 0;
  const int64_t size = axis ? x[at] : x.size();
  const Value dx = Make("_put_along_axis", {dy, indices},
                        {{"axis", Attr(at)}, {"size", Attr(size)}});
  return reshape(dx, x);
}

double SortCost(const Specs& in) {
  return 20.0 * static_cast<double>(in[0].shape.size());
}

// ---------------------------------------------------------------- sort, argsort

struct SortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
};

[[maybe_unused]] const OpDef& sort = Register<SortParams>({
    .name = "sort",
    .aliases = {"_npi_sort"},
    .doc = "The elements in order along an axis. NaN counts as the largest number.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .outputs = {{"output"}, {"indices"}},
    .params = {{"axis", &SortParams::axis, "The axis; None: data counts as one row."},
               {"is_ascend", &SortParams::is_ascend,
                "Whether the smallest come first."}},
    .visible_outputs = [](const SortParams&) { return 1; },
    .types =
        [](const SortParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
          out[1].dtype = DType::kInt64;
        },
    .infer =
        [](const SortParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.known()) return true;
          const AxisSizes a = SizesOf(x, p.axis, "sort");
          Shape y = OrderedShape(x, p.axis, a.n, "sort");
          return Unify(y, out[0].shape) && Unify(out[0].shape, out[1].shape);
        },
    .gradient = [](const SortParams& p, const GradArgs& g) -> Values {
      return {PutBack(g.dout(0), g.out(1), g.in_spec(0).shape, p.axis, "sort")};
    },
    .uses = {.out = 2},
    .cpu = {{"plain",
             [](const SortParams& p, const KernelArgs& args) {
               const View& x = args.in[0];
               const AxisSizes a = SizesOf(x.shape(), p.axis, "sort");
               int64_t* order = args.out[1].data<int64_t>();
               OrderRows(x, a, a.n, !p.is_ascend, order);
               GatherOrdered(x, a, order, a.n, args.out[0]);
             }}},
    .cost = [](const SortParams&, const Specs& in,
               const Specs&) { return SortCost(in); },
    .samples = {{{Normal({2, 5})}},
                {{Normal({4, 3})}, {.axis = 0, .is_ascend = false}},
                {{Normal({2, 3})}, {.axis = std::nullopt}},
                {{Normal({0, 3})}}},
});

struct ArgsortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;
};

[[maybe_unused]] const OpDef& argsort = Register<ArgsortParams>({
    .name = "argsort",
    .aliases = {"_npi_argsort"},
    .doc =
        "The indices that put the elements in order along an axis; of equal elements "
        "the lower index comes first.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {{"axis", &ArgsortParams::axis,
                "The axis; None: data counts as one row."},
               {"is_ascend", &ArgsortParams::is_ascend,
                "Whether the smallest come first."},
               {"dtype", &ArgsortParams::dtype,
                "The dtype of the indices; float32 is exact up to 2^24."}},
    .types =
        [](const ArgsortParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
        },
    .infer =
        [](const ArgsortParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.known()) return true;
          Shape y = OrderedShape(x, p.axis, SizesOf(x, p.axis, "argsort").n, "argsort");
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const ArgsortParams& p, const KernelArgs& args) {
               const AxisSizes a = SizesOf(args.in[0].shape(), p.axis, "argsort");
               const Order order(args.in[0], a, a.n, !p.is_ascend);
               StoreIndices(order.data(), args.out[0]);
             }}},
    .cost = [](const ArgsortParams&, const Specs& in,
               const Specs&) { return SortCost(in); },
    .samples = {{{Normal({2, 5})}},
                {{Integers({6}, 0, 3)}, {.is_ascend = false, .dtype = DType::kInt64}},
                {{Normal({3, 4})}, {.axis = 0}},
                {{Normal({2, 3})}, {.axis = std::nullopt, .dtype = DType::kInt32}}},
});

// ---------------------------------------------------------------- topk

enum class TopkResult { kValue, kIndices, kMask, kBoth };

struct TopkParams {
  std::optional<int> axis = -1;
  int k = 1;
  TopkResult ret_typ = TopkResult::kIndices;
  bool is_ascend = false;
  DType dtype = DType::kFloat32;
};

bool HasValues(const TopkParams& p) {
  return p.ret_typ == TopkResult::kValue || p.ret_typ == TopkResult::kBoth;
}

// k elements of each row; all where k is below 1.
int64_t Wanted(const TopkParams& p, const AxisSizes& a, const Shape& x) {
  Check(p.k <= a.n, "topk: k is ", p.k, " and x of shape ", x, " has ", a.n,
        " elements along the axis; k <= ", a.n, " was expected");
  return p.k < 1 ? a.n : p.k;
}

void TopkTypes(const TopkParams& p, Specs& in, Specs& out) {
  const DType index = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
  if (p.ret_typ == TopkResult::kIndices) {
    out[0].dtype = index;
    return;
  }
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  out[0].dtype = in[0].dtype;
  // The indices of ret_typ value are hidden, for the gradient.
  if (p.ret_typ == TopkResult::kValue) out[1].dtype = DType::kInt64;
  if (p.ret_typ == TopkResult::kBoth) out[1].dtype = index;
}

bool InferTopk(const TopkParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  const int64_t k = Wanted(p, SizesOf(x, p.axis, "topk"), x);
  if (p.ret_typ == TopkResult::kMask) return Unify(in[0].shape, out[0].shape);
  for (Spec& s : out) {
    Shape y = OrderedShape(x, p.axis, k, "topk");
    if (!Unify(y, s.shape)) return false;
  }
  return true;
}

void MarkOrdered(const AxisSizes& a, const int64_t* order, int64_t k, const View& y) {
  cpu::FillZero(y.ptr, y.bytes());
  VisitDType(y.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < a.outer * k * a.inner; ++i) {
      const int64_t o = i / (k * a.inner), j = i % a.inner;
      y.data<T>()[(o * a.n + order[i]) * a.inner + j] = T(1);
    }
  });
}

void RunTopk(const TopkParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const AxisSizes a = SizesOf(x.shape(), p.axis, "topk");
  const int64_t k = Wanted(p, a, x.shape());
  const Order order(x, a, k, !p.is_ascend);
  if (p.ret_typ == TopkResult::kMask)
    return MarkOrdered(a, order.data(), k, args.out[0]);
  if (p.ret_typ == TopkResult::kIndices) return StoreIndices(order.data(), args.out[0]);
  GatherOrdered(x, a, order.data(), k, args.out[0]);
  StoreIndices(order.data(), args.out[1]);
}

Values TopkGradient(const TopkParams& p, const GradArgs& g) {
  if (!HasValues(p)) return {Value()};
  return {PutBack(g.dout(0), g.out(1), g.in_spec(0).shape, p.axis, "topk")};
}

[[maybe_unused]] const OpDef& topk = Register<TopkParams>({
    .name = "topk",
    .aliases = {"_npx_topk"},
    .doc =
        "The k largest (or smallest) elements along an axis, in order: their indices, "
        "values, both, or a mask.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .outputs = {{"output"}, {"indices"}},
    .params = {{"axis", &TopkParams::axis, "The axis; None: data counts as one row."},
               {"k", &TopkParams::k, "How many; below 1: all."},
               {"ret_typ",
                &TopkParams::ret_typ,
                {"value", "indices", "mask", "both"},
                "What is returned."},
               {"is_ascend", &TopkParams::is_ascend, "Whether to take the smallest."},
               {"dtype", &TopkParams::dtype,
                "The dtype of indices; float32 is exact up to 2^24."}},
    .num_outputs = [](const TopkParams& p) { return HasValues(p) ? 2 : 1; },
    .visible_outputs =
        [](const TopkParams& p) { return p.ret_typ == TopkResult::kBoth ? 2 : 1; },
    .types = TopkTypes,
    .infer = InferTopk,
    .gradient = TopkGradient,
    .uses_for =
        [](const TopkParams& p) { return HasValues(p) ? Uses{.out = 2} : Uses{}; },
    .cpu = {{"plain", RunTopk}},
    .cost = [](const TopkParams&, const Specs& in,
               const Specs&) { return 4.0 * static_cast<double>(in[0].shape.size()); },
    .samples = {{{Normal({2, 5})}},
                {{Normal({2, 5})}, {.k = 3, .ret_typ = TopkResult::kValue}},
                {{Normal({4, 3})},
                 {.axis = 0, .k = 2, .ret_typ = TopkResult::kBoth, .is_ascend = true}},
                {{Normal({2, 4})}, {.k = 2, .ret_typ = TopkResult::kMask}},
                {{Normal({2, 3})},
                 {.axis = std::nullopt, .k = 0, .dtype = DType::kInt64}},
                {{Normal({2, 3})},
                 {.axis = std::nullopt, .k = 4, .ret_typ = TopkResult::kValue}}},
});

}  // namespace
}  // namespace plait
