// Prologue: a graph of parameters alone, whose values are kept between calls.
//
// The pass hoist splits it off. Whoever runs the rest holds the Vars of the parameters
// for reading and asks for the values here: they are computed again when a parameter is
// another array, or has been written, since they were. A Var that is held cannot be
// written, so its version is exact at that moment. What was computed is never changed,
// but replaced, and needs no Var of its own.
//
// Thread safety: all functions may be called from several threads at once.

#ifndef PLAIT_RUN_PROLOGUE_H_
#define PLAIT_RUN_PROLOGUE_H_

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ndarray/ndarray.h"

namespace plait {

class CompiledGraph;

// A parameter: where it lies. The memory must be alive.
struct PrologueSource {
  Chunk* chunk;
  char* data;
};
using PrologueSources = std::span<const PrologueSource>;

// What was computed from some state of the parameters.
class KeptValues : public RefCounted<KeptValues> {
 public:
  explicit KeptValues(PrologueSources sources);

  // The same arrays, unchanged. Exact while their Vars are held.
  bool Matches(PrologueSources sources) const;

  std::vector<NDArray> values;  // by the prologue's outputs

 private:
  friend class Prologue;
  struct Seen {
    Ref<Chunk> chunk;  // kept, so that no other array gets its address
    char* data;
    uint32_t version;
  };
  bool SameArrays(PrologueSources sources) const;
  bool Forgotten() const;  // no array stands for one of the parameters any more

  std::vector<Seen> seen_;
};

class Prologue : public RefCounted<Prologue> {
 public:
  // `sources`: which inputs of the rest the graph's inputs are.
  Prologue(Ref<const CompiledGraph> graph, std::vector<int> sources);

  const std::vector<int>& sources() const { return sources_; }
  int num_values() const;
  double cost() const;  // estimated time of computing, in nanoseconds

  // Those that are known; null where none match.
  Ref<const KeptValues> Find(PrologueSources sources) const;
  // REQUIRES: the caller holds the Vars of the sources.
  Ref<const KeptValues> Get(PrologueSources sources);
  // Lets go of all values; calls that use some have them to the end.
  void Forget();

 private:
  Ref<const KeptValues> Compute(PrologueSources sources) const;

  const Ref<const CompiledGraph> graph_;
  const std::vector<int> sources_;
  mutable std::mutex mutex_;
  // For the copies of the parameters on several devices; the last used at the end.
  mutable std::vector<Ref<const KeptValues>> kept_;  // under mutex_
};

// The prologues of graphs that are called with the same parameters: variants for other
// shapes of the data, and executors, share values where they compute the same from
// them. Many different ones must not fill the memory with values.
class PrologueSet {
 public:
  // One for an equal graph, or what `make` gives.
  Ref<Prologue> Get(const Graph& graph, const std::vector<int>& sources,
                    const std::function<Ref<const CompiledGraph>()>& make);

 private:
  struct Known {
    std::string key;
    Graph graph;  // its parameters stand in the key by address
    Ref<Prologue> prologue;
  };
  Ref<Prologue> Find(const std::string& key) const;

  std::mutex mutex_;
  std::vector<Known> known_;  // under mutex_; the newest at the end
};

}  // namespace plait

#endif  // PLAIT_RUN_PROLOGUE_H_
