// Whether oneDNN's kernels of a convolution take arrays as blocked ones lie.

#ifndef PLAIT_CPU_ONEDNN_BLOCKS_H_
#define PLAIT_CPU_ONEDNN_BLOCKS_H_

#include "base/dtype.h"
#include "cpu/blocked.h"
#include "cpu/onednn/conv.h"

namespace plait::cpu::onednn {

// False where there is no generated code for it. How: BlockedConv or HalfConv, of which
// plain_x, packed and layout are filled in.
template <typename How>
bool FitBlocks(const ConvProblem& p, DType dtype, ConvPass pass, How& how) {
  constexpr auto kDirect = ConvAlgorithm::kDirect;
  if (!HasConv(p, dtype, pass, kDirect)) return false;
  const ConvLayouts l = PreferredLayouts(p, dtype, pass, kDirect);
  const LayoutDesc blocked = BlockedLayout(ChannelBlock());
  how.plain_x = l.x.plain() && p.in_channels <= 4 && pass != ConvPass::kBackwardData;
  if (!(l.y == blocked) || !(l.x == blocked || how.plain_x)) return false;
  if (pass == ConvPass::kBackwardWeight) return true;  // it reads no filters
  const size_t bytes = LayoutBytes(l.weight, ConvDims(p).Weight(), dtype);
  how.packed = static_cast<int64_t>(bytes / SizeOf(dtype));
  how.layout = l.weight.id;
  return true;
}

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_BLOCKS_H_
