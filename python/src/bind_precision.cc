// Mixed precision: rules, reduced symbols, and the process's switch.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "run/autocast.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

using Names = std::vector<std::string>;

// {"target": dtype number, "low": names, "full": names, "widest": names,
//  "conditions": [(operator, parameter, values)], "excluded": names, "data": names,
//  "cast_params": bool}; what is missing is empty.
PrecisionRules RulesFrom(const nb::dict& given) {
  PrecisionRules rules;
  const auto names = [&](const char* key) {
    return given.contains(key) ? nb::cast<Names>(given[key]) : Names();
  };
  rules.target = static_cast<DType>(nb::cast<int>(given["target"]));
  rules.Add(Precision::kWidest, names("widest"));
  rules.Add(Precision::kFull, names("full"));
  rules.Add(Precision::kLow, names("low"));
  if (given.contains("conditions")) {
    for (nb::handle item : nb::cast<nb::list>(given["conditions"])) {
      const nb::tuple row = nb::cast<nb::tuple>(item);
      rules.AddCondition(nb::cast<std::string>(row[0]), nb::cast<std::string>(row[1]),
                         nb::cast<Names>(row[2]));
    }
  }
  for (const std::string& name : names("excluded")) rules.excluded.insert(name);
  for (const std::string& name : names("data")) rules.data.insert(name);
  rules.cast_params =
      given.contains("cast_params") && nb::cast<bool>(given["cast_params"]);
  return rules;
}

}  // namespace

void BindPrecision(nb::module_& m) {
  m.def("reduce_precision", [](const Symbol& symbol, const nb::dict& rules) {
    return ReducePrecision(symbol, RulesFrom(rules));
  });
  m.def(
      "set_autocast",
      [](const nb::object& rules) {
        SetAutocast(rules.is_none() ? nullptr
                                    : std::make_shared<const PrecisionRules>(
                                          RulesFrom(nb::cast<nb::dict>(rules))));
      },
      nb::arg("rules").none(),
      "Casts what operators read from now on, in all threads; None ends it.");
}

}  // namespace plait::python
