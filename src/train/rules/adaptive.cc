// Rules that scale each element's step by the history of its gradients.

#include "graph/math.h"
#include "run/invoke.h"
#include "train/rule.h"

namespace plait {
namespace {

class AdaGrad final : public PointwiseRule {
 public:
  bool bare_state() const override { return true; }

  double eps = 1e-7;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, DType::kFloat32)};
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_sparse_adagrad_update");
    return op;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"epsilon", {eps}});
  }
};
[[maybe_unused]] const Kind& adagrad = AddRule<AdaGrad>({
    .name = "adagrad",
    .doc = "The gradient divided by the root of its sum of squares.",
    .attributes = {{"eps", &AdaGrad::eps, "Added under the root."}},
});

class RmsProp final : public PointwiseRule {
 public:
  double gamma1 = 0.9, gamma2 = 0.9, epsilon = 1e-8;
  bool centered = false;
  std::optional<double> clip_weights;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    State state;
    for (int i = 0; i < (centered ? 3 : 1); ++i)
      state.push_back(ZerosLike(weight, DType::kFloat32));
    return state;
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef &plain = GetOp("rmsprop_update"),
                       &centred = GetOp("rmspropalex_update");
    return centered ? centred : plain;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"gamma1", {gamma1}});
    if (centered) attrs.push_back({"gamma2", {gamma2}});
    attrs.push_back({"epsilon", {epsilon}});
    if (clip_weights && *clip_weights != 0)
      attrs.push_back({"clip_weights", {*clip_weights}});
  }
};
[[maybe_unused]] const Kind& rmsprop = AddRule<RmsProp>({
    .name = "rmsprop",
    .doc = "The gradient divided by the root of its moving mean square.",
    .attributes = {{"gamma1", &RmsProp::gamma1, "Decay of the moments."},
                   {"gamma2", &RmsProp::gamma2, "Momentum of the centered form."},
                   {"epsilon", &RmsProp::epsilon, "Added under the root."},
                   {"centered", &RmsProp::centered, "Takes the squared mean off."},
                   {"clip_weights", &RmsProp::clip_weights, "Limits the weights."}},
});

class AdaDelta final : public PointwiseRule {
 public:
  double rho = 0.9, epsilon = 1e-5;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, DType::kFloat32), ZerosLike(weight, DType::kFloat32)};
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_adadelta_update");
    return op;
  }
  void AddAttrs(const Item&, Attrs& attrs) const override {
    attrs.push_back({"rho", {rho}});
    attrs.push_back({"epsilon", {epsilon}});
  }
};
[[maybe_unused]] const Kind& adadelta = AddRule<AdaDelta>({
    .name = "adadelta",
    .doc = "Steps in proportion to earlier steps; it has no learning rate.",
    .attributes = {{"rho", &AdaDelta::rho, "Decay of both states."},
                   {"epsilon", &AdaDelta::epsilon, "Added under the roots."}},
});

class Ftrl final : public PointwiseRule {
 public:
  double lamda1 = 0.01, beta = 1;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, DType::kFloat32), ZerosLike(weight, DType::kFloat32)};
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("ftrl_update");
    return op;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"lamda1", {lamda1}});
    attrs.push_back({"beta", {beta}});
  }
};
[[maybe_unused]] const Kind& ftrl = AddRule<Ftrl>({
    .name = "ftrl",
    .doc = "Follow the regularised leader, with weights that are exactly 0.",
    .attributes = {{"lamda1", &Ftrl::lamda1, "The L1 penalty."},
                   {"beta", &Ftrl::beta, "Smoothing of each element's rate."}},
});

class GroupAdaGrad final : public Rule {
 public:
  bool bare_state() const override { return true; }

  double eps = 1e-5;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    Check(weight.shape().rank() == 2, "groupadagrad: got a weight of shape ",
          weight.shape(), "; two axes were expected");
    return {zeros({{weight.shape()[0], 1}, DType::kFloat32}, weight.device()).array()};
  }
  void Step(const Batch& batch) override {
    static const OpDef& op = GetOp("_contrib_group_adagrad_update");
    for (size_t i = 0; i < batch.weights.size(); ++i) {
      const Item item = ItemOf(batch, i);
      Check(item.wd == 0, "groupadagrad: weight decay is ", item.wd,
            "; 0 was expected, as it is not supported");
      Attrs attrs = GradientAttrs();
      attrs.push_back({"lr", {item.lr}});
      attrs.push_back({"epsilon", {eps}});
      const DType dtype = item.weight.dtype();
      const NDArray in[] = {item.weight, cast(item.grad, dtype).array(),
                            cast(item.state[0], dtype).array()};
      Invoke(op, MakeParams(op, attrs), in, {&item.weight, 1});
      if (dtype != item.state[0].dtype()) CopyInto(in[2], item.state[0]);
      if (item.narrow) CopyInto(item.weight, item.narrow);
    }
  }
};
[[maybe_unused]] const Kind& group_adagrad = AddRule<GroupAdaGrad>({
    .name = "groupadagrad",
    .doc = "AdaGrad with one history for each row of a matrix.",
    .attributes = {{"eps", &GroupAdaGrad::eps, "Added under the root."}},
});

}  // namespace
}  // namespace plait
