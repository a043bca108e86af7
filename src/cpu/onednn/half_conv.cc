// Convolution of blocked arrays by oneDNN: bfloat16.

#include "cpu/onednn/half_conv.h"

#include "cpu/half_parts.h"
#include "cpu/onednn/blocks.h"

namespace plait::cpu::onednn {
namespace {

constexpr DType kType = DType::kBfloat16;
constexpr auto kDirect = ConvAlgorithm::kDirect;

ConvLayouts LayoutsOf(const ConvProblem& p, ConvPass pass) {
  return PreferredLayouts(p, kType, pass, kDirect);
}

}  // namespace

bool FitHalfConv(const ConvProblem& p, ConvPass pass, HalfConv& how) {
  return FitBlocks(p, kType, pass, how);
}

void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv&,
                     const Bfloat16* weight, Bfloat16* packed) {
  Reorder(ConvDims(p).Weight(), {}, kType, weight, LayoutsOf(p, pass).weight, kType,
          packed);
}

void HalfConvForward(const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
                     const Bfloat16* packed, const HalfFinish<Bfloat16>& finish,
                     Bfloat16* y) {
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kForward);
  half::InParts(p, how.plain_x, sizeof(Bfloat16),
                [&](const ConvProblem& part, int64_t xs, int64_t ys) {
                  const int64_t size = part.batch * YOfImage(p);
                  const Apart<Bfloat16> other(
                      finish.other == nullptr ? nullptr : finish.other + ys, y + ys,
                      size);
                  ConvForward(part, kType, kDirect, layouts, x + xs, packed,
                              finish.bias, false, y + ys);
                  HalfFinish<Bfloat16> rest = finish;
                  rest.other = other.data();
                  half::FinishAll(size, rest, y + ys);
                });
}

void HalfConvBackwardData(const ConvProblem& p, const Bfloat16* dy,
                          const Bfloat16* packed, Bfloat16* dx) {
  const ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardData);
  half::InParts(
      p, false, sizeof(Bfloat16), [&](const ConvProblem& part, int64_t xs, int64_t ys) {
        ConvBackwardData(part, kType, kDirect, layouts, dy + ys, packed, dx + xs);
      });
}

// All images at once: sums of parts would be rounded for each of them.
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv&, const Bfloat16* x,
                            const Bfloat16* dy, Bfloat16* dweight) {
  ConvLayouts layouts = LayoutsOf(p, ConvPass::kBackwardWeight);
  layouts.weight = {};  // the result is plain
  ConvBackwardWeight(p, kType, kDirect, layouts, x, dy, dweight, nullptr);
}

}  // namespace plait::cpu::onednn
