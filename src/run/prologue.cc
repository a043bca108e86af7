// Prologue: finding kept values, computing them.

#include "run/prologue.h"

#include <algorithm>
#include <utility>

#include "cpu/scratch.h"
#include "ndarray/outside.h"
#include "passes/simplify.h"
#include "run/compiled_graph.h"

namespace plait {
namespace {

// Copies of parameters, on several devices, whose values are kept.
constexpr size_t kMostKept = 8;
// The newest prologues of a set, which keep their values when another one comes.
constexpr size_t kMostKeeping = 8;

// Equal for prologues that compute the same from the same inputs.
std::string KeyOf(const Graph& graph, const std::vector<int>& sources) {
  std::string key;
  for (int source : sources) key += std::to_string(source) + ' ';
  for (const GraphNode& node : graph.nodes) {
    const std::string call = KeyOfCall(node);
    key += '\n' + call + " ->";
    // Calls that no text tells apart.
    if (!node.is_input() && call.empty())
      key += std::to_string(reinterpret_cast<uintptr_t>(node.params.get()));
    for (const Spec& spec : node.outputs) {
      key += ' ' + std::to_string(static_cast<int>(spec.dtype));
      for (int64_t size : spec.shape) key += ',' + std::to_string(size);
    }
  }
  for (GraphEntry e : graph.outputs)
    key += '\n' + std::to_string(e.node) + '.' + std::to_string(e.index);
  return key;
}

}  // namespace

KeptValues::KeptValues(PrologueSources sources) {
  for (const PrologueSource& s : sources)
    seen_.push_back({Ref<Chunk>(s.chunk), s.data, s.chunk->var().version()});
}

bool KeptValues::SameArrays(PrologueSources sources) const {
  for (size_t i = 0; i < seen_.size(); ++i) {
    if (seen_[i].chunk.get() != sources[i].chunk || seen_[i].data != sources[i].data)
      return false;
  }
  return true;
}

bool KeptValues::Matches(PrologueSources sources) const {
  if (!SameArrays(sources)) return false;
  return std::all_of(seen_.begin(), seen_.end(), [](const Seen& s) {
    return s.chunk->var().version() == s.version && !IsKnownOutside(*s.chunk);
  });
}

bool KeptValues::Forgotten() const {
  return std::any_of(seen_.begin(), seen_.end(), [](const Seen& s) {
    return s.chunk->bodies.load(std::memory_order_acquire) == 0;
  });
}

Prologue::Prologue(Ref<const CompiledGraph> graph, std::vector<int> sources)
    : graph_(std::move(graph)), sources_(std::move(sources)) {}

int Prologue::num_values() const {
  return static_cast<int>(graph_->graph().outputs.size());
}

double Prologue::cost() const {
  return graph_->ForwardCost();
}

Ref<const KeptValues> Prologue::Find(PrologueSources sources) const {
  const std::lock_guard lock(mutex_);
  for (const Ref<const KeptValues>& kept : kept_) {
    if (kept->Matches(sources)) return kept;
  }
  return nullptr;
}

Ref<const KeptValues> Prologue::Compute(PrologueSources sources) const {
  const Graph& graph = graph_->graph();
  Ref<KeptValues> kept = MakeRef<KeptValues>(sources);
  const Device device = sources.empty() ? Device{} : sources[0].chunk->device();
  const cpu::Scratch arena(static_cast<size_t>(graph_->plan().arena_bytes));
  std::vector<char*> in, out;
  for (const PrologueSource& s : sources) in.push_back(s.data);
  for (GraphEntry e : graph.outputs) {
    const Spec& spec = graph.spec(e);
    kept->values.push_back(NDArray::Empty(spec.shape, spec.dtype, device));
    out.push_back(static_cast<char*>(kept->values.back().data()));
  }
  GraphCall::RunHere(*graph_, GraphCall::kForward, arena.As<char>(), in, out, {});
  return Ref<const KeptValues>(kept.get());
}

Ref<const KeptValues> Prologue::Get(PrologueSources sources) {
  if (Ref<const KeptValues> known = Find(sources)) return known;
  // Two threads may both compute; both results are good.
  const Ref<const KeptValues> fresh = Compute(sources);
  if (!fresh->Matches(sources)) return fresh;     // memory that others may write
  SmallVector<Ref<const KeptValues>, 2> dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto stale = [&](const Ref<const KeptValues>& kept) {
    return kept->SameArrays(sources) || kept->Forgotten();
  };
  for (Ref<const KeptValues>& kept : kept_) {
    if (stale(kept)) dropped.push_back(std::exchange(kept, nullptr));
  }
  std::erase_if(kept_, [](const auto& kept) { return !kept; });
  if (kept_.size() == kMostKept) {
    dropped.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
  kept_.push_back(fresh);
  return fresh;
}

void Prologue::Forget() {
  std::vector<Ref<const KeptValues>> dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(kept_);
}

Ref<Prologue> PrologueSet::Get(const Graph& graph, const std::vector<int>& sources,
                               const std::function<Ref<const CompiledGraph>()>& make) {
  std::string key = KeyOf(graph, sources);
  {
    const std::lock_guard lock(mutex_);
    if (Ref<Prologue> known = Find(key)) return known;
  }
  Ref<Prologue> fresh = MakeRef<Prologue>(make(), sources);
  const std::lock_guard lock(mutex_);
  if (Ref<Prologue> known = Find(key)) return known;  // another thread's
  // Those that no graph uses any more.
  std::erase_if(known_, [](const Known& k) { return k.prologue->unique(); });
  if (known_.size() >= kMostKeeping)
    known_[known_.size() - kMostKeeping].prologue->Forget();
  known_.push_back({std::move(key), graph, fresh});
  return fresh;
}

Ref<Prologue> PrologueSet::Find(const std::string& key) const {
  for (const Known& known : known_) {
    if (known.key == key) return known.prologue;
  }
  return nullptr;
}

}  // namespace plait
