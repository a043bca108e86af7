// The passes of cpu/half_conv.h by oneDNN, in bfloat16.
//
// Thread safety: any thread. REQUIRES (of the passes): FitHalfConv.

#ifndef PLAIT_CPU_ONEDNN_HALF_CONV_H_
#define PLAIT_CPU_ONEDNN_HALF_CONV_H_

#include "cpu/half_conv.h"

namespace plait::cpu::onednn {

// Whether oneDNN has generated code for a pass on blocked arrays; fills in plain_x,
// packed and layout.
bool FitHalfConv(const ConvProblem& p, ConvPass pass, HalfConv& how);
void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const Bfloat16* weight, Bfloat16* packed);

void HalfConvForward(const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
                     const Bfloat16* packed, const HalfFinish<Bfloat16>& finish,
                     Bfloat16* y);
void HalfConvBackwardData(const ConvProblem& p, const Bfloat16* dy,
                          const Bfloat16* packed, Bfloat16* dx);
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how,
                            const Bfloat16* x, const Bfloat16* dy, Bfloat16* dweight);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_HALF_CONV_H_
