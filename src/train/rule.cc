// Rule: states with master copies, and steps of many weights at once.

#include "train/rule.h"

#include "graph/math.h"
#include "run/invoke_each.h"
#include "train/quietly.h"

namespace plait {
namespace {

// An operation of the engine takes weights of this many elements together: enough that
// the small ones of a network cost little, and few enough that the first are done
// early.
constexpr int64_t kElementsAtOnce = int64_t{1} << 22;

}  // namespace

KindTable& Rule::Kinds() {
  static auto& table = *new KindTable("optimizer");
  return table;
}

NDArray ZerosLike(const NDArray& x, DType dtype) {
  return zeros({x.shape(), dtype}, x.device()).array();
}

bool Rule::Decays(std::string_view name) const {
  return name.ends_with("_weight") || name.ends_with("_gamma");
}

State Rule::NewState(const NDArray& weight) const {
  const Quietly quietly(weight.device());
  if (!UsesMaster(weight)) return NewOwnState(weight);
  const NDArray master = cast(weight, DType::kFloat32).array();
  const State own = NewOwnState(master);
  State state;
  if (!master_last()) state.push_back(master);
  for (const NDArray& x : own) state.push_back(x);
  if (master_last()) state.push_back(master);
  return state;
}

void Rule::Apply(const Batch& b) {
  const size_t n = b.weights.size();
  Check(b.grads.size() == n && b.states.size() == n && b.lrs.size() == n &&
            b.wds.size() == n && b.counts.size() == n,
        kind().name, ": got ", n, " weights, ", b.grads.size(), " gradients, ",
        b.states.size(), " states and ", b.lrs.size(),
        " rates; as many of each were expected");
  if (n == 0) return;
  const Quietly quietly(b.weights[0].device());
  Step(b);
}

Rule::Item Rule::ItemOf(const Batch& b, size_t i) const {
  Item item{.weight = b.weights[i],
            .grad = b.grads[i],
            .lr = b.lrs[i],
            .wd = b.wds[i],
            .count = b.counts[i]};
  Check(item.grad.dtype() == item.weight.dtype(), ErrorKind::kType, kind().name,
        ": weight is ", item.weight.dtype(), " and grad ", item.grad.dtype(),
        "; equal dtypes were expected");
  const State& state = b.states[i];
  size_t first = 0, last = state.size();
  if (UsesMaster(item.weight)) {
    Check(last > 0, kind().name,
          ": the state of a weight of half precision has no float32 copy; states are "
          "to be made under multi_precision");
    item.narrow = item.weight;
    item.weight = state[master_last() ? --last : first++];
    Check(item.weight && item.weight.dtype() == DType::kFloat32, kind().name,
          ": the state's copy of the weight is ",
          item.weight ? item.weight.dtype() : DType::kUnknown,
          "; float32 was expected");
  }
  for (size_t k = first; k < last; ++k) item.state.push_back(state[k]);
  return item;
}

Rule::Attrs Rule::GradientAttrs() const {
  Attrs attrs{{"rescale_grad", {rescale_grad}}};
  if (clip_gradient && *clip_gradient != 0)
    attrs.push_back({"clip_gradient", {*clip_gradient}});
  return attrs;
}

SmallVector<NDArray, 6> PointwiseRule::ArraysOf(const Item& item) const {
  SmallVector<NDArray, 6> arrays{item.weight, item.grad};
  for (const NDArray& x : item.state) {
    if (x) arrays.push_back(x);
  }
  return arrays;
}

void PointwiseRule::Step(const Batch& batch) {
  // Weights mostly share their rates, and so the parameters of the operator.
  struct Known {
    const OpDef* op;
    double lr, wd;
    int64_t count;
    ParamsRef params;
  };
  SmallVector<Known, 4> known;
  const auto params = [&](const OpDef& op, const Item& item) -> ParamsRef {
    for (const Known& k : known) {
      if (k.op == &op && k.lr == item.lr && k.wd == item.wd && k.count == item.count)
        return k.params;
    }
    Attrs attrs = GradientAttrs();
    attrs.push_back({"wd", {item.wd}});
    AddAttrs(item, attrs);
    ParamsRef made = MakeParams(op, attrs);
    if (Repeats() && known.size() < 4)
      known.push_back({&op, item.lr, item.wd, item.count, made});
    return made;
  };
  std::vector<EachCall> calls;
  const OpDef* op = nullptr;
  int64_t elements = 0;
  for (size_t i = 0; i < batch.weights.size(); ++i) {
    const Item item = ItemOf(batch, i);
    const OpDef& own = OpOf(item);
    elements += item.weight.size();
    if (!calls.empty() && (op != &own || elements > kElementsAtOnce)) {
      InvokeEach(*op, calls);
      calls.clear();
      elements = item.weight.size();
    }
    op = &own;
    calls.push_back({params(own, item), ArraysOf(item), item.narrow});
  }
  if (!calls.empty()) InvokeEach(*op, calls);
}

}  // namespace plait
