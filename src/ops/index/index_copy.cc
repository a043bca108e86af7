// _contrib_index_copy, _contrib_index_array: rows replaced, and all places as numbers.

#include <cstring>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

bool InferCopy(const NoParams&, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  const Shape& index = in[1].shape;
  if (!x.rank_known() || !index.rank_known()) return true;
  Check(x.rank() >= 1 && index.rank() == 1,
        "_contrib_index_copy: old_tensor has shape ", x, " and index_vector ", index,
        "; rows and one axis of indices were expected");
  Shape rows = x;
  rows[0] = index[0];
  const Shape given = in[2].shape;
  Check(Unify(rows, in[2].shape), "_contrib_index_copy: new_tensor has shape ", given,
        "; shape ", rows, " was expected");
  return true;
}

void RunCopy(const NoParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  CopyKernel(p, args);
  if (args.in[2].size() == 0) return;
  const ResolvedIndices rows(args.in[1], y.shape()[0], IndexMode::kRaise,
                             {"_contrib_index_copy"});
  const int64_t row = y.size() / y.shape()[0];
  const int64_t bytes = row * static_cast<int64_t>(SizeOf(y.dtype));
  for (int64_t i = 0; i < args.in[1].size(); ++i) {
    std::memcpy(At(y, rows.data()[i] * row), At(args.in[2], i * row), bytes);
  }
}

SampleInput Rows(std::vector<double> rows) {
  const int64_t n = static_cast<int64_t>(rows.size());
  SampleInput x = Numbers({n}, std::move(rows));
  x.differentiable = false;
  return x;
}

[[maybe_unused]] const OpDef& index_copy = Register<NoParams>({
    .name = "_contrib_index_copy",
    .doc = "An array with some rows replaced; of equal indices the last one counts.",
    .inputs = {{"old_tensor", Types::kAny, "The array."},
               {"index_vector", Types::kAny, "The row that each new row replaces."},
               {"new_tensor", Types::kAny, "The new rows."}},
    .types =
        [](const NoParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
          if (in[2].dtype == DType::kUnknown) in[2].dtype = in[0].dtype;
          Check(in[2].dtype == in[0].dtype, ErrorKind::kType,
                "_contrib_index_copy: "
                "old_tensor is ",
                in[0].dtype, " and new_tensor is ", in[2].dtype,
                "; one dtype was expected");
        },
    .infer = InferCopy,
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      const Value& index = g.in(1);
      Value old, rows;
      if (g.wants(0)) {
        old = Make("_contrib_index_copy", {g.dout(0), index, zeros(g.in_spec(2))});
      }
      if (g.wants(2)) rows = Make("take", {g.dout(0), index});
      return {old, Value(), rows};
    },
    .uses = {.in = 2},
    .cpu = {{"plain", RunCopy}},
    .may_fail = true,
    .in_place = {{0, 0}},
    .samples = {{{Normal({4, 3}), Rows({2, 0}), Normal({2, 3})}},
                {{Normal({3}), Integers({1}, 0, 3, DType::kInt32), Normal({1})}},
                {{Normal({3, 2}), Integers({0}, 0, 3), Normal({0, 2})}}},
});

// ---------------------------------------------------------------- index_array

struct ArrayParams {
  Shape axes = Shape::Unknown();
};

Shape ChosenAxes(const ArrayParams& p, int rank) {
  Shape axes = p.axes;
  if (!axes.rank_known()) {
    axes = Shape::Filled(rank, 0);
    for (int i = 0; i < rank; ++i) axes[i] = i;
  }
  for (int64_t& axis : axes) axis = NormalizeAxis(axis, rank, "_contrib_index_array");
  return axes;
}

[[maybe_unused]] const OpDef& index_array = Register<ArrayParams>({
    .name = "_contrib_index_array",
    .doc = "The coordinates of every element of an array, as int64.",
    .inputs = {{"data", Types::kAny, "An array; only its shape counts."}},
    .params = {{"axes", &ArrayParams::axes, "The coordinates to give; None: all."}},
    .types = [](const ArrayParams&, Specs&,
                Specs& out) { out[0].dtype = DType::kInt64; },
    .infer =
        [](const ArrayParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.rank_known()) return true;
          Shape y = x;
          y.Append(ChosenAxes(p, x.rank()).rank());
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const ArrayParams& p, const KernelArgs& args) {
               const Shape& x = args.in[0].shape();
               const Shape axes = ChosenAxes(p, x.rank());
               int64_t* y = args.out[0].data<int64_t>();
               for (int64_t i = 0; i < x.size(); ++i) {
                 for (int64_t axis : axes) {
                   const AxisSplit a = SplitAt(x, static_cast<int>(axis));
                   *y++ = i / a.inner % a.n;
                 }
               }
             }}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 2})}, {{-1, 0}}},
                {{Normal({0, 3})}}},
});

}  // namespace
}  // namespace plait
