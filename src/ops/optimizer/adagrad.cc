// AdaGrad, for each element or for each row of a weight.

#include <cmath>

#include "base/parallel.h"
#include "ops/infer.h"
#include "ops/optimizer/update.h"

namespace plait {
namespace {

// Double, so that float64 weights get the numbers unrounded.
struct AdaGradParams {
  double lr = 0;
  double epsilon = 1e-7;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
};
struct GroupAdaGradParams {
  float lr = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float epsilon = 1e-5f;
};

const Shape kShape{3, 4};

// h += G^2; w -= lr (G / sqrt(h + eps) + wd w).
void AdaGrad(const AdaGradParams& p, PwCall& c) {
  const Pw w = Wide(c.in(0));
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const Pw h = Wide(c.in(2)) + square(g);
  UpdateState(c, 2, h);
  const Pw step = g / sqrt(h + p.epsilon);
  ReturnWeight(c, -1, w - (p.wd == 0 ? step : step + w * p.wd) * p.lr);
}

const OpDef& adagrad_update = Register<AdaGradParams>({
    .name = "_sparse_adagrad_update",
    .doc = "AdaGrad: the gradient divided by the root of its sum of squares.",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"history", Types::kFloats, "Sum of squares, updated."}},
    .params = {Required("lr", &AdaGradParams::lr, "The learning rate."),
               {"epsilon", &AdaGradParams::epsilon, "Added under the root."},
               {"wd", &AdaGradParams::wd, "Weight decay, outside of the clipping."},
               {"rescale_grad", &AdaGradParams::rescale_grad,
                "Multiplies the gradient."},
               {"clip_gradient", &AdaGradParams::clip_gradient,
                "Bound of the scaled gradient; negative: none."}},
    .mutates = {2},
    .pointwise = AdaGrad,
    .samples = {{{Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1, .wd = 0.01, .rescale_grad = 0.5}},
                {{Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1, .clip_gradient = 0.3}}},
});

bool Infer(const GroupAdaGradParams&, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, in[1].shape) || !Assign(out[0].shape, in[0].shape)) {
    return false;
  }
  const Shape& w = in[0].shape;
  if (!w.known()) return true;
  Check(w.rank() >= 1,
        "_contrib_group_adagrad_update: weight is a scalar; at least one "
        "axis was expected");
  if (!in[2].shape.known()) return Assign(in[2].shape, {w[0], 1});
  Check(in[2].shape.size() == w[0], "_contrib_group_adagrad_update: history ",
        in[2].shape, " does not fit weight ", w, "; one number a row was expected");
  return true;
}

// For each row: h += mean(G^2); w -= lr G / sqrt(h + eps).
void GroupAdaGrad(const GroupAdaGradParams& p, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.size(1, shape.rank());
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T *w = args.in[0].data<const T>(), *grad = args.in[1].data<const T>();
    T *history = args.in[2].data<T>(), *out = args.out[0].data<T>();
    const auto gradient = [&](int64_t i) {
      A g = static_cast<A>(grad[i]) * static_cast<A>(p.rescale_grad);
      const A bound = static_cast<A>(p.clip_gradient);
      if (bound >= 0) g = g > bound ? bound : g < -bound ? -bound : g;
      return g;
    };
    ParallelFor(shape[0], 64, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        double squares = 0;
        for (int64_t i = row * n; i < (row + 1) * n; ++i) {
          const double g = static_cast<double>(gradient(i));
          squares += g * g;
        }
        const A mean = static_cast<A>(n > 0 ? squares / static_cast<double>(n) : 0);
        history[row] = static_cast<T>(static_cast<A>(history[row]) + mean);
        const A scale = static_cast<A>(p.lr) / std::sqrt(static_cast<A>(history[row]) +
                                                         static_cast<A>(p.epsilon));
        for (int64_t i = row * n; i < (row + 1) * n; ++i) {
          out[i] = static_cast<T>(static_cast<A>(w[i]) - gradient(i) * scale);
        }
      }
    });
  });
}

const OpDef& group_adagrad = Register<GroupAdaGradParams>({
    .name = "_contrib_group_adagrad_update",
    .doc = "AdaGrad with one sum of squares for each row of the weight.",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"history", Types::kFloats, "One number for each row, updated."}},
    .params = {Required("lr", &GroupAdaGradParams::lr, "The learning rate."),
               {"rescale_grad", &GroupAdaGradParams::rescale_grad,
                "Multiplies the gradient."},
               {"clip_gradient", &GroupAdaGradParams::clip_gradient,
                "Bound of the scaled gradient; negative: none."},
               {"epsilon", &GroupAdaGradParams::epsilon, "Added under the root."}},
    .mutates = {2},
    .infer = Infer,
    .cpu = {{"plain", GroupAdaGrad}},
    .in_place = {{0, 0}},
    .samples = {{{Normal(kShape), Normal(kShape), State({3, 1})},
                 {.lr = 0.1f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), State({3, 1})},
                 {.lr = 0.1f, .clip_gradient = 0.3f}}},
});

}  // namespace
}  // namespace plait
