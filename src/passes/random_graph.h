// Random symbols for tests: values of shape (4, 4) through all kinds of operators.

#ifndef PLAIT_PASSES_RANDOM_GRAPH_H_
#define PLAIT_PASSES_RANDOM_GRAPH_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "graph/symbol.h"

namespace plait::testing {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  // A group of several outputs over the variables x0, x1, x2, and of w0, w1 where
  // operators have weights.
  Symbol Make(int nodes) {
    for (int i = 0; i < 3; ++i)
      values_.push_back(Symbol::Variable("x" + std::to_string(i)));
    for (int i = 0; i < nodes; ++i) Add();
    std::vector<Symbol> outputs;
    for (int i = 0; i < 3; ++i) outputs.push_back(Pick());
    outputs.push_back(values_.back());
    outputs.push_back(outputs[0]);  // twice the same
    return Symbol::Group(outputs);
  }

 private:
  int Number(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  // Late values more often, so that graphs get deep.
  const Symbol& Pick() {
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(std::max(Number(n), Number(n)))];
  }
  Symbol Call(const char* op, std::vector<Symbol> in, SymbolAttrs attrs = {}) {
    return Symbol::Make(GetOp(op), std::string(op) + std::to_string(next_++), attrs,
                        in);
  }
  static Symbol Output(const Symbol& s, size_t i) { return Symbol({s.outputs()[i]}); }

  void Add() {
    switch (Number(18)) {
      case 0:
        return Keep(Call("elemwise_add", {Pick(), Pick()}));
      case 1:
        return Keep(Call("elemwise_mul", {Call("tanh", {Pick()}), Pick()}));
      case 2:
        return Keep(Call("tanh", {Pick()}));
      case 3:
        return Keep(Call("sigmoid", {Pick()}));
      case 4:
        return Keep(Call("_mul_scalar", {Pick()}, {{"scalar", "0.5"}}));
      case 5:
        return Keep(Call("dot", {Call("softmax", {Pick()}), Pick()}));
      case 6:
        return Keep(Call("transpose", {Pick()}));
      case 7: {
        Symbol flat = Call("Reshape", {Pick()}, {{"shape", "(16,)"}});
        return Keep(Call("Reshape", {flat}, {{"shape", "(4, 4)"}}));
      }
      case 8: {
        Symbol total = Call("mean", {Pick()}, {{"axis", "1"}, {"keepdims", "True"}});
        return Keep(Call("broadcast_add", {Pick(), total}));
      }
      case 9: {
        const Symbol& x = Pick();
        SymbolAttrs first{{"axis", "0"}, {"begin", "0"}, {"end", "1"}};
        SymbolAttrs rest{{"axis", "0"}, {"begin", "1"}, {"end", "None"}};
        return Keep(Call(
            "Concat", {Call("slice_axis", {x}, rest), Call("slice_axis", {x}, first)},
            {{"dim", "0"}}));
      }
      case 10: {
        Symbol parts = Call("SliceChannel", {Pick()}, {{"num_outputs", "2"}});
        return Keep(Call("Concat", {Output(parts, 1), Output(parts, 0)}));
      }
      case 11:
        return Keep(Call("BlockGrad", {Pick()}));
      case 12:
        return Keep(Call("_copy", {Pick()}));
      case 13: {
        Symbol row = Call("max", {Pick()}, {{"axis", "0"}, {"keepdims", "True"}});
        return Keep(Call("broadcast_axis", {row}, {{"axis", "0"}, {"size", "4"}}));
      }
      case 14: {
        // The same twice, as written by hand.
        const Symbol &x = Pick(), &y = Pick();
        Symbol a = Call("elemwise_sub", {x, y}), b = Call("elemwise_sub", {x, y});
        return Keep(Call("elemwise_mul", {Call("sin", {a}), Call("cos", {b})}));
      }
      case 15:
        return Keep(Dense());
      case 16:
        return Keep(Normalised(Number(2) == 0 ? Dense() : Pick()));
      default:
        return Keep(Call("add_n", {Pick(), Pick(), Pick()}));
    }
  }
  // Functions of what is mostly a parameter.
  Symbol Weight() {
    if (Number(8) == 0) return Pick();
    Symbol w = weights_[static_cast<size_t>(Number(2))];
    return Number(2) == 0 ? w : Call("tanh", {w});
  }
  Symbol Vector() { return Call("max", {Weight()}, {{"axis", "0"}}); }
  Symbol Dense() {
    const SymbolAttrs units{{"num_hidden", "4"}, {"no_bias", "True"}};
    if (Number(2) == 0) return Call("FullyConnected", {Pick(), Weight()}, units);
    return Call("FullyConnected", {Pick(), Weight(), Vector()}, {{"num_hidden", "4"}});
  }
  Symbol Normalised(const Symbol& x) {
    return Output(
        Call("BatchNorm", {x, Vector(), Vector(), Vector(), Call("square", {Vector()})},
             {{"use_global_stats", "True"}, {"fix_gamma", "False"}, {"eps", "0.5"}}),
        0);
  }
  void Keep(Symbol x) { values_.push_back(std::move(x)); }

  std::mt19937 random_;
  std::vector<Symbol> values_;
  const Symbol weights_[2] = {Symbol::Variable("w0"), Symbol::Variable("w1")};
  int next_ = 0;
};

}  // namespace plait::testing

#endif  // PLAIT_PASSES_RANDOM_GRAPH_H_
