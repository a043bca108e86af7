// Initializer: names of parameters, JSON texts, and the way from one to the other.

#include "train/initializer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/math.h"
#include "run/invoke.h"
#include "train/quietly.h"

namespace plait {
namespace {

using Json = nlohmann::json;

// Long names before short ones that they end with do not occur.
struct Ending {
  std::string_view text;
  ParameterKind kind;
  bool moving = false;
};
constexpr Ending kEndings[] = {{"weight", ParameterKind::kWeight},
                               {"bias", ParameterKind::kBias},
                               {"gamma", ParameterKind::kGamma},
                               {"beta", ParameterKind::kBeta},
                               {"min", ParameterKind::kZero},
                               {"max", ParameterKind::kOne},
                               {"weight_quantize", ParameterKind::kQuantizedWeight},
                               {"bias_quantize", ParameterKind::kQuantizedBias},
                               {"moving_mean", ParameterKind::kZero, true},
                               {"moving_var", ParameterKind::kOne, true},
                               {"moving_inv_var", ParameterKind::kZero, true},
                               {"moving_avg", ParameterKind::kZero, true}};

AttrValue FromJson(const Json& j) {
  switch (j.type()) {
    case Json::value_t::boolean:
      return {j.get<bool>()};
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return {j.get<int64_t>()};
    case Json::value_t::number_float:
      return {j.get<double>()};
    case Json::value_t::string:
      return {j.get<std::string>()};
    case Json::value_t::array: {
      AttrList list;  // nested ones one after the other: the elements of an array
      for (const Json& item : j) {
        AttrValue value = FromJson(item);
        const auto* inner = std::get_if<AttrList>(&value.v);
        if (inner == nullptr) {
          list.push_back(std::move(value));
        } else {
          list.insert(list.end(), inner->begin(), inner->end());
        }
      }
      return {list};
    }
    case Json::value_t::null:
      return {};
    default:
      Fail(ErrorKind::kValue, "initializer: an attribute is the JSON ", j.dump(),
           "; a number, a text or a list was expected");
  }
}

Json ToJson(const AttrValue& value) {
  return std::visit(
      []<typename T>(const T& v) -> Json {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, AttrList>) {
          Json list = Json::array();
          for (const AttrValue& item : v) list.push_back(ToJson(item));
          return list;
        } else {
          return v;
        }
      },
      value.v);
}

// Deeper texts are no initializers, and would be costly to take apart.
constexpr int kMaxDepth = 32;

Json Parse(std::string_view text) {
  try {
    return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      Check(depth <= kMaxDepth, "initializer: the JSON text is nested deeper than ",
            kMaxDepth);
      return true;
    });
  } catch (const Json::parse_error& e) {
    Fail(ErrorKind::kValue, "initializer: bad JSON text: ", e.what());
  }
}

}  // namespace

KindTable& Initializer::Kinds() {
  static auto& table = *new KindTable("initializer");
  return table;
}

ParameterName KindOfParameter(std::string_view name, bool moving) {
  for (const Ending& e : kEndings) {
    if ((moving || !e.moving) && name.ends_with(e.text)) return {e.kind, e.text};
  }
  return {};
}

void Initializer::FillWeight(std::string_view name, const NDArray& x,
                             const Initializer* global) const {
  const Quietly quietly(x.device());
  Fill(name, x, global);
}

std::unique_ptr<Initializer> MakeInitializer(std::string_view text) {
  if (!text.starts_with('[')) return CreateNamed<Initializer>(text);
  const Json j = Parse(text);
  Check(j.is_array() && j.size() >= 1 && j.size() <= 2 && j[0].is_string() &&
            (j.size() == 1 || j[1].is_object()),
        "initializer: the JSON text is ", text,
        "; [\"name\", {attribute: value, ...}] was expected");
  std::vector<NamedAttr> attrs;
  if (j.size() == 2) {
    for (const auto& [name, value] : j[1].items())
      attrs.push_back({name, FromJson(value)});
  }
  return CreateNamed<Initializer>(j[0].get<std::string>(), attrs);
}

std::string DumpInitializer(const Initializer& initializer) {
  Json attrs = Json::object();
  for (const Field& field : initializer.kind().fields)
    attrs[field.name] = ToJson(initializer.Get(field.name));
  return Json{initializer.kind().name, attrs}.dump();
}

void FillParameter(ParameterKind kind, const NDArray& x) {
  const Quietly quietly(x.device());
  switch (kind) {
    case ParameterKind::kGamma:
    case ParameterKind::kOne:
      CopyInto(ones_like(x).array(), x);
      return;
    case ParameterKind::kQuantizedWeight:
      CopyInto(
          Make("_random_randint", {},
               {{"low", Attr(-127)}, {"high", Attr(127)}, {"shape", Attr(x.shape())}})
              .array(),
          x);
      return;
    default:
      CopyInto(zeros_like(x).array(), x);
  }
}

void InitializeParameter(std::string_view name, std::string_view own, const NDArray& x,
                         const Initializer& global) {
  if (!own.empty()) {
    MakeInitializer(own)->FillWeight(name, x, &global);
    return;
  }
  const ParameterKind kind = KindOfParameter(name).kind;
  Check(kind != ParameterKind::kUnknown, "initializer: the name '", name,
        "' does not say what the parameter is; an ending as ..weight, ..bias, ..gamma "
        "or ..beta, or an initializer of its own, was expected");
  if (kind == ParameterKind::kWeight) {
    global.FillWeight(name, x, &global);
  } else {
    FillParameter(kind, x);
  }
}

}  // namespace plait
