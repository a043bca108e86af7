// Recurrent steps against plain loops, on every instruction set and number of threads.

#include "cpu/rnn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

template <typename T>
std::vector<T> Random(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(-0.15, 0.15);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) v = static_cast<T>(draw(random));
  return x;
}

// A problem with all its arrays, in T.
template <typename T>
struct Problem {
  Problem(RnnMode mode, int64_t steps, int64_t batch, int64_t hidden, int64_t projected,
          bool reverse, std::vector<int64_t> ends)
      : lengths(std::move(ends)) {
    s.mode = mode;
    s.steps = steps;
    s.batch = batch;
    s.hidden = hidden;
    s.projected = projected;
    s.reverse = reverse;
    s.lengths = lengths.empty() ? nullptr : lengths.data();
    const int64_t rows = s.rows(), state = s.state(), all = steps * batch;
    const auto give = [&](const T*& to, int64_t n) {
      arrays.push_back(Random<T>(n, static_cast<uint32_t>(arrays.size())));
      to = arrays.back().data();
    };
    arrays.reserve(16);
    give(s.recurrent, rows * state);
    give(s.projection, state * hidden);
    give(s.bias_input, rows);
    give(s.bias_hidden, rows);
    give(s.h0, batch * state);
    give(s.c0, batch * hidden);
    give(dy, all * state);
    gates = Random<T>(all * rows, 77);
    cells.assign(all * hidden, 9);
    inner = raw = cells;
    hs.assign(all * state, 9);
    dgates.assign(all * rows, 9);
    dgates_hidden = dgates;
    dhs = hs;
    dh = Random<T>(batch * state, 5);
    dc = Random<T>(batch * hidden, 6);
    dbias_input.assign(rows, 9);
    dbias_hidden = dbias_input;
  }
  void Run() {
    s.gates = gates.data();
    s.cells = cells.data();
    s.inner = inner.data();
    s.raw = raw.data();
    s.hs = hs.data();
    s.hs_row = s.state();
    RnnForward(s);
    RnnBackward(
        s, {dy, s.state(), dh.data(), dc.data(), dgates.data(), dgates_hidden.data(),
            dhs.data(), dbias_input.data(), dbias_hidden.data()});
  }

  RnnSteps<T> s;
  std::vector<int64_t> lengths;
  std::vector<std::vector<T>> arrays;
  const T* dy = nullptr;
  std::vector<T> gates, cells, inner, raw, hs;
  std::vector<T> dgates, dgates_hidden, dhs, dh, dc, dbias_input, dbias_hidden;
};

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// The states by their formulas, from the products of the inputs in `gates`.
std::vector<double> PlainStates(const Problem<double>& p,
                                const std::vector<double>& gates) {
  const RnnSteps<double>& s = p.s;
  const int64_t H = s.hidden, P = s.state(), G = RnnGates(s.mode);
  std::vector<double> h(s.h0, s.h0 + s.batch * P), c(s.c0, s.c0 + s.batch * H);
  std::vector<double> all(static_cast<size_t>(s.steps * s.batch * P));
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.TimeOf(step);
    for (int64_t n = 0; n < s.batch; ++n) {
      std::vector<double> out(static_cast<size_t>(H));
      for (int64_t u = 0; u < H; ++u) {
        double x[4], y[4];
        for (int64_t k = 0; k < G; ++k) {
          x[k] = gates[(t * s.batch + n) * G * H + k * H + u] + s.bias_input[k * H + u];
          y[k] = s.bias_hidden[k * H + u];
          for (int64_t i = 0; i < P; ++i) {
            y[k] += s.recurrent[(k * H + u) * P + i] * h[n * P + i];
          }
        }
        if (s.mode == RnnMode::kLstm) {
          double& m = c[n * H + u];
          const double now =
              Sigmoid(x[1] + y[1]) * m + Sigmoid(x[0] + y[0]) * std::tanh(x[2] + y[2]);
          if (s.lengths == nullptr || t < s.lengths[n]) m = now;
          out[u] = Sigmoid(x[3] + y[3]) * std::tanh(m);
        } else if (s.mode == RnnMode::kGru) {
          const double z = Sigmoid(x[1] + y[1]);
          out[u] = (1 - z) * std::tanh(x[2] + Sigmoid(x[0] + y[0]) * y[2]) +
                   z * h[n * P + u];
        } else {
          const double v = x[0] + y[0];
          out[u] = s.mode == RnnMode::kRelu ? std::max(v, 0.0) : std::tanh(v);
        }
      }
      const bool active = s.lengths == nullptr || t < s.lengths[n];
      for (int64_t i = 0; active && i < P; ++i) {
        if (s.projected == 0) {
          h[n * P + i] = out[i];
          continue;
        }
        h[n * P + i] = 0;
        for (int64_t u = 0; u < H; ++u) {
          h[n * P + i] += s.projection[i * H + u] * out[u];
        }
      }
    }
    std::copy(h.begin(), h.end(), all.begin() + t * s.batch * P);
  }
  return all;
}

struct Shape {
  RnnMode mode;
  int64_t projected = 0;
  bool reverse = false;
  std::vector<int64_t> lengths = {};
};
const Shape kShapes[] = {
    {RnnMode::kLstm},
    {RnnMode::kGru, 0, true},
    {RnnMode::kTanh},
    {RnnMode::kRelu, 0, true},
    {RnnMode::kLstm, 50},
    {RnnMode::kLstm, 0, true, {5, 0, 3, 1, 2, 4, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}},
    {RnnMode::kLstm, 50, false, {5, 0, 3, 1, 2, 4, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}},
    {RnnMode::kGru, 0, true, {5, 0, 3, 1, 2, 4, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}},
};
// Not multiples of any vector or tile; the work of a step is worth several threads.
constexpr int64_t kSteps = 5, kBatch = 18, kHidden = 205;

TEST(Rnn, StatesFollowTheFormulas) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(&shape - kShapes);
    ForEachTarget([&] {
      Problem<double> p(shape.mode, kSteps, kBatch, kHidden, shape.projected,
                        shape.reverse, shape.lengths);
      const std::vector<double> want = PlainStates(p, p.gates);
      p.Run();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(p.hs[i], want[i], 1e-12) << "element " << i;
      }
      Problem<float> f(shape.mode, kSteps, kBatch, kHidden, shape.projected,
                       shape.reverse, shape.lengths);
      f.Run();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(f.hs[i], want[i], 2e-5) << "float, element " << i;
      }
      for (size_t i = 0; i < f.dgates.size(); ++i) {
        ASSERT_NEAR(f.dgates[i], p.dgates[i], 1e-4) << "float, gradient " << i;
      }
    });
  }
}

TEST(Rnn, ThreadsDoNotChangeABit) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(&shape - kShapes);
    Problem<float> one(shape.mode, kSteps, kBatch, kHidden, shape.projected,
                       shape.reverse, shape.lengths);
    Problem<float> many = one;  // reads the same constant arrays
    {
      const ScopedComputeThreads scope(1);
      one.Run();
    }
    {
      const ScopedComputeThreads scope(3);
      many.Run();
    }
    EXPECT_EQ(one.hs, many.hs);
    EXPECT_EQ(one.dgates, many.dgates);
    EXPECT_EQ(one.dh, many.dh);
    EXPECT_EQ(one.dc, many.dc);
    EXPECT_EQ(one.dbias_input, many.dbias_input);
  }
}

}  // namespace
}  // namespace plait::cpu
