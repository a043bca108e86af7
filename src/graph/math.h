// The vocabulary in which gradients are written: tensor functions over Values.
//
// A lower-case call records (or runs) the operator of the same name. The functions look
// their operator up once.

#ifndef PLAIT_GRAPH_MATH_H_
#define PLAIT_GRAPH_MATH_H_

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace plait {

// An operator by name with parameters by name:
//   Make("transpose", {x}, {{"axes", axes}}).
struct MathAttr {
  std::string_view name;
  AttrValue value;
};
Values MakeAll(std::string_view op, std::initializer_list<Value> inputs,
               std::initializer_list<MathAttr> attrs = {});
Value Make(std::string_view op, std::initializer_list<Value> inputs,
           std::initializer_list<MathAttr> attrs = {});

inline AttrValue Attr(bool v) {
  return {v};
}
inline AttrValue Attr(int v) {
  return {static_cast<int64_t>(v)};
}
inline AttrValue Attr(int64_t v) {
  return {v};
}
inline AttrValue Attr(double v) {
  return {v};
}
inline AttrValue Attr(const char* v) {
  return {std::string(v)};
}
AttrValue Attr(const Shape& v);
AttrValue Attr(DType v);

// Pointwise, with broadcasting.
Value operator+(const Value& x, const Value& y);
Value operator-(const Value& x, const Value& y);
Value operator*(const Value& x, const Value& y);
Value operator/(const Value& x, const Value& y);
Value operator-(const Value& x);
Value operator+(const Value& x, double c);
Value operator-(const Value& x, double c);
Value operator*(const Value& x, double c);
Value operator/(const Value& x, double c);
Value operator+(double c, const Value& x);
Value operator-(double c, const Value& x);
Value operator*(double c, const Value& x);
Value operator/(double c, const Value& x);
Value operator>(const Value& x, double c);
Value operator>=(const Value& x, double c);
Value operator<(const Value& x, double c);
Value operator<=(const Value& x, double c);
Value equal(const Value& x, const Value& y);
Value equal(const Value& x, double c);
Value not_equal(const Value& x, double c);
Value greater(const Value& x, const Value& y);
Value greater_equal(const Value& x, const Value& y);
Value less(const Value& x, const Value& y);
Value less_equal(const Value& x, const Value& y);
Value logical_not(const Value& x);
Value power(const Value& x, const Value& y);
Value power(const Value& x, double c);
Value maximum(const Value& x, double c);
Value minimum(const Value& x, double c);
Value where(const Value& condition, const Value& x, const Value& y);
Value exp(const Value& x);
Value expm1(const Value& x);
Value log(const Value& x);
Value sqrt(const Value& x);
Value rsqrt(const Value& x);
Value square(const Value& x);
Value abs(const Value& x);
Value sign(const Value& x);
Value sin(const Value& x);
Value cos(const Value& x);
Value sinh(const Value& x);
Value cosh(const Value& x);
Value tanh(const Value& x);
Value sigmoid(const Value& x);
Value reciprocal(const Value& x);
Value cast(const Value& x, DType dtype);

Value zeros_like(const Value& x);
Value ones_like(const Value& x);
Value zeros(const Spec& spec, Device device = {});
Value full(const Spec& spec, double value, Device device = {});

// Shapes.
Value reshape(const Value& x, const Shape& shape);  // plain sizes, no codes
Value transpose(const Value& x, const Shape& axes);
Value broadcast_to(const Value& x, const Shape& shape);
struct ReduceAxes {
  std::vector<int64_t> axes;  // empty: all
  bool keepdims = false;
};
Value sum(const Value& x, const ReduceAxes& r = {});
Value mean(const Value& x, const ReduceAxes& r = {});
// Sums dy over the axes along which an array of `shape` was broadcast: the gradient of
// broadcasting. Returns dy itself where the shapes are equal.
Value sum_to(const Value& dy, const Shape& shape);

// Linear algebra.
Value dot(const Value& x, const Value& y, bool transpose_a = false,
          bool transpose_b = false);
Value batch_dot(const Value& x, const Value& y, bool transpose_a = false,
                bool transpose_b = false);

}  // namespace plait

#endif  // PLAIT_GRAPH_MATH_H_
