// Pass pieces: nodes around the peak of memory run for one part of the batch at a time.
//
// The largest arrays of a convolutional network are those before its first poolings.
// What works sample by sample (graph/piece_form.h) need not have all samples at once:
// a run of such nodes becomes one node, `_in_pieces`, which runs a small graph for each
// part of the batch, in memory for one part. Sums over the batch are added up. Cheap
// values of the forward part are computed again there, part by part, and not kept.

#ifndef PLAIT_PASSES_PIECES_H_
#define PLAIT_PASSES_PIECES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "passes/memory_plan.h"

namespace plait {

// What an `_in_pieces` node does.
struct Pieces {
  Graph part;         // for the samples of one part
  int64_t count = 1;  // of parts
  // Of the part's inputs and outputs: whether each part has its own samples of them, or
  // reads all of it; gives its own samples, or a sum to which others add.
  std::vector<bool> sliced_in, sliced_out;
  // The node's last output: memory for the part's arena, and after it for the sums.
  int64_t work_bytes = 0;
};

struct PiecesRequest {
  PlanRequest plan;
  // The arena must become smaller by so many bytes, and by one part in twenty.
  int64_t worth = 16 << 20;
};

// `make` turns what a node does into its parameters. Graphs without a backward part
// stay as they are. What draws random numbers, writes inputs or runs the host language
// is never inside.
Graph UsePieces(Graph graph, const PiecesRequest& request,
                const std::function<ParamsRef(Pieces)>& make);

// Where a sum's bytes begin among those behind the arena.
int64_t AlignedSum(int64_t bytes);

}  // namespace plait

#endif  // PLAIT_PASSES_PIECES_H_
