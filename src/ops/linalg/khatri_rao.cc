// khatri_rao: the column-wise Kronecker product of matrices.

#include "graph/math.h"
#include "graph/op.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct KhatriRaoParams {
  int num_args = 1;
};
using P = KhatriRaoParams;

bool Infer(const P&, Specs& in, Specs& out) {
  Check(!in.empty(), "khatri_rao: got no matrices; at least one was expected");
  int64_t rows = 1, columns = kUnknownSize;
  for (Spec& s : in) {
    if (!s.shape.known()) return true;
    Check(s.shape.rank() == 2 && UnifySize(columns, s.shape[1]), "khatri_rao: matrix ",
          s.shape, "; two axes, and ", columns,
          " columns as the first has, were expected");
    rows *= s.shape[0];
  }
  return Assign(out[0].shape, {rows, columns});
}

// y[(i, j, ...), c] = a[i, c] b[j, c] ...: the rows of the last matrix change fastest.
void Forward(const P&, const KernelArgs& args) {
  const int64_t rows = args.out[0].shape()[0], columns = args.out[0].shape()[1];
  VisitDType(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        A product{1};
        int64_t rest = r;
        for (size_t k = args.in.size(); k-- > 0;) {
          const int64_t n = args.in[k].shape()[0];
          product = static_cast<A>(
              product *
              static_cast<A>(args.in[k].data<const T>()[rest % n * columns + c]));
          rest /= n;
        }
        args.out[0].data<T>()[r * columns + c] = static_cast<T>(product);
      }
    }
  });
}

// Each matrix has its own axis: y is a broadcast product.
Values Gradient(const P&, const GradArgs& g) {
  const int n = g.num_inputs();
  Shape full;
  for (int i = 0; i < n; ++i) full.Append(g.in_spec(i).shape[0]);
  const int64_t columns = g.out_spec(0).shape[1];
  full.Append(columns);
  const auto own = [&](int i) {
    Shape s = Shape::Filled(n + 1, 1);
    s[i] = full[i];
    s[n] = columns;
    return s;
  };
  const Value dy = reshape(g.dout(0), full);
  Values result(n);
  for (int i = 0; i < n; ++i) {
    if (!g.wants(i)) continue;
    Value d = dy;
    for (int k = 0; k < n; ++k) {
      if (k != i) d = d * reshape(g.in(k), own(k));
    }
    result[i] = reshape(sum_to(d, own(i)), g.in_spec(i).shape);
  }
  return result;
}

const OpDef& khatri_rao = Register<P>({
    .name = "khatri_rao",
    .doc = "The Khatri-Rao product: Kronecker products of the columns.",
    .inputs = {{"args", Types::kAny, "Matrices with the same number of columns."}},
    .params = {Required("num_args", &P::num_args, "Number of matrices.")},
    .variable_inputs = true,
    .count_param = "num_args",
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = kAll},
    .cpu = {{"plain", Forward}},
    .samples = {{{Normal({2, 3}), Normal({4, 3})}, {2}},
                {{Normal({2, 2}), Normal({1, 2}), Normal({3, 2})}, {3}}},
});

}  // namespace
}  // namespace plait
