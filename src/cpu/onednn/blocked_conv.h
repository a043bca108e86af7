// The passes of cpu/blocked_conv.h by oneDNN, large batches in parts.
//
// Thread safety: any thread. REQUIRES (of the passes): FitBlockedConv.

#ifndef PLAIT_CPU_ONEDNN_BLOCKED_CONV_H_
#define PLAIT_CPU_ONEDNN_BLOCKED_CONV_H_

#include "cpu/blocked_conv.h"

namespace plait::cpu::onednn {

// Whether oneDNN has generated code for a pass on blocked arrays; fills in plain_x,
// packed and layout.
bool FitBlockedConv(const ConvProblem& p, ConvPass pass, BlockedConv& how);
void PackBlockedFilters(const ConvProblem& p, ConvPass pass, const BlockedConv& how,
                        const float* weight, float* packed);

void BlockedConvForward(const ConvProblem& p, const BlockedConv& how, const float* x,
                        const float* packed, const ConvFinish& finish, float* y);
void BlockedConvBackwardData(const ConvProblem& p, const BlockedConv& how,
                             const float* dy, const float* packed, float* dx);
void BlockedConvBackwardWeight(const ConvProblem& p, const BlockedConv& how,
                               const float* x, const float* dy, float* dweight);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_BLOCKED_CONV_H_
