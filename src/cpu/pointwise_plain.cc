// The plain executor: one element at a time, one step at a time.

#include "cpu/pointwise_plain.h"

#include <algorithm>
#include <vector>

#include "cpu/plain_words.h"

namespace plait::cpu::plain {
namespace {

// Calls f.operator()<T>() with the C++ type of a compute type.
template <typename F>
decltype(auto) VisitCompute(Compute compute, F&& f) {
  switch (compute) {
    case Compute::kF32:
      return f.template operator()<float>();
    case Compute::kF64:
      return f.template operator()<double>();
    case Compute::kI32:
      return f.template operator()<int32_t>();
    case Compute::kI64:
      return f.template operator()<int64_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

// One value, in the compute type of its dtype.
struct Value {
  unsigned char bytes[8];
  template <typename T>
  T As() const {
    T x;
    std::memcpy(&x, bytes, sizeof x);
    return x;
  }
  template <typename T>
  static Value Of(T x) {
    Value v;
    std::memcpy(v.bytes, &x, sizeof x);
    return v;
  }
};

template <typename T>
Value LoadElement(DType dtype, const void* data, int64_t i) {
  return VisitDType(dtype, [&]<typename S>() {
    return Value::Of(static_cast<T>(static_cast<const S*>(data)[i]));
  });
}

// The value has the dtype already, so that this conversion is exact.
template <typename T>
void StoreElement(DType dtype, void* data, int64_t i, T x) {
  VisitDType(dtype,
             [&]<typename S>() { static_cast<S*>(data)[i] = static_cast<S>(x); });
}

Value LoadElement(DType dtype, const void* data, int64_t i) {
  return VisitCompute(ComputeOf(dtype),
                      [&]<typename T>() { return LoadElement<T>(dtype, data, i); });
}

void StoreElement(DType dtype, void* data, int64_t i, Value value) {
  VisitCompute(ComputeOf(dtype),
               [&]<typename T>() { StoreElement(dtype, data, i, value.As<T>()); });
}

// Walks over a space and keeps the position in every (broadcast) input.
class Odometer {
 public:
  Odometer(const Shape& space, std::span<const PointwiseInput> inputs)
      : space_(space), index_(space.rank(), 0), inputs_(inputs) {}

  void Next() {
    for (int axis = space_.rank() - 1; axis >= 0; --axis) {
      if (++index_[axis] < space_[axis]) return;
      index_[axis] = 0;
    }
  }
  int64_t InputOffset(int input) const {
    const Shape& shape = *inputs_[input].shape;
    int64_t offset = 0;
    for (int i = 0; i < shape.rank(); ++i) {
      const int axis = space_.rank() - shape.rank() + i;
      offset = offset * shape[i] + (shape[i] == 1 ? 0 : index_[axis]);
    }
    return offset;
  }
  // The position among the elements of the axes not in `axes`.
  int64_t KeptOffset(uint64_t axes) const {
    int64_t offset = 0;
    for (int i = 0; i < space_.rank(); ++i) {
      if (!(axes >> i & 1)) offset = offset * space_[i] + index_[i];
    }
    return offset;
  }

 private:
  const Shape& space_;
  std::vector<int64_t> index_;
  std::span<const PointwiseInput> inputs_;
};

Value RunStep(const PointwiseStep& step, Value x, Value y, Value z) {
  if (step.fn == Fn::kCast) {
    return VisitCompute(step.from, [&]<typename From>() {
      return VisitCompute(step.compute, [&]<typename To>() {
        return Value::Of(Cast<To>(step.dtype, x.As<From>()));
      });
    });
  }
  return VisitCompute(step.compute, [&]<typename T>() {
    const T result = Word(step.fn, x.As<T>(), y.As<T>(), z.As<T>());
    return Value::Of(Narrow(step.dtype, result));
  });
}

Value ConstantValue(PointwiseConstant constant, Compute compute) {
  switch (compute) {
    case Compute::kF32:
      return Value::Of(static_cast<float>(constant.f));
    case Compute::kF64:
      return Value::Of(constant.f);
    case Compute::kI32:
      return Value::Of(static_cast<int32_t>(constant.i));
    default:
      return Value::Of(constant.i);
  }
}

struct Element {
  Value inputs[PointwiseProgram::kMaxInputs];
  Value steps[PointwiseProgram::kMaxSteps];

  Value Get(const PointwiseProgram& program, PointwiseArg arg, Compute compute) const {
    switch (arg.kind) {
      case PointwiseArg::kInput:
        return inputs[arg.index];
      case PointwiseArg::kStep:
        return steps[arg.index];
      case PointwiseArg::kConstant:
        return ConstantValue(program.constants[arg.index], compute);
      default:
        return Value{};
    }
  }
  void Run(const PointwiseProgram& program, const Odometer& odometer,
           std::span<const PointwiseInput> in) {
    for (int i = 0; i < program.num_inputs; ++i) {
      inputs[i] = LoadElement(program.inputs[i], in[i].data, odometer.InputOffset(i));
    }
    for (int i = 0; i < program.num_steps; ++i) {
      const PointwiseStep& step = program.steps[i];
      const Compute compute = step.fn == Fn::kCast ? step.from : step.compute;
      steps[i] = RunStep(step, Get(program, step.args[0], compute),
                         Get(program, step.args[1], compute),
                         Get(program, step.args[2], compute));
    }
  }
};

template <typename T>
T First(Reduction reduction, DType dtype) {
  switch (reduction) {
    case Reduction::kSum:
      return 0;
    case Reduction::kProd:
      return 1;
    default:
      break;
  }
  const bool max = reduction == Reduction::kMax;
  if constexpr (std::is_floating_point_v<T>) {
    const T infinity = std::numeric_limits<T>::infinity();
    return max ? -infinity : infinity;
  } else {
    return VisitDType(dtype, [&]<typename S>() {
      if constexpr (std::numeric_limits<S>::is_specialized) {
        return static_cast<T>(max ? std::numeric_limits<S>::lowest()
                                  : std::numeric_limits<S>::max());
      } else {
        return T{0};
      }
    });
  }
}

Fn FnOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return Fn::kAdd;
    case Reduction::kProd:
      return Fn::kMul;
    case Reduction::kMax:
      return Fn::kMaximum;
    default:
      return Fn::kMinimum;
  }
}

}  // namespace

void RunPointwise(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs) {
  Odometer odometer(space, inputs);
  const int64_t n = space.size();
  for (int64_t i = 0; i < n; ++i, odometer.Next()) {
    Element element;
    element.Run(program, odometer, inputs);
    for (int o = 0; o < program.num_outputs; ++o) {
      const PointwiseArg arg = program.outputs[o];
      const DType dtype = program.DTypeOfArg(arg);
      StoreElement(dtype, outputs[o], i, element.Get(program, arg, ComputeOf(dtype)));
    }
  }
}

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output) {
  const DType dtype = program.DTypeOfArg(program.outputs[0]);
  int64_t kept = 1;
  for (int i = 0; i < space.rank(); ++i) kept *= axes >> i & 1 ? 1 : space[i];
  VisitCompute(ComputeOf(dtype), [&]<typename T>() {
    // A wide accumulator stands for the blocked sums of the fast executor.
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    std::vector<Wide> sums(kept, First<T>(reduction, dtype));
    Odometer odometer(space, inputs);
    const int64_t n = space.size();
    for (int64_t i = 0; i < n; ++i, odometer.Next()) {
      Element element;
      element.Run(program, odometer, inputs);
      const Value value = element.Get(program, program.outputs[0], ComputeOf(dtype));
      Wide& sum = sums[odometer.KeptOffset(axes)];
      sum = Word<Wide>(FnOf(reduction), sum, value.As<T>(), Wide{});
    }
    for (int64_t i = 0; i < kept; ++i) {
      if constexpr (std::is_floating_point_v<T>) sums[i] *= scale;
      StoreElement(dtype, output, i, Value::Of(Cast<T>(dtype, sums[i])));
    }
  });
}

void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n) {
  PointwiseProgram program;
  program.num_inputs = program.num_steps = program.num_outputs = 1;
  program.inputs[0] = src_dtype;
  program.steps[0] = {.fn = Fn::kCast,
                      .compute = ComputeOf(dst_dtype),
                      .from = ComputeOf(src_dtype),
                      .dtype = dst_dtype,
                      .args = {{PointwiseArg::kInput, 0}, {}, {}}};
  program.outputs[0] = {PointwiseArg::kStep, 0};
  const Shape space({n});
  const PointwiseInput input{src, &space};
  RunPointwise(program, space, {&input, 1}, {&dst, 1});
}

}  // namespace plait::cpu::plain
