// Graph functions: hybridized blocks, and tracing of Python functions.

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.h"
#include "graph/trace.h"
#include "run/graph_function.h"
#include "run/monitor_names.h"
#include "run/tape.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

struct Function {
  Ref<GraphFunction> graph;
};

// Arrays in the order of the graph's inputs; a list of outputs.
nb::list CallFunction(const Function& f, const nb::list& arrays) {
  SmallVector<NDArray, 16> inputs;
  for (nb::handle x : arrays) {
    Check(IsNDArray(x.ptr()), ErrorKind::kType, "graph: an input is ",
          Py_TYPE(x.ptr())->tp_name, "; an NDArray was expected");
    inputs.push_back(ArrayOf(x.ptr()));
  }
  Arrays outputs = f.graph->Call(inputs);
  nb::list list;
  for (NDArray& y : outputs) list.append(nb::steal(Wrap(std::move(y))));
  return list;
}

// (The symbol's outputs and then all that its operators give, and with `inputs` what
// they read; name and operator of each value that was added.)
nb::tuple Watched(const Symbol& symbol, bool inputs) {
  std::vector<SymbolEntry> entries = symbol.outputs();
  nb::list names;
  for (SymbolNode* node : symbol.Nodes()) {
    if (node->is_variable()) continue;
    const size_t count = inputs ? node->inputs.size() : 0;
    const auto read = MonitorNames(*node->op, *node->params, count);
    for (size_t i = 0; i < count; ++i) {
      names.append(nb::make_tuple(node->name + "_" + read[i], node->op->name));
      entries.push_back(node->inputs[i]);
    }
    for (int i = 0; i < node->CountVisible(); ++i) {
      entries.push_back({Ref<SymbolNode>(node), i});
      names.append(nb::make_tuple(OutputName(entries.back()), node->op->name));
    }
  }
  return nb::make_tuple(Symbol(std::move(entries)), names);
}

// A trace in progress, of the thread that made it.
class Trace {
 public:
  Trace() : tracer_(std::make_unique<Tracer>(&graph_)) {
    tracer_->training = Training();
  }

  NDArray Input(const std::string& name, const NDArray& like) {
    return tracer_->AddInput(name, {like.shape(), like.dtype()});
  }

  // Ends the trace; (function, arrays beside the inputs that were read).
  nb::tuple Finish(const nb::list& outputs, const std::string& name) {
    for (nb::handle y : outputs)
      graph_.outputs.push_back(tracer_->EntryOf(nb::cast<NDArray>(y)));
    nb::list captured;
    for (const Tracer::Captured& c : tracer_->captured()) captured.append(c.array);
    tracer_.reset();
    Function f{MakeRef<GraphFunction>(std::move(graph_), name)};
    return nb::make_tuple(std::move(f), captured);
  }
  void Abandon() { tracer_.reset(); }

 private:
  Graph graph_;
  std::unique_ptr<Tracer> tracer_;
};

}  // namespace

void BindGraph(nb::module_& m) {
  nb::class_<Function>(m, "GraphFunction", "A graph that is called like an operator.")
      .def("__call__", &CallFunction);
  m.def("graph_function", [](const Symbol& symbol, const std::string& name) {
    return Function{MakeRef<GraphFunction>(symbol, name)};
  });
  m.def("watched_symbol", &Watched);
  nb::class_<Trace>(m, "Trace", "Operators called from here on become a graph.")
      .def(nb::init<>())
      .def("input", &Trace::Input, "A placeholder of an array's shape and dtype.")
      .def("finish", &Trace::Finish)
      .def("abandon", &Trace::Abandon);
  m.def("is_tracing", [] { return Tracer::Current() != nullptr; });
}

}  // namespace plait::python
