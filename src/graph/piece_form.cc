// Piece forms: the table of rules.

#include "graph/piece_form.h"

#include <string>
#include <unordered_map>

namespace plait {
namespace {

std::unordered_map<std::string, PieceRule>& Rules() {
  static auto& rules = *new std::unordered_map<std::string, PieceRule>;
  return rules;
}

}  // namespace

void AddPieceRule(const char* op, PieceRule rule) {
  Rules()[op] = std::move(rule);
}
const PieceRule* PieceRuleOf(const OpDef& op) {
  const auto it = Rules().find(op.name);
  return it == Rules().end() ? nullptr : &it->second;
}

}  // namespace plait
