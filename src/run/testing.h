// Helpers of the tests in run/: arrays from numbers, values back, operators by name.

#ifndef PLAIT_RUN_TESTING_H_
#define PLAIT_RUN_TESTING_H_

#include <string>
#include <vector>

#include "cpu/pointwise.h"
#include "run/invoke.h"

namespace plait::testing {

inline NDArray Make(const Shape& shape, const std::vector<double>& values,
                    DType dtype = DType::kFloat32) {
  NDArray a = NDArray::Empty(shape, dtype);
  cpu::Convert(values.data(), DType::kFloat64, a.data(), dtype, a.size());
  return a;
}

inline std::vector<double> ValuesOf(const NDArray& a) {
  a.WaitToRead();
  std::vector<double> values(a.size());
  cpu::Convert(a.data(), a.dtype(), values.data(), DType::kFloat64, a.size());
  return values;
}

inline std::string BytesOf(const NDArray& a) {
  std::string bytes(static_cast<size_t>(a.nbytes()), '\0');
  a.CopyToHost(bytes.data());
  return bytes;
}

inline NDArray CallOp(const std::string& name, std::vector<NDArray> in,
                      std::vector<NamedAttr> attrs = {}, const NDArray& out = {}) {
  const OpDef& op = GetOp(name);
  const ParamsRef params = attrs.empty() ? op.defaults : MakeParams(op, attrs);
  if (out) return Invoke(op, params, in, {&out, 1})[0];
  return Invoke(op, params, in)[0];
}

inline NDArray Scalar(const std::string& name, const NDArray& x, double c,
                      const NDArray& out = {}) {
  return CallOp(name, {x}, {{"scalar", {c}}}, out);
}

}  // namespace plait::testing

#endif  // PLAIT_RUN_TESTING_H_
