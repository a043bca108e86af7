// FullyConnected: y = x W^T + b.

#include "graph/math.h"
#include "graph/op.h"
#include "ops/expression.h"
#include "ops/infer.h"
#include "ops/linalg/matmul.h"

namespace plait {
namespace {

struct FullyConnectedParams {
  int num_hidden = 0;
  bool no_bias = false;
  bool flatten = true;
};
using P = FullyConnectedParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.num_hidden > 0, "FullyConnected: num_hidden is ", p.num_hidden,
        "; a positive number was expected");
  const int64_t units = p.num_hidden;
  Shape &x = in[0].shape, &w = in[1].shape, &y = out[0].shape;
  if (!x.rank_known() && !w.rank_known()) return true;  // as MXNet: all or nothing
  Check(Assign(w, {units, kUnknownSize}), "FullyConnected: weight ", w,
        " does not fit; (", units, ", inputs) was expected");
  if (!p.no_bias && in[2].shape != Shape{units, 1}) {
    Check(Assign(in[2].shape, {units}), "FullyConnected: bias ", in[2].shape,
          " does not fit; (", units, ",) was expected");
  }
  if (p.flatten && !Assign(y, {kUnknownSize, units})) return false;
  if (!x.rank_known()) return true;
  Check(x.rank() >= 1, "FullyConnected: x is a scalar; at least one axis was expected");
  const int last = x.rank() - 1;
  int64_t inputs = p.flatten ? ProductOrUnknown(x, 1, last + 1) : x[last];
  Check(UnifySize(inputs, w[1]), "FullyConnected: x ", x, " and weight ", w,
        " do not match; ", inputs, " inputs of x must equal weight.shape[1]");
  if (p.flatten) return UnifySize(x[0], y[0]);
  x[last] = inputs;
  Shape result = x;
  result[last] = units;
  if (!Unify(y, result)) return false;
  for (int i = 0; i < last; ++i) x[i] = result[i];
  return true;
}

MatMul Problem(const P&, const Shape& x, const Shape& w) {
  const int64_t inputs = w[1];
  return {false, true, inputs == 0 ? x.size(0, x.rank() - 1) : x.size() / inputs, w[0],
          inputs};
}

// dx = dy W, dW = dy^T x, db = sum(dy) over the rows.
Values Gradient(const P& p, const GradArgs& g) {
  const Shape& xs = g.in_spec(0).shape;
  const Shape& ys = g.out_spec(0).shape;
  const auto rows = [](const Value& v, int64_t columns) {
    if (v.shape().rank() == 2) return v;
    return reshape(v, {v.shape().size() / std::max<int64_t>(1, columns), columns});
  };
  const Value dy = rows(g.dout(0), ys.back());
  Values result(g.num_inputs());
  if (!p.no_bias && g.wants(2)) {  // first: it may be summed up as dy is computed
    const Value db = sum(dy, {.axes = {0}});
    const Shape& bs = g.in_spec(2).shape;
    result[2] = bs.rank() == 1 ? db : reshape(db, bs);
  }
  if (g.wants(0)) {
    const Value dx = dot(dy, g.in(1));
    result[0] = dx.shape() == xs ? dx : reshape(dx, xs);
  }
  if (g.wants(1)) {
    const int64_t inputs = g.in_spec(1).shape[1];
    const Value x = p.flatten && xs.rank() != 2
                        ? reshape(g.in(0), {dy.shape()[0], inputs})
                        : rows(g.in(0), inputs);
    result[1] = dot(dy, x, true, false);
  }
  return result;
}

void Plain(const P& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.in[1].shape());
  VisitDType(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T *x = args.in[0].data<const T>(), *w = args.in[1].data<const T>();
    const T* bias = p.no_bias ? nullptr : args.in[2].data<const T>();
    T* y = args.out[0].data<T>();
    for (int64_t i = 0; i < m.m; ++i) {
      for (int64_t j = 0; j < m.n; ++j) {
        A total{};
        for (int64_t l = 0; l < m.k; ++l) {
          total += static_cast<A>(x[i * m.k + l]) * static_cast<A>(w[j * m.k + l]);
        }
        if (bias != nullptr) total += static_cast<A>(bias[j]);
        y[i * m.n + j] = static_cast<T>(total);
      }
    }
  });
}

template <bool kRelu>
void Gemm(const P& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.in[1].shape());
  VisitNumber(args.out[0].dtype, [&]<typename T>() {
    const T* bias = p.no_bias ? nullptr : args.in[2].data<const T>();
    cpu::GemmBias(m.trans_a, m.trans_b, m.m, m.n, m.k, args.in[0].data<const T>(),
                  m.lda(), args.in[1].data<const T>(), m.ldb(), bias, kRelu,
                  args.out[0].data<T>(), m.n);
  });
}

void PlainRelu(const P& p, const KernelArgs& args) {
  Plain(p, args);
  const View& y = args.out[0];
  RunExpression({&y, 1}, {&y, 1}, y.shape(),
                [](PwCall& c) { c.Return(Call(Fn::kRelu, c.in(0))); });
}

const char* GemmDeclines(const P&, const Specs& in, const Specs&) {
  return DeclineBool(in[0].dtype);
}

double Cost(const P& p, const Specs& in, const Specs&) {
  return Problem(p, in[0].shape, in[1].shape).flops();
}

std::vector<Param<P>> ParamList() {
  return {Required("num_hidden", &P::num_hidden, "Number of outputs of a row."),
          {"no_bias", &P::no_bias, "Adds no bias."},
          {"flatten", &P::flatten,
           "All axes of x but the first are one; else x is taken by its last axis."}};
}
std::vector<bool> OptionalInputs(const P& p) {
  return {true, true, !p.no_bias};
}

const OpDef& fully_connected = Register<P>({
    .name = "FullyConnected",
    .aliases = {"_npx_fully_connected", "_sparse_FullyConnected"},
    .doc = "A linear layer: x times the transposed weight, plus bias.",
    .inputs = {{"data", Types::kAny, "x of shape (batch, ...)."},
               {"weight", Types::kAny, "Of shape (num_hidden, inputs)."},
               {"bias", Types::kAny, "Of shape (num_hidden,)."}},
    .outputs = {{"output", Types::kAny,
                 "Of shape (batch, num_hidden); (..., num_hidden) without flatten."}},
    .params = ParamList(),
    .optional_inputs = OptionalInputs,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm", Gemm<false>, GemmDeclines}, {"plain", Plain}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({4, 3}), Normal({4})}, {.num_hidden = 4}},
                {{Normal({2, 3}), Normal({4, 3})}, {.num_hidden = 4, .no_bias = true}},
                {{Normal({2, 3, 2}), Normal({4, 6}), Normal({4})}, {.num_hidden = 4}},
                {{Normal({2, 3, 2}), Normal({4, 2}), Normal({4})},
                 {.num_hidden = 4, .flatten = false}},
                {{Normal({1, 5}), Normal({1, 5}), Normal({1})}, {.num_hidden = 1}}},
});

// What graphs make of a layer whose result only a relu reads.
[[maybe_unused]] const OpDef& fully_connected_relu = Register<P>({
    .name = "_fully_connected_relu",
    .doc = "relu(FullyConnected(x)) in one pass.",
    .inputs = {{"data"}, {"weight"}, {"bias"}},
    .params = ParamList(),
    .optional_inputs = OptionalInputs,
    .infer = Infer,
    .cpu = {{"gemm", Gemm<true>, GemmDeclines}, {"plain", PlainRelu}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({4, 3}), Normal({4})}, {.num_hidden = 4}},
                {{Normal({5, 70}), Normal({40, 70})},
                 {.num_hidden = 40, .no_bias = true}},
                {{Normal({2, 3, 2}), Normal({1, 2}), Normal({1})},
                 {.num_hidden = 1, .flatten = false}}},
});

}  // namespace
}  // namespace plait
