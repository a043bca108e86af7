// Named: things made by name whose attributes are set by name: optimizers, schedules,
// initializers, metrics.
//
// A kind is registered by one statement beside its class:
//   const auto& kFactor = AddKind<Schedule, FactorSchedule>({
//       .name = "factor", .doc = "...", .attributes = {{"step", &FactorSchedule::step,
//       "..."}}});
// Every language sees the same names, defaults and errors. A front end whose own
// objects hold the attributes makes a thing for a call and sets them all.

#ifndef PLAIT_TRAIN_NAMED_H_
#define PLAIT_TRAIN_NAMED_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"

namespace plait {

class Named;

// What is known of a class of things. Lives as long as the process.
struct Kind {
  std::string name;
  std::string doc;
  std::vector<Field> fields;
  std::vector<size_t> changing;  // positions of fields that work changes
  std::function<std::unique_ptr<Named>()> make;
  const char* what = "";  // "schedule"

  const Field* Find(std::string_view attribute) const;  // null when there is none
};

class Named {
 public:
  virtual ~Named() = default;
  Named(const Named&) = delete;
  Named& operator=(const Named&) = delete;

  const Kind& kind() const { return *kind_; }
  // Throw kType for an unknown name, kValue for a value that does not fit.
  void Set(std::string_view attribute, const AttrValue& value);
  AttrValue Get(std::string_view attribute) const;
  // The same by position in kind().fields, for front ends that set all.
  void SetField(size_t i, const AttrValue& value);
  AttrValue GetField(size_t i) const { return kind_->fields[i].access->Get(self_); }

  // Called when all attributes of a new thing are set: throws kValue where they do not
  // go together, and fills in those that follow from others.
  virtual void Complete() {}

 protected:
  Named() = default;

 private:
  template <typename Base, typename T>
  friend struct KindMaker;
  const Kind* kind_ = nullptr;
  void* self_ = nullptr;  // the object as its own class, which fields point into
};

// The kinds of one sort of thing, by lower-case name. Filled before main() and read
// only after that.
class KindTable {
 public:
  explicit KindTable(const char* what) : what_(what) {}
  // The kind stays where it is put.
  Kind& Add(Kind kind, std::span<const char* const> aliases);
  // In any case; throws kValue, and lists the names, when there is none.
  const Kind& At(std::string_view name) const;
  std::vector<std::string> names() const;  // without aliases

 private:
  const char* what_;
  std::map<std::string, std::unique_ptr<Kind>, std::less<>> kinds_;
  std::map<std::string, const Kind*, std::less<>> by_name_;
};

// A new thing with these attributes; required ones must be there.
std::unique_ptr<Named> MakeNamed(const Kind& kind, std::span<const NamedAttr> attrs);

template <typename T>
struct KindSpec {
  const char* name;
  std::vector<const char*> aliases = {};
  const char* doc = "";
  std::vector<Param<T>> attributes = {};
  // Names of attributes that the thing itself changes as it works.
  std::vector<const char*> changing = {};
};

template <typename Base, typename T>
struct KindMaker {
  static std::unique_ptr<Named> Make(const Kind* kind) {
    auto thing = std::make_unique<T>();
    Named* named = thing.get();
    named->kind_ = kind;
    named->self_ = thing.get();
    return thing;
  }
};

// Base has `static KindTable& Kinds()`.
template <typename Base, typename T>
const Kind& AddKind(KindSpec<T> spec) {
  Kind kind;
  kind.name = spec.name;
  kind.doc = spec.doc;
  for (Param<T>& p : spec.attributes) kind.fields.push_back(std::move(p.field));
  for (const char* name : spec.changing) {
    kind.changing.push_back(static_cast<size_t>(kind.Find(name) - kind.fields.data()));
  }
  Kind& added = Base::Kinds().Add(std::move(kind), spec.aliases);
  added.make = [&added] { return KindMaker<Base, T>::Make(&added); };
  return added;
}

// An attribute that a class has from its base.
template <typename T, typename B, typename M>
Param<T> Inherited(const char* name, M B::*member, const char* doc) {
  return Param<T>(name, static_cast<M T::*>(member), doc);
}

// A thing of a sort by name: CreateNamed<Schedule>("factor", {{"step", {100}}}).
template <typename Base>
std::unique_ptr<Base> CreateNamed(std::string_view name,
                                  std::span<const NamedAttr> attrs = {}) {
  std::unique_ptr<Named> thing = MakeNamed(Base::Kinds().At(name), attrs);
  return std::unique_ptr<Base>(static_cast<Base*>(thing.release()));
}

}  // namespace plait

#endif  // PLAIT_TRAIN_NAMED_H_
