// The parameters of a convolution on blocked arrays, for operators that are made of
// several.

#ifndef PLAIT_OPS_BLOCKED_CONVOLUTION_H_
#define PLAIT_OPS_BLOCKED_CONVOLUTION_H_

#include <string>

#include "graph/blocked_form.h"
#include "graph/op.h"
#include "ops/nn/conv.h"

namespace plait {

struct BlockedConvParams {
  ConvParams conv;
  Shape data;  // the plain shape of x
  int64_t block = 16;
  bool plain_x = false;           // x is not blocked
  std::string way;                // a kind of BlockedConv; empty: by its rules
  DType dtype = DType::kFloat32;  // or a half type
  bool half() const { return dtype != DType::kFloat32; }
  BlockedFinish finish = {};
};

Shape BlockedX(const BlockedConvParams& p);
Shape BlockedY(const BlockedConvParams& p);
Shape BlockedFilters(const BlockedConvParams& p);  // as they are
ConvGeometry BlockedGeometry(const BlockedConvParams& p);

// _blocked_convolution by way of plain arrays, with filters as they are. Float32.
void PlainBlockedConv(const BlockedConvParams& p, const KernelArgs& args);

}  // namespace plait

#endif  // PLAIT_OPS_BLOCKED_CONVOLUTION_H_
