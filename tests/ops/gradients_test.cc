// Every gradient against finite differences in float64, and so every second gradient.
//
// A function is projected to a number by fixed random weights, so that one backward
// pass checks all outputs. The second gradient is the gradient of a projection of the
// first, with respect to the inputs and to the head gradients.

#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "tests/ops/case.h"

namespace plait::testing {
namespace {

constexpr double kStep = 1e-5;
constexpr int kMostElements = 10;  // of an input that are checked

class Gradient : public ::testing::TestWithParam<const OpDef*> {};

std::string NameOf(const ::testing::TestParamInfo<const OpDef*>& info) {
  return info.param->name;
}

struct Recorded {
  Recorded() { Recording() = true; }
  ~Recorded() { Recording() = false; }
};

// A call in float64 with leaves for the differentiable inputs.
class Problem {
 public:
  explicit Problem(const Case& c) : case_(c), inputs_(InputsOf(c, DType::kFloat64)) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (c.sample().inputs[i].differentiable && IsFloat(inputs_[i].dtype()) &&
          !c.mutates(i)) {
        wanted_.push_back(i);
        start_.push_back(Read(inputs_[i]));
      }
    }
  }

  const std::vector<size_t>& wanted() const { return wanted_; }
  const Numbers& start(size_t k) const { return start_[k]; }

  // Fresh inputs with the wanted ones at given values.
  std::vector<NDArray> InputsAt(const std::vector<Numbers>& x) const {
    std::vector<NDArray> inputs = InputsOf(case_, DType::kFloat64);
    for (size_t k = 0; k < wanted_.size(); ++k) {
      const NDArray& old = inputs[wanted_[k]];
      inputs[wanted_[k]] = ArrayOf(old.shape(), old.dtype(), x[k]);
    }
    return inputs;
  }
  std::vector<NDArray> Leaves(const std::vector<NDArray>& inputs, GradReq req,
                              double filled) const {
    std::vector<NDArray> leaves;
    for (size_t i : wanted_) {
      const NDArray& x = inputs[i];
      AttachGrad(x, ArrayOf(x.shape(), x.dtype(), Numbers(x.size(), filled)), req);
      leaves.push_back(x);
    }
    return leaves;
  }

  // The visible floating outputs of a call.
  std::vector<NDArray> Heads(const std::vector<NDArray>& inputs) const {
    const Arrays outputs = Call(case_, inputs);
    std::vector<NDArray> heads;
    for (int i = 0; i < case_.op->CountVisible(*case_.params()); ++i) {
      if (IsFloat(outputs[i].dtype())) heads.push_back(outputs[i]);
    }
    return heads;
  }
  static Numbers Weights(size_t size, int salt) {
    std::mt19937_64 random(salt + 100);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    Numbers weights(size);
    for (double& w : weights) w = uniform(random) * (random() % 2 ? 1 : -1);
    return weights;
  }
  static std::vector<NDArray> WeightArrays(const std::vector<NDArray>& like, int salt) {
    std::vector<NDArray> weights;
    for (const NDArray& y : like) {
      weights.push_back(
          ArrayOf(y.shape(), y.dtype(),
                  Weights(y.size(), salt + static_cast<int>(weights.size()))));
    }
    return weights;
  }
  static double Project(const std::vector<NDArray>& arrays, int salt) {
    double sum = 0;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Numbers y = Read(arrays[i]);
      const Numbers w = Weights(y.size(), salt + static_cast<int>(i));
      for (size_t k = 0; k < y.size(); ++k) sum += y[k] * w[k];
    }
    return sum;
  }

  // The projection of the outputs at x.
  double Value(const std::vector<Numbers>& x) const {
    return Project(Heads(InputsAt(x)), 0);
  }

  // The gradient of the projection with respect to the wanted inputs, at x and with
  // head gradients `weights` (the usual ones when empty).
  std::vector<NDArray> First(const std::vector<NDArray>& inputs,
                             std::vector<NDArray> weights, bool create_graph) const {
    const std::vector<NDArray> leaves = Leaves(inputs, GradReq::kWrite, 0);
    std::vector<NDArray> heads;
    {
      const Recorded scope;
      heads = Heads(inputs);
    }
    if (weights.empty()) weights = WeightArrays(heads, 0);
    return Grad(heads, leaves, weights, create_graph, create_graph,
                case_.sample().training);
  }

 private:
  const Case& case_;
  std::vector<NDArray> inputs_;
  std::vector<size_t> wanted_;
  std::vector<Numbers> start_;
};

// Elements of an input that are checked: all of few, some of many.
std::vector<size_t> Chosen(size_t size) {
  std::vector<size_t> chosen;
  const size_t step = size <= kMostElements ? 1 : size / kMostElements;
  for (size_t i = 0; i < size; i += step) chosen.push_back(i);
  return chosen;
}

// Compares with central differences of f, element by element.
template <typename F>
void CheckDifferences(const std::vector<Numbers>& start,
                      const std::vector<NDArray>& gradients, double tolerance, F&& f) {
  for (size_t k = 0; k < start.size(); ++k) {
    const Numbers got = Read(gradients[k]);
    ASSERT_EQ(got.size(), start[k].size());
    for (size_t i : Chosen(start[k].size())) {
      std::vector<Numbers> x = start;
      x[k][i] += kStep;
      const double above = f(x);
      x[k][i] = start[k][i] - kStep;
      const double below = f(x);
      const double expected = (above - below) / (2 * kStep);
      EXPECT_TRUE(Near(got[i], expected, tolerance))
          << "variable " << k << ", element " << i << ": " << got[i] << " instead of "
          << expected;
    }
  }
}

bool IsChecked(const Case& c, const Problem& problem) {
  return c.op->gradient != nullptr && !c.op->zero_gradient && !problem.wanted().empty();
}

std::vector<Numbers> StartOf(const Problem& problem) {
  std::vector<Numbers> start;
  for (size_t k = 0; k < problem.wanted().size(); ++k)
    start.push_back(problem.start(k));
  return start;
}

void CheckFirst(const Case& c) {
  const Problem problem(c);
  if (!IsChecked(c, problem)) return;
  const std::vector<Numbers> start = StartOf(problem);
  const std::vector<NDArray> inputs = problem.InputsAt(start);
  const std::vector<NDArray> dx = problem.First(inputs, {}, false);
  for (size_t k = 0; k < dx.size(); ++k) {
    const NDArray& x = inputs[problem.wanted()[k]];
    EXPECT_EQ(dx[k].shape(), x.shape());
    EXPECT_EQ(dx[k].dtype(), x.dtype());
  }
  CheckDifferences(start, dx, c.sample().tolerance,
                   [&](const std::vector<Numbers>& x) { return problem.Value(x); });
}

// The variables are the inputs and the head gradients.
void CheckSecond(const Case& c) {
  const Problem problem(c);
  if (!IsChecked(c, problem)) return;
  std::vector<Numbers> start = StartOf(problem);
  const size_t count = start.size();
  const std::vector<NDArray> inputs = problem.InputsAt(start);
  const std::vector<NDArray> heads = problem.Heads(inputs);
  std::vector<NDArray> weights = Problem::WeightArrays(heads, 0);
  for (const NDArray& w : weights) start.push_back(Read(w));

  std::vector<NDArray> variables = problem.Leaves(inputs, GradReq::kWrite, 0);
  for (const NDArray& w : weights) {
    AttachGrad(w, ArrayOf(w.shape(), w.dtype(), Numbers(w.size(), 0)), GradReq::kWrite);
    variables.push_back(w);
  }
  const auto weights_at = [&](const std::vector<Numbers>& x) {
    std::vector<NDArray> at;
    for (size_t i = 0; i < weights.size(); ++i) {
      at.push_back(ArrayOf(weights[i].shape(), weights[i].dtype(), x[count + i]));
    }
    return at;
  };
  const auto projected = [&](const std::vector<Numbers>& x) {
    return Problem::Project(problem.First(problem.InputsAt(x), weights_at(x), false),
                            50);
  };
  std::vector<NDArray> first;
  {
    const Recorded scope;
    const std::vector<NDArray> recorded = problem.Heads(inputs);
    first = Grad(recorded, {variables.data(), count}, weights, true, true,
                 c.sample().training);
  }
  // A gradient that depends on nothing is not tracked; its derivative is zero.
  std::vector<NDArray> tracked, tracked_weights, second;
  const std::vector<NDArray> second_weights = Problem::WeightArrays(first, 50);
  for (size_t i = 0; i < first.size(); ++i) {
    if (!IsTracked(first[i])) continue;
    tracked.push_back(first[i]);
    tracked_weights.push_back(second_weights[i]);
  }
  if (tracked.empty()) {
    for (const Numbers& x : start)
      second.push_back(ArrayOf({static_cast<int64_t>(x.size())}, DType::kFloat64,
                               Numbers(x.size(), 0)));
  } else {
    second =
        Grad(tracked, variables, tracked_weights, false, false, c.sample().training);
  }
  CheckDifferences(start, second, 10 * c.sample().tolerance, projected);
}

void CheckRequests(const Case& c) {
  const Problem problem(c);
  if (!IsChecked(c, problem)) return;
  const std::vector<Numbers> start = StartOf(problem);
  const std::vector<NDArray> expected =
      problem.First(problem.InputsAt(start), {}, false);
  for (const auto& [req, before] :
       {std::pair{GradReq::kWrite, 3.0}, {GradReq::kAdd, 3.0}, {GradReq::kNull, 3.0}}) {
    const std::vector<NDArray> inputs = problem.InputsAt(start);
    // One that wants a gradient stays, so that there is something to do.
    const std::vector<NDArray> leaves = problem.Leaves(inputs, GradReq::kWrite, 3);
    const NDArray& x = leaves[0];
    if (req == GradReq::kNull && leaves.size() == 1) continue;
    AttachGrad(x, ArrayOf(x.shape(), x.dtype(), Numbers(x.size(), before)), req);
    const NDArray grad = GradOf(x);
    std::vector<NDArray> heads;
    {
      const Recorded scope;
      heads = problem.Heads(inputs);
    }
    bool tracked = false;
    for (const NDArray& y : heads) tracked |= IsTracked(y);
    if (!tracked) continue;  // ret_typ indices of topk
    Backward(heads, Problem::WeightArrays(heads, 0), false, c.sample().training);
    Numbers want = Read(expected[0]);
    for (double& w : want) {
      w = req == GradReq::kWrite ? w : req == GradReq::kAdd ? w + before : before;
    }
    EXPECT_EQ(Difference(Read(grad), want, 1e-9), "")
        << "request " << static_cast<int>(req);
  }
}

// Zero where the operator says so.
void CheckZero(const Case& c) {
  if (!c.op->zero_gradient) return;
  std::vector<NDArray> inputs = InputsOf(c, DType::kFloat64);
  NDArray leaf;
  for (const NDArray& x : inputs) {
    if (!IsFloat(x.dtype())) continue;
    AttachGrad(x, ArrayOf(x.shape(), x.dtype(), Numbers(x.size(), 3)), GradReq::kWrite);
    leaf = x;
  }
  if (!leaf) return;
  Arrays outputs;
  {
    const Recorded scope;
    outputs = Call(c, inputs);
  }
  std::vector<NDArray> heads;
  for (const NDArray& y : outputs)
    if (IsFloat(y.dtype())) heads.push_back(y);
  if (heads.empty()) return;
  Backward(heads, {}, false, true);
  EXPECT_EQ(Difference(Read(GradOf(leaf)), Numbers(leaf.size(), 0), 0), "");
}

template <typename F>
void ForEachSample(const OpDef* op, F&& check) {
  for (size_t i = 0; i < op->samples.size(); ++i) {
    const Case c{op, static_cast<int>(i)};
    SCOPED_TRACE(c);
    check(c);
  }
}

TEST_P(Gradient, IsTheDerivative) {
  ForEachSample(GetParam(), CheckFirst);
  ForEachSample(GetParam(), CheckZero);
}
// Operators that say that they have no second derivative.
std::set<std::string>& FirstOnly() {
  static std::set<std::string> names;
  return names;
}

TEST_P(Gradient, HasTheRightDerivativeItself) {
  ForEachSample(GetParam(), [](const Case& c) {
    try {
      CheckSecond(c);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNotImplemented) throw;
      FirstOnly().insert(c.op->name);
    }
  });
}
TEST_P(Gradient, IsWrittenAddedOrLeftOut) {
  ForEachSample(GetParam(), CheckRequests);
}

INSTANTIATE_TEST_SUITE_P(All, Gradient, ::testing::ValuesIn(AllOps()), NameOf);

// Not a test of anything: says what the tests above cannot check.
TEST(ZCoverage, Report) {
  int checked = 0, zero = 0;
  std::string none, unchecked;
  for (const OpDef* op : AllOps()) {
    bool any = false;
    for (const OpDef::AnySample& s : op->samples)
      for (const SampleInput& x : s.inputs)
        any |= x.differentiable && x.dtype == DType::kFloat32;
    if (op->zero_gradient) {
      ++zero;
    } else if (!op->gradient) {
      none += " " + op->name;
    } else if (!any) {
      unchecked += " " + op->name;
    } else {
      ++checked;
    }
  }
  std::cout << AllOps().size() << " operators: " << checked
            << " gradients checked by differences, " << zero << " are zero\n"
            << "without gradient:" << none << "\ngradient not checked:" << unchecked
            << "\nfirst gradient only:";
  for (const std::string& name : FirstOnly()) std::cout << " " << name;
  std::cout << "\n";
}

}  // namespace
}  // namespace plait::testing
