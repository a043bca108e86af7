// Where the parts of recurrent layers lie in their packed parameters and kept memory.

#include "ops/nn/rnn.h"

namespace plait {

RnnLayout::RnnLayout(const RnnParams& p, int64_t steps, int64_t batch, int64_t input,
                     bool dropout)
    : steps(steps),
      batch(batch),
      input(input),
      hidden(p.state_size),
      state(p.state()),
      directions(p.directions()),
      gates(p.gates()) {
  const auto take = [](int64_t& end, int64_t size) { return (end += size) - size; };
  const int64_t rows = gates * hidden, all = steps * batch;
  for (int64_t layer = 0; layer < p.num_layers; ++layer) {
    for (int64_t d = 0; d < directions; ++d) {
      Place& at = places.emplace_back();
      at.input_weight = take(parameters, rows * Input(layer));
      at.hidden_weight = take(parameters, rows * state);
      at.projection = take(parameters, p.projection_size ? state * hidden : 0);
      at.kept_gates = take(kept, all * rows);
      at.kept_cells = take(kept, p.lstm() ? all * hidden : 0);
      at.kept_inner = take(kept, p.mode == cpu::RnnMode::kGru ? all * hidden : 0);
      at.kept_raw = take(kept, p.projection_size ? all * hidden : 0);
      at.kept_hidden = take(kept, p.use_sequence_length ? all * state : 0);
    }
    if (layer + 1 == p.num_layers) break;
    Output& out = outputs.emplace_back();
    out.values = take(kept, all * directions * state);
    out.mask = take(kept, dropout ? all * directions * state : 0);
  }
  for (Place& at : places) {
    at.input_bias = take(parameters, rows);
    at.hidden_bias = take(parameters, rows);
  }
}

int64_t CountRnnParameters(const RnnParams& p, int64_t input) {
  return RnnLayout(p, 0, 0, input, false).parameters;
}

}  // namespace plait
