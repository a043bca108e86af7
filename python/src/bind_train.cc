// The rules of optimizers, schedules, initializers and metrics.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "attributes.h"
#include "bindings.h"
#include "train/initializer.h"
#include "train/metric.h"
#include "train/rule.h"
#include "train/schedule.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// ---------------------------------------------------------------- states of rules

// A state as Python nests it, flat: None is an empty handle.
void Flatten(PyObject* state, State& flat) {
  if (state == Py_None) {
    flat.push_back(NDArray());
  } else if (IsNDArray(state)) {
    flat.push_back(ArrayOf(state));
  } else if (PyTuple_Check(state) || PyList_Check(state)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(state);
    for (Py_ssize_t i = 0; i < n; ++i)
      Flatten(PySequence_Fast_GET_ITEM(state, i), flat);
  } else {
    Fail(ErrorKind::kType, "optimizer: a state holds a ", Py_TYPE(state)->tp_name,
         "; arrays, tuples of them and None were expected");
  }
}

nb::object Item(const NDArray& x) {
  return x ? nb::steal(Wrap(x)) : nb::none();
}

// The state as MXNet nests it: one array or None by itself, or a tuple; with a master
// copy (master, state) or (state, master).
nb::object Nest(const Rule& rule, const State& state, bool has_master) {
  size_t first = 0, last = state.size();
  const bool at_end = rule.master_last();
  if (has_master && at_end) --last;
  if (has_master && !at_end) ++first;
  nb::object own = nb::none();
  if (last - first == 1 && rule.bare_state()) {
    own = Item(state[first]);
  } else if (last > first) {
    nb::list items;
    for (size_t i = first; i < last; ++i) items.append(Item(state[i]));
    own = nb::tuple(items);
  }
  if (!has_master) return own;
  return at_end ? nb::make_tuple(own, Item(state[last]))
                : nb::make_tuple(Item(state[0]), own);
}

nb::object NewState(const std::string& name, nb::handle optimizer,
                    const NDArray& weight, bool mixed) {
  const auto rule = FromHolder<Rule>(name, optimizer.ptr());
  rule->multi_precision &= mixed;
  return Nest(*rule, rule->NewState(weight), rule->UsesMaster(weight));
}

// ---------------------------------------------------------------- steps of rules

std::vector<NDArray> ArraysFrom(nb::handle list, const char* what) {
  const Owned fast = Owned::Checked(PySequence_Fast(list.ptr(), "a list is expected"));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
  std::vector<NDArray> arrays;
  arrays.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
    Check(IsNDArray(item), ErrorKind::kType, "train: a ", what, " is a ",
          Py_TYPE(item)->tp_name, "; an NDArray was expected");
    arrays.push_back(ArrayOf(item));
  }
  return arrays;
}

std::vector<State> StatesFrom(nb::handle list) {
  const Owned fast = Owned::Checked(PySequence_Fast(list.ptr(), "a list is expected"));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
  std::vector<State> states(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    Flatten(PySequence_Fast_GET_ITEM(fast.get(), i), states[static_cast<size_t>(i)]);
  }
  return states;
}

void ApplyRule(const std::string& name, nb::handle optimizer, nb::handle weights,
               nb::handle grads, nb::handle states, const std::vector<double>& lrs,
               const std::vector<double>& wds, const std::vector<int64_t>& counts,
               const std::vector<std::string>& names, double base_lr, bool mixed) {
  const auto rule = FromHolder<Rule>(name, optimizer.ptr());
  rule->multi_precision &= mixed;
  const std::vector<NDArray> w = ArraysFrom(weights, "weight");
  const std::vector<NDArray> g = ArraysFrom(grads, "gradient");
  const std::vector<State> s = StatesFrom(states);
  rule->Apply({w, g, s, lrs, wds, counts, names, base_lr});
  ToHolder(*rule, optimizer.ptr());
}

void BindRules(nb::module_& m) {
  m.def("rule_names", [] { return Rule::Kinds().names(); });
  m.def("rule_new_state", &NewState, nb::arg("rule"), nb::arg("optimizer"),
        nb::arg("weight"), nb::arg("mixed"),
        "What the rule keeps for a weight; mixed: with a float32 copy where the rule "
        "wants one.");
  m.def("rule_apply", &ApplyRule, nb::arg("rule"), nb::arg("optimizer"),
        nb::arg("weights"), nb::arg("grads"), nb::arg("states"), nb::arg("lrs"),
        nb::arg("wds"), nb::arg("counts"), nb::arg("names"), nb::arg("base_lr"),
        nb::arg("mixed"),
        "Updates weights and states by a rule, whose attributes `optimizer` has.");
  m.def("rule_master_last", [](const std::string& name) {
    return static_cast<const Rule&>(*Rule::Kinds().At(name).make()).master_last();
  });
  m.def("rule_decays", [](const std::string& name, const std::string& parameter) {
    const std::unique_ptr<Named> rule = Rule::Kinds().At(name).make();
    return static_cast<const Rule&>(*rule).Decays(parameter);
  });
}

// ---------------------------------------------------------------- schedules

void BindSchedules(nb::module_& m) {
  m.def(
      "schedule_rate",
      [](const std::string& name, nb::handle holder, int64_t num_update) {
        const auto schedule = FromHolder<Schedule>(name, holder.ptr());
        const double rate = schedule->Rate(num_update);
        ToHolder(*schedule, holder.ptr());
        return rate;
      },
      nb::arg("kind"), nb::arg("holder"), nb::arg("num_update"),
      "The rate at an update; `holder` has the schedule's attributes.");
  m.def("schedule_check", [](const std::string& name, nb::handle holder) {
    FromHolder<Schedule>(name, holder.ptr())->Complete();
  });
}

// ---------------------------------------------------------------- initializers

// The names of ParameterKind, as Python's methods have them: _init_weight.
constexpr const char* kParameterKinds[] = {
    "unknown", "weight",           "bias",          "gamma", "beta", "zero",
    "one",     "quantized_weight", "quantized_bias"};

ParameterKind ParameterKindOf(const std::string& name) {
  for (size_t i = 1; i < std::size(kParameterKinds); ++i) {
    if (name == kParameterKinds[i]) return static_cast<ParameterKind>(i);
  }
  Fail(ErrorKind::kValue, "initializer: '", name, "' is no kind of parameter");
}

void BindInitializers(nb::module_& m) {
  m.def(
      "init_weight",
      [](const std::string& kind, nb::handle holder, const std::string& name,
         const NDArray& x) {
        const auto initializer = FromHolder<Initializer>(kind, holder.ptr());
        initializer->FillWeight(name, x);
      },
      nb::arg("kind"), nb::arg("holder"), nb::arg("name"), nb::arg("array"),
      "Fills a weight; `holder` has the initializer's attributes.");
  m.def(
      "parameter_kind",
      [](const std::string& name, bool moving) -> nb::object {
        const ParameterName found = KindOfParameter(name, moving);
        if (found.kind == ParameterKind::kUnknown) return nb::none();
        return nb::make_tuple(std::string(found.ending),
                              kParameterKinds[static_cast<size_t>(found.kind)]);
      },
      nb::arg("name"), nb::arg("moving"),
      "The ending of a parameter's name and the kind that it stands for, or None.");
  m.def("fill_parameter", [](const std::string& kind, const NDArray& x) {
    FillParameter(ParameterKindOf(kind), x);
  });
  m.def("msra_magnitude", &MsraMagnitude);
  m.def(
      "rnn_pieces",
      [](const std::string& mode, int64_t num_hidden, int64_t num_layers,
         bool bidirectional, int64_t total) {
        nb::list pieces;
        for (const RnnPiece& piece :
             RnnPieces(mode, num_hidden, num_layers, bidirectional, total)) {
          pieces.append(nb::make_tuple(piece.name, piece.offset,
                                       nb::steal(ShapeToPython(piece.shape))));
        }
        return pieces;
      },
      nb::arg("mode"), nb::arg("num_hidden"), nb::arg("num_layers"),
      nb::arg("bidirectional"), nb::arg("total"));
}

// ---------------------------------------------------------------- metrics

nb::object UpdateMetric(const std::string& kind, nb::handle holder, nb::handle labels,
                        nb::handle preds, const NDArray& local, const NDArray& global) {
  const std::shared_ptr<const Measure> measure =
      FromHolder<Measure>(kind, holder.ptr());
  NDArray sums[] = {local, global};
  UpdateSums(measure, ArraysFrom(labels, "label"), ArraysFrom(preds, "prediction"),
             sums);
  // Most sums are added to in place: their Python objects stay.
  if (sums[0].body() == local.body() && sums[1].body() == global.body())
    return nb::none();
  return nb::make_tuple(nb::steal(Wrap(sums[0])), nb::steal(Wrap(sums[1])));
}

void BindMetrics(nb::module_& m) {
  m.def(
      "metric_new_sums",
      [](const std::string& kind, nb::handle holder) {
        return FromHolder<Measure>(kind, holder.ptr())->NewSums();
      },
      nb::arg("kind"), nb::arg("holder"),
      "An array of the sums of a metric; `holder` has the metric's attributes.");
  m.def("metric_update", &UpdateMetric, nb::arg("kind"), nb::arg("holder"),
        nb::arg("labels"), nb::arg("preds"), nb::arg("local_sums"),
        nb::arg("global_sums"),
        "Adds a batch to both sums; returns new sums where these are too small.");
  m.def("metric_value",
        [](const std::string& kind, nb::handle holder, const NDArray& sums) {
          return FromHolder<Measure>(kind, holder.ptr())->ValueOf(ReadSums(sums));
        });
  m.def("metric_total",
        [](const std::string& kind, nb::handle holder, const NDArray& sums) {
          const Measure::Total total =
              FromHolder<Measure>(kind, holder.ptr())->TotalOf(ReadSums(sums));
          return nb::make_tuple(total.sum, static_cast<int64_t>(total.count));
        });
}

// The attributes of a kind of thing with their defaults, as a dict; required ones have
// none.
nb::dict DefaultsOf(const std::string& sort, const std::string& name) {
  const Kind& kind = sort == "rule"          ? Rule::Kinds().At(name)
                     : sort == "schedule"    ? Schedule::Kinds().At(name)
                     : sort == "initializer" ? Initializer::Kinds().At(name)
                                             : Measure::Kinds().At(name);
  const std::unique_ptr<Named> thing = kind.make();
  nb::dict defaults;
  for (size_t i = 0; i < kind.fields.size(); ++i) {
    if (kind.fields[i].required) continue;
    defaults[kind.fields[i].name.c_str()] = nb::steal(AttrToPython(thing->GetField(i)));
  }
  return defaults;
}

}  // namespace

void BindTrain(nb::module_& m) {
  m.def("kind_defaults", &DefaultsOf, nb::arg("sort"), nb::arg("name"));
  BindRules(m);
  BindSchedules(m);
  BindInitializers(m);
  BindMetrics(m);
}

}  // namespace plait::python
