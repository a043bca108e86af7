// Convolution by oneDNN, on buffers in any layout.
//
// Thread safety: any thread. The primitives are kept; a call that was made before costs
// about 2 us besides the work itself. dtype: float32 or bfloat16.

#ifndef PLAIT_CPU_ONEDNN_CONV_H_
#define PLAIT_CPU_ONEDNN_CONV_H_

#include "base/dtype.h"
#include "cpu/conv.h"
#include "cpu/onednn/layout.h"

namespace plait::cpu::onednn {

struct ConvLayouts {
  LayoutDesc x, weight, y;  // of x or dx, weight or dweight, y or dy
  bool operator==(const ConvLayouts&) const = default;
};

// What a LayoutDesc of a convolution is about: (batch, channels, space...) for x and y;
// (out, in, kernel...) for the filters, with (groups, out / groups, in / groups, ...)
// when there are several groups.
struct ConvDims {
  explicit ConvDims(const ConvProblem& p);
  std::array<int64_t, 6> x, weight, y;
  int rank = 0, weight_rank = 0;  // axes of x and y, and of weight
  std::span<const int64_t> X() const { return {x.data(), size_t(rank)}; }
  std::span<const int64_t> Weight() const {
    return {weight.data(), size_t(weight_rank)};
  }
  std::span<const int64_t> Y() const { return {y.data(), size_t(rank)}; }
};

// Whether oneDNN has generated code for this (its plain loops and products of matrices
// do not count: ours are faster). algorithm: kDirect or kWinograd.
// REQUIRES (of every function here): no size of the problem is 0.
bool HasConv(const ConvProblem& p, DType dtype, ConvPass pass, ConvAlgorithm algorithm);

// The layouts in which no argument needs a reorder. REQUIRES: HasConv.
ConvLayouts PreferredLayouts(const ConvProblem& p, DType dtype, ConvPass pass,
                             ConvAlgorithm algorithm);

// The passes. Arguments are in the given layouts; those that oneDNN wants in another
// one are reordered here. bias and dbias are plain and may be nullptr.
// REQUIRES: HasConv.
void ConvForward(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                 const ConvLayouts& layouts, const void* x, const void* weight,
                 const void* bias, bool relu, void* y);
void ConvBackwardData(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                      const ConvLayouts& layouts, const void* dy, const void* weight,
                      void* dx);
void ConvBackwardWeight(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                        const ConvLayouts& layouts, const void* x, const void* dy,
                        void* dweight, void* dbias);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_CONV_H_
