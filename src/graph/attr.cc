// AttrValue: text form and conversions.

#include "graph/attr.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace plait {
namespace {

// A reader of the small grammar of attribute texts. Nesting is limited: texts come from
// files that anybody may have written.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  // The value, if the whole text is one; else the text itself is a string.
  std::optional<AttrValue> Whole() {
    std::optional<AttrValue> value = Item(0);
    Skip();
    return value && rest_.empty() ? value : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 8;

  void Skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n'))
      rest_.remove_prefix(1);
  }
  bool Take(char c) {
    Skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<AttrValue> Item(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    if (Take('(')) return List(')', depth);
    if (Take('[')) return List(']', depth);
    Skip();
    const size_t end = std::min(rest_.find_first_of(",)] "), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    std::optional<AttrValue> value = Word(word);
    if (value) rest_.remove_prefix(end);
    return value;
  }

  std::optional<AttrValue> List(char close, int depth) {
    AttrList items;
    while (!Take(close)) {
      std::optional<AttrValue> item = Item(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
      if (!Take(',') && (rest_.empty() || rest_[0] != close)) return std::nullopt;
    }
    return AttrValue{std::move(items)};
  }

  static std::optional<AttrValue> Word(std::string_view word) {
    if (word.empty()) return std::nullopt;
    if (word == "None") return AttrValue{};
    if (word == "True" || word == "true") return AttrValue{true};
    if (word == "False" || word == "false") return AttrValue{false};
    if (word.back() == 'L' && word.size() > 1)
      word.remove_suffix(1);  // Python 2's long
    int64_t whole;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), whole);
    if (error == std::errc() && end == word.data() + word.size())
      return AttrValue{whole};
    double number;
    auto [end2, error2] =
        std::from_chars(word.data(), word.data() + word.size(), number);
    if (error2 == std::errc() && end2 == word.data() + word.size())
      return AttrValue{number};
    return std::nullopt;
  }

  std::string_view rest_;
};

// A string that stands for something else becomes that.
AttrValue Reduced(const AttrValue& value) {
  const auto* text = std::get_if<std::string>(&value.v);
  return text ? ParseAttr(*text) : value;
}

[[noreturn]] void Bad(const AttrValue& value, const std::string& what,
                      const char* type) {
  Fail(ErrorKind::kValue, what, " is ", FormatAttr(value), "; ", type, " was expected");
}

int64_t WholeNumber(const AttrValue& given, const std::string& what, const char* type) {
  const AttrValue value = Reduced(given);
  if (const auto* i = std::get_if<int64_t>(&value.v)) return *i;
  if (const auto* b = std::get_if<bool>(&value.v)) return *b;
  if (const auto* d = std::get_if<double>(&value.v)) {
    if (*d == std::floor(*d) && std::abs(*d) < 9e18) return static_cast<int64_t>(*d);
  }
  Bad(given, what, type);
}

}  // namespace

AttrValue ParseAttr(std::string_view text) {
  if (std::optional<AttrValue> value = Parser(text).Whole()) return *value;
  return {std::string(text)};
}

std::string FormatAttr(const AttrValue& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool b) const { return b ? "True" : "False"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
      if (std::isnan(d)) return "nan";
      if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
      char text[64];
      const auto result = std::to_chars(text, text + sizeof text, d);
      std::string s(text, result.ptr);
      // A whole number stays recognisable as a float, as Python writes it.
      return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
    }
    std::string operator()(const std::string& s) const { return s; }
    std::string operator()(const AttrList& items) const {
      std::string s = "(";
      for (size_t i = 0; i < items.size(); ++i) {
        s += (i ? ", " : "") + FormatAttr(items[i]);
      }
      return s + (items.size() == 1 ? ",)" : ")");
    }
  };
  return std::visit(Visitor(), value.v);
}

bool AttrCodec<bool>::Decode(const AttrValue& given, const std::string& what) {
  const AttrValue value = Reduced(given);
  if (const auto* b = std::get_if<bool>(&value.v)) return *b;
  if (const auto* i = std::get_if<int64_t>(&value.v)) return *i != 0;
  if (const auto* d = std::get_if<double>(&value.v)) return *d != 0;
  Bad(given, what, TypeName());
}
AttrValue AttrCodec<bool>::Encode(const bool& value) {
  return {value};
}
const char* AttrCodec<bool>::TypeName() {
  return "bool";
}

int64_t AttrCodec<int64_t>::Decode(const AttrValue& value, const std::string& what) {
  return WholeNumber(value, what, TypeName());
}
AttrValue AttrCodec<int64_t>::Encode(const int64_t& value) {
  return {value};
}
const char* AttrCodec<int64_t>::TypeName() {
  return "int";
}

int AttrCodec<int>::Decode(const AttrValue& value, const std::string& what) {
  const int64_t i = WholeNumber(value, what, TypeName());
  if (i < std::numeric_limits<int>::min() || i > std::numeric_limits<int>::max())
    Bad(value, what, "an int of 32 bits");
  return static_cast<int>(i);
}
AttrValue AttrCodec<int>::Encode(const int& value) {
  return {int64_t{value}};
}
const char* AttrCodec<int>::TypeName() {
  return "int";
}

double AttrCodec<double>::Decode(const AttrValue& given, const std::string& what) {
  const AttrValue value = Reduced(given);
  if (const auto* d = std::get_if<double>(&value.v)) return *d;
  if (const auto* i = std::get_if<int64_t>(&value.v)) return static_cast<double>(*i);
  if (const auto* b = std::get_if<bool>(&value.v)) return *b;
  Bad(given, what, TypeName());
}
AttrValue AttrCodec<double>::Encode(const double& value) {
  return {value};
}
const char* AttrCodec<double>::TypeName() {
  return "float";
}

float AttrCodec<float>::Decode(const AttrValue& value, const std::string& what) {
  return static_cast<float>(AttrCodec<double>::Decode(value, what));
}
AttrValue AttrCodec<float>::Encode(const float& value) {
  // Through the shortest text of the float, so that 0.1f reads 0.1.
  char text[64];
  const auto result = std::to_chars(text, text + sizeof text, value);
  double wide = value;
  std::from_chars(text, result.ptr, wide);
  return {wide};
}
const char* AttrCodec<float>::TypeName() {
  return "float";
}

std::string AttrCodec<std::string>::Decode(const AttrValue& value, const std::string&) {
  return FormatAttr(value);
}
AttrValue AttrCodec<std::string>::Encode(const std::string& value) {
  return {value};
}
const char* AttrCodec<std::string>::TypeName() {
  return "str";
}

DType AttrCodec<DType>::Decode(const AttrValue& value, const std::string& what) {
  if (std::holds_alternative<std::monostate>(value.v)) return DType::kUnknown;
  const std::string text = FormatAttr(value);
  if (text == "None" || text == "unknown") return DType::kUnknown;
  if (const auto* i = std::get_if<int64_t>(&value.v)) {
    if (*i >= -1 && *i < kNumDTypes) return static_cast<DType>(*i);
    Bad(value, what, "a dtype");
  }
  return ParseDType(text);
}
AttrValue AttrCodec<DType>::Encode(const DType& value) {
  if (value == DType::kUnknown) return {};
  return {std::string(Name(value))};
}
const char* AttrCodec<DType>::TypeName() {
  return "dtype";
}

Shape AttrCodec<Shape>::Decode(const AttrValue& given, const std::string& what) {
  const AttrValue value = Reduced(given);
  if (std::holds_alternative<std::monostate>(value.v)) return Shape::Unknown();
  if (const auto* items = std::get_if<AttrList>(&value.v)) {
    Shape shape;
    for (const AttrValue& item : *items) {
      shape.Append(WholeNumber(item, what, "a whole number in each place"));
    }
    return shape;
  }
  return Shape{WholeNumber(given, what, TypeName())};
}
AttrValue AttrCodec<Shape>::Encode(const Shape& value) {
  if (!value.rank_known()) return {};
  AttrList items;
  for (int64_t size : value) items.push_back({size});
  return {std::move(items)};
}
const char* AttrCodec<Shape>::TypeName() {
  return "tuple of int";
}

std::vector<double> AttrCodec<std::vector<double>>::Decode(const AttrValue& given,
                                                           const std::string& what) {
  const AttrValue value = Reduced(given);
  std::vector<double> numbers;
  if (const auto* items = std::get_if<AttrList>(&value.v)) {
    for (const AttrValue& item : *items) {
      numbers.push_back(AttrCodec<double>::Decode(item, what));
    }
  } else {
    numbers.push_back(AttrCodec<double>::Decode(given, what));
  }
  return numbers;
}
AttrValue AttrCodec<std::vector<double>>::Encode(const std::vector<double>& value) {
  AttrList items;
  for (double number : value) items.push_back({number});
  return {std::move(items)};
}
const char* AttrCodec<std::vector<double>>::TypeName() {
  return "tuple of float";
}

using OptionalInts = std::vector<std::optional<int64_t>>;
OptionalInts AttrCodec<OptionalInts>::Decode(const AttrValue& given,
                                             const std::string& what) {
  const AttrValue value = Reduced(given);
  OptionalInts numbers;
  const auto add = [&](const AttrValue& item) {
    numbers.push_back(std::holds_alternative<std::monostate>(item.v)
                          ? std::nullopt
                          : std::optional(WholeNumber(item, what, "int or None")));
  };
  if (const auto* items = std::get_if<AttrList>(&value.v)) {
    for (const AttrValue& item : *items) add(item);
  } else {
    add(value);
  }
  return numbers;
}
AttrValue AttrCodec<OptionalInts>::Encode(const OptionalInts& value) {
  AttrList items;
  for (const auto& number : value) {
    items.push_back(number ? AttrValue{*number} : AttrValue{});
  }
  return {std::move(items)};
}
const char* AttrCodec<OptionalInts>::TypeName() {
  return "tuple of int or None";
}

}  // namespace plait
