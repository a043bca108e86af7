// _random_X, _random_X_like and _sample_X: draws of each distribution.
//
// _random_X takes numbers as parameters and a shape; _random_X_like takes the shape of
// an array; _sample_X takes arrays of parameters and draws `shape` numbers for each.

#include "cpu/pointwise.h"
#include "ops/random/distribution.h"

namespace plait {
namespace {

struct NumberParams {
  double a = 0, b = 1;
  Shape shape = Shape::Unknown();
  std::string ctx;
  DType dtype = DType::kUnknown;
};
struct LikeParams {
  double a = 0, b = 1;
};
struct ArrayParams {
  Shape shape;
  DType dtype = DType::kUnknown;
};

double CostOf(const Distribution& d, const Specs& out) {
  const double each = d.base != Distribution::kNone ? 40 : 2000;
  return each * static_cast<double>(out[0].shape.size());
}

// The operators of one distribution. Functions of an OpSpec are plain pointers, so the
// distribution is a template argument.
template <int kIndex>
struct Samplers {
  static const Distribution& D() { return Distributions()[kIndex]; }

  static void RunNumbers(double a, double b, const KernelArgs& args) {
    CheckParams(D(), a, b);
    FillSamples(D(), args.random, a, b, 0, args.out[0].size(), args.out[0]);
  }

  static void RunArrays(const ArrayParams&, const KernelArgs& args) {
    const View& y = args.out[0];
    const int64_t sets = args.in[0].size();
    const int64_t each = sets > 0 ? y.size() / sets : 0;
    for (int64_t i = 0; i < sets; ++i) {
      double p[2] = {0, 0};
      for (int k = 0; k < D().num_params; ++k) {
        const View& x = args.in[k];
        cpu::Convert(static_cast<const char*>(x.ptr) + i * SizeOf(x.dtype), x.dtype,
                     &p[k], DType::kFloat64, 1);
      }
      CheckParams(D(), p[0], p[1]);
      FillSamples(D(), args.random, p[0], p[1], i * each, each, y);
    }
  }

  static bool InferArrays(const ArrayParams& p, Specs& in, Specs& out) {
    for (size_t i = 1; i < in.size(); ++i) {
      if (!Unify(in[0].shape, in[i].shape)) return false;
    }
    if (!in[0].shape.rank_known()) return true;
    Shape shape = in[0].shape;
    for (int64_t n : p.shape) shape.Append(n);
    return Unify(out[0].shape, shape);
  }

  static void Add() {
    static const std::string names[] = {
        std::string("_random_") + D().name, std::string("random_") + D().name,
        std::string("_random_") + D().name + "_like",
        std::string("_sample_") + D().name, std::string("sample_") + D().name};
    AddNumbers(names[0].c_str(), names[1].c_str());
    AddLike(names[2].c_str());
    AddArrays(names[3].c_str(), names[4].c_str());
  }

  template <typename P>
  static std::vector<Param<P>> NumberRows() {
    std::vector<Param<P>> rows = {{D().params[0], &P::a, "First parameter."}};
    if (D().num_params == 2)
      rows.push_back({D().params[1], &P::b, "Second parameter."});
    return rows;
  }

  static void AddNumbers(const char* name, const char* alias) {
    NumberParams defaults;
    defaults.a = D().defaults[0];
    defaults.b = D().defaults[1];
    NumberParams sample = defaults;
    sample.shape = {3, 4};
    OpSpec<NumberParams> s = {.name = name, .aliases = {alias}, .doc = D().doc};
    if (std::string_view(D().name) == "uniform" ||
        std::string_view(D().name) == "normal")
      s.aliases.push_back(D().name);
    s.params = NumberRows<NumberParams>();
    s.params.push_back(
        {"shape", &NumberParams::shape, "Shape of the result; (1,) by default."});
    s.params.push_back({"ctx", &NumberParams::ctx, "The device, as text."});
    s.params.push_back({"dtype", &NumberParams::dtype, "float32 by default."});
    s.defaults = defaults;
    s.types = [](const NumberParams& p, Specs&, Specs& out) {
      out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
      Check(IsFloat(out[0].dtype), ErrorKind::kType, "random: dtype is ", out[0].dtype,
            "; a floating dtype was expected");
    };
    s.infer = [](const NumberParams& p, Specs&, Specs& out) {
      for (int64_t n : p.shape.rank_known() ? p.shape : Shape{1}) {
        Check(n >= 0, "random: shape ", p.shape, " has a negative size");
      }
      return Unify(out[0].shape = p.shape.rank_known() ? p.shape : Shape{1},
                   out[0].shape);
    };
    s.cpu = {{"plain", [](const NumberParams& p, const KernelArgs& args) {
                RunNumbers(p.a, p.b, args);
              }}};
    s.random = s.may_fail = true;
    s.cost = [](const NumberParams&, const Specs&, const Specs& out) {
      return CostOf(D(), out);
    };
    s.samples = {{{}, sample}};
    Register(std::move(s));
  }

  static void AddLike(const char* name) {
    OpSpec<LikeParams> s = {.name = name,
                            .doc = D().doc,
                            .inputs = {{"data", Types::kFloats, "Gives the shape."}}};
    s.params = NumberRows<LikeParams>();
    s.defaults = LikeParams{D().defaults[0], D().defaults[1]};
    s.infer = [](const LikeParams&, Specs& in, Specs& out) {
      return Unify(in[0].shape, out[0].shape);
    };
    s.zero_gradient = true;
    s.cpu = {{"plain", [](const LikeParams& p, const KernelArgs& args) {
                RunNumbers(p.a, p.b, args);
              }}};
    s.random = s.may_fail = true;
    s.cost = [](const LikeParams&, const Specs&, const Specs& out) {
      return CostOf(D(), out);
    };
    s.samples = {{{Normal({3, 4})}, *s.defaults}};
    Register(std::move(s));
  }

  static void AddArrays(const char* name, const char* alias) {
    OpSpec<ArrayParams> s = {.name = name, .aliases = {alias}, .doc = D().doc};
    for (int i = 0; i < D().num_params; ++i) {
      s.inputs.push_back(
          {D().arrays[i], Types::kAny, "Parameters, one for each draw."});
    }
    s.params = {
        {"shape", &ArrayParams::shape, "Shape of the draws for each parameter."},
        {"dtype", &ArrayParams::dtype, "The parameters' dtype by default."}};
    s.types = [](const ArrayParams& p, Specs& in, Specs& out) {
      const DType own = IsFloat(in[0].dtype) ? in[0].dtype : DType::kFloat32;
      out[0].dtype = p.dtype == DType::kUnknown ? own : p.dtype;
    };
    s.infer = InferArrays;
    s.zero_gradient = true;
    s.cpu = {{"plain", RunArrays}};
    s.random = s.may_fail = true;
    s.cost = [](const ArrayParams&, const Specs&, const Specs& out) {
      return CostOf(D(), out);
    };
    std::vector<SampleInput> inputs;
    for (int i = 0; i < D().num_params; ++i) {
      inputs.push_back(Uniform({3}, i == 0 ? 0.1 : 0.5, i == 0 ? 0.4 : 0.9));
    }
    s.samples = {{inputs, {.shape = {2}}}, {inputs, {}}};
    Register(std::move(s));
  }
};

template <int... kIndex>
bool AddAll(std::integer_sequence<int, kIndex...>) {
  (Samplers<kIndex>::Add(), ...);
  return true;
}

[[maybe_unused]] const bool kAdded = AddAll(std::make_integer_sequence<int, 7>());

}  // namespace
}  // namespace plait
