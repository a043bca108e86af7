// Convolution in one to three dimensions, and the operators of its two gradients.

#include <cstring>

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/channels_first.h"
#include "ops/nn/conv.h"

namespace plait {

void CheckConvParams(const ConvParams& p, const char* op) {
  const int rank = p.kernel.rank();
  Check(rank >= 1 && rank <= 3, op, ": kernel is ", p.kernel,
        "; one to three sizes were expected");
  const auto check = [&](const Shape& s, const char* name, int64_t least) {
    Check(s.rank() == 0 || s.rank() == rank, op, ": ", name, " is ", s, " and kernel ",
          p.kernel, "; as many numbers were expected");
    for (int i = 0; i < s.rank(); ++i) {
      Check(s[i] >= least, op, ": ", name, '[', i, "] is ", s[i],
            "; numbers of at least ", least, " were expected");
    }
  };
  check(p.kernel, "kernel", 1);
  check(p.stride, "stride", 1);
  check(p.dilate, "dilate", 1);
  check(p.pad, "pad", 0);
  check(p.adj, "adj", 0);
  check(p.target_shape, "target_shape", 0);
  Check(p.num_filter > 0 && p.num_group > 0 && p.num_filter % p.num_group == 0, op,
        ": num_filter is ", p.num_filter, " and num_group ", p.num_group,
        "; positive numbers were expected, the second dividing the first");
  if (p.layout == ConvLayout::kNone) return;
  constexpr const char* kNames[] = {"None",  "NCDHW", "NCHW", "NCW",
                                    "NDHWC", "NHWC",  "NWC"};
  const std::string_view name = kNames[static_cast<int>(p.layout)];
  Check(static_cast<int>(name.size()) == rank + 2, op, ": layout ", name,
        " does not fit kernel ", p.kernel, "; one with ", rank + 2,
        " axes was expected");
}

ConvGeometry MakeConvGeometry(const ConvParams& p, const Shape& x, const Shape& y) {
  ConvGeometry g;
  g.rank = p.kernel.rank();
  g.batch = x[0];
  g.groups = p.num_group;
  g.in_channels = x[p.channel_axis()];
  g.out_channels = y[p.channel_axis()];
  for (int i = 0; i < g.rank; ++i) {
    const int d = 3 - g.rank + i;
    g.in[d] = x[p.space_axis() + i];
    g.out[d] = y[p.space_axis() + i];
    g.kernel[d] = p.kernel[i];
    g.stride[d] = ConvEntry(p.stride, i, 1);
    g.dilate[d] = ConvEntry(p.dilate, i, 1);
    g.pad[d] = ConvEntry(p.pad, i, 0);
  }
  return g;
}

Value SumOfChannels(const ConvParams& p, const Value& dy) {
  ReduceAxes axes;
  for (int i = 0; i < dy.shape().rank(); ++i) {
    if (i != p.channel_axis()) axes.axes.push_back(i);
  }
  return sum(dy, axes);
}

std::vector<Param<ConvParams>> ConvParamList() {
  using P = ConvParams;
  return {
      Required("kernel", &P::kernel, "Size of the window: (w,), (h, w), (d, h, w)."),
      {"stride", &P::stride, "Steps of the window; () is 1."},
      {"dilate", &P::dilate, "Distance of the window's elements; () is 1."},
      {"pad", &P::pad, "Zeros on both sides of x; () is 0."},
      Required("num_filter", &P::num_filter, "Number of output channels."),
      {"num_group", &P::num_group, "Channels are split into so many parts."},
      {"workspace", &P::workspace, "A hint in megabytes, not used."},
      {"no_bias", &P::no_bias, "Adds no bias."},
      {"cudnn_tune",
       &P::cudnn_tune,
       {"None", "fastest", "limited_workspace", "off"},
       "For GPUs."},
      {"cudnn_off", &P::cudnn_off, "For GPUs."},
      {"layout",
       &P::layout,
       {"None", "NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"},
       "Order of the axes; None has channels first."}};
}

namespace {

using P = ConvParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  CheckConvParams(p, "Convolution");
  const int rank = p.kernel.rank(), c = p.channel_axis(), s = p.space_axis();
  Shape &x = in[0].shape, &w = in[1].shape, &y = out[0].shape;
  Shape fact = Shape::Filled(rank + 2, kUnknownSize);
  Check(Assign(x, fact), "Convolution: x ", x, " and kernel ", p.kernel,
        " do not match; x must have ", rank + 2, " axes");
  fact[c] = p.num_filter;
  if (!Assign(y, fact)) return false;
  fact = Shape::Filled(rank + 2, kUnknownSize);
  fact[0] = p.num_filter;
  for (int i = 0; i < rank; ++i) fact[s + i] = p.kernel[i];
  Check(Assign(w, fact), "Convolution: weight ", w, " does not fit; ", fact,
        " was expected");
  if (!p.no_bias) {
    Check(Assign(in[2].shape, {p.num_filter}), "Convolution: bias ", in[2].shape,
          " does not fit; (", p.num_filter, ",) was expected");
  }
  if (x[c] == kUnknownSize && w[c] != kUnknownSize) x[c] = w[c] * p.num_group;
  if (x[c] != kUnknownSize) {
    Check(x[c] % p.num_group == 0, "Convolution: x ", x, " has ", x[c],
          " channels; a multiple of num_group ", p.num_group, " was expected");
    int64_t channels = x[c] / p.num_group;
    Check(UnifySize(w[c], channels), "Convolution: x ", x, " and weight ", w,
          " do not match; weight.shape[", c, "] must be x.shape[", c, "] / num_group ",
          p.num_group);
  }
  bool ok = UnifySize(x[0], y[0]);
  for (int i = 0; i < rank && ok; ++i) {
    const int64_t window = ConvEntry(p.dilate, i, 1) * (p.kernel[i] - 1) + 1;
    if (x[s + i] == kUnknownSize) {  // with larger steps several sizes give y
      if (y[s + i] != kUnknownSize && ConvEntry(p.stride, i, 1) == 1)
        x[s + i] = y[s + i] + window - 1 - 2 * ConvEntry(p.pad, i, 0);
      continue;
    }
    const int64_t room = x[s + i] + 2 * ConvEntry(p.pad, i, 0) - window;
    Check(room >= 0, "Convolution: kernel ", p.kernel, " is larger than x ", x,
          " with pad ", p.pad, " along axis ", s + i);
    int64_t size = room / ConvEntry(p.stride, i, 1) + 1;
    ok = UnifySize(y[s + i], size);
  }
  return ok;
}

ParamsRef Without(P p, bool bias, const Shape& result) {
  p.no_bias = !bias;
  p.result = result;
  return MakeParams(std::move(p));
}

// The gradients of the three operators are each other.
Values Gradient(const P& p, const GradArgs& g) {
  Values result(g.num_inputs());
  const Value& dy = g.dout(0);
  if (!p.no_bias && g.wants(2)) {  // first: it may be summed up as dy is computed
    result[2] = SumOfChannels(p, dy);
  }
  if (g.wants(0)) result[0] = ConvData(p, dy, g.in(1), g.in_spec(0).shape);
  if (g.wants(1)) result[1] = ConvWeight(p, dy, g.in(0), g.in_spec(1).shape);
  return result;
}
Values DataGradient(const P& p, const GradArgs& g) {  // x = Data(y, w)
  Values result(2);
  const Value& dx = g.dout(0);
  if (g.wants(0)) result[0] = ConvForward(p, dx, g.in(1));
  if (g.wants(1)) result[1] = ConvWeight(p, g.in(0), dx, g.in_spec(1).shape);
  return result;
}
Values WeightGradient(const P& p, const GradArgs& g) {  // w = Weight(y, x)
  Values result(2);
  const Value& dw = g.dout(0);
  if (g.wants(0)) result[0] = ConvForward(p, g.in(1), dw);
  if (g.wants(1)) result[1] = ConvData(p, g.in(0), dw, g.in_spec(1).shape);
  return result;
}

// The gradients have the shape `result`; with it, the three arrays fit together as
// those of a convolution do.
bool InferData(P p, Specs& in, Specs& out) {
  p.no_bias = true;
  Specs inputs{{p.result}, {in[1].shape}}, output{{in[0].shape}};
  return Infer(p, inputs, output) && Assign(out[0].shape, p.result);
}
bool InferWeight(P p, Specs& in, Specs& out) {
  p.no_bias = true;
  Specs inputs{{in[1].shape}, {p.result}}, output{{in[0].shape}};
  return Infer(p, inputs, output) && Assign(out[0].shape, p.result);
}

template <auto kKernel>
void Forward(const P& p, const KernelArgs& args) {
  const ChannelsFirst x(p.channels_last(), args.in[0], true),
      w(p.channels_last(), args.in[1], true), y(p.channels_last(), args.out[0], false);
  kKernel(MakeConvGeometry(p, args.in[0].shape(), args.out[0].shape()), x.view(),
          w.view(), p.no_bias ? nullptr : &args.in[2], y.view());
  y.Store();
}
template <auto kKernel>
void Data(const P& p, const KernelArgs& args) {
  const ChannelsFirst y(p.channels_last(), args.in[0], true),
      w(p.channels_last(), args.in[1], true), x(p.channels_last(), args.out[0], false);
  kKernel(MakeConvGeometry(p, args.out[0].shape(), args.in[0].shape()), y.view(),
          w.view(), nullptr, x.view());
  x.Store();
}
template <auto kKernel>
void Weight(const P& p, const KernelArgs& args) {
  if (args.in[0].size() == 0 || args.in[1].size() == 0) {
    std::memset(args.out[0].ptr, 0, static_cast<size_t>(args.out[0].bytes()));
    return;
  }
  const ChannelsFirst y(p.channels_last(), args.in[0], true),
      x(p.channels_last(), args.in[1], true), w(p.channels_last(), args.out[0], false);
  kKernel(MakeConvGeometry(p, args.in[1].shape(), args.in[0].shape()), y.view(),
          x.view(), w.view());
  w.Store();
}

const OpDef& convolution = Register<P>({
    .name = "Convolution",
    .aliases = {"_npx_convolution", "Convolution_v1"},
    .doc = "Cross-correlates x with `num_filter` windows in 1, 2 or 3 dimensions.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."},
               {"weight", Types::kFloats,
                "(num_filter, channels / num_group, kernel); with channels last "
                "(num_filter, kernel, channels / num_group)."},
               {"bias", Types::kFloats, "Of shape (num_filter,)."}},
    .outputs =
        {{"output", Types::kFloats,
          "(batch, num_filter, ...), with floor((x + 2 pad - dilate (kernel - 1) "
          "- 1) / stride) + 1 along each axis."}},
    .params = ConvParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, !p.no_bias};
    },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"tuned", Forward<FastConvForward>}, {"plain", Forward<PlainConvForward>}},
    .cost =
        [](const P& p, const Specs& in, const Specs& out) {
          return MakeConvGeometry(p, in[0].shape, out[0].shape).flops();
        },
    .samples = {{{Normal({2, 3, 5, 6}), Normal({4, 3, 3, 3}), Normal({4})},
                 {.kernel = {3, 3}, .num_filter = 4}},
                {{Normal({2, 3, 5, 6}), Normal({4, 3, 3, 2})},
                 {.kernel = {3, 2},
                  .stride = {2, 1},
                  .pad = {1, 1},
                  .num_filter = 4,
                  .no_bias = true}},
                {{Normal({1, 4, 7, 6}), Normal({4, 2, 2, 3}), Normal({4})},
                 {.kernel = {2, 3},
                  .dilate = {2, 2},
                  .pad = {1, 2},
                  .num_filter = 4,
                  .num_group = 2}},
                {{Normal({2, 4, 6}), Normal({4, 1, 3}), Normal({4})},
                 {.kernel = {3}, .stride = {2}, .num_filter = 4, .num_group = 4}},
                {{Normal({1, 2, 4, 3, 4}), Normal({2, 2, 2, 2, 3}), Normal({2})},
                 {.kernel = {2, 2, 3}, .pad = {0, 1, 1}, .num_filter = 2}},
                {{Normal({2, 5, 6, 4}), Normal({4, 2, 3, 2}), Normal({4})},
                 {.kernel = {2, 3},
                  .stride = {2, 1},
                  .dilate = {1, 2},
                  .pad = {1, 2},
                  .num_filter = 4,
                  .num_group = 2,
                  .layout = ConvLayout::kNhwc}},
                {{Normal({2, 6, 3}), Normal({4, 3, 3})},
                 {.kernel = {3},
                  .num_filter = 4,
                  .no_bias = true,
                  .layout = ConvLayout::kNwc}},
                {{Normal({1, 4, 3, 4, 2}), Normal({2, 2, 2, 3, 2}), Normal({2})},
                 {.kernel = {2, 2, 3},
                  .pad = {0, 1, 1},
                  .num_filter = 2,
                  .layout = ConvLayout::kNdhwc}}},
});

double ForwardCost(const P& p, const Specs& in, const Specs& out) {
  return MakeConvGeometry(p, in[0].shape, out[0].shape).flops();
}

// What graphs make of a convolution whose result only a relu reads.
[[maybe_unused]] const OpDef& convolution_relu = Register<P>({
    .name = "_convolution_relu",
    .doc = "relu(Convolution(x)) in one pass.",
    .inputs = {{"data", Types::kFloats},
               {"weight", Types::kFloats},
               {"bias", Types::kFloats}},
    .outputs = {{"output", Types::kFloats}},
    .params = ConvParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, !p.no_bias};
    },
    .infer = Infer,
    .cpu = {{"tuned", Forward<FastConvRelu>}, {"plain", Forward<PlainConvRelu>}},
    .cost = ForwardCost,
    .samples = {{{Normal({2, 3, 5, 6}), Normal({4, 3, 3, 3}), Normal({4})},
                 {.kernel = {3, 3}, .num_filter = 4}},
                {{Normal({2, 3, 5, 6}), Normal({4, 3, 3, 2})},
                 {.kernel = {3, 2}, .num_filter = 4, .no_bias = true}},
                {{Normal({2, 5, 6, 3}), Normal({4, 3, 2, 3}), Normal({4})},
                 {.kernel = {3, 2}, .num_filter = 4, .layout = ConvLayout::kNhwc}}},
});

const P kSample{.kernel = {3, 2},
                .stride = {2, 1},
                .pad = {1, 0},
                .num_filter = 4,
                .num_group = 2,
                .no_bias = true};
P SampleWith(const Shape& result, ConvLayout layout = ConvLayout::kNone) {
  P p = kSample;
  p.result = result;
  p.layout = layout;
  return p;
}

const OpDef& data_gradient = Register<P>({
    .name = "_backward_Convolution_data",
    .doc = "The gradient of Convolution for its data, from dy and the weight.",
    .inputs = {{"dy", Types::kFloats}, {"weight", Types::kFloats}},
    .infer = [](const P& p, Specs& in, Specs& out) { return InferData(p, in, out); },
    .gradient = DataGradient,
    .uses = {.in = 0b11},
    .cpu = {{"tuned", Data<FastConvData>}, {"plain", Data<PlainConvData>}},
    .cost =
        [](const P& p, const Specs& in, const Specs& out) {
          return MakeConvGeometry(p, out[0].shape, in[0].shape).flops();
        },
    .samples = {{{Normal({2, 4, 3, 4}), Normal({4, 1, 3, 2})},
                 SampleWith({2, 2, 6, 5})},
                {{Normal({2, 3, 4, 4}), Normal({4, 3, 2, 1})},
                 SampleWith({2, 6, 5, 2}, ConvLayout::kNhwc)}},
});

const OpDef& weight_gradient = Register<P>({
    .name = "_backward_Convolution_weight",
    .doc = "The gradient of Convolution for its weight, from dy and the data.",
    .inputs = {{"dy", Types::kFloats}, {"data", Types::kFloats}},
    .infer = [](const P& p, Specs& in, Specs& out) { return InferWeight(p, in, out); },
    .gradient = WeightGradient,
    .uses = {.in = 0b11},
    .cpu = {{"tuned", Weight<FastConvWeight>}, {"plain", Weight<PlainConvWeight>}},
    .cost =
        [](const P& p, const Specs& in, const Specs&) {
          return MakeConvGeometry(p, in[1].shape, in[0].shape).flops();
        },
    .samples = {{{Normal({2, 4, 3, 4}), Normal({2, 2, 6, 5})},
                 SampleWith({4, 1, 3, 2})},
                {{Normal({2, 3, 4, 4}), Normal({2, 6, 5, 2})},
                 SampleWith({4, 3, 2, 1}, ConvLayout::kNhwc)}},
});

}  // namespace

Value ConvForward(ConvParams p, const Value& x, const Value& w) {
  const Value inputs[] = {x, w};
  return ApplyOne(convolution, Without(std::move(p), false, {}), inputs);
}
Value ConvData(ConvParams p, const Value& y, const Value& w, const Shape& result) {
  const Value inputs[] = {y, w};
  return ApplyOne(data_gradient, Without(std::move(p), false, result), inputs);
}
Value ConvWeight(ConvParams p, const Value& y, const Value& x, const Shape& result) {
  const Value inputs[] = {y, x};
  return ApplyOne(weight_gradient, Without(std::move(p), false, result), inputs);
}

}  // namespace plait
