// LRN: local response normalisation across neighbouring channels.

#include "ops/nn/lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

using P = LrnParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.nsize > 0 && p.nsize % 2 == 1, "LRN: nsize is ", p.nsize,
        "; an odd number was expected");
  for (Spec& s : out) {
    if (!Unify(in[0].shape, s.shape)) return false;
  }
  Check(!in[0].shape.rank_known() || in[0].shape.rank() >= 2, "LRN: x ", in[0].shape,
        " has too few axes; (batch, channels, ...) was expected");
  return true;
}

// Calls out(i, sum of the window of values in(i) over channels) for every element i.
// Reads a strip of all channels before it writes there: in and out may share memory.
template <typename A, typename In, typename Out>
void Windows(const P& p, const Shape& x, In&& in, Out&& out) {
  const int64_t channels = x[1], inner = x.size(2, x.rank()), half = p.nsize / 2;
  constexpr int64_t kStripValues = 8192;  // they stay in the first cache
  const int64_t width =
      std::clamp<int64_t>(kStripValues / std::max<int64_t>(channels, 1), 1, 64);
  const int64_t strips = (inner + width - 1) / width;
  ParallelFor(x[0] * strips, 1, [&](int64_t first, int64_t last) {
    std::vector<A> values(channels * width);
    for (int64_t strip = first; strip < last; ++strip) {
      const int64_t at = strip % strips * width, n = std::min(width, inner - at);
      const int64_t start = strip / strips * channels * inner + at;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t s = 0; s < n; ++s)
          values[c * width + s] = in(start + c * inner + s);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t from = std::max<int64_t>(c - half, 0);
        const int64_t to = std::min(c + half + 1, channels);
        for (int64_t s = 0; s < n; ++s) {
          A total = 0;
          for (int64_t k = from; k < to; ++k) total += values[k * width + s];
          out(start + c * inner + s, total);
        }
      }
    }
  });
}

void PlainSum(const P& p, const KernelArgs& args) {
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* x = args.in[0].data<const T>();
    T* y = args.out[0].data<T>();
    Windows<A>(
        p, args.in[0].shape(), [&](int64_t i) { return static_cast<A>(x[i]); },
        [&](int64_t i, A total) { y[i] = static_cast<T>(total); });
  });
}

void Plain(const P& p, const KernelArgs& args) {
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* x = args.in[0].data<const T>();
    T* y = args.out[0].data<T>();
    const A alpha = static_cast<A>(p.alpha) / p.nsize, k = static_cast<A>(p.knorm);
    const A power = -static_cast<A>(p.beta);
    Windows<A>(
        p, args.in[0].shape(),
        [&](int64_t i) { return static_cast<A>(x[i]) * static_cast<A>(x[i]); },
        [&](int64_t i, A total) {
          y[i] =
              static_cast<T>(static_cast<A>(x[i]) * std::pow(k + alpha * total, power));
        });
  });
}

Value WindowSum(const P& p, const Value& x);

// y = x N^-b with N = k + a/n W(x^2), and the window sum W its own transpose:
// dx = dy N^-b + 2 a/n x W(dN), dN = -b dy x N^(-b-1). N is computed again: it would
// cost as much memory as x to keep.
Values Gradient(const P& p, const GradArgs& g) {
  const Value &x = g.in(0), &dy = g.dout(0);
  const double scale = static_cast<double>(p.alpha) / p.nsize;
  const Value norm = WindowSum(p, x * x) * scale + static_cast<double>(p.knorm);
  const Value scaled = dy * power(norm, -p.beta);
  const Value dn = scaled * x / norm * -p.beta;
  return {scaled + x * WindowSum(p, dn) * (2 * scale)};
}

const OpDef& lrn = Register<P>({
    .name = "LRN",
    .doc =
        "Divides x by (knorm + alpha / nsize * sum(x^2))^beta, summed over the nsize "
        "nearest channels.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of x."}},
    .params = {{"alpha", &P::alpha, "Scale of the sum."},
               {"beta", &P::beta, "The exponent."},
               {"knorm", &P::knorm, "Added to the sum."},
               Required("nsize", &P::nsize, "Number of channels in a window; odd.")},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b1, .out = 0},
    .cpu = {{"plain", Plain}},
    .cost =
        [](const P& p, const Specs& in, const Specs&) {
          return (20.0 + p.nsize) * static_cast<double>(in[0].shape.size());
        },
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 5, 2, 2})}, {.alpha = 0.5f, .nsize = 3}},
                {{Normal({1, 4, 3})},
                 {.alpha = 0.1f, .beta = 0.5f, .knorm = 1, .nsize = 5}},
                {{Normal({2, 3})}, {.nsize = 1}}},
});

const OpDef& window_sum = Register<P>({
    .name = "_channel_window_sum",
    .doc = "Sums x over the nsize nearest channels.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."}},
    .params = {{"nsize", &P::nsize, "Number of channels in a window; odd."}},
    .infer = Infer,
    .gradient = [](const P& p, const GradArgs& g) -> Values {
      return {WindowSum(p, g.dout(0))};
    },
    .cpu = {{"plain", PlainSum}},
    .samples = {{{Normal({2, 5, 3})}, {.nsize = 3}}},
});

Value WindowSum(const P& p, const Value& x) {
  return ApplyOne(window_sum, MakeParams(P(p)), {&x, 1});
}

}  // namespace
}  // namespace plait
