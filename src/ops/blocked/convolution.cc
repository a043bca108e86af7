// Convolution and its two gradients on blocked arrays, for graphs.

#include "ops/blocked/convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "cpu/blocked.h"
#include "cpu/blocked_conv.h"
#include "cpu/blocked_parts.h"
#include "cpu/half_conv.h"
#include "cpu/scratch.h"
#include "graph/blocked_form.h"
#include "graph/piece_form.h"
#include "ops/blocked/types.h"
#include "ops/infer.h"
#include "ops/nn/conv.h"

namespace plait {
namespace {

using P = BlockedConvParams;

Shape PlainY(const P& p) {
  Shape y{p.data[0], p.conv.num_filter, 0, 0};
  for (int i = 0; i < 2; ++i) {
    const int64_t window = ConvEntry(p.conv.dilate, i, 1) * (p.conv.kernel[i] - 1) + 1;
    y[2 + i] = (p.data[2 + i] + 2 * ConvEntry(p.conv.pad, i, 0) - window) /
                   ConvEntry(p.conv.stride, i, 1) +
               1;
  }
  return y;
}

}  // namespace

Shape BlockedX(const P& p) {
  return p.plain_x ? p.data : BlockedShape(p.data, p.block);
}
Shape BlockedY(const P& p) {
  return BlockedShape(PlainY(p), p.block);
}
Shape BlockedFilters(const P& p) {
  return {p.conv.num_filter, p.data[1] / p.conv.num_group, p.conv.kernel[0],
          p.conv.kernel[1]};
}
ConvGeometry BlockedGeometry(const P& p) {
  return MakeConvGeometry(p.conv, p.data, PlainY(p));
}

namespace {

using cpu::ConvPass;
using cpu::Scratch;

BlockedFinish Rectified(bool relu) {
  return {.bounded = relu, .low = 0, .high = std::numeric_limits<float>::infinity()};
}

cpu::ConvProblem ProblemOf(const P& p) {
  return plait::ProblemOf(BlockedGeometry(p));
}

// The kernel of a pass; nothing where there is none.
std::optional<cpu::BlockedConv> HowOf(const P& p, ConvPass pass) {
  const cpu::ConvProblem problem = ProblemOf(p);
  return p.way.empty() ? cpu::FindBlockedConv(problem, pass)
                       : cpu::MakeBlockedConv(problem, pass, p.way);
}

cpu::HalfConv HalfOf(const P& p, ConvPass pass) {
  return *cpu::FindHalfConv(ProblemOf(p), pass, p.dtype);
}
struct Way {
  int64_t packed;
  bool plain_x;
};
// What callers must know of the kernel; nothing where there is none.
std::optional<Way> WayOf(const P& p, ConvPass pass) {
  if (p.half()) {
    const auto how = cpu::FindHalfConv(ProblemOf(p), pass, p.dtype);
    return how ? std::optional<Way>({how->packed, how->plain_x}) : std::nullopt;
  }
  const auto how = HowOf(p, pass);
  return how ? std::optional<Way>({how->packed, how->plain_x}) : std::nullopt;
}

void CheckParams(const P& p, const char* op) {
  CheckConvParams(p.conv, op);
  Check(p.data.rank() == 4 && p.data.known() && p.conv.kernel.rank() == 2, op,
        ": data_shape is ", p.data, " and kernel ", p.conv.kernel,
        "; (batch, channels, height, width) and two sizes were expected");
  Check(p.block == 8 || p.block == 16, op, ": block is ", p.block,
        "; 8 or 16 was expected");
  Check(p.data[1] % p.conv.num_group == 0, op, ": ", p.data[1],
        " channels do not fall into num_group ", p.conv.num_group);
  for (int64_t size : PlainY(p))
    Check(size > 0, op, ": the result has shape ", PlainY(p),
          "; an array with elements was expected");
}

// Filters as they are, or packed for a pass.
void CheckWeight(const P& p, ConvPass pass, Shape& weight, const char* op) {
  if (!weight.known()) return;
  if (weight == BlockedFilters(p)) return;
  const auto how = WayOf(p, pass);
  Check(how && weight == Shape{how->packed}, op, ": weight is ", weight, "; ",
        BlockedFilters(p), " or the packed filters were expected");
}

bool InferForward(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_convolution";
  CheckParams(p, kOp);
  Check(Assign(in[0].shape, BlockedX(p)), kOp, ": data is ", in[0].shape, "; ",
        BlockedX(p), " was expected");
  CheckWeight(p, ConvPass::kForward, in[1].shape, kOp);
  if (!p.conv.no_bias)
    Check(Assign(in[2].shape, {p.conv.num_filter}), kOp, ": bias is ", in[2].shape,
          "; (", p.conv.num_filter, ",) was expected");
  if (p.finish.other) {
    Shape& other = in[p.conv.no_bias ? 2 : 3].shape;
    Check(Assign(other, BlockedY(p)), kOp, ": other is ", other, "; ", BlockedY(p),
          " was expected");
  }
  return Assign(out[0].shape, BlockedY(p));
}
bool InferData(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_convolution_data";
  CheckParams(p, kOp);
  Check(Assign(in[0].shape, BlockedY(p)), kOp, ": dy is ", in[0].shape, "; ",
        BlockedY(p), " was expected");
  CheckWeight(p, ConvPass::kBackwardData, in[1].shape, kOp);
  return Assign(out[0].shape, BlockedX(p));
}
bool InferWeight(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_convolution_weight";
  CheckParams(p, kOp);
  Check(Assign(in[0].shape, BlockedY(p)) && Assign(in[1].shape, BlockedX(p)), kOp,
        ": dy is ", in[0].shape, " and data ", in[1].shape, "; ", BlockedY(p), " and ",
        BlockedX(p), " were expected");
  return Assign(out[0].shape, BlockedFilters(p));
}

// ---------------------------------------------------------------- kernels

cpu::Filters FiltersOf(const View& weight) {
  const auto* w = weight.data<const float>();
  return weight.shape().rank() == 1 ? cpu::Filters{nullptr, w} : cpu::Filters{w};
}

template <typename Finish, typename T>
Finish FinishOf(const P& p, const KernelArgs& args) {
  Finish f{.bounded = p.finish.bounded, .low = p.finish.low, .high = p.finish.high};
  if (!p.conv.no_bias) f.bias = args.in[2].data<const T>();
  if (p.finish.other) f.other = args.in.back().data<const T>();
  return f;
}

template <typename T>
cpu::HalfFilters<T> HalfFiltersOf(const View& weight) {
  const auto* w = weight.data<const T>();
  return weight.shape().rank() == 1 ? cpu::HalfFilters<T>{nullptr, w}
                                    : cpu::HalfFilters<T>{w, nullptr};
}

// Calls half<T>() of the half type, or wide().
template <typename Half, typename Wide>
void ByType(const P& p, Half&& half, Wide&& wide) {
  if (!p.half()) return wide();
  if (p.dtype == DType::kFloat16) return half.template operator()<Float16>();
  half.template operator()<Bfloat16>();
}

void Forward(const P& p, const KernelArgs& args) {
  constexpr ConvPass kPass = ConvPass::kForward;
  const cpu::ConvProblem problem = ProblemOf(p);
  ByType(
      p,
      [&]<typename T>() {
        cpu::HalfConvForward<T>(problem, HalfOf(p, kPass), args.in[0].data<const T>(),
                                HalfFiltersOf<T>(args.in[1]),
                                FinishOf<cpu::HalfFinish<T>, T>(p, args),
                                args.out[0].data<T>());
      },
      [&] {
        cpu::BlockedConvForward(problem, *HowOf(p, kPass),
                                args.in[0].data<const float>(), FiltersOf(args.in[1]),
                                FinishOf<cpu::ConvFinish, float>(p, args),
                                args.out[0].data<float>());
      });
}
void Data(const P& p, const KernelArgs& args) {
  constexpr ConvPass kPass = ConvPass::kBackwardData;
  const cpu::ConvProblem problem = ProblemOf(p);
  ByType(
      p,
      [&]<typename T>() {
        cpu::HalfConvBackwardData<T>(
            problem, HalfOf(p, kPass), args.in[0].data<const T>(),
            HalfFiltersOf<T>(args.in[1]), args.out[0].data<T>());
      },
      [&] {
        cpu::BlockedConvBackwardData(problem, *HowOf(p, kPass),
                                     args.in[0].data<const float>(),
                                     FiltersOf(args.in[1]), args.out[0].data<float>());
      });
}
void Weight(const P& p, const KernelArgs& args) {
  constexpr ConvPass kPass = ConvPass::kBackwardWeight;
  const cpu::ConvProblem problem = ProblemOf(p);
  ByType(
      p,
      [&]<typename T>() {
        cpu::HalfConvBackwardWeight<T>(
            problem, HalfOf(p, kPass), args.in[1].data<const T>(),
            args.in[0].data<const T>(), args.out[0].data<T>());
      },
      [&] {
        cpu::BlockedConvBackwardWeight(
            problem, *HowOf(p, kPass), args.in[1].data<const float>(),
            args.in[0].data<const float>(), args.out[0].data<float>());
      });
}

template <ConvPass kPass>
const char* Declines(const P& p, const Specs&, const Specs& out) {
  if (out[0].dtype != p.dtype) return "not of the type of the parameters";
  if (p.block != cpu::ChannelBlock()) return "another size of blocks";
  const auto how = WayOf(p, kPass);
  if (!how) return "no such kernel";
  return how->plain_x == p.plain_x ? nullptr : "x in another layout";
}

// By way of plain arrays.
class Plain {
 public:
  Plain(const P& p, const Shape& shape, const View& blocked, bool is_plain)
      : p_(p),
        shape_(shape),
        blocked_(blocked),
        scratch_(is_plain ? 0 : Scratch::Bytes<float>(shape.size())) {
    view_ = {is_plain ? blocked.ptr : scratch_.As<void>(), &shape_, blocked.dtype};
  }
  const View& Read() {
    if (view_.ptr != blocked_.ptr)
      cpu::UnblockChannels(Array(), blocked_.data<const float>(), view_.data<float>());
    return view_;
  }
  const View& view() const { return view_; }
  void Write() {
    if (view_.ptr != blocked_.ptr)
      cpu::BlockChannels(Array(), view_.data<const float>(), blocked_.data<float>());
  }

 private:
  cpu::BlockedArray Array() const {
    return {shape_[0], shape_[1], shape_[2] * shape_[3], p_.block};
  }
  const P& p_;
  const Shape shape_;
  const View blocked_;
  const Scratch scratch_;
  View view_;
};

}  // namespace

void PlainBlockedConv(const P& p, const KernelArgs& args) {
  Plain x(p, p.data, args.in[0], p.plain_x), y(p, PlainY(p), args.out[0], false);
  auto f = FinishOf<cpu::ConvFinish, float>(p, args);
  const cpu::Apart<float> other(f.other, args.out[0].data<float>(), args.out[0].size());
  f.other = other.data();
  PlainConvForward(BlockedGeometry(p), x.Read(), args.in[1],
                   p.conv.no_bias ? nullptr : &args.in[2], y.view());
  y.Write();
  float* values = args.out[0].data<float>();
  for (int64_t i = 0; i < args.out[0].size(); ++i) {
    if (f.other != nullptr) values[i] += f.other[i];
    if (f.bounded && values[i] < f.low) values[i] = f.low;
    if (f.bounded && values[i] > f.high) values[i] = f.high;
  }
}
namespace {

void PlainData(const P& p, const KernelArgs& args) {
  Plain dx(p, p.data, args.out[0], p.plain_x), dy(p, PlainY(p), args.in[0], false);
  PlainConvData(BlockedGeometry(p), dy.Read(), args.in[1], nullptr, dx.view());
  dx.Write();
}
void PlainWeight(const P& p, const KernelArgs& args) {
  Plain x(p, p.data, args.in[1], p.plain_x), dy(p, PlainY(p), args.in[0], false);
  PlainConvWeight(BlockedGeometry(p), dy.Read(), x.Read(), args.out[0]);
}

const char* PlainDeclines(const P&, const Specs&, const Specs& out) {
  return out[0].dtype == DType::kFloat32 ? nullptr : "not float32";
}

double Cost(const P& p, const Specs&, const Specs&) {
  return BlockedGeometry(p).flops();
}

// ---------------------------------------------------------------- operators

P Sample(Shape data, int64_t block, bool no_bias = true, bool relu = false) {
  return {
      .conv = {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 6, .no_bias = no_bias},
      .data = std::move(data),
      .block = block,
      .finish = Rectified(relu)};
}
std::vector<Param<P>> ParamList() {
  return {{"data_shape", &P::data, "The shape of the plain data."},
          {"block", &P::block, "Channels of a block: 8 or 16."},
          {"plain_data", &P::plain_x, "Data is not blocked."},
          {"dtype", &P::dtype, "Of the arrays: float32, bfloat16 or float16."},
          {"way", &P::way, "How it is computed, such as winograd; none: the fastest."}};
}
OpSpec<P> CommonSpec(const char* name, const char* doc) {
  OpSpec<P> spec{.name = name, .doc = doc};
  spec.params = ParamList();
  spec.cost = Cost;
  return spec;
}

const OpDef& forward_op = []() -> const OpDef& {
  OpSpec<P> spec = CommonSpec("_blocked_convolution",
                              "Convolution of blocks of channels; see _block.");
  spec.inputs = {{"data", Types::kFloats},
                 {"weight", Types::kFloats, "Filters, plain or packed."},
                 {"bias", Types::kFloats},
                 {"other", Types::kFloats, "Is added."}};
  spec.optional_inputs = [](const P& p) -> std::vector<bool> {
    return {true, true, !p.conv.no_bias, p.finish.other};
  };
  spec.infer = InferForward;
  spec.in_place = {{3, 0}};  // `other`; without a bias it is not there
  spec.cpu = {{"blocked", Forward, Declines<ConvPass::kForward>},
              {"plain", PlainBlockedConv, PlainDeclines}};
  spec.samples = {
      {{Normal({1, 1, 4, 5, 8}), Normal({6, 3, 3, 3})}, Sample({1, 3, 4, 5}, 8)},
      {{Normal({1, 1, 4, 5, 16}), Normal({6, 7, 3, 3}), Normal({6})},
       Sample({1, 7, 4, 5}, 16, false, true)}};
  return Register<P>(std::move(spec));
}();

const OpDef& data_op = []() -> const OpDef& {
  OpSpec<P> spec = CommonSpec("_blocked_convolution_data",
                              "The gradient of _blocked_convolution for its data.");
  spec.inputs = {{"dy", Types::kFloats}, {"weight", Types::kFloats}};
  spec.infer = InferData;
  spec.cpu = {{"blocked", Data, Declines<ConvPass::kBackwardData>},
              {"plain", PlainData, PlainDeclines}};
  spec.samples = {
      {{Normal({1, 1, 4, 5, 16}), Normal({6, 7, 3, 3})}, Sample({1, 7, 4, 5}, 16)}};
  return Register<P>(std::move(spec));
}();

const OpDef& weight_op = []() -> const OpDef& {
  OpSpec<P> spec = CommonSpec("_blocked_convolution_weight",
                              "The gradient of _blocked_convolution for its filters.");
  spec.inputs = {{"dy", Types::kFloats}, {"data", Types::kFloats}};
  spec.infer = InferWeight;
  spec.cpu = {{"blocked", Weight, Declines<ConvPass::kBackwardWeight>},
              {"plain", PlainWeight, PlainDeclines}};
  spec.samples = {
      {{Normal({1, 1, 4, 5, 16}), Normal({1, 1, 4, 5, 16})}, Sample({1, 7, 4, 5}, 16)}};
  return Register<P>(std::move(spec));
}();

struct PackParams {
  P conv;
  bool data_pass = false;
  // Names how filters of one shape are packed, so that graphs can tell that two calls
  // of this operator do the same, whatever the images.
  std::string packing;
  ConvPass pass() const {
    return data_pass ? ConvPass::kBackwardData : ConvPass::kForward;
  }
};

// Null: there is no blocked kernel, and the filters stay as they are.
std::optional<Way> Packing(const PackParams& p) {
  return WayOf(p.conv, p.pass());
}

const OpDef& pack_op = Register<PackParams>({
    .name = "_pack_filters",
    .doc = "The filters of a blocked convolution in the order of its kernel.",
    .inputs = {{"weight", Types::kFloats}},
    .params = {{"packing", &PackParams::packing, "Equal where the result is."}},
    .infer =
        [](const PackParams& p, Specs& in, Specs& out) {
          CheckParams(p.conv, "_pack_filters");
          const auto how = Packing(p);
          return Assign(in[0].shape, BlockedFilters(p.conv)) &&
                 Assign(out[0].shape,
                        how ? Shape{how->packed} : BlockedFilters(p.conv));
        },
    .cpu = {{"pack",
             [](const PackParams& p, const KernelArgs& args) {
               ByType(
                   p.conv,
                   [&]<typename T>() {
                     cpu::PackHalfFilters<T>(
                         ProblemOf(p.conv), p.pass(), HalfOf(p.conv, p.pass()),
                         args.in[0].data<const T>(), args.out[0].data<T>());
                   },
                   [&] {
                     const auto* from = args.in[0].data<const float>();
                     auto* to = args.out[0].data<float>();
                     if (const auto how = HowOf(p.conv, p.pass())) {
                       cpu::PackFilters(ProblemOf(p.conv), p.pass(), *how, from, to);
                     } else {
                       std::copy_n(from, args.in[0].size(), to);
                     }
                   });
             },
             [](const PackParams& p, const Specs& in, const Specs&) -> const char* {
               if (p.conv.half() && !Packing(p)) return "no such kernel";
               return in[0].dtype == p.conv.dtype ? nullptr
                                                  : "not of the type of the parameters";
             }}},
    .samples = {{{Normal({6, 7, 3, 3})}, {Sample({1, 7, 4, 5}, 16)}}},
});

// ---------------------------------------------------------------- rules

bool Blockable(const ConvParams& p, const Shape& x, DType dtype) {
  return IsBlockedType(dtype) && x.rank() == 4 && p.kernel.rank() == 2 &&
         !p.channels_last();
}

std::optional<BlockedForm> Rule(const OpDef& op, ConvPass pass, const ConvParams& conv,
                                const Spec& x, bool relu, int64_t block) {
  P p{.conv = conv,
      .data = x.shape,
      .block = block,
      .dtype = x.dtype,
      .finish = Rectified(relu)};
  std::optional<cpu::BlockedConv> how;
  std::string packing;
  if (p.half()) {
    const auto half = cpu::FindHalfConv(ProblemOf(p), pass, p.dtype);
    if (!half) return {};
    how = half->wide;
    how->plain_x = half->plain_x;
    how->packed = half->packed;
    how->layout = half->layout;
    packing = "half " + std::to_string(half->kind) + " ";
  } else {
    how = cpu::FindBlockedConv(ProblemOf(p), pass);
    if (!how) return {};
    p.way = cpu::NameOf(how->kind);
  }
  p.plain_x = how->plain_x;
  BlockedForm form;
  form.op = &op;
  const uint32_t x_bit = p.plain_x ? 0 : 1;
  form.blocked_in = pass == ConvPass::kForward        ? x_bit
                    : pass == ConvPass::kBackwardData ? 1
                                                      : 1 | x_bit << 1;
  form.blocked_out = pass == ConvPass::kBackwardWeight ? 0 : 1;
  form.gain = how->gains ? BlockedGeometry(p).flops() : -BlockedGeometry(p).flops();
  if (how->packed > 0) {
    const bool data_pass = pass == ConvPass::kBackwardData;
    form.preparation = {1, &pack_op,
                        MakeParams(PackParams{p, data_pass,
                                              (data_pass ? "data " : "forward ") +
                                                  packing + std::to_string(how->kind) +
                                                  " " + std::to_string(how->layout)})};
  }
  form.params = MakeParams(std::move(p));
  return form;
}

// The same kernel for fewer images, with filters as they are.
std::optional<PieceForm> PieceRuleFor(ConvPass pass, const void* params,
                                      const Specs& in, int64_t samples) {
  P p = *static_cast<const P*>(params);
  if (pass != ConvPass::kBackwardWeight && in[1].shape.rank() == 1) return {};
  // Sums of pieces would be rounded for each of them.
  if (pass == ConvPass::kBackwardWeight && p.half()) return {};
  p.data[0] = samples;
  const auto how = WayOf(p, pass);
  if (!how || how->plain_x != p.plain_x) return {};
  PieceForm form;
  form.sliced_in = pass == ConvPass::kBackwardWeight ? 0b11 : 1;
  if (pass == ConvPass::kForward && p.finish.other)
    form.sliced_in |= p.conv.no_bias ? 0b100 : 0b1000;
  form.sliced_out = pass == ConvPass::kBackwardWeight ? 0 : 1;
  form.params = MakeParams(std::move(p));
  return form;
}

[[maybe_unused]] const bool kRules = [] {
  for (const auto& [name, pass] :
       {std::pair{"_blocked_convolution", ConvPass::kForward},
        std::pair{"_blocked_convolution_data", ConvPass::kBackwardData},
        std::pair{"_blocked_convolution_weight", ConvPass::kBackwardWeight}}) {
    AddPieceRule(name, [pass = pass](const ParamsRef& params, const Specs& in,
                                     const Specs&, int64_t samples) {
      return PieceRuleFor(pass, params->get(), in, samples);
    });
  }
  for (const bool relu : {false, true}) {
    AddBlockedRule(relu ? "_convolution_relu" : "Convolution",
                   [relu](const void* params, const Specs& in, const Specs&,
                          int64_t block) -> std::optional<BlockedForm> {
                     const auto& p = *static_cast<const ConvParams*>(params);
                     if (!Blockable(p, in[0].shape, in[0].dtype)) return {};
                     return Rule(forward_op, ConvPass::kForward, p, in[0], relu, block);
                   });
  }
  AddFinishRule(
      "_blocked_convolution",
      [](const void* params, const BlockedFinish& finish) -> ParamsRef {
        P p = *static_cast<const P*>(params);
        if (p.finish.bounded || (finish.other && p.finish.other) || finish.masked)
          return {};
        p.finish.other |= finish.other;
        p.finish.bounded = finish.bounded;
        p.finish.low = finish.low;
        p.finish.high = finish.high;
        return MakeParams(std::move(p));
      });
  AddBlockedRule("_backward_Convolution_data",
                 [](const void* params, const Specs& in, const Specs& out,
                    int64_t block) -> std::optional<BlockedForm> {
                   const auto& p = *static_cast<const ConvParams*>(params);
                   if (!Blockable(p, out[0].shape, in[0].dtype)) return {};
                   return Rule(data_op, ConvPass::kBackwardData, p, out[0], false,
                               block);
                 });
  AddBlockedRule("_backward_Convolution_weight",
                 [](const void* params, const Specs& in, const Specs&,
                    int64_t block) -> std::optional<BlockedForm> {
                   const auto& p = *static_cast<const ConvParams*>(params);
                   if (!Blockable(p, in[1].shape, in[0].dtype)) return {};
                   return Rule(weight_op, ConvPass::kBackwardWeight, p, in[1], false,
                               block);
                 });
  return true;
}();

}  // namespace
}  // namespace plait
