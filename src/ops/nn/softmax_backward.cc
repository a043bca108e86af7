// The gradient of softmax and of its logarithm, and its own gradient.

#include <cmath>

#include "base/parallel.h"
#include "cpu/softmax.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/softmax.h"

namespace plait {
namespace {

// temperature: below zero for softmin.
struct SoftmaxBackwardParams {
  int axis = 0;
  double temperature = 1;
  bool log = false;
};
using P = SoftmaxBackwardParams;

cpu::SoftmaxSlices SlicesOf(const P& p, const Shape& y) {
  cpu::SoftmaxSlices s;
  s.temperature = p.temperature;
  s.log = p.log;
  if (y.rank() == 0) return s;
  const SoftmaxProblem problem =
      SoftmaxAlong(y, p.axis < 0 ? p.axis + y.rank() : p.axis);
  s.outer = problem.outer;
  s.n = problem.n;
  s.inner = problem.inner;
  return s;
}

void Plain(const P& p, const KernelArgs& args) {
  const View &y = args.in[0], &dy = args.in[1], &dx = args.out[0];
  const cpu::SoftmaxSlices s = SlicesOf(p, y.shape());
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const A t = static_cast<A>(s.temperature);
    ParallelFor(
        s.outer * s.inner, 1 + 4096 / (1 + s.n), [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            const int64_t at = i / s.inner * s.n * s.inner + i % s.inner;
            const T *ys = y.data<const T>() + at, *dys = dy.data<const T>() + at;
            double sum = 0;
            for (int64_t k = 0; k < s.n * s.inner; k += s.inner) {
              const double d = static_cast<double>(static_cast<A>(dys[k]));
              sum += s.log ? d : d * static_cast<double>(static_cast<A>(ys[k]));
            }
            for (int64_t k = 0; k < s.n * s.inner; k += s.inner) {
              const A a = static_cast<A>(ys[k]), d = static_cast<A>(dys[k]);
              const A slope = s.log ? d - std::exp(a) * static_cast<A>(sum)
                                    : a * (d - static_cast<A>(sum));
              dx.data<T>()[at + k] = static_cast<T>(slope / t);
            }
          }
        });
  });
}

void Vectors(const P& p, const KernelArgs& args) {
  const View &y = args.in[0], &dy = args.in[1], &dx = args.out[0];
  const cpu::SoftmaxSlices s = SlicesOf(p, y.shape());
  if (y.dtype == DType::kFloat64) {
    cpu::SoftmaxBackward(s, y.data<const double>(), dy.data<const double>(),
                         dx.data<double>());
  } else {
    cpu::SoftmaxBackward(s, y.data<const float>(), dy.data<const float>(),
                         dx.data<float>());
  }
}
const char* VectorsDecline(const P&, const Specs& in, const Specs&) {
  const bool wide = in[0].dtype == DType::kFloat32 || in[0].dtype == DType::kFloat64;
  return wide ? nullptr : "neither float32 nor float64";
}

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, in[1].shape) || !Unify(in[0].shape, out[0].shape)) {
    return false;
  }
  const Shape& y = in[0].shape;
  if (y.rank() > 0) NormalizeAxis(p.axis, y.rank(), "_backward_softmax");
  return true;
}

// With u the gradient of dx and t the temperature:
//   softmax: for dy, y (u - sum(y u)) / t; for y, (u (dy - sum(y dy)) - dy sum(u y)) /
//   t; its logarithm: for dy, (u - sum(u exp(y))) / t; for y, -u exp(y) sum(dy) / t.
Values Gradient(const P& p, const GradArgs& g) {
  const Value &y = g.in(0), &dy = g.in(1), &u = g.dout(0);
  if (g.in_spec(0).shape.rank() == 0) return {zeros_like(y), zeros_like(dy)};
  const auto total = [&](const Value& v) {
    return sum(v, {.axes = {p.axis}, .keepdims = true});
  };
  Value for_y, for_dy;
  if (p.log) {
    const Value e = exp(y);
    for_y = -(u * e * total(dy));
    for_dy = u - total(u * e);
  } else {
    for_y = u * (dy - total(y * dy)) - dy * total(u * y);
    for_dy = y * (u - total(y * u));
  }
  if (p.temperature == 1) return {for_y, for_dy};
  return {for_y * (1 / p.temperature), for_dy * (1 / p.temperature)};
}

const OpDef& softmax_backward = Register<P>({
    .name = "_backward_softmax",
    .doc = "The gradient of softmax or of its logarithm, from y and dy.",
    .inputs = {{"y", Types::kFloats}, {"dy", Types::kFloats}},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"vectors", Vectors, VectorsDecline}, {"plain", Plain}},
    .cost = [](const P&, const Specs& in,
               const Specs&) { return 4.0 * static_cast<double>(in[0].shape.size()); },
    .in_place = {{0, 0}, {1, 0}},
    .samples = {{{Normal({2, 3}), Normal({2, 3})}, {.axis = 1}},
                {{Normal({4, 1, 5}), Normal({4, 1, 5})}, {.temperature = -2}},
                {{Normal({2, 20, 3}), Normal({2, 20, 3})}, {.axis = 1, .log = true}}},
});

}  // namespace

Value SoftmaxBackward(int axis, double temperature, bool log, const Value& y,
                      const Value& dy) {
  const Value inputs[] = {y, dy};
  return ApplyOne(softmax_backward, MakeParams(P{axis, temperature, log}), inputs);
}

}  // namespace plait
