// Rules for large batches: steps in proportion to the norm of each weight (LAMB, LARS),
// or gradients added up and a rate that is warmed up (LBSGD).

#include <algorithm>
#include <cmath>

#include "graph/math.h"
#include "run/invoke.h"
#include "run/invoke_each.h"
#include "train/rule.h"

namespace plait {
namespace {

AttrValue List(std::span<const double> values) {
  AttrList list;
  for (double v : values) list.push_back({v});
  return {list};
}

// The operators of several weights take at most so many.
constexpr size_t kWeightsAtOnce = 64;

class Lamb final : public Rule {
 public:
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  std::optional<double> lower_bound, upper_bound;
  bool bias_correction = true;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, weight.dtype()), ZerosLike(weight, weight.dtype())};
  }

  void Step(const Batch& batch) override {
    std::vector<Item> items[2];  // without and with a master copy
    const auto flush = [&](int kind) {
      if (!items[kind].empty()) Update(items[kind], kind == 1);
      items[kind].clear();
    };
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      Item item = ItemOf(batch, i);
      const int kind = item.narrow ? 1 : 0;
      items[kind].push_back(std::move(item));
      if (items[kind].size() == kWeightsAtOnce) flush(kind);
    }
    flush(0);
    flush(1);
  }

 private:
  void Update(const std::vector<Item>& items, bool master) {
    static const OpDef &plain = GetOp("_multi_lamb_update"),
                       &mixed = GetOp("_multi_mp_lamb_update");
    std::vector<NDArray> in, out;
    std::vector<double> lrs, wds;
    AttrList counts;
    for (const Item& item : items) {
      Check(item.state.size() == 2, "lamb: the state has ", item.state.size(),
            " arrays beside a copy of the weight; 2 were expected");
      out.push_back(master ? item.narrow : item.weight);
      in.insert(in.end(), {out.back(), item.grad, item.state[0], item.state[1]});
      if (master) in.push_back(item.weight);
      lrs.push_back(item.lr);
      wds.push_back(item.wd);
      counts.push_back({item.count});
    }
    Attrs attrs = GradientAttrs();
    attrs.push_back({"learning_rates", List(lrs)});
    attrs.push_back({"wds", List(wds)});
    attrs.push_back({"step_count", {counts}});
    attrs.push_back({"num_tensors", {static_cast<int64_t>(items.size())}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
    attrs.push_back({"epsilon", {epsilon}});
    attrs.push_back({"bias_correction", {bias_correction}});
    if (lower_bound && *lower_bound != 0)
      attrs.push_back({"lower_bound", {*lower_bound}});
    if (upper_bound && *upper_bound != 0)
      attrs.push_back({"upper_bound", {*upper_bound}});
    const OpDef& op = master ? mixed : plain;
    Invoke(op, MakeParams(op, attrs), in, out);
  }
};
[[maybe_unused]] const Kind& lamb = AddRule<Lamb>({
    .name = "lamb",
    .doc = "Adam's step, scaled layer by layer to the norm of the weight.",
    .attributes = {{"beta1", &Lamb::beta1, "Decay of the mean."},
                   {"beta2", &Lamb::beta2, "Decay of the second moment."},
                   {"epsilon", &Lamb::epsilon, "Added to the root."},
                   {"lower_bound", &Lamb::lower_bound, "Least norm of a weight."},
                   {"upper_bound", &Lamb::upper_bound, "Largest norm of a weight."},
                   {"bias_correction", &Lamb::bias_correction,
                    "Corrects both moments."}},
});

// Norms of arrays, read by the host.
std::vector<double> Norms(std::span<const NDArray> arrays) {
  static const OpDef& op = GetOp("multi_sum_sq");
  std::vector<double> norms;
  for (size_t first = 0; first < arrays.size(); first += kWeightsAtOnce) {
    const auto part =
        arrays.subspan(first, std::min(kWeightsAtOnce, arrays.size() - first));
    const NamedAttr attr{"num_arrays", {static_cast<int64_t>(part.size())}};
    const NDArray sums = Invoke(op, MakeParams(op, {&attr, 1}), part)[0];
    std::vector<float> host(part.size());
    sums.CopyToHost(host.data());
    for (float sum : host) norms.push_back(std::sqrt(static_cast<double>(sum)));
  }
  return norms;
}

// SGD on items whose rates are final.
void SgdStep(const OpDef& plain, const OpDef& mom, double momentum,
             std::vector<NamedAttr> common, auto&& items) {
  std::vector<EachCall> calls[2];
  for (const auto& item : items) {
    const bool has_momentum = !item.state.empty() && item.state[0];
    std::vector<NamedAttr> attrs = common;
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"wd", {item.wd}});
    if (has_momentum) attrs.push_back({"momentum", {momentum}});
    EachCall call{MakeParams(has_momentum ? mom : plain, attrs),
                  {item.weight, item.grad},
                  item.narrow};
    if (has_momentum) call.arrays.push_back(item.state[0]);
    calls[has_momentum].push_back(std::move(call));
  }
  InvokeEach(plain, calls[0]);
  InvokeEach(mom, calls[1]);
}

// SGD with the rate eta |w| / (|s g| + wd |w| + eps) relative to the global one.
class Lars final : public Rule {
 public:
  bool master_last() const override { return true; }
  bool bare_state() const override { return true; }
  bool Decays(std::string_view name) const override {
    return name.ends_with("_weight");
  }

  double momentum = 0, eta = 0.001, eps = 0;
  bool momentum_correction = true;
  // The global rate of the last step and of the one before.
  std::optional<double> last_lr, cur_lr;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {momentum == 0 ? NDArray() : ZerosLike(weight, weight.dtype())};
  }

  void Step(const Batch& batch) override {
    last_lr = cur_lr.value_or(batch.base_lr);
    cur_lr = batch.base_lr;
    std::vector<Item> items;
    std::vector<size_t> scaled;
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      items.push_back(ItemOf(batch, i));
      if (IsScaled(batch, i)) scaled.push_back(i);
    }
    for (size_t i : scaled) arrays.push_back(batch.weights[i]);
    for (size_t i : scaled) arrays.push_back(batch.grads[i]);
    const std::vector<double> norms = Norms(arrays);
    for (size_t k = 0; k < scaled.size(); ++k) {
      Item& item = items[scaled[k]];
      const double w = norms[k], g = norms[scaled.size() + k] * rescale_grad;
      if (w > 0 && g > 0) item.lr *= eta * w / (g + item.wd * w + eps);
    }
    double mu = momentum;
    if (momentum_correction && *last_lr != 0) mu *= *cur_lr / *last_lr;
    static const OpDef &plain = GetOp("sgd_update"), &mom = GetOp("sgd_mom_update");
    SgdStep(plain, mom, mu, GradientAttrs(), items);
  }

 private:
  static bool IsScaled(const Batch& batch, size_t i) {
    if (batch.names.empty()) return true;
    const std::string& name = batch.names[i];
    return !name.ends_with("gamma") && !name.ends_with("beta") &&
           !name.ends_with("bias");
  }
};
[[maybe_unused]] const Kind& lars = AddRule<Lars>({
    .name = "lars",
    .doc = "SGD with a rate for each layer; parameters named ...gamma, ...beta or "
           "...bias keep the global rate.",
    .attributes = {{"momentum", &Lars::momentum, "Decay of momentum."},
                   {"eta", &Lars::eta, "Share of the weight's norm."},
                   {"eps", &Lars::eps, "Added to the divisor."},
                   {"momentum_correction", &Lars::momentum_correction,
                    "Scales the momentum when the rate changes."},
                   {"last_lr", &Lars::last_lr, "The rate of the step before."},
                   {"cur_lr", &Lars::cur_lr, "The rate of the last step."}},
    .changing = {"last_lr", "cur_lr"},
});

// The last array of the state adds up gradients; every batch_scale ones make a step.
class Lbsgd final : public Rule {
 public:
  bool bare_state() const override { return true; }

  double momentum = 0;
  std::string warmup_strategy = "linear";
  double warmup_epochs = 5, batch_scale = 1, updates_per_epoch = 32;
  int64_t init_updates = 0;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {momentum == 0 ? NDArray() : ZerosLike(weight, weight.dtype()),
            ZerosLike(weight, weight.dtype())};
  }

  void Step(const Batch& batch) override {
    std::vector<Item> items;
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      Item item = ItemOf(batch, i);
      Check(item.state.size() == 2 && item.state[1],
            "lbsgd: the state has no array that adds up gradients");
      const NDArray sum = item.state[1];
      const NDArray more = cast(item.grad, sum.dtype()).array();
      CopyInto((Value(sum) + Value(more)).array(), sum);
      const double seen = static_cast<double>(init_updates + item.count);
      if (std::fmod(seen, batch_scale) != 0) continue;
      item.grad = (Value(sum) / batch_scale).array();
      CopyInto(zeros_like(sum).array(), sum);
      item.lr *= warmup_strategy == "lars" ? LayerRate(item) : WarmUp(seen);
      items.push_back(std::move(item));
    }
    static const OpDef &plain = GetOp("sgd_update"), &mom = GetOp("sgd_mom_update");
    SgdStep(plain, mom, momentum, GradientAttrs(), items);
  }

 private:
  double LayerRate(const Item& item) const {
    const NDArray arrays[] = {item.weight, item.grad};
    const std::vector<double> norms = Norms(arrays);
    const double w = norms[0] * norms[0], g = norms[1] * norms[1];
    return std::clamp(std::sqrt(w / (g + item.wd * w + 1e-18)), 0.01, 100.0);
  }
  // From 1 to batch_scale over the updates of the warm-up.
  double WarmUp(double seen) const {
    const double steps = warmup_epochs * updates_per_epoch;
    if (seen >= steps) return batch_scale;
    const double x = seen / steps;
    double share = 0;
    if (steps <= 1) return 1;
    if (warmup_strategy == "linear") share = x;
    if (warmup_strategy == "power2") share = x * x;
    if (warmup_strategy == "sqrt") share = std::sqrt(x);
    return 1 + (batch_scale - 1) * share;
  }
};
[[maybe_unused]] const Kind& lbsgd = AddRule<Lbsgd>({
    .name = "lbsgd",
    .doc = "Averages several gradients into one step, with a rate that is warmed up or "
           "follows the norms.",
    .attributes = {{"momentum", &Lbsgd::momentum, "Decay of momentum."},
                   {"warmup_strategy", &Lbsgd::warmup_strategy,
                    "linear, power2, sqrt or lars; anything else: no warm-up."},
                   {"warmup_epochs", &Lbsgd::warmup_epochs, "Length of the warm-up."},
                   {"batch_scale", &Lbsgd::batch_scale, "Gradients that make a step."},
                   {"updates_per_epoch", &Lbsgd::updates_per_epoch,
                    "Gradients of an epoch."},
                   {"init_updates", &Lbsgd::init_updates,
                    "Gradients before this run."}},
});

}  // namespace
}  // namespace plait
