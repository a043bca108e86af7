// _contrib_count_sketch: columns added up, with signs, into fewer ones.

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/index/indices.h"
#include "ops/infer.h"
#include "ops/linalg/matmul.h"

namespace plait {
namespace {

struct CountSketchParams {
  int64_t out_dim = 0;
  int processing_batch_size = 32;
};

bool Infer(const CountSketchParams& p, Specs& in, Specs& out) {
  Check(p.out_dim >= 1, "_contrib_count_sketch: out_dim is ", p.out_dim,
        "; at least 1 was expected");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() >= 1, "_contrib_count_sketch: data has no axis; one was expected");
  for (int i = 1; i < 3; ++i) {
    const Shape& s = in[i].shape;
    Check(!s.known() || s.size() == x.back(),
          "_contrib_count_sketch: ", i == 1 ? "h" : "s", " has shape ", s,
          " for data of shape ", x, "; one number for each of ", x.back(),
          " columns was expected");
  }
  Shape y = x;
  y.back() = p.out_dim;
  return Unify(y, out[0].shape);
}

// Integers wrap around; small ones would be multiplied as int, which overflows.
template <typename A>
void AddProduct(A& total, A x, A y) {
  if constexpr (std::is_integral_v<A>) {
    total = static_cast<A>(static_cast<uint64_t>(total) +
                           static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  } else {
    total += x * y;
  }
}

void Run(const CountSketchParams& p, const KernelArgs& args) {
  const View &x = args.in[0], &h = args.in[1], &s = args.in[2], &y = args.out[0];
  const int64_t n = x.shape().back(), rows = y.size() / p.out_dim;
  const ResolvedIndices at(h, p.out_dim, IndexMode::kRaise,
                           {"_contrib_count_sketch", x.shape().rank() - 1});
  VisitNumber(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(rows, 1 + (1 << 13) / (1 + n), [&](int64_t first, int64_t last) {
      std::vector<A> total(static_cast<size_t>(p.out_dim));
      for (int64_t r = first; r < last; ++r) {
        std::fill(total.begin(), total.end(), A{});
        for (int64_t j = 0; j < n; ++j) {
          AddProduct(total[at.data()[j]], static_cast<A>(x.data<const T>()[r * n + j]),
                     static_cast<A>(s.data<const T>()[j]));
        }
        for (int64_t k = 0; k < p.out_dim; ++k) {
          y.data<T>()[r * p.out_dim + k] = static_cast<T>(total[k]);
        }
      }
    });
  });
}

// dx[:, j] = s[j] dy[:, h[j]].
Values Gradient(const CountSketchParams&, const GradArgs& g) {
  if (!g.wants(0)) return {};
  const Shape& x = g.in_spec(0).shape;
  const Value h = reshape(g.in(1), {x.back()}), s = reshape(g.in(2), {x.back()});
  return {Make("take", {g.dout(0), h},
               {{"axis", Attr(x.rank() - 1)}, {"mode", Attr("raise")}}) *
          s};
}

SampleInput Signs(std::vector<double> values) {
  const Shape shape{1, static_cast<int64_t>(values.size())};
  SampleInput s = Numbers(shape, std::move(values));
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& count_sketch = Register<CountSketchParams>({
    .name = "_contrib_count_sketch",
    .doc = "Column j of data is added to column h[j] of the result, times s[j].",
    .inputs = {{"data", Types::kNumbers, "(..., columns)."},
               {"h", Types::kNumbers, "(1, columns): columns of the result."},
               {"s", Types::kNumbers, "(1, columns): factors, of the dtype of data."}},
    .params = {Required<CountSketchParams>("out_dim", &CountSketchParams::out_dim,
                                           "The number of columns of the result."),
               {"processing_batch_size", &CountSketchParams::processing_batch_size,
                "Rows that are done at once; a hint, without effect."}},
    .types =
        [](const CountSketchParams&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          UnifyDType(in[0].dtype, in[2].dtype);
          Check(in[0].dtype == in[2].dtype, ErrorKind::kType,
                "_contrib_count_sketch: data is ", in[0].dtype, " and s is ",
                in[2].dtype, "; one dtype was expected");
        },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b110},
    .cpu = {{"plain", Run}},
    .may_fail = true,
    .samples = {{{Normal({2, 4}), Integers({1, 4}, 0, 3), Signs({1, -1, 1, -1})}, {3}},
                {{Normal({2, 1, 3}), Integers({1, 3}, 0, 5, DType::kInt32),
                  Signs({-1, -1, 1})},
                 {5}}},
});

}  // namespace
}  // namespace plait
