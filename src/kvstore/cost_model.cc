// The cost model of a store in step, piece by piece.

#include "kvstore/cost_model.h"

#include <algorithm>

#include "kvstore/packet.h"

namespace plait {
namespace {

constexpr auto kInline = static_cast<int64_t>(kInlineBytes);

// Of so many bytes to one rank, in pieces.
void AddPieces(int64_t bytes, StepCost& cost) {
  for (; bytes > 0; bytes -= kPieceBytes) {
    const int64_t piece = std::min(bytes, kPieceBytes);
    const int64_t messages = piece > kInline ? 2 : 1;  // a large one goes by itself
    cost.payload += piece;
    ++cost.entries;
    cost.most_messages += messages;
    if (piece > kInline) cost.least_messages += messages;
  }
}

}  // namespace

std::vector<Ranges> CutKeys(std::span<const int64_t> elements, int64_t element_bytes,
                            int ranks) {
  Partition partition(ranks);
  std::vector<Ranges> keys;
  for (const int64_t n : elements) keys.push_back(partition.Split(n, element_bytes));
  return keys;
}

StepCost CostOfStep(std::span<const Ranges> keys, int64_t element_bytes, int rank) {
  StepCost cost;
  const auto ranks = keys.empty() ? 0 : static_cast<int>(keys[0].parts.size());
  for (int to = 0; to < ranks; ++to) {
    if (to == rank) continue;
    for (const int sent : {to, rank}) {  // reduce: the other's part; gather: the own
      const StepCost before = cost;
      for (const Ranges& key : keys) {
        AddPieces(key.parts[static_cast<size_t>(sent)].size() * element_bytes, cost);
      }
      const bool small_only = cost.least_messages == before.least_messages;
      if (small_only && cost.entries > before.entries) ++cost.least_messages;
    }
  }
  return cost;
}

}  // namespace plait
