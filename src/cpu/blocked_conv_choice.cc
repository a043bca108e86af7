// Which kernel is the fastest for a convolution of blocked arrays.

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cpu/blocked.h"
#include "cpu/blocked_conv.h"
#include "cpu/blocked_parts.h"
#include "cpu/conv_memory.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"

namespace plait::cpu {
namespace {

using Kind = BlockedConv::Kind;
constexpr std::array kKinds = {BlockedConv::kOneDnn, BlockedConv::kWinograd,
                               BlockedConv::kPixels, BlockedConv::kDepthwise,
                               BlockedConv::kWindows};

// Enough channels to pay for the transforms of images, and enough tiles of 4 x 4 pixels
// to pay for those of filters, which are four times as large as they were (measured:
// conv_choice_bench).
bool SuitsWinograd(const ConvProblem& p, ConvPass pass) {
  const int64_t tiles = p.batch * ((p.Out(1) + 3) / 4) * ((p.Out(2) + 3) / 4);
  const bool few =
      p.in_channels * p.out_channels <= 1 << 14 || pass == ConvPass::kBackwardWeight;
  return p.in_channels >= 16 && p.out_channels >= 16 && p.Out(1) >= 4 &&
         p.Out(2) >= 4 && tiles >= (few ? 4 : 8);
}

// Sums of so many products are taken in parts by matrix products, which is more exact
// (a window over a whole image of 224 x 224: ten times) and no slower.
bool IsLongSum(const ConvProblem& p) {
  return p.in_channels / p.groups * p.KernelSize() > 1 << 15;
}

// Our own loops ask for filters before they need them, and finish sums in registers.
bool SuitsWindows(const ConvProblem& p) {
  if (p.in_channels <= 4) return p.out_channels > ChannelBlock();
  const bool strided = p.stride[2] > 1 && p.KernelSize() > 1 && p.in_channels >= 128;
  return strided || p.batch * p.OutSize() <= 64;
}

// The order in which the rules would have them.
std::vector<Kind> Preferred(const ConvProblem& p, ConvPass pass) {
  std::vector<Kind> kinds = {BlockedConv::kPixels, BlockedConv::kDepthwise,
                             BlockedConv::kOneDnn, BlockedConv::kWindows};
  if (pass == ConvPass::kForward && SuitsWindows(p)) std::swap(kinds[2], kinds[3]);
  if (SuitsWinograd(p, pass)) {
    kinds.insert(kinds.begin(), BlockedConv::kWinograd);
  } else {
    kinds.push_back(BlockedConv::kWinograd);
  }
  return kinds;
}

// The way that is the fastest here, on arrays of its own.
size_t Measure(const ConvProblem& whole, ConvPass pass,
               std::span<const BlockedConv> ways) {
  ConvProblem p = whole;
  p.batch = MeasuredBatch(p);
  const int64_t x_size = p.batch * FilledChannels(p.in_channels) * p.InSize(),
                y_size = p.batch * FilledChannels(p.out_channels) * p.OutSize(),
                w_size = p.WeightSize();
  int64_t packed_size = 0;
  for (const BlockedConv& how : ways) packed_size = std::max(packed_size, how.packed);
  const Scratch x(Scratch::Bytes<float>(x_size)), y(Scratch::Bytes<float>(y_size)),
      w(Scratch::Bytes<float>(w_size)), packed(Scratch::Bytes<float>(packed_size));
  std::fill_n(x.As<float>(), x_size, 0.5f);
  std::fill_n(y.As<float>(), y_size, 0.5f);
  std::fill_n(w.As<float>(), w_size, 0.5f);
  std::fill_n(packed.As<float>(), packed_size, 0.5f);
  return Fastest(ways.size(), [&](size_t i) {
    const BlockedConv& how = ways[i];
    const Filters filters = how.packed > 0 ? Filters{nullptr, packed.As<float>()}
                                           : Filters{w.As<float>(), nullptr};
    switch (pass) {
      case ConvPass::kForward:
        return BlockedConvForward(p, how, x.As<float>(), filters, {}, y.As<float>());
      case ConvPass::kBackwardData:
        return BlockedConvBackwardData(p, how, y.As<float>(), filters, x.As<float>());
      case ConvPass::kBackwardWeight:
        return BlockedConvBackwardWeight(p, how, x.As<float>(), y.As<float>(),
                                         w.As<float>());
    }
  });
}

}  // namespace

const char* NameOf(BlockedConv::Kind kind) {
  static constexpr const char* kNames[] = {"onednn", "winograd", "pixels", "depthwise",
                                           "windows"};
  return kNames[kind];
}

std::optional<BlockedConv> MakeBlockedConv(const ConvProblem& p, ConvPass pass,
                                           std::string_view name) {
  for (Kind kind : kKinds)
    if (name == NameOf(kind)) return MakeBlockedConv(p, pass, kind);
  Fail(ErrorKind::kValue, "convolution: there is no way called ", name);
}

std::vector<BlockedConv> BlockedConvWays(const ConvProblem& p, ConvPass pass) {
  std::vector<BlockedConv> ways;
  for (Kind kind : Preferred(p, pass))
    if (const auto how = MakeBlockedConv(p, pass, kind)) ways.push_back(*how);
  return ways;
}

std::optional<BlockedConv> FindBlockedConv(const ConvProblem& p, ConvPass pass) {
  const ConvAlgorithm asked = AskedConv();
  if (asked == ConvAlgorithm::kGemm || IsLongSum(p)) return {};
  std::vector<BlockedConv> ways = BlockedConvWays(p, pass);
  if (asked == ConvAlgorithm::kDirect)
    std::erase_if(
        ways, [](const BlockedConv& w) { return w.kind == BlockedConv::kWinograd; });
  if (ways.empty()) return {};
  if (asked != ConvAlgorithm::kMeasured || ways.size() == 1) return ways[0];
  std::vector<const char*> names;
  for (const BlockedConv& how : ways) names.push_back(NameOf(how.kind));
  const std::string key = "blocked" + std::to_string(ChannelBlock());
  return ways[Remembered(p, pass, key.c_str(), names,
                         [&] { return Measure(p, pass, ways); })];
}

}  // namespace plait::cpu
