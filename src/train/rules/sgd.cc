// Stochastic gradient descent and its relatives.

#include <cmath>

#include "graph/math.h"
#include "run/invoke.h"
#include "train/rule.h"

namespace plait {
namespace {

// Rules with one state, a momentum, that do without it where `momentum` is 0.
class MomentumRule : public PointwiseRule {
 public:
  bool bare_state() const override { return true; }

  double momentum = 0;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {momentum == 0 ? NDArray() : ZerosLike(weight, weight.dtype())};
  }
  static bool HasMomentum(const Item& item) {
    return !item.state.empty() && item.state[0];
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    if (HasMomentum(item)) attrs.push_back({"momentum", {momentum}});
  }
};

// w -= lr (clip(s g) + wd w); with momentum m = mu m - that, w += m.
class Sgd final : public MomentumRule {
 public:
  bool master_last() const override { return true; }

 protected:
  const OpDef& OpOf(const Item& item) const override {
    static const OpDef &plain = GetOp("sgd_update"), &mom = GetOp("sgd_mom_update");
    return HasMomentum(item) ? mom : plain;
  }
};
[[maybe_unused]] const Kind& sgd = AddRule<Sgd>({
    .name = "sgd",
    .aliases = {"ccsgd"},
    .doc = "Stochastic gradient descent.",
    .attributes = {Inherited<Sgd>("momentum", &Sgd::momentum, "Decay of momentum.")},
});

class Nag final : public MomentumRule {
 public:
  bool master_last() const override { return true; }

 protected:
  const OpDef& OpOf(const Item& item) const override {
    static const OpDef &plain = GetOp("sgd_update"), &mom = GetOp("nag_mom_update");
    return HasMomentum(item) ? mom : plain;
  }
};
[[maybe_unused]] const Kind& nag = AddRule<Nag>({
    .name = "nag",
    .doc = "SGD with Nesterov's accelerated gradient.",
    .attributes = {Inherited<Nag>("momentum", &Nag::momentum, "Decay of momentum.")},
});

class Signum final : public MomentumRule {
 public:
  Signum() { momentum = 0.9; }

  double wd_lh = 0;

 protected:
  const OpDef& OpOf(const Item& item) const override {
    static const OpDef &plain = GetOp("signsgd_update"), &mom = GetOp("signum_update");
    return HasMomentum(item) ? mom : plain;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    MomentumRule::AddAttrs(item, attrs);
    if (HasMomentum(item)) attrs.push_back({"wd_lh", {wd_lh}});
  }
};
[[maybe_unused]] const Kind& signum = AddRule<Signum>({
    .name = "signum",
    .doc = "SGD by the sign of the momentum, or of the gradient where momentum is 0.",
    .attributes = {Inherited<Signum>("momentum", &Signum::momentum,
                                     "Decay of momentum."),
                   {"wd_lh", &Signum::wd_lh, "Weight decay outside of the sign."}},
});

class Sgld final : public PointwiseRule {
 protected:
  State NewOwnState(const NDArray&) const override { return {}; }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_sgld_update");
    return op;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
  }
  SmallVector<NDArray, 6> ArraysOf(const Item& item) const override {
    const NDArray noise = Make("_random_normal", {},
                               {{"loc", Attr(0.0)},
                                {"scale", Attr(std::sqrt(item.lr))},
                                {"shape", Attr(item.weight.shape())},
                                {"dtype", Attr(item.weight.dtype())}})
                              .array();
    return {item.weight, item.grad, noise};
  }
};
[[maybe_unused]] const Kind& sgld = AddRule<Sgld>({
    .name = "sgld",
    .doc = "Stochastic gradient Langevin dynamics: half a step, plus noise.",
});

class Dcasgd final : public PointwiseRule {
 public:
  double momentum = 0, lamda = 0.04;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {momentum == 0 ? NDArray() : ZerosLike(weight, weight.dtype()),
            Make("_copy", {weight}).array()};
  }
  const OpDef& OpOf(const Item& item) const override {
    static const OpDef &plain = GetOp("_dcasgd_update"),
                       &mom = GetOp("_dcasgd_mom_update");
    return item.state.size() > 1 && item.state[0] ? mom : plain;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"lamda", {lamda}});
    if (item.state[0]) attrs.push_back({"momentum", {momentum}});
  }
};
[[maybe_unused]] const Kind& dcasgd = AddRule<Dcasgd>({
    .name = "dcasgd",
    .doc = "Delay-compensated asynchronous SGD.",
    .attributes = {{"momentum", &Dcasgd::momentum, "Decay of momentum."},
                   {"lamda", &Dcasgd::lamda, "Weight of the correction."}},
});

// w += s g, and the state holds the weight: for tests of what uses optimizers.
class TestRule final : public Rule {
 public:
  bool bare_state() const override { return true; }

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, DType::kFloat32)};
  }
  void Step(const Batch& batch) override {
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      const Item item = ItemOf(batch, i);
      const Value grad = cast(item.grad, item.weight.dtype());
      CopyInto((Value(item.weight) + grad * rescale_grad).array(), item.weight);
      CopyInto(item.weight, item.state[0]);
      if (item.narrow) CopyInto(item.weight, item.narrow);
    }
  }
};
[[maybe_unused]] const Kind& test_rule = AddRule<TestRule>({
    .name = "test",
    .doc = "Adds the gradient, for tests.",
});

}  // namespace
}  // namespace plait
