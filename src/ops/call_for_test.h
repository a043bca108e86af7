// Short words for tests of operators: arrays from numbers, calls by name, gradients.

#ifndef PLAIT_OPS_CALL_FOR_TEST_H_
#define PLAIT_OPS_CALL_FOR_TEST_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/math.h"
#include "graph/op.h"
#include "run/invoke.h"
#include "run/tape.h"

namespace plait::testing {

inline NDArray Array(const Shape& shape, const std::vector<double>& values,
                     DType dtype = DType::kFloat32) {
  NDArray a = NDArray::Empty(shape, dtype);
  VisitDType(dtype, [&]<typename T>() {
    for (int64_t i = 0; i < a.size(); ++i) {
      a.data<T>()[i] = static_cast<T>(
          static_cast<Accumulate<T>>(values[static_cast<size_t>(i) % values.size()]));
    }
  });
  return a;
}
// 0, step, 2 step, ... minus an offset: different numbers without a generator.
inline NDArray Ramp(const Shape& shape, double step = 1, double first = 0,
                    DType dtype = DType::kFloat32) {
  std::vector<double> values(static_cast<size_t>(std::max<int64_t>(shape.size(), 1)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = first + step * static_cast<double>(i);
  }
  return Array(shape, values, dtype);
}

inline std::vector<double> Numbers(const NDArray& a) {
  a.WaitToRead();
  std::vector<double> values;
  VisitDType(a.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < a.size(); ++i) {
      values.push_back(static_cast<double>(static_cast<Accumulate<T>>(a.data<T>()[i])));
    }
  });
  return values;
}

using Attrs = std::vector<std::pair<std::string, std::string>>;  // as in graph files

inline Arrays Call(std::string_view name, const std::vector<NDArray>& inputs,
                   const Attrs& attrs = {}, const std::vector<NDArray>& out = {}) {
  const OpDef& op = GetOp(name);
  std::vector<NamedAttr> named;
  for (const auto& [key, text] : attrs) named.push_back({key, ParseAttr(text)});
  return Invoke(op, MakeParams(op, named), inputs, out);
}
inline NDArray Call1(std::string_view name, const std::vector<NDArray>& inputs,
                     const Attrs& attrs = {}) {
  return Call(name, inputs, attrs)[0];
}

// The gradients of a call's first output for inputs `of`; the head's is ones, or
// `head`.
inline std::vector<NDArray> Gradients(std::string_view name,
                                      std::vector<NDArray> inputs,
                                      const std::vector<int>& of,
                                      const Attrs& attrs = {}, const NDArray& head = {},
                                      bool training = true) {
  std::vector<NDArray> variables;
  for (int i : of) {
    inputs[i] = inputs[i].Detach();
    AttachGrad(inputs[i], NDArray::Empty(inputs[i].shape(), inputs[i].dtype()),
               GradReq::kWrite);
    variables.push_back(inputs[i]);
  }
  const bool before = Training();
  Training() = training;
  Recording() = true;
  const NDArray y = Call(name, inputs, attrs)[0];
  Recording() = false;
  std::vector<NDArray> result =
      Grad({&y, 1}, variables, {&head, 1}, false, false, training);
  Training() = before;
  return result;
}

inline void ExpectNear(const NDArray& a, const std::vector<double>& expected,
                       double tolerance = 1e-6) {
  const std::vector<double> got = Numbers(a);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance) << "at " << i;
  }
}

// The call throws this kind of error, whose text has all of `words`.
template <typename F>
void ExpectError(F&& call, ErrorKind kind, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << e.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  }
}

}  // namespace plait::testing

#endif  // PLAIT_OPS_CALL_FOR_TEST_H_
