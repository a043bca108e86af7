// Functions of one array whose gradient is zero: floor, round, sign, ...

#include "graph/op.h"

namespace plait {
namespace {

struct Row {
  const char* name;
  std::vector<const char*> aliases;
  Fn fn;
  const char* doc;
};

const Row kRows[] = {
    {"ceil", {"_sparse_ceil"}, Fn::kCeil, "The smallest whole number not below x."},
    {"fix", {"_sparse_fix"}, Fn::kTrunc, "x without its fraction, towards zero."},
    {"floor", {"_sparse_floor"}, Fn::kFloor, "The largest whole number not above x."},
    {"logical_not", {}, Fn::kLogicalNot, "1 where x is 0, else 0."},
    {"rint",
     {"_sparse_rint"},
     Fn::kRint,
     "The nearest whole number; of two equally near ones the lower."},
    {"round",
     {"_sparse_round"},
     Fn::kRound,
     "The nearest whole number; halves go away from zero."},
    {"sign", {"_sparse_sign"}, Fn::kSign, "-1, 0 or 1: the sign of x."},
    {"trunc", {"_sparse_trunc"}, Fn::kTrunc, "x without its fraction, towards zero."},
};

[[maybe_unused]] const bool kAdded = [] {
  for (const Row& row : kRows) {
    Register<NoParams>({
        .name = row.name,
        .aliases = row.aliases,
        .doc = row.doc,
        .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
        .zero_gradient = true,
        .fn = row.fn,
        .samples = {{{Uniform({2, 3}, -4, 4)}},
                    {{Numbers({5}, {-1.5, -0.5, 0, 0.5, 2.5})}},
                    {{Uniform({2, 0, 3}, -4, 4)}}},
    });
  }
  return true;
}();

}  // namespace
}  // namespace plait
