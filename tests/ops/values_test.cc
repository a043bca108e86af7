// Every operator by its samples: inference, kernels, views, in-place, dtypes, bad
// input.

#include <gtest/gtest.h>

#include <cstring>

#include "base/parallel.h"
#include "tests/ops/case.h"

namespace plait::testing {
namespace {

class Operator : public ::testing::TestWithParam<const OpDef*> {
 protected:
  std::vector<Case> Cases() const {
    std::vector<Case> cases;
    for (size_t i = 0; i < GetParam()->samples.size(); ++i) {
      cases.push_back({GetParam(), static_cast<int>(i)});
    }
    return cases;
  }
};

std::string NameOf(const ::testing::TestParamInfo<const OpDef*>& info) {
  return info.param->name;
}

// ---------------------------------------------------------------- inference

Specs SpecsOf(std::span<const NDArray> arrays) {
  Specs specs;
  for (const NDArray& x : arrays) specs.push_back({x.shape(), x.dtype()});
  return specs;
}

// What is said before a call is what it gives.
void CheckInference(const Case& c) {
  const std::vector<NDArray> inputs = InputsOf(c);
  const Arrays outputs = Call(c, inputs);
  Specs in = SpecsOf(inputs), out(c.op->CountOutputs(*c.params()));
  InferAll(*c.op, *c.params(), in, out);
  ASSERT_EQ(outputs.size(), out.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i].shape(), out[i].shape) << "output " << i;
    EXPECT_EQ(outputs[i].dtype(), out[i].dtype) << "output " << i;
  }
}

// Nothing known is no error; and inference may be repeated.
void CheckPartialInference(const Case& c) {
  Specs in(c.sample().inputs.size()), out(c.op->CountOutputs(*c.params()));
  if (c.op->types) c.op->types(c.params()->get(), in, out);
  if (!c.op->infer) return;
  EXPECT_TRUE(c.op->infer(c.params()->get(), in, out)) << "with nothing known";
  EXPECT_TRUE(c.op->infer(c.params()->get(), in, out)) << "with nothing known, again";
  // The rank alone is no contradiction either.
  for (size_t i = 0; i < in.size(); ++i) {
    in[i].shape = Shape::Filled(c.sample().inputs[i].shape.rank(), kUnknownSize);
  }
  EXPECT_TRUE(c.op->infer(c.params()->get(), in, out)) << "with ranks known";
}

// ---------------------------------------------------------------- kernels

std::vector<View> ViewsOf(std::span<const NDArray> arrays) {
  std::vector<View> views;
  for (const NDArray& x : arrays) {
    x.WaitToRead();
    views.push_back({x.data(), &x.shape(), x.dtype()});
  }
  return views;
}

std::vector<NDArray> RunKernel(const Case& c, const OpDef::AnyKernel& kernel,
                               const std::vector<NDArray>& inputs, const Specs& specs,
                               int threads) {
  std::vector<NDArray> outputs;
  for (const Spec& s : specs) {
    outputs.push_back(NDArray::Empty(s.shape, s.dtype));
    std::memset(outputs.back().data(), 0x5a, outputs.back().nbytes());
  }
  const std::vector<View> in = ViewsOf(inputs), out = ViewsOf(outputs);
  const ScopedComputeThreads scope(threads);
  kernel.run(c.params()->get(), {in, out, RandomStream{3, 1}, c.sample().training, {}});
  return outputs;
}

// Every kernel agrees with the last one, and with itself on two threads, bit for bit.
void CheckKernels(const Case& c) {
  if (c.op->cpu.empty()) return;
  Specs in = SpecsOf(InputsOf(c)), out(c.op->CountOutputs(*c.params()));
  InferAll(*c.op, *c.params(), in, out);
  std::vector<NDArray> plain;
  for (size_t k = c.op->cpu.size(); k-- > 0;) {
    const OpDef::AnyKernel& kernel = c.op->cpu[k];
    if (kernel.declines && kernel.declines(c.params()->get(), in, out)) continue;
    const std::vector<NDArray> one = RunKernel(c, kernel, InputsOf(c), out, 1);
    const std::vector<NDArray> two = RunKernel(c, kernel, InputsOf(c), out, 2);
    if (plain.empty()) plain = one;
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(Difference(Read(one[i]), Read(plain[i]), 1e-4), "")
          << "kernel " << kernel.name << ", output " << i;
      EXPECT_EQ(Bytes(one[i]), Bytes(two[i]))
          << "kernel " << kernel.name << " on two threads, output " << i;
    }
  }
}

// ---------------------------------------------------------------- ways of calling

// Hidden outputs are the operator's own affair.
void CheckSame(const Case& c, const Arrays& got, const Arrays& expected,
               const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (int i = 0; i < c.op->CountVisible(*c.params()); ++i) {
    EXPECT_EQ(got[i].dtype(), expected[i].dtype()) << what;
    EXPECT_EQ(Difference(Read(got[i]), Read(expected[i]), 0), "")
        << what << ", output " << i;
  }
}

void CheckEager(const Case& c, const Arrays& expected) {
  LazyEnabled() = false;
  const Arrays eager = Call(c, InputsOf(c));
  LazyEnabled() = true;
  CheckSame(c, eager, expected, "not lazy");
}

// Inputs that begin in the middle of other arrays, at odd places.
void CheckViews(const Case& c, const Arrays& expected) {
  std::vector<NDArray> views;
  for (const NDArray& x : InputsOf(c)) {
    NDArray whole = NDArray::Empty({x.size() + 6}, x.dtype());
    std::memset(whole.data(), 0x5a, whole.nbytes());
    views.push_back(whole.View(x.shape(), 3));
    std::memcpy(views.back().data(), x.data(), x.nbytes());
  }
  CheckSame(c, Call(c, views), expected, "views");
}

// Results written into given arrays, also where one is an input.
void CheckOut(const Case& c, const Arrays& expected) {
  const size_t visible = c.op->CountVisible(*c.params());
  std::vector<NDArray> out;
  for (size_t i = 0; i < visible; ++i) {
    out.push_back(NDArray::Empty(expected[i].shape(), expected[i].dtype()));
    std::memset(out.back().data(), 0x5a, out.back().nbytes());
  }
  Call(c, InputsOf(c), out);
  for (size_t i = 0; i < visible; ++i) {
    EXPECT_EQ(Difference(Read(out[i]), Read(expected[i]), 0), "") << "out " << i;
  }
  for (size_t k = 0; k < c.sample().inputs.size() && visible > 0; ++k) {
    std::vector<NDArray> inputs = InputsOf(c);
    if (c.mutates(k) || !(inputs[k].shape() == expected[0].shape()) ||
        inputs[k].dtype() != expected[0].dtype()) {
      continue;
    }
    const NDArray target[] = {inputs[k]};
    Call(c, inputs, target);
    EXPECT_EQ(Difference(Read(inputs[k]), Read(expected[0]), 0), "")
        << "out is input " << k;
  }
}

// ---------------------------------------------------------------- dtypes

bool IsProper(const Error& e) {
  return e.kind() == ErrorKind::kType || e.kind() == ErrorKind::kValue ||
         e.kind() == ErrorKind::kIndex || e.kind() == ErrorKind::kNotImplemented;
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 4e-3;
    case DType::kBfloat16:
      return 3e-2;
    default:
      return 1e-4;
  }
}

// Runs, or says why not. Floats give what float32 gives for the same numbers.
void CheckDType(const Case& c, DType dtype) {
  try {
    std::vector<NDArray> inputs = InputsOf(c, dtype);
    std::vector<NDArray> rounded;
    for (size_t i = 0; i < inputs.size(); ++i) {
      rounded.push_back(
          ArrayOf(inputs[i].shape(), c.sample().inputs[i].dtype, Read(inputs[i])));
    }
    const Arrays got = Call(c, inputs);
    for (const NDArray& y : got) y.WaitToRead();
    if (!IsFloat(dtype) || c.op->random) return;
    const Arrays expected = Call(c, rounded);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(Difference(Read(got[i]), Read(expected[i]), ToleranceOf(dtype)), "")
          << "output " << i;
    }
  } catch (const Error& e) {
    EXPECT_TRUE(IsProper(e)) << e.what();
  }
}

// ---------------------------------------------------------------- bad input

// Any result or a proper error, never a crash.
void Survives(const Case& c, const std::vector<NDArray>& inputs) {
  try {
    for (const NDArray& y : Call(c, inputs)) y.WaitToRead();
  } catch (const Error& e) {
    EXPECT_TRUE(IsProper(e) || e.kind() == ErrorKind::kMemory) << e.what();
    EXPECT_NE(std::string(e.what()).find(':'), std::string::npos) << e.what();
  }
}

NDArray Zeros(const Shape& shape, DType dtype) {
  NDArray x = NDArray::Empty(shape, dtype);
  std::memset(x.data(), 0, x.nbytes());
  return x;
}

void CheckBadInput(const Case& c) {
  const std::vector<NDArray> inputs = InputsOf(c);
  // No elements along each axis in turn, in one input and in all.
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<NDArray> all = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = inputs[i].shape();
      if (axis >= shape.rank()) continue;
      shape[axis] = 0;
      std::vector<NDArray> one = inputs;
      one[i] = all[i] = Zeros(shape, inputs[i].dtype());
      Survives(c, one);
    }
    Survives(c, all);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<NDArray> bad = inputs;
    for (const Shape& shape :
         {Shape{}, Shape{7}, Shape{3, 5}, Shape{1, 1, 1, 1, 1, 2}}) {
      bad[i] = Zeros(shape, inputs[i].dtype());
      Survives(c, bad);
    }
    // Numbers that no index and no size can be.
    for (double number : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e30, -1e9}) {
      if (!IsFloat(inputs[i].dtype())) continue;
      bad[i] = ArrayOf(inputs[i].shape(), inputs[i].dtype(),
                       Numbers(inputs[i].size(), number));
      Survives(c, bad);
    }
  }
  if (!inputs.empty()) {
    EXPECT_THROW(Call(c, {}), Error) << "without inputs";
  }
}

TEST_P(Operator, GivesWhatInferenceSays) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c);
    CheckInference(c);
    CheckPartialInference(c);
  }
}

TEST_P(Operator, HasKernelsThatAgree) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c);
    CheckKernels(c);
  }
}

TEST_P(Operator, IsTheSameHoweverItIsCalled) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c);
    const Arrays expected = Call(c, InputsOf(c));
    CheckEager(c, expected);
    CheckViews(c, expected);
    CheckOut(c, expected);
  }
}

TEST_P(Operator, TakesOrRefusesEveryDType) {
  for (const Case& c : Cases()) {
    for (int d = 0; d < kNumDTypes; ++d) {
      std::ostringstream what;
      what << c << ", " << static_cast<DType>(d);
      SCOPED_TRACE(what.str());
      CheckDType(c, static_cast<DType>(d));
    }
  }
}

// Operators that only gradients call get what their operator had; no front end offers
// them.
bool IsInternal(const OpDef& op) {
  return op.name.rfind("_backward_", 0) == 0;
}

TEST_P(Operator, SurvivesBadInput) {
  if (IsInternal(*GetParam())) return;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c);
    CheckBadInput(c);
  }
}

// A gradient's own operator does not trust its dy, input 0, either: one of more
// elements along some axis, or of another rank, is refused or means a dx of another
// shape.
TEST_P(Operator, RefusesAGradientOfAnotherShape) {
  if (!IsInternal(*GetParam())) return;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c);
    std::vector<NDArray> inputs = InputsOf(c);
    const Shape dy = inputs[0].shape(), dx = Call(c, inputs)[0].shape();
    for (int axis = -1; axis < dy.rank(); ++axis) {
      Shape shape = dy;
      if (axis < 0) {
        shape.Append(2);
      } else {
        ++shape[axis];
      }
      inputs[0] = Zeros(shape, inputs[0].dtype());
      try {
        EXPECT_FALSE(Call(c, inputs)[0].shape() == dx) << "dy of shape " << shape;
      } catch (const Error& e) {
        EXPECT_TRUE(IsProper(e)) << e.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Operator, ::testing::ValuesIn(AllOps()), NameOf);

}  // namespace
}  // namespace plait::testing
