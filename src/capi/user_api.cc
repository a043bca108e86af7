// plait.hpp: helpers of the C++ interface.

#define PLAIT_INSIDE

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <plait/plait.hpp>

#include "base/file.h"
#include "capi/auto_name.h"

namespace plait {

namespace capi {

std::string AutoName(const std::string& op) {
  thread_local std::map<std::string, int> counts;
  std::string hint = op;
  for (char& c : hint)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return hint + std::to_string(counts[hint]++);
}

}  // namespace capi

namespace {

SymbolAttrs Texts(const Attributes& attributes) {
  SymbolAttrs attrs;
  for (const Attribute& a : attributes) attrs[a.name] = FormatAttr(a.value);
  return attrs;
}

std::vector<NamedAttr> NamedFrom(const Attributes& attributes) {
  std::vector<NamedAttr> named;
  for (const Attribute& a : attributes) named.push_back({a.name, a.value});
  return named;
}

const NDArray& Into(const NDArray& x, const char* name, const NDArray& y) {
  const OpDef& op = GetOp(name);
  const NDArray in[] = {x, y};
  Invoke(op, op.defaults, in, {&x, 1});
  return x;
}

}  // namespace

Symbol var(const std::string& name, const Attributes& attributes) {
  return Symbol::Variable(name, Texts(attributes));
}

Symbol op(const char* name, const std::vector<Input>& inputs,
          const Attributes& attributes, const std::string& node) {
  const OpDef& op = GetOp(name);
  std::vector<Symbol> by_position;
  std::vector<NamedSymbol> by_name;
  for (const Input& in : inputs) {
    if (!in.name.empty()) {
      by_name.push_back({in.name, in.symbol});
      continue;
    }
    Check(by_name.empty(), ErrorKind::kType, name,
          ": an input without a name follows one with a name; the other way round was "
          "expected");
    by_position.push_back(in.symbol);
  }
  return Symbol::Make(op, node.empty() ? capi::AutoName(op.name) : node,
                      Texts(attributes), by_position, by_name);
}

Symbol LoadSymbol(const std::string& path) {
  const MappedFile file(path);
  try {
    return Symbol::FromJson({file.bytes().data(), file.bytes().size()});
  } catch (const Error& e) {
    Fail(e.kind(), path, ": ", e.what());
  }
}

void SaveSymbol(const Symbol& symbol, const std::string& path) {
  const std::string json = symbol.ToJson();
  AtomicFile file(path);
  file.Write(json.data(), json.size());
  file.Commit();
}

Symbol operator+(const Symbol& x, const Symbol& y) {
  return op("elemwise_add", {x, y});
}
Symbol operator-(const Symbol& x, const Symbol& y) {
  return op("elemwise_sub", {x, y});
}
Symbol operator*(const Symbol& x, const Symbol& y) {
  return op("elemwise_mul", {x, y});
}
Symbol operator/(const Symbol& x, const Symbol& y) {
  return op("elemwise_div", {x, y});
}
Symbol operator+(const Symbol& x, double c) {
  return op("_plus_scalar", {x}, {{"scalar", c}});
}
Symbol operator-(const Symbol& x, double c) {
  return op("_minus_scalar", {x}, {{"scalar", c}});
}
Symbol operator*(const Symbol& x, double c) {
  return op("_mul_scalar", {x}, {{"scalar", c}});
}
Symbol operator/(const Symbol& x, double c) {
  return op("_div_scalar", {x}, {{"scalar", c}});
}

std::vector<NDArray> CallAll(const char* name, const std::vector<NDArray>& inputs,
                             const Attributes& attributes) {
  const OpDef& op = GetOp(name);
  const ParamsRef params = MakeParams(op, NamedFrom(attributes));
  const Arrays all = Invoke(op, params, inputs);
  return {all.begin(), all.begin() + op.CountVisible(*params)};
}

NDArray Call(const char* name, const std::vector<NDArray>& inputs,
             const Attributes& attributes) {
  std::vector<NDArray> all = CallAll(name, inputs, attributes);
  Check(all.size() == 1, name, ": has ", all.size(),
        " outputs; one was expected, CallAll gives all");
  return std::move(all[0]);
}

NDArray Zeros(const Shape& shape, DType dtype) {
  return zeros({shape, dtype}).array();
}

NDArray operator+(const NDArray& x, const NDArray& y) {
  return (Value(x) + Value(y)).array();
}
NDArray operator-(const NDArray& x, const NDArray& y) {
  return (Value(x) - Value(y)).array();
}
NDArray operator*(const NDArray& x, const NDArray& y) {
  return (Value(x) * Value(y)).array();
}
NDArray operator/(const NDArray& x, const NDArray& y) {
  return (Value(x) / Value(y)).array();
}
NDArray operator+(const NDArray& x, double c) {
  return (Value(x) + c).array();
}
NDArray operator-(const NDArray& x, double c) {
  return (Value(x) - c).array();
}
NDArray operator*(const NDArray& x, double c) {
  return (Value(x) * c).array();
}
NDArray operator/(const NDArray& x, double c) {
  return (Value(x) / c).array();
}
const NDArray& operator+=(const NDArray& x, const NDArray& y) {
  return Into(x, "broadcast_add", y);
}
const NDArray& operator-=(const NDArray& x, const NDArray& y) {
  return Into(x, "broadcast_sub", y);
}
const NDArray& operator*=(const NDArray& x, double c) {
  CopyInto(x * c, x);
  return x;
}

Updater MakeUpdater(const char* name, const Attributes& attributes) {
  return Updater(std::make_unique<Optimizer>(name, NamedFrom(attributes)));
}

NamedArrays ParametersOf(const Executor& executor) {
  const std::vector<std::string> states = executor.symbol().ListAuxiliaryStates();
  NamedArrays content;
  for (size_t i = 0; i < executor.inputs().size(); ++i) {
    const std::string& name = executor.NameOf(i);
    const bool state = std::find(states.begin(), states.end(), name) != states.end();
    if (!state && !executor.grads()[i]) continue;
    content.names.push_back((state ? "aux:" : "arg:") + name);
    content.arrays.push_back(executor.inputs()[i]);
  }
  return content;
}

std::map<std::string, NDArray> LoadArrays(const std::string& path) {
  NamedArrays content = LoadParams(path);
  Check(content.names.size() == content.arrays.size(), ErrorKind::kValue, path,
        ": its arrays have no names; names were expected");
  std::map<std::string, NDArray> arrays;
  for (size_t i = 0; i < content.names.size(); ++i)
    arrays.emplace(content.names[i], content.arrays[i]);
  return arrays;
}

void RestartWithoutSpinning(char** arguments) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("GOMP_SPINCOUNT=") || text.starts_with("OMP_WAIT_POLICY="))
      return;
  }
  setenv("GOMP_SPINCOUNT", "0", 0);
  execv("/proc/self/exe", arguments);
}

}  // namespace plait
