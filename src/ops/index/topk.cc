// topk, sort, argsort: the order of elements along an axis.

#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "graph/math.h"
#include "ops/index/order.h"

namespace plait {
namespace {

enum class Returns { kBoth, kIndices, kMask, kValue };

struct TopKParams {
  std::optional<int> axis = -1;
  int64_t k = 1;
  Returns ret_typ = Returns::kIndices;
  bool is_ascend = false;
  DType dtype = DType::kFloat32;

  bool has_values() const {
    return ret_typ == Returns::kValue || ret_typ == Returns::kBoth;
  }
};

// x as it is sorted: the whole of it is one row when there is no axis.
Shape Rows(const std::optional<int>& axis, const Shape& x) {
  return axis ? x : Shape{x.size()};
}
int AxisOf(const std::optional<int>& axis, const Shape& x, const char* op) {
  return axis ? NormalizeAxis(*axis, x.rank(), op) : 0;
}

// Throws where the dtype does not hold every index below n.
void CheckIndexType(DType dtype, int64_t n, const char* op) {
  const int bits = VisitDType(dtype, []<typename T>() {
    if constexpr (std::is_same_v<T, Float16>) return 11;
    if constexpr (std::is_same_v<T, Bfloat16>) return 8;
    return std::numeric_limits<T>::digits;
  });
  Check(bits >= 63 || n <= int64_t{1} << bits, op, ": ", dtype,
        " does not hold the indices of ", n,
        " elements; a dtype such as int64 was expected");
}

// The shape of the first k along the axis.
bool InferFirst(const TopKParams& p, const Shape& x, Specs& out, const char* op) {
  if (!x.known()) return true;
  Shape y = Rows(p.axis, x);
  const int axis = AxisOf(p.axis, y, op);
  const int64_t n = y[axis], k = p.k < 1 ? n : p.k;
  Check(k <= n, op, ": k is ", k, " for ", n, " elements along axis ", axis,
        "; at most ", n, " was expected");
  if (p.ret_typ == Returns::kIndices || p.ret_typ == Returns::kBoth) {
    CheckIndexType(p.dtype, n, op);
  }
  y[axis] = k;
  if (p.ret_typ == Returns::kMask) y = x;
  for (Spec& spec : out) {
    if (!Unify(y, spec.shape)) return false;
  }
  return true;
}

// Outputs of a call: null where there is none.
struct Results {
  const View* values = nullptr;
  const View* indices = nullptr;
  const View* mask = nullptr;
};

void Run(const TopKParams& p, const View& x, const Results& results, const char* op) {
  if (x.size() == 0) return;
  const Shape rows = Rows(p.axis, x.shape());
  const AxisSplit s = SplitAt(rows, AxisOf(p.axis, rows, op));
  const int64_t k = p.k < 1 ? s.n : p.k;
  if (results.mask != nullptr) std::memset(results.mask->ptr, 0, results.mask->bytes());
  ForEachOrder(x, s, k, p.is_ascend, [&](int64_t o, int64_t i, const int64_t* order) {
    const int64_t from = o * s.n * s.inner + i, to = o * k * s.inner + i;
    if (const View* y = results.values) {
      VisitSize(y->dtype, [&]<typename T>() {
        const T* src = x.data<const T>() + from;
        T* dst = y->data<T>() + to;
        for (int64_t j = 0; j < k; ++j) dst[j * s.inner] = src[order[j] * s.inner];
      });
    }
    if (const View* y = results.indices) {
      VisitDType(y->dtype, [&]<typename T>() {
        T* dst = y->data<T>() + to;
        for (int64_t j = 0; j < k; ++j) dst[j * s.inner] = static_cast<T>(order[j]);
      });
    }
    if (const View* y = results.mask) {
      VisitDType(y->dtype, [&]<typename T>() {
        T* dst = y->data<T>() + from;
        for (int64_t j = 0; j < k; ++j) dst[order[j] * s.inner] = static_cast<T>(1);
      });
    }
  });
}

// dy goes back to where the values came from.
Value OrderGradient(const std::optional<int>& axis, const GradArgs& g, const char* op) {
  const Shape& x = g.in_spec(0).shape;
  const Shape rows = Rows(axis, x);
  const int at = AxisOf(axis, rows, op);
  const Value dx =
      Make("_scatter_along", {g.dout(0), g.out(1)},
           {{"axis", Attr(at)}, {"size", Attr(rows[at])}, {"mode", Attr("clip")}});
  return axis ? dx : reshape(dx, x);
}

// Sorting takes about this many operations an element.
double CostOfOrder(const Specs& in) {
  return 30.0 * static_cast<double>(in[0].shape.size());
}

// ---------------------------------------------------------------- topk

[[maybe_unused]] const OpDef& topk = Register<TopKParams>({
    .name = "topk",
    .aliases = {"_npx_topk"},
    .doc = "The k largest or smallest elements along an axis, in order: their indices, "
           "values, both, or a mask. NaN counts as the largest; of equal elements the "
           "one of lower index comes first.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .outputs = {{"output"}, {"indices"}},
    .params = {{"axis", &TopKParams::axis, "The axis; None: data counts as one row."},
               {"k", &TopKParams::k, "How many; less than 1: all."},
               {"ret_typ",
                &TopKParams::ret_typ,
                {"both", "indices", "mask", "value"},
                "What is returned. A mask has the shape of data, and ones at the k "
                "elements."},
               {"is_ascend", &TopKParams::is_ascend,
                "The smallest instead of the largest."},
               {"dtype", &TopKParams::dtype, "The dtype of the indices."}},
    .num_outputs = [](const TopKParams& p) { return p.has_values() ? 2 : 1; },
    .visible_outputs =
        [](const TopKParams& p) { return p.ret_typ == Returns::kBoth ? 2 : 1; },
    .types =
        [](const TopKParams& p, Specs& in, Specs& out) {
          if (p.ret_typ == Returns::kIndices) {
            out[0].dtype = p.dtype;
            return;
          }
          if (out[0].dtype == DType::kUnknown) out[0].dtype = in[0].dtype;
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          if (p.has_values()) {
            out[1].dtype = p.ret_typ == Returns::kBoth ? p.dtype : DType::kInt64;
          }
        },
    .infer = [](const TopKParams& p, Specs& in,
                Specs& out) { return InferFirst(p, in[0].shape, out, "topk"); },
    .gradient = [](const TopKParams& p, const GradArgs& g) -> Values {
      if (!p.has_values()) return {zeros(g.in_spec(0))};
      return {OrderGradient(p.axis, g, "topk")};
    },
    .uses_for = [](const TopKParams& p) -> Uses {
      return {0, p.has_values() ? 0b10u : 0u};
    },
    .cpu = {{"plain",
             [](const TopKParams& p, const KernelArgs& args) {
               Results results;
               if (p.ret_typ == Returns::kIndices) results.indices = &args.out[0];
               if (p.ret_typ == Returns::kMask) results.mask = &args.out[0];
               if (p.has_values()) {
                 results.values = &args.out[0];
                 results.indices = &args.out[1];
               }
               Run(p, args.in[0], results, "topk");
             }}},
    .cost = [](const TopKParams&, const Specs& in,
               const Specs&) { return CostOfOrder(in); },
    .samples = {{{Normal({2, 5})}},
                {{Normal({2, 5})}, {.k = 3, .ret_typ = Returns::kValue}},
                {{Normal({4, 3})},
                 {.axis = 0,
                  .k = 2,
                  .ret_typ = Returns::kBoth,
                  .is_ascend = true,
                  .dtype = DType::kInt32}},
                {{Normal({2, 4, 3})}, {.axis = 1, .k = 2, .ret_typ = Returns::kMask}},
                {{Normal({2, 3})},
                 {.axis = std::nullopt, .k = 0, .ret_typ = Returns::kValue}},
                {{Normal({0, 3})}, {.k = 2, .ret_typ = Returns::kBoth}}},
});

// ---------------------------------------------------------------- sort, argsort

struct SortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;

  TopKParams all() const {
    return {.axis = axis, .k = 0, .ret_typ = Returns::kValue, .is_ascend = is_ascend};
  }
};

[[maybe_unused]] const OpDef& sort = Register<SortParams>({
    .name = "sort",
    .aliases = {"_npi_sort"},
    .doc = "The elements in order along an axis; NaN counts as the largest.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .outputs = {{"output"}, {"indices"}},
    .params = {{"axis", &SortParams::axis, "The axis; None: data counts as one row."},
               {"is_ascend", &SortParams::is_ascend, "From the smallest."}},
    .visible_outputs = [](const SortParams&) { return 1; },
    .types =
        [](const SortParams&, Specs& in, Specs& out) {
          if (out[0].dtype == DType::kUnknown) out[0].dtype = in[0].dtype;
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[1].dtype = DType::kInt64;
        },
    .infer = [](const SortParams& p, Specs& in,
                Specs& out) { return InferFirst(p.all(), in[0].shape, out, "sort"); },
    .gradient = [](const SortParams& p, const GradArgs& g) -> Values {
      return {OrderGradient(p.axis, g, "sort")};
    },
    .uses = {.out = 0b10},
    .cpu = {{"plain",
             [](const SortParams& p, const KernelArgs& args) {
               Run(p.all(), args.in[0], {&args.out[0], &args.out[1]}, "sort");
             }}},
    .cost = [](const SortParams&, const Specs& in,
               const Specs&) { return CostOfOrder(in); },
    .samples = {{{Normal({2, 5})}},
                {{Normal({4, 3})}, {.axis = 0, .is_ascend = false}},
                {{Normal({2, 3})}, {.axis = std::nullopt}},
                {{Normal({2, 0})}}},
});

struct ArgSortParams {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::kFloat32;

  TopKParams all() const { return {axis, 0, Returns::kIndices, is_ascend, dtype}; }
};

[[maybe_unused]] const OpDef& argsort = Register<ArgSortParams>({
    .name = "argsort",
    .aliases = {"_npi_argsort"},
    .doc = "The indices of the elements in order along an axis; NaN counts as the "
           "largest, and equal elements keep their order.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {{"axis", &ArgSortParams::axis,
                "The axis; None: data counts as one row."},
               {"is_ascend", &ArgSortParams::is_ascend, "From the smallest."},
               {"dtype", &ArgSortParams::dtype, "The dtype of the indices."}},
    .types = [](const ArgSortParams& p, Specs&, Specs& out) { out[0].dtype = p.dtype; },
    .infer =
        [](const ArgSortParams& p, Specs& in, Specs& out) {
          return InferFirst(p.all(), in[0].shape, out, "argsort");
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const ArgSortParams& p, const KernelArgs& args) {
               Run(p.all(), args.in[0], {.indices = &args.out[0]}, "argsort");
             }}},
    .cost = [](const ArgSortParams&, const Specs& in,
               const Specs&) { return CostOfOrder(in); },
    .samples = {{{Normal({2, 5})}},
                {{Normal({4, 3})},
                 {.axis = 0, .is_ascend = false, .dtype = DType::kInt64}},
                {{Normal({2, 3})}, {.axis = std::nullopt, .dtype = DType::kInt32}}},
});

}  // namespace
}  // namespace plait
