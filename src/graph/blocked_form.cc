// Blocked forms: the table of rules.

#include "graph/blocked_form.h"

#include <string>
#include <unordered_map>

namespace plait {
namespace {

template <typename Rule>
std::unordered_map<std::string, Rule>& Rules() {
  static auto& rules = *new std::unordered_map<std::string, Rule>;
  return rules;
}
template <typename Rule>
const Rule* RuleOf(const OpDef& op) {
  const auto it = Rules<Rule>().find(op.name);
  return it == Rules<Rule>().end() ? nullptr : &it->second;
}

}  // namespace

void AddBlockedRule(const char* op, BlockedRule rule) {
  Rules<BlockedRule>()[op] = std::move(rule);
}
const BlockedRule* BlockedRuleOf(const OpDef& op) {
  return RuleOf<BlockedRule>(op);
}

void AddFinishRule(const char* op, FinishRule rule) {
  Rules<FinishRule>()[op] = std::move(rule);
}
const FinishRule* FinishRuleOf(const OpDef& op) {
  return RuleOf<FinishRule>(op);
}

void AddJoinRule(const char* second, JoinRule rule) {
  Rules<JoinRule>()[second] = std::move(rule);
}
const JoinRule* JoinRuleOf(const OpDef& second) {
  return RuleOf<JoinRule>(second);
}

Shape BlockedShape(const Shape& plain, int64_t block) {
  return {plain[0], (plain[1] + block - 1) / block, plain[2], plain[3], block};
}

Shape PlainShape(const Shape& blocked, int64_t channels) {
  return {blocked[0], channels, blocked[2], blocked[3]};
}

}  // namespace plait
