// softmax, log_softmax and softmin along one axis.

#include "ops/nn/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "cpu/softmax.h"
#include "graph/math.h"

namespace plait {
namespace {

// One slice, in place: y = exp((x - max) / t) / sum, or its logarithm.
template <typename A>
void Slice(const SoftmaxProblem& p, A* v, int64_t n) {
  const A sign = p.negate ? -1 : 1, t = static_cast<A>(p.temperature);
  A top = -std::numeric_limits<A>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    v[i] *= sign;
    if (!(v[i] <= top)) top = v[i];  // NaN wins
  }
  A total = 0;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = (v[i] - top) / t;
    total += std::exp(v[i]);
  }
  const A log_total = std::log(total);
  for (int64_t i = 0; i < n; ++i) {
    v[i] = p.log ? v[i] - log_total : std::exp(v[i]) / total;
  }
}

int64_t LengthOf(const SoftmaxProblem& p, int64_t slice) {
  if (p.length == nullptr) return p.n;
  return VisitDType(p.length->dtype, [&]<typename T>() {
    const auto length = static_cast<int64_t>(p.length->data<const T>()[slice]);
    return std::clamp<int64_t>(length, 0, p.n);
  });
}

template <typename A>
void Plain(const SoftmaxProblem& p, const View& x, const View& y) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, p.n));
  ParallelFor(p.outer * p.inner, grain, [&](int64_t first, int64_t last) {
    std::vector<A> buffer(static_cast<size_t>(p.n));
    for (int64_t s = first; s < last; ++s) {
      const int64_t at = s / p.inner * p.n * p.inner + s % p.inner;
      VisitDType(x.dtype, [&]<typename T>() {
        const T* src = x.data<const T>() + at;
        for (int64_t i = 0; i < p.n; ++i) buffer[i] = static_cast<A>(src[i * p.inner]);
      });
      const int64_t n = LengthOf(p, s);
      Slice(p, buffer.data(), n);
      std::fill(buffer.begin() + n, buffer.end(), A{0});
      VisitFloat(y.dtype, [&]<typename T>() {
        T* dst = y.data<T>() + at;
        for (int64_t i = 0; i < p.n; ++i) dst[i * p.inner] = static_cast<T>(buffer[i]);
      });
    }
  });
}

}  // namespace

SoftmaxProblem SoftmaxAlong(const Shape& x, int axis) {
  return {x.size(0, axis), x[axis], x.size(axis + 1, x.rank())};
}

void PlainSoftmax(const SoftmaxProblem& p, const View& x, const View& y) {
  if (x.dtype == DType::kFloat64 || y.dtype == DType::kFloat64) {
    Plain<double>(p, x, y);
  } else {
    Plain<float>(p, x, y);
  }
}

namespace {

// One expression of some arrays, for the pointwise machine.
struct Program {
  PointwiseProgram program;
  SmallVector<Pw, 4> in;

  explicit Program(std::initializer_list<DType> dtypes) {
    for (DType d : dtypes) {
      const auto i = program.num_inputs++;
      program.inputs[i] = d;
      in.push_back(Pw(&program, {PointwiseArg::kInput, i}, d));
    }
  }
  void Return(const Pw& value) { program.outputs[program.num_outputs++] = value.arg(); }
};

// The steps of a softmax as programs, each of one pass. x is computed in `wide`.
struct Steps {
  Program top, exponential, sum, logarithm, result;

  Steps(const SoftmaxProblem& p, DType x, DType wide, DType y)
      : top{x},
        exponential{x, wide},
        sum{wide},
        logarithm{wide},
        result{p.log ? x : wide, wide, wide} {
    const auto signed_x = [&](const Pw& v) {
      const Pw w = Cast(v, wide);
      return p.negate ? -w : w;
    };
    const auto scaled = [&](const Pw& v, const Pw& m) {
      const Pw d = signed_x(v) - m;
      return p.temperature == 1 ? d : d / p.temperature;
    };
    top.Return(Call(Fn::kCopy, signed_x(top.in[0])));
    exponential.Return(exp(scaled(exponential.in[0], exponential.in[1])));
    sum.Return(Call(Fn::kCopy, sum.in[0]));
    logarithm.Return(log(logarithm.in[0]));
    const Pw total = result.in[2];  // or its logarithm
    result.Return(Cast(
        p.log ? scaled(result.in[0], result.in[1]) - total : result.in[0] / total, y));
  }
};

// `rows` of the outer slices, with scratch memory for their exponentials (none for the
// logarithm), maxima and sums.
void Block(const SoftmaxProblem& p, const Steps& s, int64_t rows, const void* x,
           void* y, void* exponentials, void* top, void* sum) {
  const Shape space{rows, p.n, p.inner}, slim{rows, 1, p.inner};
  const cpu::PointwiseInput in{x, &space}, m{top, &slim}, e{exponentials, &space},
      t{sum, &slim};
  cpu::ReducePointwise(s.top.program, space, {&in, 1}, Reduction::kMax, 0b10, 1, top);
  const cpu::PointwiseInput both[] = {in, m};
  if (p.log) {
    cpu::ReducePointwise(s.exponential.program, space, both, Reduction::kSum, 0b10, 1,
                         sum);
    cpu::RunPointwise(s.logarithm.program, slim, {&t, 1}, {&sum, 1});
  } else {
    cpu::RunPointwise(s.exponential.program, space, both, {&exponentials, 1});
    cpu::ReducePointwise(s.sum.program, space, {&e, 1}, Reduction::kSum, 0b10, 1, sum);
  }
  const cpu::PointwiseInput all[] = {p.log ? in : e, m, t};
  cpu::RunPointwise(s.result.program, space, all, {&y, 1});
}

// A few slices at a time, so that all passes but the first find them in the cache.
void MachineSoftmax(const SoftmaxProblem& p, const View& x, const View& y) {
  constexpr int64_t kBlock = 16384;
  const DType wide = x.dtype == DType::kFloat64 || y.dtype == DType::kFloat64
                         ? DType::kFloat64
                         : DType::kFloat32;
  const Steps steps(p, x.dtype, wide, y.dtype);
  const int64_t slice = p.n * p.inner, rows = std::max<int64_t>(1, kBlock / slice);
  const int64_t blocks = (p.outer + rows - 1) / rows;
  const auto bytes = [](int64_t count, DType d) {
    return static_cast<size_t>(count) * SizeOf(d);
  };
  const auto run = [&](int64_t first, int64_t last) {
    const cpu::Scratch exponentials(p.log ? 0 : bytes(rows * slice, wide));
    const cpu::Scratch top(bytes(rows * p.inner, wide)),
        sum(bytes(rows * p.inner, wide));
    for (int64_t b = first; b < last; ++b) {
      const int64_t at = b * rows;
      Block(p, steps, std::min(rows, p.outer - at),
            static_cast<const char*>(x.ptr) + bytes(at * slice, x.dtype),
            static_cast<char*>(y.ptr) + bytes(at * slice, y.dtype),
            exponentials.As<void>(), top.As<void>(), sum.As<void>());
    }
  };
  if (blocks == 1) return run(0, 1);
  ParallelFor(blocks, 1, [&](int64_t first, int64_t last) {
    const ScopedComputeThreads alone(1);
    run(first, last);
  });
}

}  // namespace

static bool HasMachineSoftmax(const SoftmaxProblem& p) {
  constexpr int64_t kWorthIt = 512;
  return p.length == nullptr && p.n > 0 && p.outer * p.n * p.inner >= kWorthIt;
}

static cpu::SoftmaxSlices SlicesOf(const SoftmaxProblem& p) {
  return {p.outer, p.n, p.inner, p.negate ? -p.temperature : p.temperature, p.log};
}

void Softmax(const SoftmaxProblem& p, const View& x, const View& y) {
  const bool same = x.dtype == y.dtype && p.length == nullptr && p.n > 0;
  if (same && x.dtype == DType::kFloat32) {
    cpu::SoftmaxForward(SlicesOf(p), x.data<const float>(), y.data<float>());
  } else if (same && x.dtype == DType::kFloat64) {
    cpu::SoftmaxForward(SlicesOf(p), x.data<const double>(), y.data<double>());
  } else if (HasMachineSoftmax(p)) {
    MachineSoftmax(p, x, y);
  } else {
    PlainSoftmax(p, x, y);
  }
}

namespace {

enum class OutDType { kNone, kFloat16, kFloat32, kFloat64 };

struct SoftmaxParams {
  int axis = -1;
  std::optional<double> temperature;
  OutDType dtype = OutDType::kNone;
  std::optional<bool> use_length = false;

  double t() const { return temperature.value_or(1.0); }
  bool has_length() const { return use_length.value_or(false); }
};
using P = SoftmaxParams;

void InferTypes(const P& p, Specs& in, Specs& out) {
  constexpr DType kTypes[] = {DType::kUnknown, DType::kFloat16, DType::kFloat32,
                              DType::kFloat64};
  DType& x = in[0].dtype;
  DType& y = out[0].dtype;
  if (p.dtype != OutDType::kNone) {
    y = kTypes[static_cast<int>(p.dtype)];
    if (x == DType::kUnknown) x = y;
  } else {
    if (x == DType::kUnknown) x = y;
    if (y == DType::kUnknown) y = x;
  }
  Check(y == DType::kUnknown || IsFloat(y), ErrorKind::kType, "softmax: x is ", x,
        "; a floating type, or the parameter dtype, was expected");
}

// `length` has the shape of x without the axis, and at least one axis.
bool Infer(const P& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(p.t() != 0, "softmax: temperature is 0; another number was expected");
  if (x.rank() == 0) return true;
  const int axis = NormalizeAxis(p.axis, x.rank(), "softmax");
  if (in.size() == 2) {
    Shape length = x;
    length.Erase(axis);
    if (length.rank() == 0) length.Append(1);
    Check(Unify(in[1].shape, length), "softmax: length ", in[1].shape,
          " does not fit x ", x, " and axis ", axis, "; ", length, " was expected");
  }
  return true;
}

enum class Kind { kSoftmax, kLogSoftmax, kSoftmin };

template <Kind K, auto kSoftmax>
void Forward(const P& p, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  SoftmaxProblem problem;
  if (shape.rank() > 0) {
    problem = SoftmaxAlong(shape, NormalizeAxis(p.axis, shape.rank(), "softmax"));
  }
  problem.temperature = p.t();
  problem.negate = K == Kind::kSoftmin;
  problem.log = K == Kind::kLogSoftmax;
  if (args.in.size() == 2) problem.length = &args.in[1];
  kSoftmax(problem, args.in[0], args.out[0]);
}

template <Kind K>
Values Gradient(const P& p, const GradArgs& g) {
  const double temperature = (K == Kind::kSoftmin ? -1 : 1) * p.t();
  const Value dx =
      SoftmaxBackward(p.axis, temperature, K == Kind::kLogSoftmax, g.out(0), g.dout(0));
  Values result(g.num_inputs());
  result[0] = dx.dtype() == g.in_spec(0).dtype ? dx : cast(dx, g.in_spec(0).dtype);
  return result;
}

std::vector<Param<P>> ParamList() {
  return {{"axis", &P::axis, "The axis that sums to one."},
          {"temperature", &P::temperature, "Divides x; None is 1."},
          {"dtype",
           &P::dtype,
           {"None", "float16", "float32", "float64"},
           "The type of y; None is that of x."},
          {"use_length", &P::use_length, "Takes `length`."}};
}

double Cost(const P&, const Specs& in, const Specs&) {
  return 20.0 * static_cast<double>(in[0].shape.size());
}

SampleInput Lengths(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.dtype = DType::kInt32;
  s.differentiable = false;
  return s;
}

const OpDef& softmax_op = Register<P>({
    .name = "softmax",
    .aliases = {"_npx_softmax"},
    .doc = "Scales x so that every slice along `axis` is positive and sums to one.",
    .inputs = {{"data", Types::kAny, "Scores x, of any shape."},
               {"length", Types::kAny,
                "How many elements of each slice count; the others give 0."}},
    .outputs = {{"output", Types::kFloats, "Probabilities, of the shape of x."}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, p.has_length()};
    },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient<Kind::kSoftmax>,
    .uses = {.out = 0b1},
    .cpu = {{"tiles", Forward<Kind::kSoftmax, Softmax>},
            {"plain", Forward<Kind::kSoftmax, PlainSoftmax>}},
    .cost = Cost,
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({4, 1, 5})}, {.axis = 0}},
                {{Normal({2, 3, 4})}, {.axis = 1, .temperature = 2.5}},
                {{Normal({2, 3})}, {.dtype = OutDType::kFloat64}},
                {{Normal({40, 20})}, {.temperature = 0.5}},
                {{Normal({2, 4, 3}), Lengths({2, 3}, {1, 4, 0, 2, 3, 4})},
                 {.axis = 1, .use_length = true}}},
});

const OpDef& log_softmax = Register<P>({
    .name = "log_softmax",
    .aliases = {"_npx_log_softmax"},
    .doc = "The logarithm of softmax, computed without loss of small probabilities.",
    .inputs = {{"data", Types::kAny, "Scores x, of any shape."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of x."}},
    .params = ParamList(),
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient<Kind::kLogSoftmax>,
    .uses = {.out = 0b1},
    .cpu = {{"tiles", Forward<Kind::kLogSoftmax, Softmax>},
            {"plain", Forward<Kind::kLogSoftmax, PlainSoftmax>}},
    .cost = Cost,
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({4, 1, 5})}, {.axis = 0}},
                {{Normal({2, 3, 4})}, {.axis = 1, .temperature = 0.5}}},
});

const OpDef& softmin = Register<P>({
    .name = "softmin",
    .doc = "Softmax of -x: small scores get large probabilities.",
    .inputs = {{"data", Types::kAny, "Scores x, of any shape."}},
    .outputs = {{"output", Types::kFloats, "Probabilities, of the shape of x."}},
    .params = ParamList(),
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient<Kind::kSoftmin>,
    .uses = {.out = 0b1},
    .cpu = {{"tiles", Forward<Kind::kSoftmin, Softmax>},
            {"plain", Forward<Kind::kSoftmin, PlainSoftmax>}},
    .cost = Cost,
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 3})}},
                {{Normal({3, 2})}, {.axis = 0, .temperature = 2.0}}},
});

}  // namespace
}  // namespace plait
