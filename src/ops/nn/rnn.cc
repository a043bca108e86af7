// RNN: recurrent layers over whole sequences, and their fused gradient.

#include "ops/nn/rnn.h"

#include <cmath>

#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

using P = RnnParams;
using cpu::RnnMode;

enum Input { kData, kParameters, kState, kCell };

void CheckParams(const P& p) {
  Check(p.state_size > 0 && p.num_layers > 0, "RNN: state_size is ", p.state_size,
        " and num_layers ", p.num_layers, "; positive numbers were expected");
  Check(p.p >= 0 && p.p <= 1, "RNN: p is ", p.p, "; a number in [0, 1] was expected");
  if (p.projection_size) {
    Check(p.lstm() && *p.projection_size > 0 && *p.projection_size <= p.state_size,
          "RNN: projection_size is ", *p.projection_size, " with state_size ",
          p.state_size, "; mode lstm and 1 to state_size were expected");
  }
  const bool low = p.lstm_state_clip_min.has_value();
  Check(low == p.lstm_state_clip_max.has_value(), ErrorKind::kValue,
        "RNN: only one of lstm_state_clip_min and lstm_state_clip_max is given; both "
        "were expected");
  Check(!low || (p.lstm() && *p.lstm_state_clip_min <= *p.lstm_state_clip_max),
        "RNN: lstm_state_clip is ", p.lstm_state_clip_min.value_or(0), " to ",
        p.lstm_state_clip_max.value_or(0),
        "; mode lstm and bounds in order were expected");
}

DType KeptDType(DType x) {
  return x == DType::kFloat64 ? x : DType::kFloat32;
}

// Lengths may be numbers of any kind; all else has the dtype of the data.
void InferTypes(const P& p, Specs& in, Specs& out) {
  const size_t arrays = 3u + p.lstm();
  DType x = out[0].dtype;
  for (size_t i = 0; i < arrays && i < in.size(); ++i) {
    if (x == DType::kUnknown) x = in[i].dtype;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype == DType::kUnknown) in[i].dtype = x;
    Check(i >= arrays || in[i].dtype == x, ErrorKind::kType, "RNN: data is ", x,
          " and input ", i, " is ", in[i].dtype, "; one dtype was expected");
  }
  for (Spec& s : out) s.dtype = x;
  if (x != DType::kUnknown) out.back().dtype = KeptDType(x);
}

// Shapes of states follow from the data.
bool InferInputs(const P& p, Specs& in) {
  CheckParams(p);
  Shape& x = in[kData].shape;
  Check(Assign(x, Shape::Filled(3, kUnknownSize)), "RNN: data ", x,
        "; (steps, batch, width) was expected");
  const int64_t places = p.num_layers * p.directions();
  Shape state{places, x[1], p.state()};
  Check(Assign(in[kState].shape, state), "RNN: state ", in[kState].shape,
        " does not fit data ", x, "; ", state, " was expected");
  x[1] = in[kState].shape[1];
  if (p.lstm()) {
    const Shape cell{places, x[1], p.state_size};
    Check(Assign(in[kCell].shape, cell), "RNN: state_cell ", in[kCell].shape,
          " does not fit data ", x, "; ", cell, " was expected");
  }
  if (p.use_sequence_length) {
    Shape& lengths = in[3u + p.lstm()].shape;
    Check(Assign(lengths, {x[1]}), "RNN: sequence_length ", lengths,
          " does not fit data ", x, "; one number a sample was expected");
  }
  if (x[2] == kUnknownSize) return true;
  const Shape parameters{CountRnnParameters(p, x[2])};
  Check(Assign(in[kParameters].shape, parameters), "RNN: parameters ",
        in[kParameters].shape, " do not fit data ", x, "; ", parameters,
        " was expected");
  return true;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  InferInputs(p, in);
  const Shape& x = in[kData].shape;
  bool ok = Assign(out[0].shape, {x[0], x[1], p.directions() * p.state()}) &&
            Unify(out[1].shape, in[kState].shape);
  if (p.lstm()) ok = ok && Unify(out[2].shape, in[kCell].shape);
  if (!x.known()) return ok;
  const RnnLayout at(p, x[0], x[1], x[2], p.p > 0);
  return ok && Assign(out.back().shape, {at.kept});
}

// Inputs of the operator, its output and what it kept, then gradients: of the output,
// and of the states as far as there are.
bool InferBackward(const P& p, Specs& in, Specs& out) {
  const size_t inputs = 3u + p.lstm() + p.use_sequence_length;
  const size_t states = (p.heads & 1) + (p.heads >> 1 & 1);
  Check(in.size() == inputs + 3 + states, ErrorKind::kType, "_backward_RNN: got ",
        in.size(), " arrays; ", inputs + 3 + states, " were expected");
  Specs given, y(2u + 1 + p.lstm());
  for (size_t i = 0; i < inputs; ++i) given.push_back(in[i]);
  if (!Infer(p, given, y)) return false;
  bool ok = Unify(in[inputs].shape, y[0].shape) &&
            Unify(in[inputs + 1].shape, y.back().shape) &&
            Unify(in[inputs + 2].shape, y[0].shape);
  size_t next = inputs + 3;
  if (p.heads & 1) ok = ok && Unify(in[next++].shape, given[kState].shape);
  if (p.heads & 2) ok = ok && Unify(in[next++].shape, given[kCell].shape);
  for (size_t i = 0; i < out.size(); ++i) {
    ok = ok && Unify(out[i].shape, given[i].shape);
  }
  return ok;
}

void InferBackwardTypes(const P&, Specs& in, Specs& out) {
  for (Spec& s : out) s.dtype = in[0].dtype;
}

double Cost(const P& p, const Specs& in, const Specs&) {
  const Shape& x = in[0].shape;
  const double parameters = static_cast<double>(CountRnnParameters(p, x[2]));
  return 4 * static_cast<double>(x[0] * x[1]) * parameters;
}

Values Gradient(const P& p, const GradArgs& g);

SampleInput Lengths(const std::vector<double>& values) {
  SampleInput s = Numbers({static_cast<int64_t>(values.size())}, values);
  s.differentiable = false;
  return s;
}

Sample<P> SampleOf(P p, int64_t steps = 3, const std::vector<double>& lengths = {}) {
  constexpr int64_t kBatch = 2, kWidth = 3;
  const int64_t places = p.num_layers * p.directions();
  p.use_sequence_length = !lengths.empty();
  Sample<P> sample;
  sample.inputs = {Normal({steps, kBatch, kWidth}),
                   Uniform({CountRnnParameters(p, kWidth)}, -0.7, 0.7),
                   Normal({places, kBatch, p.state()})};
  if (p.lstm()) sample.inputs.push_back(Normal({places, kBatch, p.state_size}));
  if (p.use_sequence_length) sample.inputs.push_back(Lengths(lengths));
  sample.params = std::move(p);
  sample.training = true;
  return sample;
}

std::vector<Sample<P>> Samples() {
  const auto of = [](RnnMode mode, int64_t layers, bool both, bool states) {
    return P{.state_size = 4,
             .num_layers = layers,
             .bidirectional = both,
             .mode = mode,
             .state_outputs = states};
  };
  std::vector<Sample<P>> samples;
  for (RnnMode mode : {RnnMode::kLstm, RnnMode::kGru, RnnMode::kTanh, RnnMode::kRelu}) {
    samples.push_back(SampleOf(of(mode, 1, false, false)));
    samples.push_back(SampleOf(of(mode, 2, true, true)));
    samples.push_back(SampleOf(of(mode, 1, true, true), 3, {1, 3}));
  }
  P p = of(RnnMode::kLstm, 2, false, true);
  p.p = 0.5f;
  samples.push_back(SampleOf(p));
  p = of(RnnMode::kLstm, 2, true, true);
  p.projection_size = 3;
  samples.push_back(SampleOf(p));
  samples.push_back(SampleOf(p, 3, {3, 2}));
  p = of(RnnMode::kLstm, 1, false, true);
  p.lstm_state_clip_min = -0.3;
  p.lstm_state_clip_max = 0.4;
  samples.push_back(SampleOf(p));
  samples.push_back(SampleOf(of(RnnMode::kGru, 1, false, true), 1));
  return samples;
}

// One hidden unit, so that what the operator gave is known. All but the head gradient
// stay as they are: the output would not follow.
Sample<P> BackwardSample() {
  const double x[] = {0.5, -1, 2}, h0 = 0.3, wx = 0.6, wh = -0.8, bx = 0.1, bh = 0.2;
  std::vector<double> y;
  for (double v : x)
    y.push_back(std::tanh(wx * v + bx + wh * (y.empty() ? h0 : y.back()) + bh));
  P p{.state_size = 1, .num_layers = 1, .mode = RnnMode::kTanh};
  p.want = 3;
  Sample<P> sample;
  sample.inputs = {Numbers({3, 1, 1}, {x[0], x[1], x[2]}),
                   Numbers({4}, {wx, wh, bx, bh}), Numbers({1, 1, 1}, {h0}),
                   Numbers({3, 1, 1}, y), Numbers({3}, y)};
  for (SampleInput& s : sample.inputs) s.differentiable = false;
  sample.inputs.push_back(Normal({3, 1, 1}));
  sample.params = std::move(p);
  return sample;
}

const OpDef& rnn = Register<P>({
    .name = "RNN",
    .aliases = {"_npx_rnn"},
    .doc = "Recurrent layers over whole sequences: Elman's networks, LSTM and GRU.",
    .inputs =
        {{"data", Types::kFloats, "(steps, batch, width)."},
         {"parameters", Types::kFloats,
          "All weights, then all biases, in one vector; by layer and direction: of the "
          "inputs, of the hidden state, of the projection."},
         {"state", Types::kFloats, "(layers directions, batch, state_size)."},
         {"state_cell", Types::kFloats, "The memory before the first step, for lstm."},
         {"sequence_length", Types::kNumbers, "The steps of each sample."}},
    .outputs = {{"output", Types::kFloats, "(steps, batch, directions state_size)."},
                {"state_output", Types::kFloats, "The states after the last step."},
                {"statecell_output", Types::kFloats, "The memory after it, for lstm."},
                {"kept", Types::kFloats, "What the gradient needs."}},
    .params = {Required("state_size", &P::state_size, "Width of the hidden state."),
               Required("num_layers", &P::num_layers, "Number of layers."),
               {"bidirectional", &P::bidirectional,
                "A second network reads each sequence from its end."},
               Required("mode", &P::mode, {"gru", "lstm", "rnn_relu", "rnn_tanh"},
                        "The kind of cell."),
               {"p", &P::p, "Chance that dropout between layers zeroes a number."},
               {"state_outputs", &P::state_outputs, "Gives the last states too."},
               {"projection_size", &P::projection_size,
                "Width of the state after a projection, for lstm."},
               {"lstm_state_clip_min", &P::lstm_state_clip_min,
                "Least number in the memory of lstm."},
               {"lstm_state_clip_max", &P::lstm_state_clip_max,
                "Largest number in the memory of lstm."},
               {"lstm_state_clip_nan", &P::lstm_state_clip_nan,
                "Clips NaN to the least number."},
               {"use_sequence_length", &P::use_sequence_length,
                "Samples end early; their output is 0 from there on."}},
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, p.lstm(), p.use_sequence_length};
    },
    .num_outputs = [](const P& p) { return 3 + p.lstm(); },
    .visible_outputs = [](const P& p) { return p.state_outputs ? 2 + p.lstm() : 1; },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const P& p) -> Uses {
      return {.in = kAll, .out = 0b1u | (p.lstm() ? 0b1000u : 0b100u)};
    },
    .cpu = {{"steps", RnnForwardKernel}},
    .random = true,
    .draws = [](const P& p, bool training) { return p.Drops(training); },
    .uses_training = true,
    .may_fail = true,
    .cost = Cost,
    .samples = Samples(),
});

const OpDef& backward_op = Register<P>({
    .name = "_backward_RNN",
    .doc = "The gradient of RNN for data, parameters and states.",
    .inputs = {{"arrays", Types::kAny,
                "RNN's inputs, its output and what it kept, then head gradients."}},
    .outputs = {{"data"}, {"parameters"}, {"state"}, {"state_cell"}},
    .variable_inputs = true,
    .num_outputs = [](const P& p) { return 3 + p.lstm(); },
    .types = InferBackwardTypes,
    .infer = InferBackward,
    .gradient = RnnSecondGradient,
    .uses_for = RnnSecondUses,
    .cpu = {{"steps", RnnBackwardKernel}},
    .cost = [](const P& p, const Specs& in,
               const Specs& out) { return 2 * Cost(p, in, out); },
    .samples = {BackwardSample()},
});

Values Gradient(const P& p, const GradArgs& g) {
  P q = p;
  q.want = (g.wants(kData) ? 1 : 0) | (g.wants(kParameters) ? 2 : 0);
  q.dropped = p.Drops(g.training);
  const int inputs = g.num_inputs();
  SmallVector<Value, 12> arrays;
  for (int i = 0; i < inputs; ++i) arrays.push_back(g.in(i));
  arrays.push_back(g.out(0));
  arrays.push_back(g.out(2 + p.lstm()));
  arrays.push_back(g.dout(0));
  for (int i = 0; i < 1 + p.lstm(); ++i) {
    if (!g.has_dout(1 + i)) continue;
    q.heads |= 1 << i;
    arrays.push_back(g.dout(1 + i));
  }
  const Values d = Apply(backward_op, MakeParams(std::move(q)), arrays);
  Values result(static_cast<size_t>(inputs));
  for (int i = 0; i < 3 + p.lstm(); ++i) {
    if (g.wants(i)) result[static_cast<size_t>(i)] = d[static_cast<size_t>(i)];
  }
  return result;
}

}  // namespace
}  // namespace plait
