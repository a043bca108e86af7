// khatri_rao: Kronecker products, column by column.

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/linalg/matmul.h"

namespace plait {
namespace {

struct KhatriRaoParams {
  int num_args = 0;
};

bool Infer(const KhatriRaoParams& p, Specs& in, Specs& out) {
  Check(!in.empty(), "khatri_rao: no matrix was given; at least one was expected");
  Check(p.num_args == 0 || p.num_args == static_cast<int>(in.size()),
        "khatri_rao: ", in.size(), " arrays were given; num_args = ", p.num_args,
        " were expected");
  Shape y{1, kUnknownSize};
  for (const Spec& x : in) {
    if (!x.shape.known()) return true;
    const bool fits =
        x.shape.rank() == 2 && (y[1] == kUnknownSize || y[1] == x.shape[1]);
    Check(fits, "khatri_rao: a matrix of shape ", x.shape, " stands beside ",
          in[0].shape, "; matrices of equally many columns were expected");
    y[0] *= x.shape[0];
    y[1] = x.shape[1];
  }
  return Unify(y, out[0].shape);
}

// From the last matrix on: the rows so far, times each row of the one before.
void Run(const KhatriRaoParams&, const KernelArgs& args) {
  const View& y = args.out[0];
  const int64_t columns = y.shape()[1];
  if (y.size() == 0) return;
  VisitNumber(y.dtype, [&]<typename T>() {
    ParallelFor(y.shape()[0], 1 + (1 << 13) / columns,
                [&](int64_t first, int64_t last) {
                  for (int64_t r = first; r < last; ++r) {
                    T* row = y.data<T>() + r * columns;
                    int64_t rest = r;
                    for (size_t i = args.in.size(); i-- > 0;) {
                      const View& x = args.in[i];
                      const int64_t rows = x.shape()[0];
                      const T* factor = x.data<const T>() + rest % rows * columns;
                      rest /= rows;
                      if (i + 1 == args.in.size()) {
                        std::copy_n(factor, columns, row);
                        continue;
                      }
                      for (int64_t j = 0; j < columns; ++j) {
                        row[j] = static_cast<T>(static_cast<Accumulate<T>>(row[j]) *
                                                static_cast<Accumulate<T>>(factor[j]));
                      }
                    }
                  }
                });
  });
}

// y as (rows of each matrix..., columns): the others' product times dy, added up over
// the others' rows.
Values Gradient(const KhatriRaoParams&, const GradArgs& g) {
  const int n = g.num_inputs();
  const int64_t columns = g.in_spec(0).shape[1];
  Shape whole;
  for (int i = 0; i < n; ++i) whole.Append(g.in_spec(i).shape[0]);
  whole.Append(columns);
  const Value dy = reshape(g.dout(0), whole);
  Values dx(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    if (!g.wants(i)) continue;
    Value product = dy;
    ReduceAxes others;
    for (int k = 0; k < n; ++k) {
      if (k == i) continue;
      Shape shape = Shape::Filled(n + 1, 1);
      shape[k] = whole[k];
      shape[n] = columns;
      product = product * reshape(g.in(k), shape);
      others.axes.push_back(k);
    }
    dx[i] = others.axes.empty() ? product : sum(product, others);
  }
  return dx;
}

[[maybe_unused]] const OpDef& khatri_rao = Register<KhatriRaoParams>({
    .name = "khatri_rao",
    .doc = "Column j of the result is the Kronecker product of all columns j.",
    .inputs = {{"args", Types::kNumbers, "Matrices of equally many columns."}},
    .params = {{"num_args", &KhatriRaoParams::num_args, "Their number."}},
    .variable_inputs = true,
    .count_param = "num_args",
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = kAll},
    .cpu = {{"plain", Run}},
    .samples = {{{Normal({2, 3}), Normal({3, 3})}},
                {{Normal({2, 2}), Normal({1, 2}), Normal({3, 2})}},
                {{Normal({2, 3})}}},
});

}  // namespace
}  // namespace plait
