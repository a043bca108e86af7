// _contrib_hawkesll: the log-likelihood of points under a Hawkes process, by mark.
//
// The intensity of mark k at time t is lda_k + alpha_k beta_k s_k(t), where the state
// s_k, the sum of exp(-beta_k (t - t_i)) over its points before t, decays between them.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "graph/math.h"
#include "ops/index/indices.h"
#include "ops/infer.h"

namespace plait {
namespace {

using None = NoParams;

enum Input { kLda, kAlpha, kBeta, kState, kLags, kMarks, kValidLength, kMaxTime };

// Shapes: lda, state (n, k); alpha, beta (k,); lags, marks (n, t); the others (n,).
bool InferInputs(Specs& in, size_t first, const char* op) {
  const Shape &lda = in[first + kLda].shape, &lags = in[first + kLags].shape;
  if (!lda.known() || !lags.known()) return true;
  Check(lda.rank() == 2 && lags.rank() == 2 && lda[0] == lags[0], op, ": lda ", lda,
        " and lags ", lags,
        " do not match; (samples, marks) and (samples, points) were "
        "expected");
  const Shape of_marks{lda[1]}, of_samples{lda[0]};
  const Shape* expected[] = {&lda,  &of_marks, &of_marks,   &lda,
                             &lags, &lags,     &of_samples, &of_samples};
  for (int i = 0; i < 8; ++i) {
    Shape wanted = *expected[i];
    const Shape given = in[first + i].shape;
    Check(Unify(wanted, in[first + i].shape), op, ": input ", i, " has shape ", given,
          "; shape ", wanted, " was expected");
  }
  return true;
}

// All but the marks, which are whole numbers, share a dtype.
void InferTypes(Specs& in, Specs& out, size_t first, const char* op) {
  DType all = DType::kUnknown;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < in.size(); ++i)
      if (i != first + kMarks) UnifyDType(all, in[i].dtype);
    for (Spec& y : out) UnifyDType(all, y.dtype);
  }
  for (size_t i = 0; i < in.size(); ++i) {
    Check(i == first + kMarks || in[i].dtype == all, ErrorKind::kType, op, ": input ",
          i, " is ", in[i].dtype, " beside ", all, "; one dtype was expected");
  }
  if (in[first + kMarks].dtype == DType::kUnknown)
    in[first + kMarks].dtype = DType::kInt32;
}

// One sample's points, in float64.
struct Sequence {
  int64_t marks = 0;
  std::vector<double> lda, alpha, beta, state;
  std::vector<double> lags;
  std::vector<int64_t> mark;
  double max_time = 0;
};

std::vector<double> Row(const View& x, int64_t i, int64_t n) {
  std::vector<double> row(static_cast<size_t>(n));
  cpu::Convert(static_cast<const char*>(x.ptr) + i * n * SizeOf(x.dtype), x.dtype,
               row.data(), DType::kFloat64, n);
  return row;
}

Sequence Read(std::span<const View> in, int64_t i, const char* op) {
  const int64_t k = in[kLda].shape()[1], t = in[kLags].shape()[1];
  Sequence s{.marks = k,
             .lda = Row(in[kLda], i, k),
             .alpha = Row(in[kAlpha], 0, k),
             .beta = Row(in[kBeta], 0, k),
             .state = Row(in[kState], i, k),
             .max_time = Row(in[kMaxTime], i, 1)[0]};
  int64_t points;
  ReadIndices(in[kValidLength], i, 1, &points);
  points = std::clamp<int64_t>(points, 0, t);
  s.lags = Row(in[kLags], i, t);
  s.mark.resize(static_cast<size_t>(points));
  ResolveIndices(in[kMarks], i * t, points, k, IndexMode::kRaise, {op, 1},
                 s.mark.data());
  return s;
}

// A mark's state, when it was last seen, and the state's derivatives by beta and by the
// state at the start.
struct MarkState {
  double value = 0, last = 0, by_beta = 0, by_start = 1;
};

// Calls point(mark, delay, decay) for each point, then rest(mark, delay, decay) for
// what is left until max_time; states move on after each.
template <typename Point, typename Rest>
void Walk(const Sequence& s, std::vector<MarkState>& states, Point&& point,
          Rest&& rest) {
  const auto move = [&](int64_t k, double delay, double decay, double jump) {
    MarkState& m = states[k];
    m.by_beta = decay * (m.by_beta - delay * m.value);
    m.by_start *= decay;
    m.value = jump + decay * m.value;
  };
  double now = 0;
  for (size_t j = 0; j < s.mark.size(); ++j) {
    const int64_t k = s.mark[j];
    now += s.lags[j];
    const double delay = now - states[k].last, decay = std::exp(-s.beta[k] * delay);
    point(k, delay, decay);
    move(k, delay, decay, 1);
    states[k].last = now;
  }
  for (int64_t k = 0; k < s.marks; ++k) {
    const double delay = s.max_time - states[k].last;
    const double decay = std::exp(-s.beta[k] * delay);
    rest(k, delay, decay);
    move(k, delay, decay, 0);
  }
}

std::vector<MarkState> Start(const Sequence& s) {
  std::vector<MarkState> states(static_cast<size_t>(s.marks));
  for (int64_t k = 0; k < s.marks; ++k) states[k].value = s.state[k];
  return states;
}

void Store(const std::vector<double>& values, const View& y, int64_t row) {
  const auto n = static_cast<int64_t>(values.size());
  cpu::Convert(values.data(), DType::kFloat64,
               static_cast<char*>(y.ptr) + row * n * SizeOf(y.dtype), y.dtype, n);
}

void Forward(const None&, const KernelArgs& args) {
  ParallelFor(args.in[kLda].shape()[0], 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Sequence s = Read(args.in, i, "_contrib_hawkesll");
      std::vector<MarkState> states = Start(s);
      double total = 0;
      // What the intensity adds up to over a stretch without points.
      const auto compensator = [&](int64_t k, double delay, double decay) {
        return s.lda[k] * delay + s.alpha[k] * states[k].value * (1 - decay);
      };
      Walk(
          s, states,
          [&](int64_t k, double delay, double decay) {
            const double excited = s.alpha[k] * s.beta[k] * states[k].value * decay;
            total += std::log(s.lda[k] + excited) - compensator(k, delay, decay);
          },
          [&](int64_t k, double delay, double decay) {
            total -= compensator(k, delay, decay);
          });
      std::vector<double> out;
      for (const MarkState& m : states) out.push_back(m.value);
      Store({total}, args.out[0], i);
      Store(out, args.out[1], i);
    }
  });
}

// Gradients of one sample by lda, alpha, beta, state.
struct SequenceGradient {
  std::vector<double> lda, alpha, beta, state;
};

SequenceGradient Backward(const Sequence& s, double dll,
                          const std::vector<double>& dout) {
  std::vector<MarkState> states = Start(s);
  const std::vector<double> zeros(static_cast<size_t>(s.marks));
  SequenceGradient g{zeros, zeros, zeros, zeros};
  const auto stretch = [&](int64_t k, double delay, double decay) {
    const MarkState& m = states[k];
    g.lda[k] -= delay;
    g.alpha[k] -= m.value * (1 - decay);
    g.beta[k] -= s.alpha[k] * (m.by_beta * (1 - decay) + m.value * delay * decay);
    g.state[k] -= s.alpha[k] * m.by_start * (1 - decay);
  };
  Walk(
      s, states,
      [&](int64_t k, double delay, double decay) {
        const MarkState& m = states[k];
        const double a = s.alpha[k], b = s.beta[k];
        const double intensity = s.lda[k] + a * b * m.value * decay;
        g.lda[k] += 1 / intensity;
        g.alpha[k] += b * m.value * decay / intensity;
        g.beta[k] +=
            a * decay * (m.value * (1 - b * delay) + b * m.by_beta) / intensity;
        g.state[k] += a * b * m.by_start * decay / intensity;
        stretch(k, delay, decay);
      },
      stretch);
  for (int64_t k = 0; k < s.marks; ++k) {
    g.lda[k] *= dll;
    g.alpha[k] *= dll;
    g.beta[k] = g.beta[k] * dll + dout[k] * states[k].by_beta;
    g.state[k] = g.state[k] * dll + dout[k] * states[k].by_start;
  }
  return g;
}

// Inputs: gradients of both outputs, then those of the forward pass.
void BackwardAll(const None&, const KernelArgs& args) {
  const auto in = args.in.subspan(2);
  const int64_t n = in[kLda].shape()[0], k = in[kLda].shape()[1];
  std::vector<SequenceGradient> parts(static_cast<size_t>(n));
  ParallelFor(n, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      parts[i] = Backward(Read(in, i, "_contrib_hawkesll"), Row(args.in[0], i, 1)[0],
                          Row(args.in[1], i, k));
    }
  });
  std::vector<double> alpha(static_cast<size_t>(k)), beta(static_cast<size_t>(k));
  for (int64_t i = 0; i < n; ++i) {
    Store(parts[i].lda, args.out[0], i);
    Store(parts[i].state, args.out[3], i);
    for (int64_t m = 0; m < k; ++m) {
      alpha[m] += parts[i].alpha[m];
      beta[m] += parts[i].beta[m];
    }
  }
  Store(alpha, args.out[1], 0);
  Store(beta, args.out[2], 0);
}

std::vector<InputDef> InputList() {
  return {
      {"lda", Types::kFloats, "Background intensities, (samples, marks)."},
      {"alpha", Types::kFloats, "Branching ratios, (marks,)."},
      {"beta", Types::kFloats, "Rates of decay, (marks,)."},
      {"state", Types::kFloats, "States at the start, (samples, marks)."},
      {"lags", Types::kFloats, "Times between points, (samples, points)."},
      {"marks", Types::kAny, "The marks of points, (samples, points)."},
      {"valid_length", Types::kFloats, "How many points count, (samples,)."},
      {"max_time", Types::kFloats, "How long each sample was watched, (samples,)."}};
}

SampleInput Given(Shape shape, std::vector<double> values,
                  DType dtype = DType::kFloat32) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  s.dtype = dtype;
  return s;
}

std::vector<SampleInput> Inputs() {
  return {Uniform({2, 2}, 0.5, 2),
          Uniform({2}, 0.1, 0.6),
          Uniform({2}, 0.5, 2),
          Uniform({2, 2}, 0, 1),
          Given({2, 3}, {0.5, 1, 0.25, 1, 2, 3}),
          Given({2, 3}, {0, 1, 0, 1, 1, 0}, DType::kInt32),
          Given({2}, {3, 2}),
          Given({2}, {4, 5})};
}

[[maybe_unused]] const OpDef& hawkesll = Register<None>({
    .name = "_contrib_hawkesll",
    .doc = "The log-likelihood of each sample's points under independent Hawkes "
           "processes, one for each mark, and the states at the end.",
    .inputs = InputList(),
    .outputs = {{"output", Types::kFloats, "Log-likelihoods, (samples,)."},
                {"out_state", Types::kFloats, "States, (samples, marks)."}},
    .types = [](const None&, Specs& in,
                Specs& out) { InferTypes(in, out, 0, "_contrib_hawkesll"); },
    .infer =
        [](const None&, Specs& in, Specs& out) {
          if (!InferInputs(in, 0, "_contrib_hawkesll")) return false;
          const Shape& lda = in[kLda].shape;
          if (!lda.known()) return true;
          Shape samples{lda[0]};
          return Unify(samples, out[0].shape) && Unify(in[kLda].shape, out[1].shape);
        },
    .gradient = [](const None&, const GradArgs& g) -> Values {
      return MakeAll("_backward_hawkesll",
                     {g.dout(0), g.dout(1), g.in(0), g.in(1), g.in(2), g.in(3), g.in(4),
                      g.in(5), g.in(6), g.in(7)});
    },
    .uses = {.in = kAll},
    .cpu = {{"plain", Forward}},
    .may_fail = true,
    .cost =
        [](const None&, const Specs& in, const Specs&) {
          return 100.0 * static_cast<double>(in[kLags].shape.size());
        },
    .samples = {{Inputs()}},
});

[[maybe_unused]] const OpDef& backward_hawkesll = Register<None>({
    .name = "_backward_hawkesll",
    .doc = "The gradient of _contrib_hawkesll by lda, alpha, beta and state.",
    .inputs =
        [] {
          std::vector<InputDef> list = InputList();
          list.insert(list.begin(),
                      {{"ograd", Types::kFloats}, {"ograd_state", Types::kFloats}});
          return list;
        }(),
    .outputs = {{"lda"}, {"alpha"}, {"beta"}, {"state"}},
    .types = [](const None&, Specs& in,
                Specs& out) { InferTypes(in, out, 2, "_backward_hawkesll"); },
    .infer =
        [](const None&, Specs& in, Specs& out) {
          if (!InferInputs(in, 2, "_backward_hawkesll")) return false;
          const Shape& lda = in[2 + kLda].shape;
          if (!lda.known()) return true;
          Shape samples{lda[0]};
          bool ok =
              Unify(samples, in[0].shape) && Unify(in[2 + kLda].shape, in[1].shape);
          for (int i = 0; i < 4; ++i) ok = ok && Unify(in[2 + i].shape, out[i].shape);
          return ok;
        },
    .cpu = {{"plain", BackwardAll}},
    .may_fail = true,
    .samples = {{[] {
      std::vector<SampleInput> inputs = Inputs();
      inputs.insert(inputs.begin(), {Normal({2}), Normal({2, 2})});
      return inputs;
    }()}},
});

}  // namespace
}  // namespace plait
