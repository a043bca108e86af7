// Mixed precision: which operators compute in a half type, and the casts that a symbol
// needs for that.

#ifndef PLAIT_PASSES_PRECISION_H_
#define PLAIT_PASSES_PRECISION_H_

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/symbol.h"

namespace plait {

enum class Precision : uint8_t {
  kAny,     // computes in the dtype of what it reads
  kLow,     // in the half type
  kFull,    // in float32
  kWidest,  // in the widest dtype that it reads
};

struct PrecisionRules {
  DType target = DType::kFloat16;  // or kBfloat16
  std::unordered_map<const OpDef*, Precision> ops;
  // Operators that compute in float32 where a parameter has one of these texts.
  struct Condition {
    const OpDef* op;
    std::string param;
    std::vector<std::string> values;
  };
  std::vector<Condition> conditions;
  std::set<std::string> excluded;  // nodes that compute in float32 in any case
  std::set<std::string> data;      // variables that stay float32
  bool cast_params = false;        // other variables are given in the half type already

  // Names that no operator has are left out: lists may name those of other versions.
  void Add(Precision precision, const std::vector<std::string>& names);
  void AddCondition(std::string_view op, std::string param,
                    std::vector<std::string> values);
  Precision Of(const OpDef& op, const Params& params) const;
};

// Whether an input of a call takes the dtype of the computation: not indices, lengths,
// and states that the call writes.
bool IsCastable(const OpDef& op, const Params& params, size_t input);

// A copy with amp_cast and amp_multicast where the rules ask for them. Its outputs are
// float32 as before. Variables other than `data` say by `__dtype__` what they are.
Symbol ReducePrecision(const Symbol& symbol, const PrecisionRules& rules);

// The same for one node while a graph is composed: what it reads is cast.
// REQUIRES: nobody but `symbol` has the node yet.
void CastInputs(const Symbol& symbol, const PrecisionRules& rules);

}  // namespace plait

#endif  // PLAIT_PASSES_PRECISION_H_
