// A depthwise convolution and those by single pixels on both sides of it as one call on
// blocked arrays.

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "cpu/blocked.h"
#include "cpu/blocked_bottleneck.h"
#include "cpu/scratch.h"
#include "graph/blocked_form.h"
#include "ops/blocked/convolution.h"
#include "ops/blocked/types.h"
#include "ops/infer.h"

namespace plait {
namespace {

using cpu::ConvPass;
using cpu::Scratch;

// The calls of _blocked_convolution that it stands for. Without `expands` the first is
// not there.
struct BottleneckParams {
  bool expands = true;
  BlockedConvParams expand, depthwise, project;
};
using P = BottleneckParams;

// One of them, and where its inputs stand among those of the whole.
struct Part {
  const BlockedConvParams* params;
  int weight, bias;  // -1: none
};
std::vector<Part> PartsOf(const P& p) {
  std::vector<Part> parts;
  int next = 1;
  for (const BlockedConvParams* part : {&p.expand, &p.depthwise, &p.project}) {
    if (part == &p.expand && !p.expands) continue;
    const int weight = next++;
    parts.push_back({part, weight, part->conv.no_bias ? -1 : next++});
  }
  return parts;
}

cpu::ConvProblem ProblemOf(const BlockedConvParams& p) {
  return plait::ProblemOf(BlockedGeometry(p));
}

cpu::Bottleneck ProblemsOf(const P& p) {
  cpu::Bottleneck b;
  b.expands = p.expands;
  if (p.expands) b.expand.conv = ProblemOf(p.expand);
  b.depthwise.conv = ProblemOf(p.depthwise);
  b.project.conv = ProblemOf(p.project);
  return b;
}
std::vector<cpu::BottleneckPart*> PartsOf(cpu::Bottleneck& b) {
  if (!b.expands) return {&b.depthwise, &b.project};
  return {&b.expand, &b.depthwise, &b.project};
}

int64_t PackedSize(const cpu::ConvProblem& p) {
  return p.groups > 1 ? cpu::DepthwiseFilterSize(p)
                      : cpu::PixelFilterSize(p, ConvPass::kForward);
}
void Pack(const cpu::ConvProblem& p, const float* weight, float* packed) {
  if (p.groups > 1) return cpu::PackDepthwiseFilters(p, weight, packed);
  cpu::PackPixelFilters(p, ConvPass::kForward, weight, packed);
}

bool Infer(const P& p, Specs& in, Specs& out) {
  constexpr const char* kOp = "_blocked_bottleneck";
  const std::vector<Part> parts = PartsOf(p);
  Check(Assign(in[0].shape, BlockedX(*parts[0].params)), kOp, ": data is ", in[0].shape,
        "; ", BlockedX(*parts[0].params), " was expected");
  for (const Part& part : parts) {
    const Shape plain = BlockedFilters(*part.params);
    Shape& weight = in[part.weight].shape;
    if (!weight.known()) continue;
    const Shape packed{PackedSize(ProblemOf(*part.params))};
    Check(weight == plain || weight == packed, kOp, ": weight is ", weight, "; ", plain,
          " or ", packed, " was expected");
    if (part.bias >= 0)
      Check(Assign(in[part.bias].shape, {part.params->conv.num_filter}), kOp,
            ": bias is ", in[part.bias].shape, "; (", part.params->conv.num_filter,
            ",) was expected");
  }
  const Shape y = BlockedY(p.project);
  if (p.project.finish.other)
    Check(Assign(in.back().shape, y), kOp, ": other is ", in.back().shape, "; ", y,
          " was expected");
  return Assign(out[0].shape, y);
}

void Joined(const P& p, const KernelArgs& args) {
  cpu::Bottleneck b = ProblemsOf(p);
  const std::vector<cpu::BottleneckPart*> to = PartsOf(b);
  const std::vector<Part> parts = PartsOf(p);
  std::array<std::optional<Scratch>, 3> packed;
  for (size_t i = 0; i < parts.size(); ++i) {
    const BlockedFinish& finish = parts[i].params->finish;
    const View& weight = args.in[parts[i].weight];
    to[i]->packed = weight.data<const float>();
    if (weight.shape().rank() != 1) {
      packed[i].emplace(Scratch::Bytes<float>(PackedSize(to[i]->conv)));
      Pack(to[i]->conv, weight.data<const float>(), packed[i]->As<float>());
      to[i]->packed = packed[i]->As<float>();
    }
    to[i]->finish = {.bounded = finish.bounded, .low = finish.low, .high = finish.high};
    if (parts[i].bias >= 0)
      to[i]->finish.bias = args.in[parts[i].bias].data<const float>();
  }
  if (p.project.finish.other)
    b.project.finish.other = args.in.back().data<const float>();
  cpu::BottleneckConv(b, args.in[0].data<const float>(), args.out[0].data<float>());
}

const char* Declines(const P& p, const Specs&, const Specs& out) {
  if (out[0].dtype != DType::kFloat32) return "not float32";
  if (p.project.block != cpu::ChannelBlock()) return "another size of blocks";
  return cpu::HasBottleneck(ProblemsOf(p)) ? nullptr : "too large for the caches";
}

// One after the other.
void Apart(const P& p, const KernelArgs& args) {
  View x = args.in[0];
  std::array<std::optional<Scratch>, 3> between;
  std::array<Shape, 3> shapes;
  const std::vector<Part> parts = PartsOf(p);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    shapes[i] = BlockedY(*parts[i].params);
    if (!last) between[i].emplace(Scratch::Bytes<float>(shapes[i].size()));
    const View y = {last ? args.out[0].ptr : between[i]->As<void>(), &shapes[i],
                    x.dtype};
    std::vector<View> in = {x, args.in[parts[i].weight]};
    if (parts[i].bias >= 0) in.push_back(args.in[parts[i].bias]);
    if (parts[i].params->finish.other) in.push_back(args.in.back());
    PlainBlockedConv(*parts[i].params, {.in = in, .out = {&y, 1}});
    x = y;
  }
}

BlockedConvParams SamplePart(Shape data, int64_t kernel, int64_t filters,
                             int64_t groups, bool bounded) {
  return {.conv = {.kernel = {kernel, kernel},
                   .pad = {kernel / 2, kernel / 2},
                   .num_filter = filters,
                   .num_group = groups,
                   .no_bias = groups > 1},
          .data = std::move(data),
          .finish = {.bounded = bounded, .low = 0, .high = 1}};
}

const OpDef& bottleneck_op = []() -> const OpDef& {
  OpSpec<P> spec{.name = "_blocked_bottleneck",
                 .doc =
                     "Convolutions by single pixels, depthwise and by single pixels "
                     "of blocks of channels; see _block."};
  spec.inputs = {{"data", Types::kFloats},
                 {"expand_weight", Types::kFloats, "Filters, plain or packed."},
                 {"expand_bias", Types::kFloats},
                 {"weight", Types::kFloats, "Depthwise filters, plain or packed."},
                 {"bias", Types::kFloats},
                 {"project_weight", Types::kFloats, "Filters, plain or packed."},
                 {"project_bias", Types::kFloats},
                 {"other", Types::kFloats, "Is added."}};
  spec.optional_inputs = [](const P& p) -> std::vector<bool> {
    return {true,
            p.expands,
            p.expands && !p.expand.conv.no_bias,
            true,
            !p.depthwise.conv.no_bias,
            true,
            !p.project.conv.no_bias,
            p.project.finish.other};
  };
  spec.params = {{"expands", &P::expands, "The first convolution is there."}};
  spec.cost = [](const P& p, const Specs&, const Specs&) {
    double flops = 0;
    for (const Part& part : PartsOf(p)) flops += BlockedGeometry(*part.params).flops();
    return flops;
  };
  spec.infer = Infer;
  spec.cpu = {{"joined", Joined, Declines},
              {"apart", Apart, [](const P&, const Specs&, const Specs& out) {
                 return out[0].dtype == DType::kFloat32 ? nullptr : "not float32";
               }}};
  const Shape x{1, 3, 5, 6}, wide{1, 20, 5, 6};
  spec.samples = {
      {{Normal({1, 1, 5, 6, 16}), Normal({20, 3, 1, 1}), Normal({20}),
        Normal({20, 1, 3, 3}), Normal({7, 20, 1, 1}), Normal({7})},
       {true, SamplePart(x, 1, 20, 1, true), SamplePart(wide, 3, 20, 20, true),
        SamplePart(wide, 1, 7, 1, false)}}};
  return Register<P>(std::move(spec));
}();

// ---------------------------------------------------------------- rules

// A convolution with packed filters whose result is not added to anything.
const BlockedConvParams* ConvOf(const JoinCall& call, const char* way) {
  if (call.op->name != "_blocked_convolution") return nullptr;
  const auto* p = static_cast<const BlockedConvParams*>(call.params);
  return !p->half() && p->way == way && call.in[1].shape.rank() == 1 ? p : nullptr;
}

std::optional<JoinedForm> Join(P p) {
  if (!cpu::HasBottleneck(ProblemsOf(p))) return {};
  return JoinedForm{&bottleneck_op, MakeParams(std::move(p))};
}

[[maybe_unused]] const bool kRules = [] {
  AddJoinRule(
      "_blocked_convolution",
      [](const JoinCall& a, const JoinCall& b) -> std::optional<JoinedForm> {
        const BlockedConvParams* depthwise = ConvOf(a, "depthwise");
        const BlockedConvParams* project = ConvOf(b, "pixels");
        if (depthwise == nullptr || project == nullptr || depthwise->finish.other)
          return {};
        return Join({false, {}, *depthwise, *project});
      });
  AddJoinRule("_blocked_bottleneck",
              [](const JoinCall& a, const JoinCall& b) -> std::optional<JoinedForm> {
                const BlockedConvParams* expand = ConvOf(a, "pixels");
                const auto* rest = static_cast<const P*>(b.params);
                if (expand == nullptr || rest->expands || expand->finish.other)
                  return {};
                return Join({true, *expand, rest->depthwise, rest->project});
              });
  return true;
}();

}  // namespace
}  // namespace plait
