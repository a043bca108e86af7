// Adam and the rules made after it.

#include <cmath>

#include "train/rule.h"

namespace plait {
namespace {

// Rules whose state is a mean and a second moment of the gradient.
class TwoMoments : public PointwiseRule {
 public:
  double beta1 = 0.9, beta2 = 0.999;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    return {ZerosLike(weight, weight.dtype()), ZerosLike(weight, weight.dtype())};
  }
  double Power1(const Item& item) const {
    return std::pow(beta1, static_cast<double>(item.count));
  }
  double Power2(const Item& item) const {
    return std::pow(beta2, static_cast<double>(item.count));
  }
};

template <typename T>
std::vector<Param<T>> Betas() {
  return {Inherited<T>("beta1", &T::beta1, "Decay of the mean."),
          Inherited<T>("beta2", &T::beta2, "Decay of the second moment.")};
}
template <typename T>
std::vector<Param<T>> With(std::vector<Param<T>> rows, std::vector<Param<T>> more) {
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

// G = clip(s g + wd w); w -= lr_t m / (sqrt(v) + epsilon), where lr_t corrects both
// moments.
class Adam final : public TwoMoments {
 public:
  double epsilon = 1e-8;

 protected:
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("adam_update");
    return op;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    const double factor = std::sqrt(1 - Power2(item)) / (1 - Power1(item));
    attrs.push_back({"lr", {item.lr * factor}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
    attrs.push_back({"epsilon", {epsilon}});
  }
};
[[maybe_unused]] const Kind& adam = AddRule<Adam>({
    .name = "adam",
    .doc = "Adam (Kingma and Ba, 2014).",
    .attributes =
        With<Adam>(Betas<Adam>(), {{"epsilon", &Adam::epsilon, "Added to the root."}}),
});

// w -= lr_t (m / (sqrt(v) + epsilon) + wd w): the decay stands outside of the gradient.
class AdamW final : public TwoMoments {
 public:
  double epsilon = 1e-6;
  bool correct_bias = true;

 protected:
  void Step(const Batch& batch) override {
    const auto scale = static_cast<float>(rescale_grad);
    scale_ = NDArray::FromHost(&scale, {1}, DType::kFloat32);
    TwoMoments::Step(batch);
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_adamw_update");
    return op;
  }
  // The operator takes the scale as an array.
  SmallVector<NDArray, 6> ArraysOf(const Item& item) const override {
    SmallVector<NDArray, 6> arrays = TwoMoments::ArraysOf(item);
    arrays.push_back(scale_);
    return arrays;
  }
  Attrs GradientAttrs() const override {
    Attrs attrs = TwoMoments::GradientAttrs();
    std::erase_if(attrs, [](const NamedAttr& a) { return a.name == "rescale_grad"; });
    return attrs;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    const double factor =
        correct_bias ? std::sqrt(1 - Power2(item)) / (1 - Power1(item)) : 1;
    attrs.push_back({"lr", {1.0}});
    attrs.push_back({"eta", {item.lr * factor}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
    attrs.push_back({"epsilon", {epsilon}});
  }

 private:
  NDArray scale_;
};
[[maybe_unused]] const Kind& adamw = AddRule<AdamW>({
    .name = "adamw",
    .doc = "Adam with decoupled weight decay (Loshchilov and Hutter, 2017).",
    .attributes =
        With<AdamW>(Betas<AdamW>(),
                    {{"epsilon", &AdamW::epsilon, "Added to the root."},
                     {"correct_bias", &AdamW::correct_bias, "Corrects both moments."}}),
});

class Adamax final : public TwoMoments {
 protected:
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_adamax_update");
    return op;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr / (1 - Power1(item))}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
  }
};
[[maybe_unused]] const Kind& adamax = AddRule<Adamax>({
    .name = "adamax",
    .doc = "Adam with the infinity norm.",
    .attributes = Betas<Adamax>(),
});

// The product of the momenta, m_schedule, goes on with every weight, as in MXNet.
class Nadam final : public TwoMoments {
 public:
  double epsilon = 1e-8;
  double schedule_decay = 0.004;
  mutable double m_schedule = 1;

 protected:
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("_nadam_update");
    return op;
  }
  bool Repeats() const override { return false; }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    const double now = Momentum(item.count);
    m_schedule *= now;
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
    attrs.push_back({"epsilon", {epsilon}});
    attrs.push_back({"t", {item.count}});
    attrs.push_back({"momentum", {now}});
    attrs.push_back({"next_momentum", {Momentum(item.count + 1)}});
    attrs.push_back({"schedule", {m_schedule}});
  }

 private:
  double Momentum(int64_t t) const {
    return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * schedule_decay));
  }
};
[[maybe_unused]] const Kind& nadam = AddRule<Nadam>({
    .name = "nadam",
    .doc = "Adam with Nesterov's momentum.",
    .attributes = With<Nadam>(
        Betas<Nadam>(),
        {{"epsilon", &Nadam::epsilon, "Added to the root."},
         {"schedule_decay", &Nadam::schedule_decay, "Decay of the momentum's warm-up."},
         {"m_schedule", &Nadam::m_schedule, "Product of all momenta so far."}}),
    .changing = {"m_schedule"},
});

class Ftml final : public PointwiseRule {
 public:
  double beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;

 protected:
  State NewOwnState(const NDArray& weight) const override {
    const DType dtype = weight.dtype();
    return {ZerosLike(weight, dtype), ZerosLike(weight, dtype),
            ZerosLike(weight, dtype)};
  }
  const OpDef& OpOf(const Item&) const override {
    static const OpDef& op = GetOp("ftml_update");
    return op;
  }
  Attrs GradientAttrs() const override {
    Attrs attrs = PointwiseRule::GradientAttrs();
    for (NamedAttr& attr : attrs) {
      if (attr.name == "clip_gradient") attr.name = "clip_grad";
    }
    return attrs;
  }
  void AddAttrs(const Item& item, Attrs& attrs) const override {
    attrs.push_back({"lr", {item.lr}});
    attrs.push_back({"beta1", {beta1}});
    attrs.push_back({"beta2", {beta2}});
    attrs.push_back({"epsilon", {epsilon}});
    attrs.push_back({"t", {item.count}});
  }
};
[[maybe_unused]] const Kind& ftml = AddRule<Ftml>({
    .name = "ftml",
    .doc = "Follow the moving leader.",
    .attributes =
        With<Ftml>(Betas<Ftml>(), {{"epsilon", &Ftml::epsilon, "Added to the root."}}),
});

}  // namespace
}  // namespace plait
