// Custom: an operator written in Python as a node of graphs.
//
// Its parameters hold a plait.operator._Node, which knows the operator's names and runs
// it. A hidden output numbers the Python object that ran forward, so that backward
// finds the same one. Everything runs on the callback lane.

#include <algorithm>
#include <cstring>
#include <map>

#include "callback.h"
#include "graph/math.h"
#include "graph/op.h"

namespace plait::python {
namespace {

// A Python object, with its names in C++.
class CustomNode : public RefCounted<CustomNode> {
 public:
  CustomNode(const std::string& op_type,
             const std::map<std::string, std::string>& params)
      : name_("Custom(" + op_type + ")"), scope_(op_type + "::") {
    const PythonLock lock;
    try {
      const Owned module = Owned::Checked(PyImport_ImportModule("plait.operator"));
      const Owned dict = Owned::Checked(PyDict_New());
      for (const auto& [key, value] : params) {
        const Owned text = Owned::Checked(PyUnicode_FromStringAndSize(
            value.data(), static_cast<Py_ssize_t>(value.size())));
        if (PyDict_SetItemString(dict.get(), key.c_str(), text.get()) != 0)
          throw PythonError();
      }
      Owned made = Owned::Checked(PyObject_CallMethod(module.get(), "_node", "sO",
                                                      op_type.c_str(), dict.get()));
      form.inputs = Texts(made.get(), "arguments");
      const std::vector<std::string> states = Texts(made.get(), "states");
      form.outputs = Texts(made.get(), "outputs");
      form.states = static_cast<int>(states.size());
      num_arguments = static_cast<int>(form.inputs.size());
      form.inputs.insert(form.inputs.end(), states.begin(), states.end());
      for (const std::string& text : Texts(made.get(), "needed"))
        needed.push_back(text == "1");
      object_ = made.release();
    } catch (const PythonError&) {
      std::rethrow_exception(TakePythonError());
    }
  }
  ~CustomNode() {
    if (object_ != nullptr) ReleaseLater(object_);
  }

  CallForm form;
  int num_arguments = 0;
  std::vector<bool> needed;  // by backward: of head gradients, arguments, outputs
  int num_outputs() const { return static_cast<int>(form.outputs.size()); }
  bool NeedsHead(int k) const { return needed[k]; }
  bool NeedsArgument(int i) const { return needed[num_outputs() + i]; }
  bool NeedsOutput(int k) const { return needed[num_outputs() + num_arguments + k]; }

  const std::string& name() const { return name_; }
  const char* scope() const { return scope_.c_str(); }
  PyObject* object() const { return object_; }

 private:
  static std::vector<std::string> Texts(PyObject* object, const char* attribute) {
    const Owned list = Owned::Checked(PyObject_GetAttrString(object, attribute));
    std::vector<std::string> texts;
    const Py_ssize_t n = PySequence_Size(list.get());
    if (n < 0) throw PythonError();
    for (Py_ssize_t i = 0; i < n; ++i) {
      const Owned item = Owned::Checked(PySequence_GetItem(list.get(), i));
      const char* text = PyUnicode_AsUTF8(item.get());
      if (text == nullptr) throw PythonError();
      texts.push_back(text);
    }
    return texts;
  }

  const std::string name_, scope_;
  PyObject* object_ = nullptr;
};

struct CustomParams {
  std::string op_type;
  std::map<std::string, std::string> others;
  Ref<const CustomNode> node;

  const CustomNode& get() const {
    Check(node.get() != nullptr, "Custom: op_type is missing");
    return *node;
  }
};

// ---------------------------------------------------------------- inference

// Sizes that are not known are 0, as is the rank of a shape that is not.
Owned ListOfShape(const Shape& shape) {
  Owned list = Owned::Checked(PyList_New(0));
  for (int64_t size : shape) {
    const Owned number =
        Owned::Checked(PyLong_FromLongLong(std::max<int64_t>(size, 0)));
    if (PyList_Append(list.get(), number.get()) != 0) throw PythonError();
  }
  return list;
}

// Calls a method with one list, for the arguments, and gives fact(spec, item) for what
// it returns, in the order of arguments, outputs, states.
template <typename Item, typename Fact>
void Ask(const CustomNode& node, const char* method, bool complete, const Specs& in,
         Item item, Fact fact) {
  const PythonLock lock;
  try {
    const Owned list = Owned::Checked(PyList_New(0));
    for (int i = 0; i < node.num_arguments; ++i) {
      const Owned one = item(in[i]);
      if (PyList_Append(list.get(), one.get()) != 0) throw PythonError();
    }
    const Owned found = Owned::Checked(PyObject_CallMethod(
        node.object(), method, "OO", list.get(), complete ? Py_True : Py_False));
    if (found.get() == Py_None) return;
    const Py_ssize_t n = PySequence_Size(found.get());
    if (n < 0) throw PythonError();
    for (Py_ssize_t i = 0; i < n; ++i) {
      const Owned one = Owned::Checked(PySequence_GetItem(found.get(), i));
      fact(static_cast<int>(i), one.get());
    }
  } catch (const PythonError&) {
    std::rethrow_exception(TakePythonError());
  }
}

// The place of item i of what Python returns.
Spec& PlaceOf(const CustomNode& node, int i, Specs& in, Specs& out) {
  if (i < node.num_arguments) return in[i];
  i -= node.num_arguments;
  if (i < node.num_outputs()) return out[i];
  return in[node.num_arguments + i - node.num_outputs()];
}

void InferTypes(const CustomParams& p, Specs& in, Specs& out) {
  const CustomNode& node = p.get();
  Check(in.size() == node.form.inputs.size(), ErrorKind::kType, node.name(), ": got ",
        in.size(), " arrays; ", node.form.inputs.size(), " were expected");
  out[node.num_outputs()] = {{1}, DType::kInt64};
  bool complete = true;
  for (int i = 0; i < node.num_arguments; ++i)
    complete &= in[i].dtype != DType::kUnknown;
  Ask(
      node, "infer_dtypes", complete, in,
      [](const Spec& x) {
        return Owned::Checked(PyLong_FromLong(static_cast<long>(x.dtype)));
      },
      [&](int i, PyObject* item) {
        const auto dtype = static_cast<DType>(PyLong_AsLong(item));
        Spec& spec = PlaceOf(node, i, in, out);
        if (spec.dtype == DType::kUnknown) spec.dtype = dtype;
        Check(dtype == DType::kUnknown || spec.dtype == dtype, ErrorKind::kType,
              node.name(), ": an array is ", spec.dtype, "; infer_type expected ",
              dtype);
      });
}

bool InferShapes(const CustomParams& p, Specs& in, Specs& out) {
  const CustomNode& node = p.get();
  bool complete = true;
  for (int i = 0; i < node.num_arguments; ++i) complete &= in[i].shape.known();
  Ask(
      node, "infer_shapes", complete, in,
      [](const Spec& x) { return ListOfShape(x.shape); },
      [&](int i, PyObject* item) {
        Shape fact = ShapeFromPython(item);
        if (!complete) {
          if (fact.rank() == 0) fact = Shape::Unknown();
          for (int64_t& size : fact)
            if (size == 0) size = kUnknownSize;
        }
        Spec& spec = PlaceOf(node, i, in, out);
        const Shape known = spec.shape, wanted = fact;
        Check(Unify(spec.shape, fact), node.name(), ": ",
              i < node.num_arguments ? node.form.inputs[i] : std::string("an array"),
              " has shape ", known, "; ", wanted, " was expected by infer_shape");
      });
  return true;
}

// ---------------------------------------------------------------- kernels

// Arrays on the memory of views. What no operation holds is copied, since Python may
// keep the arrays.
class Aliases {
 public:
  void Add(const View& x, bool written) {
    for (const Ref<Chunk>& chunk : HeldChunks()) {
      const auto* begin = static_cast<const char*>(chunk->data());
      const auto* at = static_cast<const char*>(x.ptr);
      if (at < begin || at + x.bytes() > begin + chunk->bytes()) continue;
      arrays.push_back(NDArray::Borrow(x.ptr, x.shape(), x.dtype, chunk->device(),
                                       [keep = chunk] {}));
      return;
    }
    arrays.push_back(NDArray::Empty(x.shape(), x.dtype));
    std::memcpy(arrays.back().data(), x.ptr, static_cast<size_t>(x.bytes()));
    if (written) copies_.push_back({x.ptr, arrays.back()});
  }
  void AddNone() { arrays.emplace_back(); }
  void WriteBack() const {
    for (const auto& [ptr, array] : copies_)
      std::memcpy(ptr, array.data(), static_cast<size_t>(array.nbytes()));
  }

  std::vector<NDArray> arrays;

 private:
  std::vector<std::pair<void*, NDArray>> copies_;
};

void Forward(const CustomParams& p, const KernelArgs& args) {
  const CustomNode& node = p.get();
  Aliases data, aux, outputs;
  for (int i = 0; i < node.num_arguments; ++i) data.Add(args.in[i], false);
  for (int i = 0; i < node.form.states; ++i)
    aux.Add(args.in[node.num_arguments + i], true);
  for (int k = 0; k < node.num_outputs(); ++k) outputs.Add(args.out[k], true);
  std::vector<NDArray> written = outputs.arrays;
  written.insert(written.end(), aux.arrays.begin(), aux.arrays.end());
  int64_t number = 0;
  RunCallback(args.training, node.scope(), data.arrays, written, [&] {
    const Owned a = ListOf(data.arrays), b = ListOf(outputs.arrays),
                c = ListOf(aux.arrays);
    const Owned result = Owned::Checked(PyObject_CallMethod(
        node.object(), "run_forward", "OOOO", args.training ? Py_True : Py_False,
        a.get(), b.get(), c.get()));
    number = PyLong_AsLongLong(result.get());
  });
  outputs.WriteBack();
  aux.WriteBack();
  *args.out[node.num_outputs()].data<int64_t>() = number;
}

struct GradientParams {
  Ref<const CustomNode> node;
  std::vector<bool> wanted;  // by argument
  Specs specs;               // of the arguments, and so of their gradients
};

// in: what backward needs of head gradients, arguments and outputs, the states, and the
// number. out: a gradient for each argument.
void Backward(const GradientParams& p, const KernelArgs& args) {
  const CustomNode& node = *p.node;
  Aliases heads, data, outputs, aux, gradients;
  size_t next = 0;
  const auto add = [&](Aliases& list, bool needed) {
    if (needed) {
      list.Add(args.in[next++], false);
    } else {
      list.AddNone();
    }
  };
  for (int k = 0; k < node.num_outputs(); ++k) add(heads, node.NeedsHead(k));
  for (int i = 0; i < node.num_arguments; ++i) add(data, node.NeedsArgument(i));
  for (int k = 0; k < node.num_outputs(); ++k) add(outputs, node.NeedsOutput(k));
  for (int i = 0; i < node.form.states; ++i) aux.Add(args.in[next++], true);
  const int64_t number = *args.in[next].data<int64_t>();
  for (const View& dx : args.out) gradients.Add(dx, true);
  std::vector<NDArray> read = heads.arrays, written = gradients.arrays;
  for (const Aliases* list : {&data, &outputs})
    read.insert(read.end(), list->arrays.begin(), list->arrays.end());
  written.insert(written.end(), aux.arrays.begin(), aux.arrays.end());
  RunCallback(true, node.scope(), read, written, [&] {
    const Owned wanted = Owned::Checked(PyList_New(0));
    for (bool w : p.wanted)
      if (PyList_Append(wanted.get(), w ? Py_True : Py_False) != 0) throw PythonError();
    const Owned a = ListOf(heads.arrays), b = ListOf(data.arrays),
                c = ListOf(outputs.arrays), d = ListOf(gradients.arrays),
                e = ListOf(aux.arrays);
    Owned::Checked(PyObject_CallMethod(node.object(), "run_backward", "LOOOOOO", number,
                                       wanted.get(), a.get(), b.get(), c.get(), d.get(),
                                       e.get()));
  });
  gradients.WriteBack();
  aux.WriteBack();
}

int FirstState(const GradientParams& p) {
  return static_cast<int>(
      std::count(p.node->needed.begin(), p.node->needed.end(), true));
}

const OpDef& backward_custom = Register<GradientParams>({
    .name = "_backward_Custom",
    .doc = "The gradient of an operator written in Python.",
    .inputs = {{"data", Types::kAny, "What it reads."}},
    .variable_inputs = true,
    .num_outputs =
        [](const GradientParams& p) { return static_cast<int>(p.wanted.size()); },
    .writes =
        [](const GradientParams& p, int i, bool) {
          return i >= FirstState(p) && i < FirstState(p) + p.node->form.states;
        },
    .types = [](const GradientParams& p, Specs&, Specs& out) { out = p.specs; },
    .cpu = {{"python", Backward}},
    .host = true,
    .finish =
        [](GradientParams&, const std::vector<Symbol>&) {
          Fail(ErrorKind::kValue, "_backward_Custom: it cannot be called by name");
        },
});

// ---------------------------------------------------------------- gradient

Values Gradient(const CustomParams& p, const GradArgs& g) {
  const CustomNode& node = p.get();
  GradientParams q{p.node, {}};
  Values in, result(static_cast<size_t>(g.num_inputs()));
  for (int k = 0; k < node.num_outputs(); ++k)
    if (node.NeedsHead(k)) in.push_back(g.dout(k));
  for (int i = 0; i < node.num_arguments; ++i) {
    if (node.NeedsArgument(i)) in.push_back(g.in(i));
    q.wanted.push_back(g.wants(i));
    q.specs.push_back(g.in_spec(i));
  }
  for (int k = 0; k < node.num_outputs(); ++k)
    if (node.NeedsOutput(k)) in.push_back(g.out(k));
  for (int i = 0; i < node.form.states; ++i) in.push_back(g.in(node.num_arguments + i));
  in.push_back(g.out(node.num_outputs()));
  const std::vector<bool> wanted = q.wanted;
  Values found = Apply(backward_custom, MakeParams(std::move(q)), in);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) result[i] = std::move(found[i]);
  return result;
}

Uses UsesOf(const CustomParams& p) {
  if (!p.node) return {};
  const CustomNode& node = *p.node;
  Uses uses;
  const auto mark = [](uint32_t& bits, int i) { bits |= 1u << std::min(i, 31); };
  for (int i = 0; i < node.num_arguments; ++i)
    if (node.NeedsArgument(i)) mark(uses.in, i);
  for (int i = 0; i < node.form.states; ++i) mark(uses.in, node.num_arguments + i);
  for (int k = 0; k < node.num_outputs(); ++k)
    if (node.NeedsOutput(k)) mark(uses.out, k);
  mark(uses.out, node.num_outputs());
  return uses;
}

[[maybe_unused]] const OpDef& custom = Register<CustomParams>({
    .name = "Custom",
    .doc = "An operator written in Python, by the name it is registered under; other "
           "parameters go to its CustomOpProp as texts.",
    .inputs = {{"data", Types::kAny, "Its arguments and auxiliary states."}},
    .params = {Required<CustomParams>("op_type", &CustomParams::op_type,
                                      "The name given to plait.operator.register.")},
    .variable_inputs = true,
    .num_outputs =
        [](const CustomParams& p) { return p.node ? p.node->num_outputs() + 1 : 1; },
    .visible_outputs =
        [](const CustomParams& p) { return p.node ? p.node->num_outputs() : 1; },
    .writes = [](const CustomParams& p, int i,
                 bool) { return p.node && i >= p.node->num_arguments; },
    .types = InferTypes,
    .infer = InferShapes,
    .gradient = Gradient,
    .uses_for = UsesOf,
    .cpu = {{"python", Forward}},
    .uses_training = true,
    .host = true,
    .other_param =
        [](CustomParams& p, std::string_view name, const AttrValue& value) {
          p.others[std::string(name)] = FormatAttr(value);
        },
    .finish =
        [](CustomParams& p, const std::vector<Symbol>&) {
          p.node = Ref<const CustomNode>(new CustomNode(p.op_type, p.others));
        },
    .form = [](const CustomParams& p) { return p.node ? p.node->form : CallForm(); },
});

}  // namespace
}  // namespace plait::python
