// Winograd's convolution F(4 x 4, 3 x 3), in float32 or float64.
//
// T is float, double, Bfloat16 or Float16; half types are computed in float32, and each
// element of a result is rounded once. Blocked activations are arrays (batch, blocks,
// height, width, b) where b = FloatLanes() channels lie side by side (with double half
// as many) and blocks = ceil(channels / b). Channels
// beyond the last one must be zero in what is read here, and are zero in what is
// written. Filters and their gradients are plain (out, in, 3, 3).
//
// Rounding errors are some times those of a direct sum, and a NaN or an infinity of x
// reaches all the pixels of its tiles; docs/design/winograd.md has figures.
//
// Results have the same bits for any number of threads. Thread safety: any thread;
// ComputeThreads() threads are used. Errors: kMemory for lack of scratch: up to about
// 40 MB, 10 MB more for each thread, and 4 to 5 times the filters where these are not
// given transformed. The calling thread's share is from its Workspace where it has one.

#ifndef PLAIT_CPU_WINOGRAD_H_
#define PLAIT_CPU_WINOGRAD_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "cpu/blocked.h"
#include "cpu/conv.h"

namespace plait::cpu {

// kPlain: (batch, channels, height, width), blocked in the caches on the way.
// Half types have to be blocked.
enum class ImageLayout : uint8_t { kBlocked, kPlain };

// What is computed in.
template <typename T>
using WinogradSum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Whether the functions below take it: two spatial axes, filters of 3 x 3, stride and
// dilation 1, one group, 0 to 2 pixels of padding on each side, and no size that is 0.
bool HasWinograd(const ConvProblem& p);

// The filters as a pass reads them: 4 to 5.3 times the plain ones' size when the
// numbers of channels are multiples of 32. They depend on the filters and on both
// numbers of channels only, not on the batch or the images' size. pass: kForward,
// kBackwardData. REQUIRES (here and below): HasWinograd(p).
size_t WinogradFilterBytes(const ConvProblem& p, ConvPass pass);
template <typename T>
void WinogradFilters(const ConvProblem& p, ConvPass pass, const T* weight, float* u);

// y = relu(convolution of x + bias + sum). `u` is what WinogradFilters made of the
// weight for this pass, or nullptr; then the weight is transformed here, where there
// are few pixels without a detour by memory. `weight` is not read when there is a `u`.
// bias (out_channels, plain) and sum (like y, may be y itself) may be nullptr; relu is
// applied when asked for, and keeps NaN. `layout` is that of x and y; plain images take
// no sum.
template <typename T>
void WinogradForward(const ConvProblem& p, const T* x, const T* weight,
                     const WinogradSum<T>* u, const WinogradSum<T>* bias, const T* sum,
                     bool relu, T* y, ImageLayout layout = ImageLayout::kBlocked);

// Overwrites dx; weight and `u` as above.
template <typename T>
void WinogradBackwardData(const ConvProblem& p, const T* dy, const T* weight,
                          const WinogradSum<T>* u, T* dx,
                          ImageLayout layout = ImageLayout::kBlocked);

// Overwrites dweight and, unless it is nullptr, dbias (both plain).
template <typename T>
void WinogradBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                            T* dbias, ImageLayout layout = ImageLayout::kBlocked);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_WINOGRAD_H_
