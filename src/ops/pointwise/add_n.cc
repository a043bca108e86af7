// add_n: the sum of any number of arrays of one shape.

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct AddNParams {
  int num_args = 0;
};

// As many as fit into one pointwise operator; more have a kernel.
constexpr size_t kFused = 12;

void CheckCount(const AddNParams& p, size_t given) {
  Check(given > 0, "add_n: no array was given; at least one was expected");
  Check(p.num_args == 0 || static_cast<size_t>(p.num_args) == given, "add_n: ", given,
        " arrays were given; num_args = ", p.num_args, " were expected");
}

bool InferAddN(const AddNParams& p, Specs& in, Specs& out) {
  CheckCount(p, in.size());
  return SameShape(p, in, out);
}

// Halves are added up in float32 and rounded once.
void ApplyAddN(const AddNParams&, PwCall& c) {
  DType dtype = c.in(0).dtype();
  for (int i = 1; i < c.num_inputs(); ++i) dtype = Promote(dtype, c.in(i).dtype());
  const DType wide = IsHalf(dtype) ? DType::kFloat32 : dtype;
  Pw sum = Cast(c.in(0), wide);
  for (int i = 1; i < c.num_inputs(); ++i) sum = sum + Cast(c.in(i), wide);
  c.Return(Cast(sum, dtype));
}

const char* DeclinesFew(const AddNParams&, const Specs& in, const Specs&) {
  return in.size() > kFused ? nullptr : "few arrays: fused";
}

constexpr int64_t kTile = 1024;

// Tile by tile, so that the sum stays in the L1 cache. Other dtypes are converted
// first.
template <typename T>
void AddTile(std::span<const View> in, T* y, int64_t first, int64_t n) {
  Accumulate<T> sum[kTile];
  T converted[kTile];
  std::fill_n(sum, n, Accumulate<T>(0));
  for (const View& view : in) {
    const T* x = view.data<T>() + first;
    if (view.dtype != kDTypeOf<T>) {
      cpu::Convert(At(view, first), view.dtype, converted, kDTypeOf<T>, n);
      x = converted;
    }
    for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<Accumulate<T>>(x[i]);
  }
  for (int64_t i = 0; i < n; ++i) y[first + i] = static_cast<T>(sum[i]);
}

void RunAddN(const AddNParams&, const KernelArgs& args) {
  const int64_t size = args.out[0].size();
  VisitDType(args.out[0].dtype, [&]<typename T>() {
    ParallelFor((size + kTile - 1) / kTile, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = t * kTile;
        AddTile(args.in, args.out[0].data<T>(), first, std::min(kTile, size - first));
      }
    });
  });
}

Values AddNGradient(const AddNParams&, const GradArgs& g) {
  Values dx;
  for (int i = 0; i < g.num_inputs(); ++i) {
    dx.push_back(g.wants(i) ? FitDType(g.dout(0), g.in_spec(i)) : Value());
  }
  return dx;
}

std::vector<SampleInput> Many(int n, Shape shape) {
  return std::vector<SampleInput>(n, Normal(std::move(shape)));
}

[[maybe_unused]] const OpDef& add_n = Register<AddNParams>({
    .name = "add_n",
    .aliases = {"ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n"},
    .doc = "The sum of all arrays.",
    .inputs = {{"args", Types::kAny, "Numbers, all of one shape."}},
    .params = {{"num_args", &AddNParams::num_args, "How many arrays there are."}},
    .variable_inputs = true,
    .count_param = "num_args",
    .types = PromotedTypes<AddNParams>,
    .infer = InferAddN,
    .gradient = AddNGradient,
    .pointwise = ApplyAddN,
    .cpu = {{"many", RunAddN, DeclinesFew}},
    .samples = {{Many(3, {2, 3})}, {Many(1, {4})}, {Many(14, {2, 2})}, {Many(2, {0})}},
});

}  // namespace
}  // namespace plait
