// Attention: softmax(scale q k^T + mask) v, forward and backward, in blocks that stay
// in the caches. No array of the size queries x keys is ever made.
//
// Thread safety: any thread; ComputeThreads() threads share the work, and the bits of
// the results do not depend on their number. Errors: only kMemory, for lack of scratch:
// a few blocks for each thread, and in backward queries x size for each thread.
// Arguments are not checked; that is the caller's.

#ifndef PLAIT_CPU_ATTENTION_H_
#define PLAIT_CPU_ATTENTION_H_

#include <cstdint>

#include "base/dtype.h"
#include "base/random_stream.h"

namespace plait::cpu {

// Rows of one batch and head start at data + b * batch + h * head + i * row, in
// elements; the elements of a row are adjacent. So (B, H, T, D) and (B, T, H, D) are
// both read and written in place.
struct AttentionRows {
  void* data = nullptr;  // not written where it is an input
  int64_t batch = 0, head = 0, row = 0;
};

// Added to the scores where dtype is a float; otherwise 0 hides a key. Strides in
// elements, 0 along axes that share one value.
struct AttentionMask {
  const void* data = nullptr;  // null: none
  DType dtype = DType::kUnknown;
  int64_t batch = 0, head = 0, query = 0, key = 0;
};

struct AttentionProblem {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0;
  int64_t size = 0;               // of a query and a key
  int64_t value_size = 0;         // of a value and a result
  DType dtype = DType::kFloat32;  // of all arrays; halves are computed in float
  AttentionRows q, k, v;
  double scale = 1;
  // Query i sees keys j <= i + keys - queries: the last query sees all of them.
  bool causal = false;
  // How many keys count, of a (batch, head, query) by strides in elements; null: all.
  const int64_t* lengths = nullptr;
  int64_t length_batch = 1, length_head = 0, length_query = 0;

  int64_t Length(int64_t b, int64_t h, int64_t query) const {
    return lengths == nullptr
               ? keys
               : lengths[b * length_batch + h * length_head + query * length_query];
  }
  AttentionMask mask;
  // Weights become 0 with this chance and are divided by 1 - dropout else. The weight
  // of query i and key j takes number ((b * heads + h) * queries + i) * keys + j of the
  // stream, as the operator Dropout does for an array of all weights.
  double dropout = 0;
  RandomStream random;
};

// y, and for each (batch, head, query) the base-2 logarithm of the sum of
// 2^(score / ln 2), in the type of computation (double for double, float else). Queries
// that see no key give 0, and infinity as the logarithm.
void AttentionForward(const AttentionProblem& p, const AttentionRows& y,
                      void* log_sums);

// The gradients by q, k and v, where their data is not null, from y, log_sums and dy.
void AttentionBackward(const AttentionProblem& p, const AttentionRows& y,
                       const void* log_sums, const AttentionRows& dy,
                       const AttentionRows& dq, const AttentionRows& dk,
                       const AttentionRows& dv);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_ATTENTION_H_
