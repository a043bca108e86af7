// InvokeOnBlocks: which calls, and their arrays in the one layout or the other.

#include "run/blocked_invoke.h"

#include "graph/blocked_form.h"
#include "passes/blocked.h"
#include "run/blocked_value.h"
#include "run/kept_filters.h"
#include "run/tape.h"

namespace plait {
namespace {

using Blocks = SmallVector<NDArray, 6>;

// Multiplications from which on a convolution pays for another call or two.
constexpr double kWorthBlocks = 1e7;
// Those of an element that cost as much as to copy it from one layout to the other.
constexpr double kOfACopy = 100;
// Those of a filter's element that cost as much as to bring it into another order.
constexpr double kOfAFilter = 100;

int64_t Elements(const Specs& specs) {
  int64_t n = 0;
  for (const Spec& s : specs) n += s.shape.size();
  return n;
}

// Graphs add up what a whole region gains; here there is one call to look at.
bool IsWorth(const BlockedForm& form, bool have_blocks, bool prepared, const Specs& in,
             const Specs& out) {
  const int filters = form.preparation.input;
  if (filters >= 0 && !prepared &&
      form.gain < kOfAFilter * static_cast<double>(in[filters].shape.size()))
    return false;
  if (!have_blocks) return form.gain > kWorthBlocks;
  const auto copied = static_cast<double>(Elements(in) + Elements(out));
  return form.gain > -kOfACopy * copied;
}

// The value in the layout and shape of the plain call.
NDArray Given(NDArray y, const Spec& wanted, bool blocked) {
  if (blocked) return MakeBlocked(std::move(y), wanted.shape);
  return y.shape() == wanted.shape ? y : y.Reshape(wanted.shape);
}

// The filters in the kernel's own order, where nobody changes them; or nothing.
NDArray Prepared(const BlockedForm& form, std::span<const NDArray> in) {
  if (form.preparation.input < 0) return {};
  const NDArray& weight = in[form.preparation.input];
  if (!Recording() && !Training()) return PreparedFilters(weight, form.preparation);
  ForgetFilters(weight);
  return {};
}

}  // namespace

Arrays InvokeOnBlocks(const OpDef& op, const ParamsRef& params,
                      std::span<const NDArray> in) {
  const int64_t block = ImperativeBlock();
  if (block == 0) return {};
  Blocks blocks(in.size());
  bool have_blocks = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].shape().rank() != 4) continue;
    blocks[i] = BlocksOf(in[i]);
    have_blocks |= static_cast<bool>(blocks[i]);
  }
  const bool pointwise = op.IsPointwise(*params);
  if (!have_blocks && (pointwise || BlockedRuleOf(op) == nullptr)) return {};
  if (pointwise && !op.mutates.empty()) return {};

  Specs in_specs, out_specs(op.CountOutputs(*params));
  for (const NDArray& x : in) in_specs.push_back({x.shape(), x.dtype()});
  try {
    InferAll(op, *params, in_specs, out_specs);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kValue && e.kind() != ErrorKind::kType) throw;
    return {};  // the plain call says what is wrong, in its own words
  }
  const auto form = FindBlockedForm(op, params, in_specs, out_specs, block);
  if (!form || (!have_blocks && form->gain <= kWorthBlocks)) return {};
  const NDArray filters = Prepared(*form, in);
  if (!IsWorth(*form, have_blocks, bool(filters), in_specs, out_specs)) return {};

  Blocks inner;
  for (size_t i = 0; i < in.size(); ++i) {
    if (filters && form->preparation.input == static_cast<int>(i)) {
      inner.push_back(filters);
    } else if (form->blocked_in >> i & 1) {
      inner.push_back(blocks[i] ? blocks[i] : Block(in[i]));
    } else {
      inner.push_back(in[i]);
    }
  }
  Arrays results;
  for (NDArray& y : InvokeUnrecorded(*form->op, form->params, inner)) {
    const size_t k = results.size();
    results.push_back(Given(std::move(y), out_specs[k], form->blocked_out >> k & 1));
  }
  return results;
}

}  // namespace plait
