// Deconvolution: the transposed convolution, with a bias.

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/channels_first.h"
#include "ops/nn/conv.h"

namespace plait {
namespace {

using P = ConvParams;

int64_t Window(const P& p, int i) {
  return ConvEntry(p.dilate, i, 1) * (p.kernel[i] - 1) + 1;
}

// target_shape, where given, takes the place of pad and adj.
bool HasTarget(const P& p) {
  for (int64_t size : p.target_shape) {
    if (size != 0) return true;
  }
  return false;
}

// The padding of the convolution that this one transposes, and the size of y, along
// axis i of the space, where x has `size` elements.
struct Along {
  int64_t pad, adj, out;
};
Along Resolve(const P& p, int i, int64_t size) {
  const int64_t stride = ConvEntry(p.stride, i, 1);
  const int64_t full = stride * (size - 1) + Window(p, i);
  Along a{ConvEntry(p.pad, i, 0), ConvEntry(p.adj, i, 0), 0};
  if (HasTarget(p)) {
    const int64_t extra = full - p.target_shape[i];
    Check(extra >= 0, "Deconvolution: target_shape ", p.target_shape,
          " is larger than the result, which has ", full, " along axis ", i);
    a = {(extra + 1) / 2, extra % 2, 0};
  }
  Check(a.adj < stride, "Deconvolution: adj ", a.adj, " and stride ", stride,
        " along axis ", i, "; adj must be smaller");
  a.out = full - 2 * a.pad + a.adj;
  Check(a.out >= 0, "Deconvolution: pad ", a.pad, " is larger than the result of ",
        full, " along axis ", i);
  return a;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  CheckConvParams(p, "Deconvolution");
  const int rank = p.kernel.rank(), c = p.channel_axis(), s = p.space_axis();
  Shape &x = in[0].shape, &w = in[1].shape, &y = out[0].shape;
  Shape fact = Shape::Filled(rank + 2, kUnknownSize);
  Check(Assign(x, fact), "Deconvolution: x ", x, " and kernel ", p.kernel,
        " do not match; x must have ", rank + 2, " axes");
  fact[c] = p.num_filter;
  if (!Assign(y, fact)) return false;
  fact[0] = x[c];
  fact[c] = p.num_filter / p.num_group;
  for (int i = 0; i < rank; ++i) fact[s + i] = p.kernel[i];
  Check(Assign(w, fact), "Deconvolution: weight ", w, " and x ", x,
        " do not match; weight ", fact, " was expected");
  Check(UnifySize(x[c], w[0]) && (x[c] == kUnknownSize || x[c] % p.num_group == 0),
        "Deconvolution: x ", x, " has ", x[c], " channels; a multiple of num_group ",
        p.num_group, " was expected");
  if (!p.no_bias) {
    Check(Assign(in[2].shape, {p.num_filter}), "Deconvolution: bias ", in[2].shape,
          " does not fit; (", p.num_filter, ",) was expected");
  }
  bool ok = UnifySize(x[0], y[0]);
  for (int i = 0; i < rank && ok; ++i) {
    if (x[s + i] == kUnknownSize) continue;
    int64_t size = Resolve(p, i, x[s + i]).out;
    ok = UnifySize(y[s + i], size);
  }
  return ok;
}

// The parameters of the convolution from y to x.
ConvParams Transposed(const P& p, const Shape& x) {
  ConvParams c = p;
  c.num_filter = x[p.channel_axis()];
  c.pad = Shape::Filled(p.kernel.rank(), 0);
  for (int i = 0; i < c.pad.rank(); ++i)
    c.pad[i] = Resolve(p, i, x[p.space_axis() + i]).pad;
  c.adj = c.target_shape = {};
  return c;
}

Values Gradient(const P& p, const GradArgs& g) {
  const ConvParams conv = Transposed(p, g.in_spec(0).shape);
  const Value& dy = g.dout(0);
  Values result(g.num_inputs());
  if (!p.no_bias && g.wants(2)) {  // first: it may be summed up as dy is computed
    result[2] = SumOfChannels(p, dy);
  }
  if (g.wants(0)) result[0] = ConvForward(conv, dy, g.in(1));
  if (g.wants(1)) result[1] = ConvWeight(conv, g.in(0), dy, g.in_spec(1).shape);
  return result;
}

ConvGeometry Geometry(const P& p, const Shape& x, const Shape& y) {
  return MakeConvGeometry(Transposed(p, x), y, x);
}

template <auto kKernel>
void Forward(const P& p, const KernelArgs& args) {
  const ChannelsFirst x(p.channels_last(), args.in[0], true),
      w(p.channels_last(), args.in[1], true), y(p.channels_last(), args.out[0], false);
  kKernel(Geometry(p, args.in[0].shape(), args.out[0].shape()), x.view(), w.view(),
          p.no_bias ? nullptr : &args.in[2], y.view());
  y.Store();
}

std::vector<Param<P>> ParamList() {
  std::vector<Param<P>> rows = ConvParamList();
  rows.push_back({"adj", &P::adj, "Adds so much to the size of y; () is 0."});
  rows.push_back({"target_shape", &P::target_shape,
                  "Size of y in space; takes the place of pad and adj."});
  return rows;
}

P NoBias(ConvParams c) {
  c.no_bias = true;
  return c;
}

const OpDef& deconvolution = Register<P>({
    .name = "Deconvolution",
    .aliases = {"_npx_deconvolution"},
    .doc = "The transposed convolution: spreads every element of x over a window of y.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."},
               {"weight", Types::kFloats,
                "(channels, num_filter / num_group, kernel); with channels last "
                "(channels, kernel, num_filter / num_group)."},
               {"bias", Types::kFloats, "Of shape (num_filter,)."}},
    .outputs =
        {{"output", Types::kFloats,
          "(batch, num_filter, ...), with stride (x - 1) + dilate (kernel - 1) + "
          "1 - 2 pad + adj along each axis."}},
    .params = ParamList(),
    .defaults = P{.workspace = 512, .no_bias = true},
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, !p.no_bias};
    },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"tuned", Forward<FastConvData>}, {"plain", Forward<PlainConvData>}},
    .cost =
        [](const P& p, const Specs& in, const Specs& out) {
          return Geometry(p, in[0].shape, out[0].shape).flops();
        },
    .samples =
        {{{Normal({2, 3, 4, 3}), Normal({3, 2, 3, 3}), Normal({2})},
          {.kernel = {3, 3}, .num_filter = 2}},
         {{Normal({1, 4, 3, 4}), Normal({4, 2, 3, 2})},
          NoBias({.kernel = {3, 2},
                  .stride = {2, 3},
                  .dilate = {1, 2},
                  .pad = {1, 0},
                  .num_filter = 4,
                  .num_group = 2,
                  .adj = {1, 2}})},
         {{Normal({2, 2, 5}), Normal({2, 3, 4})},
          NoBias({.kernel = {4}, .stride = {2}, .num_filter = 3, .target_shape = {9}})},
         {{Normal({1, 2, 2, 3, 2}), Normal({2, 1, 2, 2, 2})},
          NoBias({.kernel = {2, 2, 2}, .num_filter = 1})},
         {{Normal({1, 3, 4, 4}), Normal({4, 3, 2, 2}), Normal({4})},
          {.kernel = {3, 2},
           .stride = {2, 3},
           .dilate = {1, 2},
           .pad = {1, 0},
           .num_filter = 4,
           .num_group = 2,
           .layout = ConvLayout::kNhwc,
           .adj = {1, 2}}},
         {{Normal({2, 5, 2}), Normal({2, 4, 3})},
          NoBias({.kernel = {4},
                  .stride = {2},
                  .num_filter = 3,
                  .layout = ConvLayout::kNwc,
                  .target_shape = {9}})}},
});

}  // namespace
}  // namespace plait
