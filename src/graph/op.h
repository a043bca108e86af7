// OpDef: what an operator is, and the registry of all operators.
//
// An operator is one file in ops/: a struct of parameters, inference, gradient, kernels
// (fastest first, the plain one last) and samples, and one Register statement. Names of
// operators, inputs and parameters are MXNet's, so that scripts and graph files carry
// over. See ops/softmax.cc for a model, CONTRIBUTING.md for the steps.

#ifndef PLAIT_GRAPH_OP_H_
#define PLAIT_GRAPH_OP_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random_stream.h"
#include "base/small_vector.h"
#include "graph/params.h"
#include "graph/pointwise_builder.h"
#include "graph/value.h"

namespace plait {

// ---------------------------------------------------------------- inference

struct Spec {
  Shape shape = Shape::Unknown();
  DType dtype = DType::kUnknown;
};
using Specs = SmallVector<Spec, 4>;

// Fills in what follows from what is known, of inputs and outputs alike. Returns false
// when shapes contradict each other (the caller then names them), throws a message of
// its own where that helps more. An unknown shape is never an error; calls may repeat.
template <typename P>
using InferFn = bool (*)(const P&, Specs& in, Specs& out);

// Which dtypes an input accepts.
enum class Types : uint8_t { kAny, kFloats, kIntegers, kNumbers };

// ---------------------------------------------------------------- kernels

// A contiguous array as a kernel sees it.
struct View {
  void* ptr = nullptr;
  const Shape* sizes = nullptr;
  DType dtype = DType::kUnknown;

  const Shape& shape() const { return *sizes; }
  int64_t size() const { return sizes->size(); }
  int64_t bytes() const { return size() * static_cast<int64_t>(SizeOf(dtype)); }
  template <typename T>
  T* data() const {
    return static_cast<T*>(ptr);
  }
};

// What a kernel works on. Outputs never overlap inputs, except in the pairs that the
// operator allows in place. Aux inputs (OpDef::mutates) may be written.
struct KernelArgs {
  std::span<const View> in;
  std::span<const View> out;
  RandomStream random;    // for operators with .random; a new one each call
  bool training = false;  // autograd's mode, for operators with .uses_training
  // False: the caller ignores this output (a hidden one); its ptr may still be written.
  std::span<const bool> wanted;
};

// A kernel may decline a call by a reason, which PLAIT_VERBOSE=1 prints.
template <typename P>
struct Kernel {
  const char* name = "plain";
  void (*run)(const P&, const KernelArgs&) = nullptr;
  const char* (*declines)(const P&, const Specs& in, const Specs& out) = nullptr;
};

// ---------------------------------------------------------------- gradients

// What a gradient may look at. in() and out() must be listed in `.uses`; shapes and
// dtypes of all are free.
class GradArgs {
 public:
  std::span<const Value> inputs, outputs, head_gradients;
  std::span<const Spec> input_specs, output_specs;
  std::span<const bool> wanted;  // which inputs want a gradient
  bool training = false;

  const Value& in(int i) const;  // throws kRuntime when the operator did not list it
  const Value& out(int i) const;
  // The gradient of output i; zeros when nothing flowed into it.
  Value dout(int i) const;
  bool has_dout(int i) const { return static_cast<bool>(head_gradients[i]); }
  bool wants(int i) const { return wanted[i]; }
  const Spec& in_spec(int i) const { return input_specs[i]; }
  const Spec& out_spec(int i) const { return output_specs[i]; }
  int num_inputs() const { return static_cast<int>(input_specs.size()); }
};

// Returns one value for each input; empty ones mean zero. `dx` must have the shape and
// dtype of its input.
template <typename P>
using GradientFn = Values (*)(const P&, const GradArgs&);

// The inputs and outputs that a gradient reads, as bits; the tape keeps only these.
struct Uses {
  uint32_t in = 0;
  uint32_t out = 0;
};
inline constexpr uint32_t kAll = ~0u;

// ---------------------------------------------------------------- samples

// One input of a sample: random or given numbers of a shape.
struct SampleInput {
  enum Kind : uint8_t { kNormal, kUniform, kIntegers, kValues } kind = kNormal;
  Shape shape;
  double low = 0, high = 1;    // kUniform; kIntegers: low <= x < high
  std::vector<double> values;  // kValues
  DType dtype = DType::kFloat32;
  bool differentiable = true;  // checked by finite differences
};
SampleInput Normal(Shape shape);
SampleInput Uniform(Shape shape, double low, double high);
SampleInput Integers(Shape shape, int64_t low, int64_t high,
                     DType dtype = DType::kFloat32);           // not differentiable
SampleInput Numbers(Shape shape, std::vector<double> values);  // given ones

template <typename P>
struct Sample {
  std::vector<SampleInput> inputs;
  P params = {};
  bool training = false;
  // Largest difference allowed between the gradient and finite differences (float64).
  double tolerance = 1e-5;
};

// ---------------------------------------------------------------- the definition

class Symbol;

struct InputDef {
  const char* name;
  Types types = Types::kAny;
  const char* doc = "";
};
struct OutputDef {
  const char* name = "output";
  Types types = Types::kAny;
  const char* doc = "";
};

// How a call looks where its parameters decide that.
struct CallForm {
  std::vector<std::string> inputs, outputs;  // names
  int states = 0;  // so many of the last inputs may be written: auxiliary states
};

// What Register takes; see OpDef for the meaning of the fields.
template <typename P>
struct OpSpec {
  const char* name;
  std::vector<const char*> aliases = {};
  const char* doc = "";
  std::vector<InputDef> inputs = {};
  std::vector<OutputDef> outputs = {{}};
  std::vector<Param<P>> params = {};
  std::optional<P> defaults = {};  // where one struct serves operators that differ
  bool variable_inputs = false;
  const char* count_param = nullptr;
  std::vector<bool> (*optional_inputs)(const P&) = nullptr;
  int (*num_outputs)(const P&) = nullptr;
  int (*visible_outputs)(const P&) = nullptr;
  std::vector<int> mutates = {};
  bool (*writes)(const P&, int input, bool training) = nullptr;
  int group = 0;
  void (*types)(const P&, Specs& in, Specs& out) = nullptr;
  InferFn<P> infer = nullptr;
  GradientFn<P> gradient = nullptr;
  bool zero_gradient = false;
  Uses uses = {};
  Uses (*uses_for)(const P&) = nullptr;
  void (*pointwise)(const P&, PwCall&) = nullptr;
  bool (*pointwise_if)(const P&) = nullptr;
  bool large = false;
  Fn fn = Fn::kCount;
  Pw (*reduce)(const P&, const Pw& x, const Shape& shape,
               PointwiseReduction&) = nullptr;
  std::vector<Kernel<P>> cpu = {};
  bool random = false;
  bool (*draws)(const P&, bool training) = nullptr;
  bool uses_training = false;
  bool may_fail = false;
  double (*cost)(const P&, const Specs& in, const Specs& out) = nullptr;
  std::vector<std::pair<int, int>> in_place = {};
  bool view = false;
  bool host = false;
  bool (*host_if)(const P&) = nullptr;
  void (*other_param)(P&, std::string_view name, const AttrValue& value) = nullptr;
  void (*finish)(P&, const std::vector<Symbol>& bodies) = nullptr;
  CallForm (*form)(const P&) = nullptr;
  std::vector<Sample<P>> samples = {};
};

// An operator without its parameter type.
struct OpDef {
  std::string name;
  std::vector<std::string> aliases;
  std::string doc;
  std::vector<InputDef> inputs;  // variable_inputs: one row that stands for all
  std::vector<OutputDef> outputs;
  std::vector<Field> fields;

  bool variable_inputs = false;       // takes any number of arrays
  const char* count_param = nullptr;  // MXNet's name for their number ("num_args")
  // Which rows of `inputs` a call has, by its parameters (no_bias); null: all.
  std::function<std::vector<bool>(const void*)> optional_inputs;
  std::function<int(const void*)> num_outputs;      // null: outputs.size()
  std::function<int(const void*)> visible_outputs;  // null: all
  std::vector<int> mutates;  // inputs that a call may write: auxiliary states
  // Whether a call does write an input, where that depends; null: those of `mutates`.
  std::function<bool(const void*, int input, bool training)> writes;
  // Where inputs are groups of so many arrays, each with one output, as for several
  // weights at once: `mutates` and `in_place` tell of one group. 0: no groups.
  int group = 0;

  // Dtypes; null: all inputs and outputs share one. May run while shapes are unknown.
  std::function<void(const void*, Specs&, Specs&)> types;
  std::function<bool(const void*, Specs&, Specs&)> infer;
  std::function<Values(const void*, const GradArgs&)> gradient;  // null: none
  bool zero_gradient = false;  // differentiable, and the gradient is zero
  Uses uses;
  std::function<Uses(const void*)> uses_for;  // where they depend on the parameters
  Uses UsesOf(const Params& p) const { return uses_for ? uses_for(p.get()) : uses; }

  // Pointwise operators have an expression, or the one function `fn` of their inputs;
  // their shapes broadcast. They need no kernel and no infer, unless pointwise_if says
  // that a call with some parameters is not pointwise. Without pointwise_if, a first
  // kernel runs the calls that it does not decline.
  std::function<void(const void*, PwCall&)> pointwise;
  std::function<bool(const void*)> pointwise_if;  // null: always
  bool large = false;  // takes more than kStepsOfAnOperator steps
  Fn fn = Fn::kCount;
  bool is_pointwise() const { return fn != Fn::kCount || pointwise != nullptr; }
  bool IsPointwise(const Params& p) const {
    return is_pointwise() && (!pointwise_if || pointwise_if(p.get()));
  }

  // Reductions of one array: returns the expression of x, an array of `shape`, whose
  // values are reduced, and says how; the result's dtype is set. They may run at the
  // end of the program that computes x. Their kernel does the same for a stored x.
  std::function<Pw(const void*, const Pw& x, const Shape& shape, PointwiseReduction&)>
      reduce;

  struct AnyKernel {
    const char* name;
    std::function<void(const void*, const KernelArgs&)> run;
    std::function<const char*(const void*, const Specs&, const Specs&)> declines;
  };
  std::vector<AnyKernel> cpu;
  bool random = false;  // draws numbers: KernelArgs::random
  // Whether a call draws at all, so that the generator does not move for nothing.
  std::function<bool(const void*, bool training)> draws;  // null: always
  bool uses_training = false;  // depends on autograd's training mode
  bool may_fail = false;  // a kernel may find bad values: errors carry the call site
  // Operations on numbers of a call; null: one for each element of input and output.
  std::function<double(const void*, const Specs&, const Specs&)> cost;
  std::vector<std::pair<int, int>> in_place;  // (input, output) that may share memory
  bool view = false;  // output 0 is input 0 in another shape: it needs no memory
  bool host = false;  // runs code of the host language, on Lane::kCallback
  std::function<bool(const void*)> host_if;  // where that depends; null: `host`
  bool IsHost(const Params& p) const { return host_if ? host_if(p.get()) : host; }
  // Takes parameters beside `fields`; null: there are none.
  std::function<void(void*, std::string_view, const AttrValue&)> other_param;
  // Called once all parameters are set, with the graphs that a node carries: the bodies
  // of control flow. Throws where they do not fit.
  std::function<void(void*, const std::vector<Symbol>&)> finish;
  // Null: `inputs`, `outputs` and `mutates` say it all. With variable_inputs.
  std::function<CallForm(const void*)> form;

  struct AnySample {
    std::vector<SampleInput> inputs;
    ParamsRef params;
    bool training;
    double tolerance;
  };
  std::vector<AnySample> samples;

  ParamsRef defaults;  // a call without parameters
  // A changeable copy of `defaults`, for MakeParams below.
  std::function<std::pair<void*, ParamsRef>()> new_params;

  int CountOutputs(const Params& p) const {
    return num_outputs ? num_outputs(p.get()) : static_cast<int>(outputs.size());
  }
  int CountVisible(const Params& p) const {
    return visible_outputs ? visible_outputs(p.get()) : CountOutputs(p);
  }
  // Whether an input is in `mutates`.
  bool Mutates(int input) const;
  // Whether this call writes an input.
  bool Writes(const Params& p, int input, bool training) const {
    return writes ? writes(p.get(), input, training) : Mutates(input);
  }
  // Whether an output may take the memory of an input.
  bool InPlace(int input, int output) const;
};

// Parameters from names and values; throws kType for an unknown name, kValue for a bad
// value or a required one that is missing.
struct NamedAttr {
  std::string_view name;
  AttrValue value;
};
ParamsRef MakeParams(const OpDef& op, std::span<const NamedAttr> attrs);
ParamsRef MakeParams(const OpDef& op, std::span<const NamedAttr> attrs,
                     const std::vector<Symbol>& bodies);

// Dtypes, then shapes: all of `out` is known afterwards, or this throws an error that
// names the operator and what it got. REQUIRES: every input is known.
void InferAll(const OpDef& op, const Params& params, Specs& in, Specs& out);

// ---------------------------------------------------------------- the registry

const OpDef& AddOp(OpDef op);
const OpDef* FindOp(std::string_view name);  // null when unknown; aliases count
const OpDef& GetOp(std::string_view name);   // throws kValue with the nearest names
std::vector<const OpDef*> AllOps();          // sorted by name

struct NoParams {};

template <typename P>
const OpDef& Register(OpSpec<P> s) {
  const auto cast = [](const void* p) -> const P& { return *static_cast<const P*>(p); };
  OpDef op;
  op.name = s.name;
  op.aliases.assign(s.aliases.begin(), s.aliases.end());
  op.doc = s.doc;
  op.inputs = s.inputs;
  op.outputs = s.outputs;
  for (Param<P>& p : s.params) op.fields.push_back(p.field);
  op.variable_inputs = s.variable_inputs;
  op.count_param = s.count_param;
  const auto erase = [cast]<typename F>(F* f) {
    return [cast, f](const void* p, auto&&... rest) { return f(cast(p), rest...); };
  };
  if (s.optional_inputs) op.optional_inputs = erase(s.optional_inputs);
  if (s.num_outputs) op.num_outputs = erase(s.num_outputs);
  if (s.visible_outputs) op.visible_outputs = erase(s.visible_outputs);
  op.mutates = s.mutates;
  if (s.writes) op.writes = erase(s.writes);
  op.group = s.group;
  if (s.types) op.types = erase(s.types);
  if (s.infer) op.infer = erase(s.infer);
  if (s.gradient) op.gradient = erase(s.gradient);
  op.zero_gradient = s.zero_gradient;
  op.uses = s.uses;
  if (s.uses_for) op.uses_for = erase(s.uses_for);
  if (s.pointwise) op.pointwise = erase(s.pointwise);
  if (s.pointwise_if) op.pointwise_if = erase(s.pointwise_if);
  op.large = s.large;
  op.fn = s.fn;
  if (s.reduce) op.reduce = erase(s.reduce);
  for (const Kernel<P>& k : s.cpu) {
    OpDef::AnyKernel any{k.name, erase(k.run), nullptr};
    if (k.declines) any.declines = erase(k.declines);
    op.cpu.push_back(std::move(any));
  }
  op.random = s.random;
  if (s.draws) op.draws = erase(s.draws);
  op.uses_training = s.uses_training;
  op.may_fail = s.may_fail;
  if (s.cost) op.cost = erase(s.cost);
  op.in_place = s.in_place;
  op.view = s.view;
  op.host = s.host;
  if (s.host_if) op.host_if = erase(s.host_if);
  if (s.form) op.form = erase(s.form);
  if (s.finish) {
    op.finish = [f = s.finish](void* p, const std::vector<Symbol>& bodies) {
      f(*static_cast<P*>(p), bodies);
    };
  }
  if (s.other_param) {
    op.other_param = [f = s.other_param](void* p, std::string_view name,
                                         const AttrValue& value) {
      f(*static_cast<P*>(p), name, value);
    };
  }
  for (const Sample<P>& sample : s.samples) {
    op.samples.push_back(
        {sample.inputs, MakeParams(sample.params), sample.training, sample.tolerance});
  }
  const P defaults = s.defaults ? *s.defaults : P{};
  op.defaults = MakeParams(defaults);
  op.new_params = [defaults] {
    auto* p = new ParamsOf<P>(defaults);
    return std::pair<void*, ParamsRef>(&p->value, ParamsRef(p));
  };
  return AddOp(std::move(op));
}

}  // namespace plait

#endif  // PLAIT_GRAPH_OP_H_
