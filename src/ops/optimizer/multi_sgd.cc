// SGD for several weights in one call; learning rates as parameters or as an array.

#include "ops/optimizer/sgd.h"

namespace plait {
namespace {

struct MultiSgdParams {
  std::vector<double> lrs, wds;
  float momentum = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  int num_weights = 1;
};
using P = MultiSgdParams;

// The four kinds, and whether rates come as two arrays at the end of the inputs.
struct Kind {
  const char* name;
  bool momentum, master, preloaded;

  constexpr int stride() const { return 2 + momentum + master; }
  constexpr int extra() const { return preloaded ? 2 : 0; }
};
constexpr Kind kKinds[] = {{"multi_sgd_update", false, false, false},
                           {"multi_sgd_mom_update", true, false, false},
                           {"multi_mp_sgd_update", false, true, false},
                           {"multi_mp_sgd_mom_update", true, true, false},
                           {"preloaded_multi_sgd_update", false, false, true},
                           {"preloaded_multi_sgd_mom_update", true, false, true},
                           {"preloaded_multi_mp_sgd_update", false, true, true},
                           {"preloaded_multi_mp_sgd_mom_update", true, true, true}};

template <int K>
void InferTypes(const P& p, Specs& in, Specs& out) {
  GroupTypes(p.num_weights, kKinds[K].stride(), kKinds[K].master, in, out);
}

template <int K>
bool Infer(const P& p, Specs& in, Specs& out) {
  constexpr Kind kind = kKinds[K];
  const int n = p.num_weights;
  if constexpr (kind.preloaded) {
    for (size_t i = in.size() - 2; i < in.size(); ++i) {
      Check(!in[i].shape.known() || in[i].shape.size() == n, kind.name,
            ": lrs and wds have shape ", in[i].shape, "; ", n,
            " numbers were expected");
    }
  } else {
    Check(static_cast<int>(p.lrs.size()) == n && static_cast<int>(p.wds.size()) == n,
          kind.name, ": got ", p.lrs.size(), " lrs and ", p.wds.size(), " wds for ", n,
          " weights; as many were expected");
  }
  return InferGroups(kind.name, n, kind.stride(), kind.extra(), in, out);
}

double Element(const View& v, int i) {
  return VisitDType(
      v.dtype, [&]<typename T>() { return static_cast<double>(v.data<const T>()[i]); });
}

template <int K>
void Forward(const P& p, const KernelArgs& args) {
  constexpr Kind kind = kKinds[K];
  SgdParams one{.momentum = p.momentum,
                .rescale_grad = p.rescale_grad,
                .clip_gradient = p.clip_gradient};
  const int master = kind.master ? kind.stride() - 1 : -1;
  const size_t end = args.in.size();
  RunGroups(args, kind.stride(), false, [&](int g, PwCall& c) {
    one.lr =
        static_cast<float>(kind.preloaded ? Element(args.in[end - 2], g) : p.lrs[g]);
    one.wd =
        static_cast<float>(kind.preloaded ? Element(args.in[end - 1], g) : p.wds[g]);
    if (kind.momentum) {
      SgdMomUpdate(one, c, 2, master);
    } else {
      SgdUpdate(one, c, master);
    }
  });
}

std::vector<Param<P>> ParamList(const Kind& kind) {
  std::vector<Param<P>> rows;
  if (!kind.preloaded) {
    rows.push_back(Required("lrs", &P::lrs, "A learning rate for each weight."));
    rows.push_back(Required("wds", &P::wds, "A weight decay for each weight."));
  }
  if (kind.momentum) rows.push_back({"momentum", &P::momentum, "Decay of momentum."});
  rows.push_back({"rescale_grad", &P::rescale_grad, "Multiplies the gradients."});
  rows.push_back({"clip_gradient", &P::clip_gradient,
                  "Bound of the scaled gradients; negative: none."});
  rows.push_back({"num_weights", &P::num_weights, "Number of weights."});
  return rows;
}

Sample<P> SampleOf(const Kind& kind) {
  Sample<P> sample;
  sample.params = {.momentum = 0.9f, .rescale_grad = 0.5f, .num_weights = 2};
  if (!kind.preloaded) {
    sample.params.lrs = {0.1, 0.2};
    sample.params.wds = {0, 0.01};
  }
  for (const Shape& shape : {Shape{3, 4}, Shape{5}}) {
    for (int i = 0; i < 2; ++i) {
      sample.inputs.push_back(kind.master ? Half(Normal(shape)) : Normal(shape));
    }
    for (int i = 2; i < kind.stride(); ++i) sample.inputs.push_back(Normal(shape));
  }
  if (kind.preloaded) {
    sample.inputs.push_back(Numbers({2}, {0.1, 0.2}));
    sample.inputs.push_back(Numbers({2}, {0, 0.01}));
  }
  return sample;
}

template <int K>
const OpDef& Add() {
  constexpr Kind kind = kKinds[K];
  std::vector<int> states;
  for (int i = 2; i < kind.stride(); ++i) states.push_back(i);
  return Register<P>({
      .name = kind.name,
      .doc = "SGD for several weights; the arrays of each weight stand together.",
      .inputs = {{"data", Types::kFloats,
                  "weight, grad [, mom] [, weight32] of each weight [, lrs, wds]."}},
      .params = ParamList(kind),
      .variable_inputs = true,
      .num_outputs = [](const P& p) { return p.num_weights; },
      .mutates = states,
      .group = kind.stride(),
      .types = InferTypes<K>,
      .infer = Infer<K>,
      .cpu = {{"plain", Forward<K>}},
      .in_place = {{0, 0}},
      .samples = {SampleOf(kind)},
  });
}

[[maybe_unused]] const OpDef* const kOps[] = {&Add<0>(), &Add<1>(), &Add<2>(),
                                              &Add<3>(), &Add<4>(), &Add<5>(),
                                              &Add<6>(), &Add<7>()};

}  // namespace
}  // namespace plait
