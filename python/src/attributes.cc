// Attributes of the core's named things that a Python object holds.

#include "attributes.h"

#include <unordered_map>
#include <vector>

#include "convert.h"

namespace plait::python {
namespace {

// The names of a kind's fields as interned strings, made once. Used under Python's
// lock.
const std::vector<PyObject*>& NamesOf(const Kind& kind) {
  static auto& names = *new std::unordered_map<const Kind*, std::vector<PyObject*>>;
  std::vector<PyObject*>& all = names[&kind];
  if (all.empty()) {
    for (const Field& field : kind.fields)
      all.push_back(
          Owned::Checked(PyUnicode_InternFromString(field.name.c_str())).release());
  }
  return all;
}

}  // namespace

std::unique_ptr<Named> FromHolder(const Kind& kind, PyObject* holder) {
  std::unique_ptr<Named> thing = kind.make();
  const std::vector<PyObject*>& names = NamesOf(kind);
  for (size_t i = 0; i < names.size(); ++i) {
    const Owned value = Owned::Checked(PyObject_GetAttr(holder, names[i]));
    thing->SetField(i, AttrFromPython(value.get()));
  }
  return thing;
}

void ToHolder(const Named& thing, PyObject* holder) {
  const std::vector<PyObject*>& names = NamesOf(thing.kind());
  for (size_t i : thing.kind().changing) {
    const Owned value = Owned::Checked(AttrToPython(thing.GetField(i)));
    if (PyObject_SetAttr(holder, names[i], value.get()) != 0) throw PythonError();
  }
}

}  // namespace plait::python
