// The C++ interface of Plait: arrays, symbols, executors and what trains them.
//
// One header over the library's own classes. NDArray (ndarray/ndarray.h) is an array;
// Symbol (graph/symbol.h) a graph; Bind (run/bind.h) makes an Executor (run/executor.h)
// of it; Initialize and Step (train/on_executor.h) work on the executor's arrays.
//
//   Symbol data = var("data");
//   Symbol fc = op("FullyConnected", {data}, {{"num_hidden", 10}});
//   Symbol net = op("SoftmaxOutput", {fc}, {}, "softmax");
//   auto executor = Bind(net, {.shapes = {{"data", {64, 784}}},
//                              .gradients = Gradients::kParameters});
//   Initialize(*executor, "xavier");
//   Updater sgd = MakeUpdater("sgd", {{"learning_rate", 0.1}});
//   executor->input("data").CopyFromHost(images);
//   executor->Forward(true);
//   executor->Backward({});
//   Step(sgd, *executor);
//
// Errors are thrown as plait::Error, at once for shapes and types, else where a result
// is waited for. Calls do not wait; ToVector and CopyToHost do.

#ifndef PLAIT_PLAIT_HPP_
#define PLAIT_PLAIT_HPP_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/math.h"
#include "graph/symbol.h"
#include "ndarray/array_file.h"
#include "ndarray/ndarray.h"
#include "run/bind.h"
#include "run/executor.h"
#include "run/invoke.h"
#include "run/random.h"
#include "run/tape.h"
#include "train/initializer.h"
#include "train/on_executor.h"
#include "train/optimizer.h"

namespace plait {

// A parameter of an operator or an optimizer: {"kernel", {5, 5}}, {"act_type", "relu"}.
struct Attribute {
  template <typename T>
  requires std::is_arithmetic_v<T> Attribute(const char* name, T v)
      : name(name), value(Number(v)) {}
  Attribute(const char* name, const char* v) : name(name), value{std::string(v)} {}
  Attribute(const char* name, std::string v) : name(name), value{std::move(v)} {}
  Attribute(const char* name, std::initializer_list<int64_t> v)
      : name(name), value(Attr(Shape(v))) {}
  Attribute(const char* name, const Shape& v) : name(name), value(Attr(v)) {}
  Attribute(const char* name, DType v) : name(name), value(Attr(v)) {}

  std::string name;
  AttrValue value;

 private:
  template <typename T>
  static AttrValue Number(T v) {
    if constexpr (std::is_same_v<T, bool>) return {v};
    if constexpr (std::is_floating_point_v<T>) return {static_cast<double>(v)};
    return {static_cast<int64_t>(v)};
  }
};
using Attributes = std::vector<Attribute>;

// ---------------------------------------------------------------- symbols

// An input of an operator: by its position, or by its name as in {"weight", w}.
struct Input {
  Input(Symbol symbol) : symbol(std::move(symbol)) {}
  Input(const char* name, Symbol symbol) : name(name), symbol(std::move(symbol)) {}
  std::string name;
  Symbol symbol;
};

Symbol var(const std::string& name, const Attributes& attributes = {});
// One operator. Inputs that are left out become variables `<name>_weight` and so on;
// without a name one is made up: convolution0.
Symbol op(const char* name, const std::vector<Input>& inputs,
          const Attributes& attributes = {}, const std::string& node = "");
Symbol LoadSymbol(const std::string& path);
void SaveSymbol(const Symbol& symbol, const std::string& path);

// Element by element, of equal shapes.
Symbol operator+(const Symbol& x, const Symbol& y);
Symbol operator-(const Symbol& x, const Symbol& y);
Symbol operator*(const Symbol& x, const Symbol& y);
Symbol operator/(const Symbol& x, const Symbol& y);
Symbol operator+(const Symbol& x, double c);
Symbol operator-(const Symbol& x, double c);
Symbol operator*(const Symbol& x, double c);
Symbol operator/(const Symbol& x, double c);
inline Symbol operator+(double c, const Symbol& x) {
  return x + c;
}
inline Symbol operator*(double c, const Symbol& x) {
  return x * c;
}

// ---------------------------------------------------------------- arrays

// Calls an operator on arrays; its visible outputs, or the only one.
std::vector<NDArray> CallAll(const char* name, const std::vector<NDArray>& inputs,
                             const Attributes& attributes = {});
NDArray Call(const char* name, const std::vector<NDArray>& inputs,
             const Attributes& attributes = {});

NDArray Zeros(const Shape& shape, DType dtype = DType::kFloat32);
template <typename T>
NDArray Array(const std::vector<T>& values, const Shape& shape) {
  Check(static_cast<int64_t>(values.size()) == shape.size(), "Array: ", values.size(),
        " values are given for shape ", shape);
  return NDArray::FromHost(values.data(), shape, kDTypeOf<T>);
}
// The elements, once they are there. T must be the array's own type.
template <typename T>
std::vector<T> ToVector(const NDArray& x) {
  Check(x.dtype() == kDTypeOf<T>, ErrorKind::kType, "ToVector: the array is ", x, "; ",
        kDTypeOf<T>, " was expected");
  std::vector<T> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

// Element by element, with broadcasting. The functions of graph/math.h (exp, sum, dot)
// take arrays too; their results are Values, whose array() is the array.
NDArray operator+(const NDArray& x, const NDArray& y);
NDArray operator-(const NDArray& x, const NDArray& y);
NDArray operator*(const NDArray& x, const NDArray& y);
NDArray operator/(const NDArray& x, const NDArray& y);
NDArray operator+(const NDArray& x, double c);
NDArray operator-(const NDArray& x, double c);
NDArray operator*(const NDArray& x, double c);
NDArray operator/(const NDArray& x, double c);
inline NDArray operator+(double c, const NDArray& x) {
  return x + c;
}
inline NDArray operator*(double c, const NDArray& x) {
  return x * c;
}
// In place: all views of x see it. `w -= eta * g` is one pass over memory.
const NDArray& operator+=(const NDArray& x, const NDArray& y);
const NDArray& operator-=(const NDArray& x, const NDArray& y);
const NDArray& operator*=(const NDArray& x, double c);

// ---------------------------------------------------------------- training

// An optimizer by name ("sgd", "adam") with its options, ready for Step.
Updater MakeUpdater(const char* name, const Attributes& attributes = {});

// The parameters and auxiliary states of an executor, as a .params file has them.
NamedArrays ParametersOf(const Executor& executor);
// The arrays of a .params file, for BindRequest::arrays.
std::map<std::string, NDArray> LoadArrays(const std::string& path);

// The first line of main(), if the program shares its cores: restarts the program with
// GOMP_SPINCOUNT=0, unless its environment says how OpenMP's threads wait. They spin
// otherwise after each operation, for 10 ms, and nothing can tell them later
// (docs/design/engine.md). `arguments` are main's. Returns where it cannot restart.
void RestartWithoutSpinning(char** arguments);

#ifndef PLAIT_INSIDE  // a program that includes this; the library itself waits for one
namespace detail {
inline const bool kStarted = (AttachToEngine(), true);  // see run/invoke.h
}  // namespace detail
#endif

}  // namespace plait

#endif  // PLAIT_PLAIT_HPP_
