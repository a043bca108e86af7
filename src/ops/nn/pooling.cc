// Pooling over windows in one to three dimensions, and its gradients.

#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/pool.h"

namespace plait {

PoolGeometry MakePoolGeometry(const PoolParams& p, const Shape& x, const Shape& y) {
  PoolGeometry g;
  g.rank = x.rank() - 2;
  g.channels_last = p.channels_last();
  g.batch = x[0];
  g.channels = g.channels_last ? x.back() : x[1];
  for (int i = 0; i < g.rank; ++i) {
    const int d = 3 - g.rank + i, axis = (g.channels_last ? 1 : 2) + i;
    g.in[d] = x[axis];
    g.out[d] = y[axis];
    g.kernel[d] = p.global_pool ? x[axis] : p.kernel[i];
    if (p.global_pool) continue;
    g.stride[d] = p.stride.rank() > 0 ? p.stride[i] : 1;
    g.pad[d] = p.pad.rank() > 0 ? p.pad[i] : 0;
  }
  return g;
}

namespace {

using P = PoolParams;

void CheckTuple(const P& p, const Shape& s, const char* name, int64_t least) {
  Check(s.rank() == 0 || s.rank() == p.kernel.rank(), "Pooling: ", name, " is ", s,
        " and kernel ", p.kernel, "; as many numbers were expected");
  for (int i = 0; i < s.rank(); ++i) {
    Check(s[i] >= least, "Pooling: ", name, '[', i, "] is ", s[i],
          "; numbers of at least ", least, " were expected");
  }
}

void CheckParams(const P& p, const Shape& x) {
  Check(x.rank() >= 3 && x.rank() <= 5, "Pooling: x ", x,
        "; three to five axes were expected");
  if (p.layout != PoolLayout::kNone) {
    constexpr int kRank[] = {0, 5, 4, 3, 5, 4, 3};
    Check(x.rank() == kRank[static_cast<int>(p.layout)], "Pooling: x ", x,
          " does not have the axes of the parameter layout");
  }
  Check(
      p.pool_type != PoolType::kLp || (p.p_value && *p.p_value >= 1 && *p.p_value <= 3),
      "Pooling: p_value is ", p.p_value.value_or(0), "; pool_type lp needs 1, 2 or 3");
  if (p.global_pool) return;
  Check(p.kernel.rank() == x.rank() - 2, "Pooling: x ", x, " and kernel ", p.kernel,
        " do not match; kernel must have ", x.rank() - 2, " sizes");
  CheckTuple(p, p.kernel, "kernel", 1);
  CheckTuple(p, p.stride, "stride", 1);
  // Zeros say nothing, however many there are.
  if (p.pooling_convention != PoolConvention::kSame) CheckTuple(p, p.pad, "pad", 0);
  if (p.pooling_convention == PoolConvention::kSame) {
    Check(x.rank() == 3 && p.pool_type == PoolType::kMax,
          "Pooling: pooling_convention same is for pool_type max over one axis; x is ",
          x);
    for (int64_t pad : p.pad) {
      Check(pad == 0, "Pooling: pad is ", p.pad,
            " with pooling_convention same; 0 was expected");
    }
  }
}

// Number of windows along axis i of the space.
int64_t Windows(const P& p, int i, int64_t size, const Shape& x) {
  const int64_t stride = p.stride.rank() > 0 ? p.stride[i] : 1;
  const int64_t padded = size + 2 * (p.pad.rank() > 0 ? p.pad[i] : 0);
  Check(p.kernel[i] <= padded, "Pooling: kernel ", p.kernel, " is larger than x ", x,
        " with pad ", p.pad);
  const int64_t room = padded - p.kernel[i];
  switch (p.pooling_convention) {
    case PoolConvention::kValid:
      return room / stride + 1;
    case PoolConvention::kFull:
      return (room + stride - 1) / stride + 1;
    case PoolConvention::kSame:
      return (padded + stride - 1) / stride;
  }
  return 0;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &y = out[0].shape;
  if (!x.rank_known()) return true;
  CheckParams(p, x);
  if (!Assign(y, Shape::Filled(x.rank(), kUnknownSize))) return false;
  const int channel = p.channels_last() ? x.rank() - 1 : 1;
  bool ok = UnifySize(x[0], y[0]) && UnifySize(x[channel], y[channel]);
  for (int i = 0; i < x.rank() - 2 && ok; ++i) {
    const int axis = (p.channels_last() ? 1 : 2) + i;
    int64_t size = 1;
    if (!p.global_pool) {
      if (x[axis] == kUnknownSize) continue;
      size = Windows(p, i, x[axis], x);
    }
    ok = UnifySize(y[axis], size);
  }
  return ok;
}

// dy must be what pooling an x of p.result gives.
bool InferBackward(const P& p, Specs& in, Specs& out) {
  Specs x{{p.result, in[0].dtype}}, y{{Shape::Unknown(), in[0].dtype}};
  Check(p.result.known() && Infer(p, x, y), "_backward_Pooling: result is ", p.result,
        "; the shape of the pooled x was expected");
  Check(Unify(in[0].shape, y[0].shape), "_backward_Pooling: dy ", in[0].shape,
        " does not fit x ", p.result, "; ", y[0].shape, " was expected");
  if (in.size() > 1) {
    Check(Assign(in[1].shape, p.result), "_backward_Pooling: x is ", in[1].shape,
          " and result ", p.result, "; one shape was expected");
  }
  return Assign(out[0].shape, p.result);
}

bool InferTake(const P& p, Specs& in, Specs& out) {
  return Unify(in[0].shape, in[1].shape) && Infer(p, in, out);
}

Value Backward(const P& p, const Value& dy, const Value& x, const Shape& shape);
Value Spread(P p, PoolType type, const Value& dy, const Shape& shape);

// lp: y = (sum x^p)^(1/p), so dx = x^(p-1) spread(dy y^(1-p)); zero where y is.
Values Gradient(const P& p, const GradArgs& g) {
  const Value& dy = g.dout(0);
  const Shape& shape = g.in_spec(0).shape;
  switch (p.pool_type) {
    case PoolType::kMax:
      return {Backward(p, dy, g.in(0), shape)};
    case PoolType::kLp:
      break;
    default:
      return {Spread(p, p.pool_type, dy, shape)};
  }
  if (*p.p_value == 1) return {Spread(p, PoolType::kSum, dy, shape)};
  const Value &x = g.in(0), &y = g.out(0);
  const bool two = *p.p_value == 2;
  const Value nonzero = where(y, y, ones_like(y));
  const Value q = where(y, dy / (two ? nonzero : square(nonzero)), zeros_like(dy));
  return {Spread(p, PoolType::kSum, q, shape) * (two ? x : square(x))};
}

Values SpreadGradient(const P& p, const GradArgs& g);
Values MaxBackwardGradient(const P& p, const GradArgs& g);
Values TakeGradient(const P& p, const GradArgs& g) {
  return {Backward(p, g.dout(0), g.in(1), g.in_spec(1).shape), {}};
}

void Forward(const P& p, const KernelArgs& args) {
  PlainPool(p, MakePoolGeometry(p, args.in[0].shape(), args.out[0].shape()), args.in[0],
            args.out[0]);
}
void SpreadKernel(const P& p, const KernelArgs& args) {
  PlainPoolSpread(p, MakePoolGeometry(p, args.out[0].shape(), args.in[0].shape()),
                  args.in[0], args.out[0]);
}
void MaxBackward(const P& p, const KernelArgs& args) {
  PlainPoolMaxBackward(MakePoolGeometry(p, args.out[0].shape(), args.in[0].shape()),
                       args.in[0], args.in[1], args.out[0]);
}
void Take(const P& p, const KernelArgs& args) {
  PlainPoolTake(MakePoolGeometry(p, args.in[0].shape(), args.out[0].shape()),
                args.in[0], args.in[1], args.out[0]);
}

double Cost(const P& p, const Specs& in, const Specs& out) {
  const Shape &a = in[0].shape, &b = out[0].shape;
  const bool forward = a.size() >= b.size();
  const PoolGeometry g = MakePoolGeometry(p, forward ? a : b, forward ? b : a);
  return static_cast<double>(g.batch) * g.channels * g.out_size() * g.kernel[0] *
         g.kernel[1] * g.kernel[2];
}

const OpDef& pooling = Register<P>({
    .name = "Pooling",
    .aliases = {"_npx_pooling", "Pooling_v1"},
    .doc = "The maximum, average, sum or p-norm over windows in 1, 2 or 3 dimensions.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."}},
    .outputs = {{"output", Types::kFloats, "(batch, channels, ...)."}},
    .params = {{"kernel", &P::kernel, "Size of the window: (w,), (h, w), (d, h, w)."},
               {"pool_type",
                &P::pool_type,
                {"avg", "lp", "max", "sum"},
                "What a window gives."},
               {"global_pool", &P::global_pool, "One window over all of x."},
               {"cudnn_off", &P::cudnn_off, "For GPUs."},
               {"pooling_convention",
                &P::pooling_convention,
                {"full", "same", "valid"},
                "Windows that begin inside count (full), or only those that fit "
                "(valid); same: ceil(x / stride) windows."},
               {"stride", &P::stride, "Steps of the window; () is 1."},
               {"pad", &P::pad, "Padding on both sides of x; () is 0."},
               {"p_value", &P::p_value, "The p of lp: 1, 2 or 3."},
               {"count_include_pad", &P::count_include_pad,
                "An average counts padding; None is True."},
               {"layout",
                &P::layout,
                {"None", "NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"},
                "Order of the axes; None has channels first."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const P& p) -> Uses {
      if (p.pool_type == PoolType::kMax) return {.in = 0b1};
      if (p.pool_type == PoolType::kLp) return {.in = 0b1, .out = 0b1};
      return {};
    },
    .cpu = {{"planes", PoolPlanesForward, DeclinesPoolPlanes}, {"plain", Forward}},
    .cost = Cost,
    .samples =
        {{{Normal({2, 2, 4, 6})}, {.kernel = {2, 2}, .stride = {2, 2}}},
         {{Normal({1, 2, 5, 5})},
          {.kernel = {3, 2},
           .pooling_convention = PoolConvention::kFull,
           .stride = {2, 2},
           .pad = {1, 0}}},
         {{Normal({1, 2, 5, 5})},
          {.kernel = {3, 3},
           .pool_type = PoolType::kAvg,
           .pooling_convention = PoolConvention::kFull,
           .stride = {2, 2},
           .pad = {1, 1}}},
         {{Normal({1, 2, 5, 5})},
          {.kernel = {3, 3},
           .pool_type = PoolType::kAvg,
           .pad = {1, 1},
           .count_include_pad = false}},
         {{Normal({2, 3, 4, 3})}, {.pool_type = PoolType::kAvg, .global_pool = true}},
         {{Normal({2, 3, 7})},
          {.kernel = {3}, .pooling_convention = PoolConvention::kSame, .stride = {2}}},
         {{Normal({1, 2, 3, 4, 3})},
          {.kernel = {2, 2, 2}, .pool_type = PoolType::kSum}},
         {{Uniform({1, 2, 4, 4}, 0.5, 2)},
          {.kernel = {2, 2}, .pool_type = PoolType::kLp, .p_value = 2}},
         {{Uniform({1, 2, 5}, 0.5, 2)},
          {.kernel = {2}, .pool_type = PoolType::kLp, .p_value = 3}},
         {{Normal({2, 5, 3})},
          {.kernel = {2}, .stride = {2}, .layout = PoolLayout::kNwc}},
         {{Normal({2, 5, 6, 3})},
          {.kernel = {3, 2},
           .stride = {2, 1},
           .pad = {1, 0},
           .layout = PoolLayout::kNhwc}},
         {{Normal({2, 5, 6, 3})},
          {.kernel = {3, 3},
           .pool_type = PoolType::kAvg,
           .stride = {2, 2},
           .pad = {1, 1},
           .count_include_pad = false,
           .layout = PoolLayout::kNhwc}},
         {{Normal({1, 3, 4, 3, 2})},
          {.kernel = {2, 2, 2}, .layout = PoolLayout::kNdhwc}}},
});

const P kSample{.kernel = {3, 2},
                .pool_type = PoolType::kAvg,
                .stride = {2, 1},
                .pad = {1, 0},
                .result = {1, 2, 5, 4}};
P MaxSample() {
  P p = kSample;
  p.pool_type = PoolType::kMax;
  return p;
}

const OpDef& spread_op = Register<P>({
    .name = "_backward_Pooling",
    .doc = "The gradient of sum and average pooling.",
    .inputs = {{"dy", Types::kFloats}},
    .infer = InferBackward,
    .gradient = SpreadGradient,
    .cpu = {{"planes", PoolPlanesSpread, DeclinesPoolPlanes}, {"plain", SpreadKernel}},
    .cost = Cost,
    .samples = {{{Normal({1, 2, 3, 3})}, kSample}},
});

const OpDef& max_backward_op = Register<P>({
    .name = "_backward_Pooling_max",
    .doc = "The gradient of max pooling: dy goes to the largest x of each window.",
    .inputs = {{"dy", Types::kFloats}, {"data", Types::kFloats}},
    .infer = InferBackward,
    .gradient = MaxBackwardGradient,
    .uses = {.in = 0b10},
    .cpu = {{"planes", PoolPlanesMaxBackward, DeclinesPoolPlanes},
            {"plain", MaxBackward}},
    .cost = Cost,
    .samples = {{{Normal({1, 2, 3, 3}), Normal({1, 2, 5, 4})}, MaxSample()}},
});

const OpDef& take_op = Register<P>({
    .name = "_pooling_take",
    .doc = "The elements of u where x is largest in each window.",
    .inputs = {{"u", Types::kFloats}, {"data", Types::kFloats}},
    .infer = InferTake,
    .gradient = TakeGradient,
    .uses = {.in = 0b10},
    .cpu = {{"plain", Take}},
    .cost = Cost,
    .samples = {{{Normal({1, 2, 5, 4}), Normal({1, 2, 5, 4})}, MaxSample()}},
});

Value Backward(const P& p, const Value& dy, const Value& x, const Shape& shape) {
  P q = p;
  q.result = shape;
  const Value inputs[] = {dy, x};
  return ApplyOne(max_backward_op, MakeParams(std::move(q)), inputs);
}

Value Spread(P p, PoolType type, const Value& dy, const Shape& shape) {
  p.pool_type = type;
  p.result = shape;
  return ApplyOne(spread_op, MakeParams(std::move(p)), {&dy, 1});
}

Values SpreadGradient(const P& p, const GradArgs& g) {
  const Value u = g.dout(0);
  return {ApplyOne(pooling, MakeParams(P(p)), {&u, 1})};
}

Values MaxBackwardGradient(const P& p, const GradArgs& g) {
  const Value inputs[] = {g.dout(0), g.in(1)};
  return {ApplyOne(take_op, MakeParams(P(p)), inputs), {}};
}

}  // namespace
}  // namespace plait
