// AttrValue: the value of an operator's parameter as a front end or a file gives it.

#ifndef PLAIT_GRAPH_ATTR_H_
#define PLAIT_GRAPH_ATTR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace plait {

struct AttrValue;
using AttrList = std::vector<AttrValue>;

struct AttrValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, AttrList> v;
};

// The text of MXNet's graph files: None, True, 3, 0.5, relu, (2, 2), (0, None).
AttrValue ParseAttr(std::string_view text);
std::string FormatAttr(const AttrValue& value);

// Conversions between AttrValue and the member types of parameter structs. `what` names
// the operator and parameter in errors ("Pooling: kernel").
template <typename T>
struct AttrCodec;

#define PLAIT_ATTR_CODEC(T)                                           \
  template <>                                                         \
  struct AttrCodec<T> {                                               \
    static T Decode(const AttrValue& value, const std::string& what); \
    static AttrValue Encode(const T& value);                          \
    static const char* TypeName();                                    \
  };
PLAIT_ATTR_CODEC(bool)
PLAIT_ATTR_CODEC(int)
PLAIT_ATTR_CODEC(int64_t)
PLAIT_ATTR_CODEC(float)
PLAIT_ATTR_CODEC(double)
PLAIT_ATTR_CODEC(std::string)
PLAIT_ATTR_CODEC(DType)
PLAIT_ATTR_CODEC(Shape)                                // (2, 2), 2, or ()
PLAIT_ATTR_CODEC(std::vector<double>)                  // (0.1, 0.2)
PLAIT_ATTR_CODEC(std::vector<std::optional<int64_t>>)  // (1, None)
#undef PLAIT_ATTR_CODEC

template <typename T>
struct AttrCodec<std::optional<T>> {
  static std::optional<T> Decode(const AttrValue& value, const std::string& what) {
    if (std::holds_alternative<std::monostate>(value.v)) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(&value.v)) {
      if (*text == "None") return std::nullopt;
    }
    return AttrCodec<T>::Decode(value, what);
  }
  static AttrValue Encode(const std::optional<T>& value) {
    return value ? AttrCodec<T>::Encode(*value) : AttrValue{};
  }
  static const char* TypeName() { return AttrCodec<T>::TypeName(); }
};

}  // namespace plait

#endif  // PLAIT_GRAPH_ATTR_H_
