// Attributes of the core's named things that a Python object holds.
//
// Programs read, set and subclass the Python objects, so that their attributes live
// there: for a call a thing of the core is made, and gets them all.

#ifndef PLAIT_PYTHON_ATTRIBUTES_H_
#define PLAIT_PYTHON_ATTRIBUTES_H_

#include <Python.h>

#include <memory>

#include "train/named.h"

namespace plait::python {

// A thing with the attributes of `holder`, which has one of each of the kind's names.
std::unique_ptr<Named> FromHolder(const Kind& kind, PyObject* holder);
// Gives what the thing has changed back to its holder.
void ToHolder(const Named& thing, PyObject* holder);

template <typename Base>
std::unique_ptr<Base> FromHolder(std::string_view name, PyObject* holder) {
  std::unique_ptr<Named> thing = FromHolder(Base::Kinds().At(name), holder);
  return std::unique_ptr<Base>(static_cast<Base*>(thing.release()));
}

}  // namespace plait::python

#endif  // PLAIT_PYTHON_ATTRIBUTES_H_
