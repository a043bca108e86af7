// Convolution of blocked arrays by oneDNN: float32.

#include "cpu/onednn/blocked_conv.h"

#include <algorithm>

#include "cpu/blocked_parts.h"
#include "cpu/onednn/blocks.h"
#include "cpu/scratch.h"

namespace plait::cpu::onednn {
namespace {

constexpr DType kType = DType::kFloat32;
constexpr auto kDirect = ConvAlgorithm::kDirect;

// What was computed is finished while it is in the last cache: a large batch is worked
// on in parts of this size, which divides it.
ConvProblem PartOf(const ConvProblem& p) {
  constexpr double kInCache = 16 << 20;
  const double sample =
      sizeof(float) *
      static_cast<double>(p.in_channels * p.InSize() + p.out_channels * p.OutSize());
  ConvProblem part = p;
  part.batch = std::clamp<int64_t>(static_cast<int64_t>(kInCache / sample), 1, p.batch);
  while (p.batch % part.batch != 0) --part.batch;
  return part;
}

ConvLayouts LayoutsOf(const ConvProblem& p, ConvPass pass) {
  return PreferredLayouts(PartOf(p), kType, pass, kDirect);
}

// Calls run(part, offset of x, offset of y).
template <typename F>
void InParts(const ConvProblem& p, const BlockedConv& how, F&& run) {
  const ConvProblem part = PartOf(p);
  const int64_t x = XOfImage(p, how.plain_x), y = YOfImage(p);
  for (int64_t n = 0; n < p.batch; n += part.batch) run(part, n * x, n * y);
}

}  // namespace

bool FitBlockedConv(const ConvProblem& p, ConvPass pass, BlockedConv& how) {
  return FitBlocks(PartOf(p), kType, pass, how);
}

void PackBlockedFilters(const ConvProblem& p, ConvPass pass, const BlockedConv&,
                        const float* weight, float* packed) {
  Reorder(ConvDims(p).Weight(), {}, kType, weight, LayoutsOf(p, pass).weight, kType,
          packed);
}

void BlockedConvForward(const ConvProblem& p, const BlockedConv& how, const float* x,
                        const float* packed, const ConvFinish& finish, float* y) {
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kForward);
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    const int64_t size = part.batch * YOfImage(p);
    const Apart<float> other(finish.other == nullptr ? nullptr : finish.other + ys,
                             y + ys, size);
    ConvForward(part, kType, kDirect, layouts, x + xs, packed, finish.bias, false,
                y + ys);
    ConvFinish rest = finish;
    rest.other = other.data();
    FinishAll(size, rest, y + ys);
  });
}

void BlockedConvBackwardData(const ConvProblem& p, const BlockedConv& how,
                             const float* dy, const float* packed, float* dx) {
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardData);
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    ConvBackwardData(part, kType, kDirect, layouts, dy + ys, packed, dx + xs);
  });
}

void BlockedConvBackwardWeight(const ConvProblem& p, const BlockedConv& how,
                               const float* x, const float* dy, float* dweight) {
  ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardWeight);
  layouts.weight = {};  // the result is plain
  const int64_t size = p.WeightSize();
  const Scratch scratch(PartOf(p).batch < p.batch ? Scratch::Bytes<float>(size) : 0);
  InParts(p, how, [&](const ConvProblem& part, int64_t xs, int64_t ys) {
    const bool first = ys == 0;
    float* to = first ? dweight : scratch.As<float>();
    onednn::ConvBackwardWeight(part, kType, kDirect, layouts, x + xs, dy + ys, to,
                               nullptr);
    if (!first) AddAll(size, to, dweight);
  });
}

}  // namespace plait::cpu::onednn
