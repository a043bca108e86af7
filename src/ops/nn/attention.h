// Attention as its operators share it: parameters, sizes, and the problem of a call.

#ifndef PLAIT_OPS_NN_ATTENTION_H_
#define PLAIT_OPS_NN_ATTENTION_H_

#include <optional>
#include <vector>

#include "cpu/attention.h"
#include "graph/op.h"

namespace plait {

// BHTD: (batch, heads, length, size); BTHD: (batch, length, heads, size); TBHD:
// (length, batch, heads, size). Arrays with three axes are (batch, length, heads *
// size), or with TBHD (length, batch, heads * size).
enum class AttentionLayout { kHeadsFirst, kRowsFirst, kTimeFirst };

struct AttentionParams {
  std::optional<double> scale;
  bool causal = false;
  float dropout = 0;
  AttentionLayout layout = AttentionLayout::kHeadsFirst;
  int64_t heads = 1;  // of arrays with three axes
  bool use_mask = false;
  bool use_length = false;
};
std::vector<Param<AttentionParams>> AttentionParamList();

// Where the optional inputs stand; -1: not there.
int MaskInput(const AttentionParams& p);
int LengthInput(const AttentionParams& p);

struct AttentionSizes {
  int64_t batch = kUnknownSize, heads = kUnknownSize, queries = kUnknownSize,
          keys = kUnknownSize, size = kUnknownSize, value_size = kUnknownSize;
};
AttentionSizes SizesOf(const AttentionParams& p, const Shape& q, const Shape& k,
                       const Shape& v);

// Query, key, value, mask and length as any of the operators takes them first. Fills in
// what is known of one from the others; throws where they do not fit. `y` null: none.
bool InferAttention(const AttentionParams& p, const char* op, Specs& in, Shape* y);
void InferAttentionTypes(const AttentionParams& p, const char* op, Specs& in);

void CheckAttentionMask(const char* op, const Shape& mask, const AttentionSizes& s);
void CheckAttentionLength(const char* op, Shape& length, const AttentionSizes& s);

// Null: none. `lengths` keeps what the problem points to.
void SetMaskAndLengths(cpu::AttentionProblem& problem, const View* mask,
                       const View* length, std::vector<int64_t>& lengths);
// The problem of a call whose first inputs are those. `lengths` keeps what it points
// to. Dropout is left at 0.
cpu::AttentionProblem ProblemOf(const AttentionParams& p, std::span<const View> in,
                                std::vector<int64_t>& lengths);
// An array of rows, as query, key, value and the result are.
cpu::AttentionRows RowsOf(const AttentionParams& p, const View& x);

double AttentionScale(const AttentionParams& p, int64_t size);
// Multiplications and additions of the forward part.
double AttentionFlops(const AttentionParams& p, const Specs& in);

// Weights (batch * heads, queries, keys) by plain loops, in double; rows that see
// nothing are 0. `log_sums`, where it is not null, gets base-2 logarithms.
std::vector<double> PlainAttentionWeights(const cpu::AttentionProblem& p,
                                          double* log_sums);
// What each weight is multiplied with: 0, or 1 / (1 - dropout).
std::vector<double> PlainAttentionKept(const cpu::AttentionProblem& p);

// The gradients by query, key and value, from the operator's inputs (and mask and
// length), its three outputs, and dy.
Values AttentionBackward(const AttentionParams& p, std::span<const Value> in,
                         const Value& y, const Value& log_sums, const Value& stream,
                         const Value& dy);
// The same by arrays of all weights, for gradients by the mask and for gradients of
// gradients: what the scores' gradient is made of.
struct AttentionScores {
  Value weights;  // (batch * heads, queries, keys), before dropout
  Value kept;     // what dropout multiplied them with; empty: nothing
  Value q, k, v;  // (batch * heads, length, size)
  double scale = 1;
};
AttentionScores ScoresOf(const AttentionParams& p, std::span<const Value> in,
                         const Value& stream);
// Query, key, value or result as (batch * heads, length, size), and back as `like`.
Value HeadsOf(const AttentionParams& p, const Value& x);
Value FromHeads(const AttentionParams& p, const Value& x, const Shape& like);

}  // namespace plait

#endif  // PLAIT_OPS_NN_ATTENTION_H_
