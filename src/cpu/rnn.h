// Recurrent layers: all steps of one direction of one layer, forward and backward.
//
// The projection of the inputs, a single matrix product over all steps, and the
// gradients of the weights are the caller's. What is here goes through the steps: the
// recurrent weights are packed once, a step's gates are computed and used while they
// are in the cache, and threads share out the hidden units and meet once a step.
//
// T: float or double. Thread safety: any thread; ComputeThreads() threads are used
// above a size, and the bits of the results do not depend on their number. Errors: only
// kMemory. Arguments are not checked.

#ifndef PLAIT_CPU_RNN_H_
#define PLAIT_CPU_RNN_H_

#include <cstdint>

namespace plait::cpu {

// Gates, in the order of their rows: lstm has input, forget, candidate, output; gru has
// reset, update, candidate, where reset acts on the product with the hidden state.
enum class RnnMode : uint8_t { kGru, kLstm, kRelu, kTanh };

inline int RnnGates(RnnMode mode) {
  return mode == RnnMode::kLstm ? 4 : mode == RnnMode::kGru ? 3 : 1;
}

// Bounds of the memory of lstm cells.
struct RnnClip {
  bool on = false;
  double low = 0, high = 0;
  bool stop_nan = false;  // NaN becomes `low`
};

// Arrays are contiguous, (steps, batch, ...), but for hs. H: hidden, G: gates, P:
// projected, or H where that is 0.
template <typename T>
struct RnnSteps {
  RnnMode mode = RnnMode::kTanh;
  int64_t steps = 0, batch = 0, hidden = 0, projected = 0;
  bool reverse = false;              // from the last step to the first
  const int64_t* lengths = nullptr;  // steps of each sample, or null: all
  RnnClip clip;

  const T* recurrent = nullptr;    // (G H, P)
  const T* projection = nullptr;   // (P, H), with projected
  const T* bias_input = nullptr;   // (G H)
  const T* bias_hidden = nullptr;  // (G H)
  const T* h0 = nullptr;           // (batch, P)
  const T* c0 = nullptr;           // (batch, H): lstm

  // Forward: the products of inputs and weights; then the gates. (steps, batch, G H)
  T* gates = nullptr;
  T* cells = nullptr;  // lstm: the memory after each step, (steps, batch, H)
  T* inner = nullptr;  // gru: the candidate's product with the hidden state, likewise
  T* raw = nullptr;    // with projected: what is projected, likewise
  // The hidden state after each step: row (step, sample) is P values at
  // hs + (step * batch + sample) * hs_row. Past the end of a sample it stays.
  T* hs = nullptr;
  int64_t hs_row = 0;

  int64_t state() const { return projected > 0 ? projected : hidden; }
  int64_t rows() const { return RnnGates(mode) * hidden; }
  int64_t TimeOf(int64_t step) const { return reverse ? steps - 1 - step : step; }
};

template <typename T>
void RnnForward(const RnnSteps<T>& s);

template <typename T>
struct RnnGradients {
  const T* dy = nullptr;  // rows like those of hs
  int64_t dy_row = 0;
  T* dh = nullptr;  // (batch, P): of the last state; becomes that of h0
  T* dc = nullptr;  // (batch, H): the same for the cells of lstm
  // Gradients of the products with the inputs and with the hidden states, (steps,
  // batch, G H). They differ for gru alone; else dgates_hidden is not used.
  T* dgates = nullptr;
  T* dgates_hidden = nullptr;
  T* dhs = nullptr;  // with projected: the gradients of all states, (steps, batch, P)
  T* dbias_input = nullptr;   // (G H), overwritten
  T* dbias_hidden = nullptr;  // (G H), overwritten
};

// REQUIRES: steps, batch > 0; the arrays of `s` as RnnForward left them.
template <typename T>
void RnnBackward(const RnnSteps<T>& s, const RnnGradients<T>& g);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_RNN_H_
