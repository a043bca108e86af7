// The vocabulary of gradients: each function applies the operator of its name.

#include "graph/math.h"

#include <algorithm>

namespace plait {
namespace {

ParamsRef ParamsFor(const OpDef& op, std::initializer_list<MathAttr> attrs) {
  if (attrs.size() == 0) return op.defaults;
  SmallVector<NamedAttr, 4> named;
  for (const MathAttr& a : attrs) named.push_back({a.name, a.value});
  return MakeParams(op, named);
}

// The name of an operator as a template argument: each function looks its operator up
// once and keeps it.
template <size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&s)[N]) { std::copy_n(s, N, text); }
};
template <OpName kName>
const OpDef& Cached() {
  static const OpDef& op = GetOp(kName.text);
  return op;
}

template <OpName kName>
Value Unary(const Value& x) {
  return ApplyOne(Cached<kName>(), nullptr, {&x, 1});
}
template <OpName kName>
Value Binary(const Value& x, const Value& y) {
  const Value inputs[] = {x, y};
  return ApplyOne(Cached<kName>(), nullptr, inputs);
}
template <OpName kName>
Value Scalar(const Value& x, double c) {
  const OpDef& op = Cached<kName>();
  const NamedAttr attrs[] = {{"scalar", {c}}};
  return ApplyOne(op, MakeParams(op, attrs), {&x, 1});
}

}  // namespace

Values MakeAll(std::string_view name, std::initializer_list<Value> inputs,
               std::initializer_list<MathAttr> attrs) {
  const OpDef& op = GetOp(name);
  return Apply(op, ParamsFor(op, attrs), {inputs.begin(), inputs.size()});
}
Value Make(std::string_view name, std::initializer_list<Value> inputs,
           std::initializer_list<MathAttr> attrs) {
  return MakeAll(name, inputs, attrs)[0];
}

AttrValue Attr(const Shape& v) {
  return AttrCodec<Shape>::Encode(v);
}
AttrValue Attr(DType v) {
  return AttrCodec<DType>::Encode(v);
}

Value operator+(const Value& x, const Value& y) {
  return Binary<"broadcast_add">(x, y);
}
Value operator-(const Value& x, const Value& y) {
  return Binary<"broadcast_sub">(x, y);
}
Value operator*(const Value& x, const Value& y) {
  return Binary<"broadcast_mul">(x, y);
}
Value operator/(const Value& x, const Value& y) {
  return Binary<"broadcast_div">(x, y);
}
Value operator-(const Value& x) {
  return Unary<"negative">(x);
}
Value operator+(const Value& x, double c) {
  return Scalar<"_plus_scalar">(x, c);
}
Value operator-(const Value& x, double c) {
  return Scalar<"_minus_scalar">(x, c);
}
Value operator*(const Value& x, double c) {
  return Scalar<"_mul_scalar">(x, c);
}
Value operator/(const Value& x, double c) {
  return Scalar<"_div_scalar">(x, c);
}
Value operator+(double c, const Value& x) {
  return Scalar<"_plus_scalar">(x, c);
}
Value operator-(double c, const Value& x) {
  return Scalar<"_rminus_scalar">(x, c);
}
Value operator*(double c, const Value& x) {
  return Scalar<"_mul_scalar">(x, c);
}
Value operator/(double c, const Value& x) {
  return Scalar<"_rdiv_scalar">(x, c);
}
Value operator>(const Value& x, double c) {
  return Scalar<"_greater_scalar">(x, c);
}
Value operator>=(const Value& x, double c) {
  return Scalar<"_greater_equal_scalar">(x, c);
}
Value operator<(const Value& x, double c) {
  return Scalar<"_lesser_scalar">(x, c);
}
Value operator<=(const Value& x, double c) {
  return Scalar<"_lesser_equal_scalar">(x, c);
}
Value equal(const Value& x, const Value& y) {
  return Binary<"broadcast_equal">(x, y);
}
Value equal(const Value& x, double c) {
  return Scalar<"_equal_scalar">(x, c);
}
Value not_equal(const Value& x, double c) {
  return Scalar<"_not_equal_scalar">(x, c);
}
Value greater(const Value& x, const Value& y) {
  return Binary<"broadcast_greater">(x, y);
}
Value greater_equal(const Value& x, const Value& y) {
  return Binary<"broadcast_greater_equal">(x, y);
}
Value less(const Value& x, const Value& y) {
  return Binary<"broadcast_lesser">(x, y);
}
Value less_equal(const Value& x, const Value& y) {
  return Binary<"broadcast_lesser_equal">(x, y);
}
Value logical_not(const Value& x) {
  return Unary<"logical_not">(x);
}
Value power(const Value& x, const Value& y) {
  return Binary<"broadcast_power">(x, y);
}
Value power(const Value& x, double c) {
  return Scalar<"_power_scalar">(x, c);
}
Value maximum(const Value& x, double c) {
  return Scalar<"_maximum_scalar">(x, c);
}
Value minimum(const Value& x, double c) {
  return Scalar<"_minimum_scalar">(x, c);
}
Value exp(const Value& x) {
  return Unary<"exp">(x);
}
Value expm1(const Value& x) {
  return Unary<"expm1">(x);
}
Value log(const Value& x) {
  return Unary<"log">(x);
}
Value sqrt(const Value& x) {
  return Unary<"sqrt">(x);
}
Value rsqrt(const Value& x) {
  return Unary<"rsqrt">(x);
}
Value square(const Value& x) {
  return Unary<"square">(x);
}
Value abs(const Value& x) {
  return Unary<"abs">(x);
}
Value sign(const Value& x) {
  return Unary<"sign">(x);
}
Value sin(const Value& x) {
  return Unary<"sin">(x);
}
Value cos(const Value& x) {
  return Unary<"cos">(x);
}
Value sinh(const Value& x) {
  return Unary<"sinh">(x);
}
Value cosh(const Value& x) {
  return Unary<"cosh">(x);
}
Value tanh(const Value& x) {
  return Unary<"tanh">(x);
}
Value sigmoid(const Value& x) {
  return Unary<"sigmoid">(x);
}
Value reciprocal(const Value& x) {
  return Unary<"reciprocal">(x);
}
Value zeros_like(const Value& x) {
  return Unary<"zeros_like">(x);
}
Value ones_like(const Value& x) {
  return Unary<"ones_like">(x);
}

Value where(const Value& condition, const Value& x, const Value& y) {
  return Make("where", {condition, x, y});
}
Value cast(const Value& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return Make("Cast", {x}, {{"dtype", Attr(dtype)}});
}
Value zeros(const Spec& spec, Device) {
  return full(spec, 0);
}
Value full(const Spec& spec, double value, Device) {
  return Make(
      "_full", {},
      {{"shape", Attr(spec.shape)}, {"dtype", Attr(spec.dtype)}, {"value", {value}}});
}

Value reshape(const Value& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return Make("_reshape_to", {x}, {{"shape", Attr(shape)}});
}
Value transpose(const Value& x, const Shape& axes) {
  return Make("transpose", {x}, {{"axes", Attr(axes)}});
}
Value broadcast_to(const Value& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return Make("_broadcast_to", {x}, {{"shape", Attr(shape)}});
}
Value sum(const Value& x, const ReduceAxes& r) {
  return Make("sum", {x},
              {{"axis", Attr(Shape(std::span<const int64_t>(r.axes)))},
               {"keepdims", Attr(r.keepdims)}});
}
Value mean(const Value& x, const ReduceAxes& r) {
  return Make("mean", {x},
              {{"axis", Attr(Shape(std::span<const int64_t>(r.axes)))},
               {"keepdims", Attr(r.keepdims)}});
}
Value sum_to(const Value& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  return Make("_sum_to", {dy}, {{"shape", Attr(shape)}});
}

// The four kinds of a product are made once: they stand in the gradient of each layer.
template <OpName kName>
Value Product(const Value& x, const Value& y, bool transpose_a, bool transpose_b) {
  static const auto make = [](bool a, bool b) {
    return ParamsFor(Cached<kName>(),
                     {{"transpose_a", Attr(a)}, {"transpose_b", Attr(b)}});
  };
  static const ParamsRef params[] = {make(false, false), make(true, false),
                                     make(false, true), make(true, true)};
  const Value inputs[] = {x, y};
  return ApplyOne(Cached<kName>(), params[transpose_a + 2 * transpose_b], inputs);
}
Value dot(const Value& x, const Value& y, bool transpose_a, bool transpose_b) {
  return Product<"dot">(x, y, transpose_a, transpose_b);
}
Value batch_dot(const Value& x, const Value& y, bool transpose_a, bool transpose_b) {
  return Product<"batch_dot">(x, y, transpose_a, transpose_b);
}

}  // namespace plait
