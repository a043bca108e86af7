// Rule: how an optimizer changes weights; the arithmetic, without any bookkeeping.
//
// A rule gets the learning rate, the weight decay and the number of the update of every
// weight, and calls update operators for all of them: pointwise ones of many weights
// are one operation of the engine. Optimizer (train/optimizer.h) keeps rates and
// counts; a front end may keep them itself and use the rule alone.
//
// Thread safety: one rule is used by one thread at a time.

#ifndef PLAIT_TRAIN_RULE_H_
#define PLAIT_TRAIN_RULE_H_

#include <optional>
#include <span>
#include <string>

#include "ndarray/ndarray.h"
#include "train/named.h"

namespace plait {

// What a rule keeps for one weight, in a fixed order; an empty handle stands for an
// array that the rule does without (the momentum 0). A float32 master copy of a float16
// weight stands first, or last where the rule says so (master_last).
using State = SmallVector<NDArray, 4>;

// One update of several weights on one device. All spans have one length, but `names`,
// which may be empty: then no rule looks at names.
struct Batch {
  std::span<const NDArray> weights, grads;
  std::span<const State> states;
  std::span<const double> lrs, wds;
  std::span<const int64_t> counts;  // number of this update of each weight, from 1
  std::span<const std::string> names;
  double base_lr = 0;  // the rate before multipliers
};

class Rule : public Named {
 public:
  static KindTable& Kinds();

  // The state of a weight, with a master copy where UsesMaster says so.
  State NewState(const NDArray& weight) const;
  // Changes weights and states; asynchronous, and not recorded by the tape. Throws at
  // once what does not fit.
  void Apply(const Batch& batch);

  // Whether a weight is computed with in float32: half types under multi_precision.
  bool UsesMaster(const NDArray& weight) const {
    return multi_precision && IsHalf(weight.dtype());
  }
  virtual bool master_last() const { return false; }
  // Whether a front end shows the own state, which is one array, without a tuple.
  virtual bool bare_state() const { return false; }
  // Whether a parameter of this name is decayed when nobody says so.
  virtual bool Decays(std::string_view name) const;

  double rescale_grad = 1;              // multiplies every gradient
  std::optional<double> clip_gradient;  // then limits each element; none or 0: not
  bool multi_precision = false;

 protected:
  virtual void Step(const Batch& batch) = 0;
  // The state without a master copy, of a weight (or of its master copy).
  virtual State NewOwnState(const NDArray& weight) const = 0;

  // Taken apart: the arrays that the arithmetic works on.
  struct Item {
    NDArray weight;  // the master copy where there is one
    NDArray grad;
    SmallVector<NDArray, 4> state;  // without the master copy
    NDArray narrow;                 // the weight itself where there is a master copy
    double lr = 0, wd = 0;
    int64_t count = 0;
  };
  // Throws where the state is not one of this rule.
  Item ItemOf(const Batch& batch, size_t i) const;

  // rescale_grad and clip_gradient as parameters of an update operator.
  using Attrs = std::vector<NamedAttr>;
  virtual Attrs GradientAttrs() const;
};

NDArray ZerosLike(const NDArray& x, DType dtype);

// A rule whose step is one pointwise operator for each weight.
class PointwiseRule : public Rule {
 protected:
  void Step(const Batch& batch) override;
  virtual const OpDef& OpOf(const Item& item) const = 0;
  // The operator's parameters beside wd, rescale_grad and clip_gradient.
  virtual void AddAttrs(const Item& item, Attrs& attrs) const = 0;
  // Its inputs; weight, grad and the arrays of the state unless overridden.
  virtual SmallVector<NDArray, 6> ArraysOf(const Item& item) const;
  // Whether equal lr, wd and count mean equal parameters.
  virtual bool Repeats() const { return true; }
};

// Registers a rule with the attributes that all have.
template <typename T>
const Kind& AddRule(KindSpec<T> spec) {
  spec.attributes.push_back(
      Inherited<T>("rescale_grad", &Rule::rescale_grad, "Multiplies every gradient."));
  spec.attributes.push_back(Inherited<T>("clip_gradient", &Rule::clip_gradient,
                                         "Limits each element of a gradient."));
  spec.attributes.push_back(
      Inherited<T>("multi_precision", &Rule::multi_precision,
                   "Keeps float32 copies of weights of half types."));
  return AddKind<Rule, T>(std::move(spec));
}

}  // namespace plait

#endif  // PLAIT_TRAIN_RULE_H_
