// What the operators of recurrent layers share: parameters, and where things lie in the
// packed parameters and in the memory that the gradient needs.

#ifndef PLAIT_OPS_NN_RNN_H_
#define PLAIT_OPS_NN_RNN_H_

#include <optional>
#include <vector>

#include "cpu/rnn.h"
#include "graph/op.h"

namespace plait {

struct RnnParams {
  int64_t state_size = 0, num_layers = 0;
  bool bidirectional = false;
  cpu::RnnMode mode = cpu::RnnMode::kLstm;
  float p = 0;
  bool state_outputs = false;
  std::optional<int64_t> projection_size;
  std::optional<double> lstm_state_clip_min, lstm_state_clip_max;
  bool lstm_state_clip_nan = false;
  bool use_sequence_length = false;
  // Of the gradient's operator: which inputs want one, which heads there are, and
  // whether dropout was active.
  int64_t want = 0, heads = 0;
  bool dropped = false;

  bool lstm() const { return mode == cpu::RnnMode::kLstm; }
  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t state() const { return projection_size.value_or(state_size); }
  int64_t gates() const { return cpu::RnnGates(mode); }
  bool Drops(bool training) const { return training && p > 0 && num_layers > 1; }
};

// All offsets count elements.
struct RnnLayout {
  RnnLayout(const RnnParams& p, int64_t steps, int64_t batch, int64_t input,
            bool dropout);

  int64_t Input(int64_t layer) const { return layer == 0 ? input : directions * state; }

  int64_t steps, batch, input, hidden, state, directions, gates;
  // Each direction of each layer: matrices (gates hidden, Input), (gates hidden,
  // state), (state, hidden) with a projection, and biases, in the packed parameters;
  // and what the forward pass keeps (cpu/rnn.h).
  struct Place {
    int64_t input_weight, hidden_weight, projection, input_bias, hidden_bias;
    int64_t kept_gates, kept_cells, kept_inner, kept_raw, kept_hidden;
  };
  std::vector<Place> places;
  // Each layer but the last: its output, and the factors of dropout on it.
  struct Output {
    int64_t values, mask;
  };
  std::vector<Output> outputs;
  int64_t parameters = 0, kept = 0;
};

// How many packed parameters there are, for inputs of a width.
int64_t CountRnnParameters(const RnnParams& p, int64_t input);

void RnnForwardKernel(const RnnParams& p, const KernelArgs& args);
void RnnBackwardKernel(const RnnParams& p, const KernelArgs& args);

// The gradient of _backward_RNN, and what it reads.
Values RnnSecondGradient(const RnnParams& p, const GradArgs& g);
Uses RnnSecondUses(const RnnParams& p);

}  // namespace plait

#endif  // PLAIT_OPS_NN_RNN_H_
