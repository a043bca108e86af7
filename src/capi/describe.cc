// plait.h: operators as JSON, for programs that write bindings.

#include <nlohmann/json.hpp>

#include "capi/handles.h"
#include "graph/op.h"

namespace plait::capi {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(Types types) {
  switch (types) {
    case Types::kAny:
      return "any";
    case Types::kFloats:
      return "floats";
    case Types::kIntegers:
      return "integers";
    case Types::kNumbers:
      return "numbers";
  }
  return "any";
}

template <typename Array>
Json ArraysOf(const std::vector<Array>& arrays) {
  Json list = Json::array();
  for (const Array& a : arrays)
    list.push_back({{"name", a.name}, {"dtypes", NameOf(a.types)}, {"doc", a.doc}});
  return list;
}

std::string Describe(const OpDef& op) {
  Json params = Json::array();
  for (const Field& f : op.fields) {
    const Json value =
        f.required ? Json() : Json(FormatAttr(f.access->Get(op.defaults->get())));
    params.push_back({{"name", f.name},
                      {"type", f.access->TypeName()},
                      {"required", f.required},
                      {"default", value},
                      {"doc", f.doc}});
  }
  const Json count = op.count_param != nullptr ? Json(op.count_param) : Json();
  const Json result = {{"name", op.name},
                       {"aliases", op.aliases},
                       {"doc", op.doc},
                       {"inputs", ArraysOf(op.inputs)},
                       {"outputs", ArraysOf(op.outputs)},
                       {"params", params},
                       {"variable_inputs", op.variable_inputs},
                       {"count_param", count},
                       {"variable_outputs", op.num_outputs != nullptr},
                       {"mutates", op.mutates},
                       {"differentiable", op.gradient != nullptr || op.zero_gradient}};
  return result.dump();
}

}  // namespace
}  // namespace plait::capi

int plait_operator_describe(int index, const char** out) {
  using namespace plait::capi;  // NOLINT: this file is the inside of the interface
  return Guarded([&] {
    const char* const self = "plait_operator_describe";
    static const std::vector<const plait::OpDef*> all = plait::AllOps();
    static std::mutex mutex;
    static std::vector<std::string> texts(all.size());
    CheckIndex(index, all.size(), self, "operators");
    const char*& result = Need(out, self, "out");
    const std::lock_guard lock(mutex);
    std::string& text = texts[static_cast<size_t>(index)];
    if (text.empty()) text = Describe(*all[static_cast<size_t>(index)]);
    result = text.c_str();
  });
}
