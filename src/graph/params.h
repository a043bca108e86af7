// Params: an operator's parameters, a plain struct whose members are listed by name.

#ifndef PLAIT_GRAPH_PARAMS_H_
#define PLAIT_GRAPH_PARAMS_H_

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/ref.h"
#include "graph/attr.h"

namespace plait {

struct OpDef;

// A parameter struct of any operator, immutable once it is made, shared by its users.
class Params : public RefCounted<Params> {
 public:
  virtual ~Params() = default;
  const void* get() const { return data_; }

 protected:
  const void* data_ = nullptr;
};
using ParamsRef = Ref<const Params>;

template <typename P>
class ParamsOf final : public Params {
 public:
  explicit ParamsOf(P p) : value(std::move(p)) { data_ = &value; }
  P value;
};
template <typename P>
ParamsRef MakeParams(P p) {
  return ParamsRef(new ParamsOf<P>(std::move(p)));
}

// One member, without its type. `object` points to the parameter struct.
class FieldAccess {
 public:
  virtual ~FieldAccess() = default;
  virtual void Set(void* object, const AttrValue& value,
                   const std::string& what) const = 0;
  virtual AttrValue Get(const void* object) const = 0;
  virtual std::string TypeName() const = 0;
};

struct Field {
  std::string name;
  std::string doc;
  bool required = false;
  std::shared_ptr<const FieldAccess> access;
};

namespace internal {

template <typename P, typename M>
class MemberAccess final : public FieldAccess {
 public:
  explicit MemberAccess(M P::*member) : member_(member) {}
  void Set(void* object, const AttrValue& value,
           const std::string& what) const override {
    static_cast<P*>(object)->*member_ = AttrCodec<M>::Decode(value, what);
  }
  AttrValue Get(const void* object) const override {
    return AttrCodec<M>::Encode(static_cast<const P*>(object)->*member_);
  }
  std::string TypeName() const override { return AttrCodec<M>::TypeName(); }

 private:
  M P::*member_;
};

// An enumeration: value i is written as names[i].
template <typename P, typename M>
class EnumAccess final : public FieldAccess {
 public:
  EnumAccess(M P::*member, std::vector<std::string> names)
      : member_(member), names_(std::move(names)) {}
  void Set(void* object, const AttrValue& value,
           const std::string& what) const override {
    const std::string text = FormatAttr(value);
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == text) {
        static_cast<P*>(object)->*member_ = static_cast<M>(i);
        return;
      }
    }
    Fail(ErrorKind::kValue, what, " is '", text, "'; one of ", TypeName(),
         " was expected");
  }
  AttrValue Get(const void* object) const override {
    return {names_[static_cast<size_t>(static_cast<const P*>(object)->*member_)]};
  }
  std::string TypeName() const override {
    std::string all = "{";
    for (const std::string& name : names_) all += (all.size() > 1 ? "|" : "") + name;
    return all + "}";
  }

 private:
  M P::*member_;
  std::vector<std::string> names_;
};

}  // namespace internal

// A row of `.params`: {"axis", &SoftmaxParams::axis, "The axis that sums to one."}, for
// an enumeration with its values' names before the doc.
template <typename P>
struct Param {
  Field field;

  template <typename M>
  Param(const char* name, M P::*member, const char* doc)
      : field{name, doc, false,
              std::make_shared<internal::MemberAccess<P, M>>(member)} {}
  template <typename M>
  Param(const char* name, M P::*member, std::vector<std::string> names,
        const char* doc) requires std::is_enum_v<M>
      : field{name, doc, false,
              std::make_shared<internal::EnumAccess<P, M>>(member, std::move(names))} {}
};

// A parameter that must be given.
template <typename P, typename M>
Param<P> Required(const char* name, M P::*member, const char* doc) {
  Param<P> p(name, member, doc);
  p.field.required = true;
  return p;
}
template <typename P, typename M>
Param<P> Required(const char* name, M P::*member, std::vector<std::string> names,
                  const char* doc) {
  Param<P> p(name, member, std::move(names), doc);
  p.field.required = true;
  return p;
}

}  // namespace plait

#endif  // PLAIT_GRAPH_PARAMS_H_
