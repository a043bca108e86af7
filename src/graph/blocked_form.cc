// Blocked forms: the table of rules.

#include "graph/blocked_form.h"

#include <string>
#include <unordered_map>

namespace plait {
namespace {

std::unordered_map<std::string, BlockedRule>& Rules() {
  static auto& rules = *new std::unordered_map<std::string, BlockedRule>;
  return rules;
}

}  // namespace

void AddBlockedRule(const char* op, BlockedRule rule) {
  Rules()[op] = std::move(rule);
}

const BlockedRule* BlockedRuleOf(const OpDef& op) {
  const auto it = Rules().find(op.name);
  return it == Rules().end() ? nullptr : &it->second;
}

Shape BlockedShape(const Shape& plain, int64_t block) {
  return {plain[0], (plain[1] + block - 1) / block, plain[2], plain[3], block};
}

Shape PlainShape(const Shape& blocked, int64_t channels) {
  return {blocked[0], channels, blocked[2], blocked[3]};
}

}  // namespace plait
