// Named: attributes by name, and the tables of kinds.

#include "train/named.h"

#include <algorithm>
#include <cctype>

namespace plait {
namespace {

std::string Lower(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(c & 0xff));
  return lower;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "none" : all;
}

[[noreturn]] void FailUnknown(const Kind& kind, std::string_view attribute) {
  std::vector<std::string> names;
  for (const Field& field : kind.fields) names.push_back(field.name);
  Fail(ErrorKind::kType, kind.name, ": '", attribute, "' is not an attribute of this ",
       kind.what, "; one of ", Listed(names), " was expected");
}

}  // namespace

const Field* Kind::Find(std::string_view attribute) const {
  for (const Field& field : fields) {
    if (field.name == attribute) return &field;
  }
  return nullptr;
}

void Named::Set(std::string_view attribute, const AttrValue& value) {
  const Field* field = kind_->Find(attribute);
  if (field == nullptr) FailUnknown(*kind_, attribute);
  SetField(static_cast<size_t>(field - kind_->fields.data()), value);
}

void Named::SetField(size_t i, const AttrValue& value) {
  const Field& field = kind_->fields[i];
  field.access->Set(self_, value, kind_->name + ": " + field.name);
}

AttrValue Named::Get(std::string_view attribute) const {
  const Field* field = kind_->Find(attribute);
  if (field == nullptr) FailUnknown(*kind_, attribute);
  return field->access->Get(self_);
}

Kind& KindTable::Add(Kind kind, std::span<const char* const> aliases) {
  kind.what = what_;
  const std::string name = kind.name;
  const auto [at, added] =
      kinds_.try_emplace(name, std::make_unique<Kind>(std::move(kind)));
  Check(added, ErrorKind::kRuntime, what_, ": ", name, " is registered twice");
  by_name_[name] = at->second.get();
  for (const char* alias : aliases) by_name_[alias] = at->second.get();
  return *at->second;
}

const Kind& KindTable::At(std::string_view name) const {
  const auto found = by_name_.find(Lower(name));
  if (found == by_name_.end()) {
    Fail(ErrorKind::kValue, what_, ": '", name, "' is not known; one of ",
         Listed(names()), " was expected");
  }
  return *found->second;
}

std::vector<std::string> KindTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds_) names.push_back(name);
  return names;
}

std::unique_ptr<Named> MakeNamed(const Kind& kind, std::span<const NamedAttr> attrs) {
  std::unique_ptr<Named> thing = kind.make();
  for (const NamedAttr& attr : attrs) thing->Set(attr.name, attr.value);
  for (const Field& field : kind.fields) {
    const bool given = std::any_of(attrs.begin(), attrs.end(), [&](const NamedAttr& a) {
      return a.name == field.name;
    });
    Check(given || !field.required, kind.name, ": attribute ", field.name,
          " is missing; a value of type ", field.access->TypeName(), " was expected");
  }
  thing->Complete();
  return thing;
}

}  // namespace plait
