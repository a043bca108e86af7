// One sample of an operator as a test case: its inputs as arrays, calls, comparisons.

#ifndef PLAIT_TESTS_OPS_CASE_H_
#define PLAIT_TESTS_OPS_CASE_H_

#include <cmath>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "cpu/pointwise.h"
#include "graph/op.h"
#include "run/invoke.h"
#include "run/random.h"
#include "run/tape.h"

namespace plait::testing {

using Numbers = std::vector<double>;

struct Case {
  const OpDef* op;
  int index;  // of the sample
  const OpDef::AnySample& sample() const { return op->samples[index]; }
  const ParamsRef& params() const { return sample().params; }
  bool is_pointwise() const { return op->IsPointwise(*params()); }
  // Inputs that the call changes: auxiliary states.
  bool mutates(size_t i) const { return op->Mutates(static_cast<int>(i)); }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.op->name << ", sample " << c.index;
}

// All samples of all operators.
inline std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const OpDef* op : AllOps()) {
    for (size_t i = 0; i < op->samples.size(); ++i) {
      cases.push_back({op, static_cast<int>(i)});
    }
  }
  return cases;
}

// The numbers of input i: always the same ones.
inline Numbers NumbersOf(const Case& c, size_t i) {
  const SampleInput& x = c.sample().inputs[i];
  std::mt19937_64 random(1000 * i + 7 * c.index + 1);
  Numbers numbers(x.shape.size());
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(x.low, x.high);
  for (size_t k = 0; k < numbers.size(); ++k) {
    switch (x.kind) {
      case SampleInput::kNormal:
        numbers[k] = normal(random);
        break;
      case SampleInput::kUniform:
        numbers[k] = uniform(random);
        break;
      case SampleInput::kIntegers:
        numbers[k] = std::floor(uniform(random));
        break;
      case SampleInput::kValues:
        numbers[k] = x.values[k];
        break;
    }
  }
  return numbers;
}

inline NDArray ArrayOf(const Shape& shape, DType dtype, const Numbers& numbers) {
  NDArray a = NDArray::Empty(shape, dtype);
  cpu::Convert(numbers.data(), DType::kFloat64, a.data(), dtype, a.size());
  return a;
}

// The inputs, with those that are float32 in the sample in another dtype.
inline std::vector<NDArray> InputsOf(const Case& c, DType dtype = DType::kFloat32) {
  std::vector<NDArray> inputs;
  for (size_t i = 0; i < c.sample().inputs.size(); ++i) {
    const SampleInput& x = c.sample().inputs[i];
    inputs.push_back(ArrayOf(x.shape, x.dtype == DType::kFloat32 ? dtype : x.dtype,
                             NumbersOf(c, i)));
  }
  return inputs;
}

// Calls the operator as its sample says, with the same random numbers each time.
inline Arrays Call(const Case& c, const std::vector<NDArray>& inputs,
                   std::span<const NDArray> out = {}) {
  SeedRandom(7);
  const bool before = Training();
  Training() = c.sample().training;
  Arrays results;
  try {
    results = Invoke(*c.op, c.params(), inputs, out);
  } catch (...) {
    Training() = before;
    throw;
  }
  Training() = before;
  return results;
}

inline Numbers Read(const NDArray& a) {
  a.WaitToRead();
  Numbers numbers(a.size());
  cpu::Convert(a.data(), a.dtype(), numbers.data(), DType::kFloat64, a.size());
  return numbers;
}

inline std::string Bytes(const NDArray& a) {
  std::string bytes(static_cast<size_t>(a.nbytes()), '\0');
  a.CopyToHost(bytes.data());
  return bytes;
}

// Numbers that an output means to show: hidden ones too, but for what is no number.
inline bool Near(double x, double y, double tolerance) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return true;
  return std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)});
}

// Empty, or where the two differ.
inline std::string Difference(const Numbers& got, const Numbers& expected,
                              double tolerance) {
  std::ostringstream text;
  if (got.size() != expected.size()) {
    text << got.size() << " numbers instead of " << expected.size();
    return text.str();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (Near(got[i], expected[i], tolerance)) continue;
    text << "number " << i << " is " << got[i] << " instead of " << expected[i];
    return text.str();
  }
  return "";
}

}  // namespace plait::testing

#endif  // PLAIT_TESTS_OPS_CASE_H_
