// Pooling and its gradients on blocked arrays, for graphs.

#include "cpu/blocked.h"
#include "graph/blocked_form.h"
#include "graph/piece_form.h"
#include "ops/blocked/types.h"
#include "ops/infer.h"
#include "ops/nn/pool.h"

namespace plait {
namespace {

struct BlockedPoolParams {
  PoolParams pool;
  Shape data, result;  // the plain shapes of x and y
  int64_t block = 16;
};
using P = BlockedPoolParams;

void CheckParams(const P& p, const char* op) {
  Check(p.data.rank() == 4 && p.data.known() && p.result.rank() == 4 &&
            p.result.known() && p.data[0] == p.result[0] && p.data[1] == p.result[1] &&
            p.data.size() > 0 && p.result.size() > 0,
        op, ": data_shape is ", p.data, " and pooled_shape ", p.result,
        "; (batch, channels, height, width) of arrays with elements were expected");
  Check(p.block == 8 || p.block == 16, op, ": block is ", p.block,
        "; 8 or 16 was expected");
  Check(p.pool.global_pool || p.pool.kernel.rank() == 2, op, ": kernel is ",
        p.pool.kernel, "; two sizes were expected");
}

// Arrays 0 of `in` and `out` have the shapes of x and y, or the other way round.
bool Relate(const P& p, Specs& in, Specs& out, bool backward, const char* op) {
  CheckParams(p, op);
  const Shape x = BlockedShape(p.data, p.block), y = BlockedShape(p.result, p.block);
  Check(Assign(in[0].shape, backward ? y : x), op, ": array 0 is ", in[0].shape, "; ",
        backward ? y : x, " was expected");
  if (in.size() > 1)
    Check(Assign(in[1].shape, x), op, ": data is ", in[1].shape, "; ", x,
          " was expected");
  return Assign(out[0].shape, backward ? x : y);
}

cpu::PoolPlanes PlanesOf(const P& p) {
  const PoolGeometry g = MakePoolGeometry(p.pool, p.data, p.result);
  const int64_t blocks = (g.channels + p.block - 1) / p.block;
  return {g.batch * blocks, g.in[1],     g.in[2],     g.out[1], g.out[2], g.kernel[1],
          g.kernel[2],      g.stride[1], g.stride[2], g.pad[1], g.pad[2]};
}
bool Averages(const P& p) {
  return p.pool.pool_type == PoolType::kAvg;
}

void Forward(const P& p, const KernelArgs& args) {
  VisitBlocked(args.in[0].dtype, [&]<typename T>() {
    const T* x = args.in[0].data<const T>();
    T* y = args.out[0].data<T>();
    if (p.pool.pool_type == PoolType::kMax) {
      cpu::BlockedMaxPool(PlanesOf(p), p.block, x, y);
    } else {
      cpu::BlockedSumPool(PlanesOf(p), p.block, Averages(p), p.pool.include_pad(), x,
                          y);
    }
  });
}
void Spread(const P& p, const KernelArgs& args) {
  VisitBlocked(args.in[0].dtype, [&]<typename T>() {
    cpu::BlockedSumPoolBackward(PlanesOf(p), p.block, Averages(p), p.pool.include_pad(),
                                args.in[0].data<const T>(), args.out[0].data<T>());
  });
}
void MaxBackward(const P& p, const KernelArgs& args) {
  VisitBlocked(args.in[0].dtype, [&]<typename T>() {
    cpu::BlockedMaxPoolBackward(PlanesOf(p), p.block, args.in[0].data<const T>(),
                                args.in[1].data<const T>(), args.out[0].data<T>());
  });
}

template <typename Q>
const char* Declines(const Q&, const Specs& in, const Specs&) {
  return IsBlockedType(in[0].dtype) ? nullptr : "not float32 or a half type";
}
double Cost(const P& p, const Specs&, const Specs&) {
  const cpu::PoolPlanes g = PlanesOf(p);
  return static_cast<double>(g.planes * p.block) * g.out_h * g.out_w * g.kernel_h *
         g.kernel_w;
}

P Sample(PoolType type) {
  return {{.kernel = {3, 2}, .pool_type = type, .stride = {2, 1}, .pad = {1, 0}},
          {1, 5, 5, 4},
          {1, 5, 3, 3},
          8};
}
OpSpec<P> CommonSpec(const char* name, const char* doc) {
  OpSpec<P> spec{.name = name, .doc = doc};
  spec.params = {{"data_shape", &P::data, "The shape of the plain data."},
                 {"pooled_shape", &P::result, "The shape of the plain result."},
                 {"block", &P::block, "Channels of a block: 8 or 16."}};
  spec.cost = Cost;
  return spec;
}

const OpDef& forward_op = []() -> const OpDef& {
  OpSpec<P> spec = CommonSpec("_blocked_pooling", "Pooling of blocks of channels.");
  spec.inputs = {{"data", Types::kFloats}};
  spec.infer = [](const P& p, Specs& in, Specs& out) {
    return Relate(p, in, out, false, "_blocked_pooling");
  };
  spec.cpu = {{"blocked", Forward, Declines<P>}};
  spec.samples = {{{Normal({1, 1, 5, 4, 8})}, Sample(PoolType::kMax)},
                  {{Normal({1, 1, 5, 4, 8})}, Sample(PoolType::kAvg)}};
  return Register<P>(std::move(spec));
}();

const OpDef& spread_op = []() -> const OpDef& {
  OpSpec<P> spec =
      CommonSpec("_blocked_pooling_backward", "The gradient of sums and averages.");
  spec.inputs = {{"dy", Types::kFloats}};
  spec.infer = [](const P& p, Specs& in, Specs& out) {
    return Relate(p, in, out, true, "_blocked_pooling_backward");
  };
  spec.cpu = {{"blocked", Spread, Declines<P>}};
  spec.samples = {{{Normal({1, 1, 3, 3, 8})}, Sample(PoolType::kAvg)}};
  return Register<P>(std::move(spec));
}();

const OpDef& max_backward_op = []() -> const OpDef& {
  OpSpec<P> spec =
      CommonSpec("_blocked_pooling_max_backward", "The gradient of maxima.");
  spec.inputs = {{"dy", Types::kFloats}, {"data", Types::kFloats}};
  spec.infer = [](const P& p, Specs& in, Specs& out) {
    return Relate(p, in, out, true, "_blocked_pooling_max_backward");
  };
  spec.cpu = {{"blocked", MaxBackward, Declines<P>}};
  spec.samples = {
      {{Normal({1, 1, 3, 3, 8}), Normal({1, 1, 5, 4, 8})}, Sample(PoolType::kMax)}};
  return Register<P>(std::move(spec));
}();

// ---------------------------------------------------------------- places of maxima

cpu::PoolPlanes PlanesOf(const PoolIndexParams& p, const Shape& x, const Shape& y) {
  return {x[0] * x[1], x[2],        x[3],        y[2],     y[3],    p.kernel[0],
          p.kernel[1], p.stride[0], p.stride[1], p.pad[0], p.pad[1]};
}

bool InferIndex(const PoolIndexParams& p, Specs& in, Specs& out) {
  const Shape &x = in[0].shape, &y = in[1].shape;
  constexpr const char* kOp = "_blocked_pooling_index";
  Check(p.kernel.rank() == 2 && p.stride.rank() == 2 && p.pad.rank() == 2 &&
            p.kernel.size() > 0 && p.kernel.size() < cpu::kNoMaximum,
        kOp, ": kernel, stride and pad are ", p.kernel, ", ", p.stride, " and ", p.pad,
        "; two sizes each and at most 254 elements in a window were expected");
  Check(!x.known() || !y.known() ||
            (x.rank() == 5 && y.rank() == 5 && x[0] == y[0] && x[1] == y[1] &&
             x[4] == y[4] && (x[4] == 8 || x[4] == 16)),
        kOp, ": data is ", x, " and pooled ", y, "; blocked arrays of equal batch and ",
        "channels were expected");
  return Unify(in[1].shape, out[0].shape);
}
bool InferIndexBackward(const PoolIndexParams& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_pooling_index_backward";
  const Shape &dy = in[0].shape, &x = p.result;
  Check(x.rank() == 5 && x.known() && p.kernel.rank() == 2 && p.stride.rank() == 2 &&
            p.pad.rank() == 2,
        kOp, ": result is ", x, " and kernel ", p.kernel,
        "; the shape of a blocked array and two sizes were expected");
  Check(!dy.known() || (dy.rank() == 5 && dy[0] == x[0] && dy[1] == x[1] &&
                        dy[4] == x[4] && (x[4] == 8 || x[4] == 16)),
        kOp, ": dy ", dy, " does not fit the pooled ", x,
        "; equal batch and channels were expected");
  for (int i = 2; dy.known() && i < 4; ++i) {
    Check(dy[i] == 0 || (dy[i] - 1) * p.stride[i - 2] - p.pad[i - 2] < x[i], kOp,
          ": dy ", dy, " has windows outside the pooled ", x, "; fewer were expected");
  }
  return Unify(in[0].shape, in[1].shape) && Assign(out[0].shape, x);
}

std::vector<Param<PoolIndexParams>> WindowParams() {
  using Q = PoolIndexParams;
  return {Required<Q>("kernel", &Q::kernel, "Rows and columns of a window."),
          Required<Q>("stride", &Q::stride, "Steps of the window."),
          Required<Q>("pad", &Q::pad, "Padding on both sides.")};
}

const OpDef& index_op = Register<PoolIndexParams>({
    .name = "_blocked_pooling_index",
    .doc = "_pooling_index of blocks of channels.",
    .inputs = {{"data", Types::kFloats}, {"pooled", Types::kFloats}},
    .params = WindowParams(),
    .types =
        [](const PoolIndexParams&, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, in[1].dtype);
          out[0].dtype = DType::kUint8;
        },
    .infer = InferIndex,
    .cpu = {{"blocked",
             [](const PoolIndexParams& p, const KernelArgs& args) {
               const Shape& x = args.in[0].shape();
               VisitBlocked(args.in[0].dtype, [&]<typename T>() {
                 cpu::BlockedPoolIndex(PlanesOf(p, x, args.in[1].shape()), x[4],
                                       args.in[0].data<const T>(),
                                       args.in[1].data<const T>(),
                                       args.out[0].data<uint8_t>());
               });
             },
             Declines<PoolIndexParams>}},
    .samples = {{{Normal({1, 1, 4, 4, 8}), Normal({1, 1, 2, 2, 8})},
                 {.kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}}}},
});

const OpDef& index_backward_op = []() -> const OpDef& {
  using Q = PoolIndexParams;
  OpSpec<Q> spec{.name = "_blocked_pooling_index_backward",
                 .doc = "_backward_pooling_index of blocks of channels."};
  spec.inputs = {{"dy", Types::kFloats}, {"index", Types::kAny}};
  spec.params = WindowParams();
  spec.params.push_back(Required<Q>("result", &Q::result, "The shape of the result."));
  spec.types = [](const Q&, Specs& in, Specs& out) {
    UnifyDType(in[0].dtype, out[0].dtype);
    if (in[1].dtype == DType::kUnknown) in[1].dtype = DType::kUint8;
    Check(in[1].dtype == DType::kUint8, ErrorKind::kType,
          "_blocked_pooling_index_backward: index is ", in[1].dtype,
          "; uint8 was expected");
  };
  spec.infer = InferIndexBackward;
  spec.cpu = {{"blocked",
               [](const Q& p, const KernelArgs& args) {
                 VisitBlocked(args.in[0].dtype, [&]<typename T>() {
                   cpu::BlockedPoolIndexBackward(
                       PlanesOf(p, p.result, args.in[0].shape()), p.result[4],
                       args.in[0].data<const T>(), args.in[1].data<const uint8_t>(),
                       args.out[0].data<T>());
                 });
               },
               Declines<Q>}};
  spec.samples = {
      {{Normal({1, 1, 2, 2, 8}), Integers({1, 1, 2, 2, 8}, 0, 4, DType::kUint8)},
       {.kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}, .result = {1, 1, 4, 4, 8}}}};
  return Register<Q>(std::move(spec));
}();

// ---------------------------------------------------------------- rules

// Without an element a window gives what is no number, also of the filling.
bool HasEmptyWindows(const PoolGeometry& g) {
  for (int i = 1; i < 3; ++i) {
    if (g.pad[i] >= g.kernel[i] || (g.out[i] - 1) * g.stride[i] - g.pad[i] >= g.in[i])
      return true;
  }
  return false;
}

std::optional<BlockedForm> Rule(const OpDef& op, const void* params, const Spec& x,
                                const Spec& y, uint32_t in_mask, int64_t block) {
  const auto& pool = *static_cast<const PoolParams*>(params);
  if (x.shape.rank() != 4 || !IsBlockedType(x.dtype) || pool.channels_last() ||
      pool.pool_type == PoolType::kLp || x.shape.size() == 0 || y.shape.size() == 0)
    return {};
  if (x.shape[1] % block != 0 &&
      HasEmptyWindows(MakePoolGeometry(pool, x.shape, y.shape)))
    return {};
  return BlockedForm{.op = &op,
                     .params = MakeParams(P{pool, x.shape, y.shape, block}),
                     .blocked_in = in_mask,
                     .blocked_out = 1};
}

// All arrays have the images along axis 0.
template <typename Q, typename SetSamples>
void AddPooledPieces(const char* name, SetSamples set) {
  AddPieceRule(name,
               [set](const ParamsRef& params, const Specs& in, const Specs&,
                     int64_t samples) -> std::optional<PieceForm> {
                 Q p = *static_cast<const Q*>(params->get());
                 set(p, samples);
                 return PieceForm{.params = MakeParams(std::move(p)),
                                  .sliced_in = in.size() == 1 ? 0b1u : 0b11u,
                                  .sliced_out = 1};
               });
}

[[maybe_unused]] const bool kPieces = [] {
  for (const char* name : {"_blocked_pooling", "_blocked_pooling_backward",
                           "_blocked_pooling_max_backward"}) {
    AddPooledPieces<P>(name, [](P& p, int64_t samples) {
      p.data[0] = samples;
      p.result[0] = samples;
    });
  }
  AddPooledPieces<PoolIndexParams>("_blocked_pooling_index",
                                   [](PoolIndexParams&, int64_t) {});
  AddPooledPieces<PoolIndexParams>(
      "_blocked_pooling_index_backward",
      [](PoolIndexParams& p, int64_t samples) { p.result[0] = samples; });
  return true;
}();

[[maybe_unused]] const bool kRules = [] {
  AddBlockedRule("Pooling", [](const void* params, const Specs& in, const Specs& out,
                               int64_t block) {
    return Rule(forward_op, params, in[0], out[0], 1, block);
  });
  AddBlockedRule("_backward_Pooling", [](const void* params, const Specs& in,
                                         const Specs& out, int64_t block) {
    return Rule(spread_op, params, out[0], in[0], 1, block);
  });
  AddBlockedRule("_backward_Pooling_max", [](const void* params, const Specs& in,
                                             const Specs& out, int64_t block) {
    return Rule(max_backward_op, params, out[0], in[0], 0b11, block);
  });
  AddBlockedRule("_pooling_index",
                 [](const void* params, const Specs& in, const Specs&,
                    int64_t) -> std::optional<BlockedForm> {
                   const auto& p = *static_cast<const PoolIndexParams*>(params);
                   if (!IsBlockedType(in[0].dtype) || in[1].shape.size() == 0)
                     return {};
                   return BlockedForm{.op = &index_op,
                                      .params = MakeParams(PoolIndexParams(p)),
                                      .blocked_in = 0b11,
                                      .blocked_out = 1};
                 });
  AddBlockedRule("_backward_pooling_index",
                 [](const void* params, const Specs& in, const Specs&,
                    int64_t block) -> std::optional<BlockedForm> {
                   PoolIndexParams p = *static_cast<const PoolIndexParams*>(params);
                   if (!IsBlockedType(in[0].dtype) || in[0].shape.size() == 0)
                     return {};
                   p.result = BlockedShape(p.result, block);
                   return BlockedForm{.op = &index_backward_op,
                                      .params = MakeParams(std::move(p)),
                                      .blocked_in = 0b11,
                                      .blocked_out = 1};
                 });
  return true;
}();

}  // namespace
}  // namespace plait
