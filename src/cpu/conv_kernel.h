// The project's own convolution: matrix products whose panels come from the image.

#ifndef PLAIT_CPU_CONV_KERNEL_H_
#define PLAIT_CPU_CONV_KERNEL_H_

#include "cpu/conv.h"

namespace plait::cpu {

// As the functions of conv.h, for float and double. REQUIRES: no size is 0.
template <typename T>
void OwnConvForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                    bool relu, T* y);
template <typename T>
void OwnConvBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx);
// The bits of the result do not depend on the number of threads.
template <typename T>
void OwnConvBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                           T* dbias);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_CONV_KERNEL_H_
