// What the updates of optimizers share.
//
// An update is one pointwise expression: it returns the new weight and updates its
// states, in one pass over memory. Half types are computed in float32; mp_ forms keep a
// float32 master copy of the weight. The multi_ forms run the same expressions for
// several groups of arrays in one call.

#ifndef PLAIT_OPS_OPTIMIZER_UPDATE_H_
#define PLAIT_OPS_OPTIMIZER_UPDATE_H_

#include <vector>

#include "graph/op.h"
#include "ops/expression.h"

namespace plait {

// x in the type it is computed in.
inline Pw Wide(const Pw& x) {
  return IsHalf(x.dtype()) ? Cast(x, DType::kFloat32) : x;
}

// x clamped to [-bound, bound]; a negative bound means none.
inline Pw Clip(const Pw& x, double bound) {
  return bound < 0 ? x : minimum(maximum(x, -bound), bound);
}

// State i gets this value, in its own dtype.
inline void UpdateState(PwCall& c, int i, const Pw& value) {
  c.Update(i, Cast(value, c.in(i).dtype()));
}

// The weight that is computed with: the master copy where there is one.
inline Pw Weight(PwCall& c, int master) {
  return Wide(c.in(master < 0 ? 0 : master));
}
inline void ReturnWeight(PwCall& c, int master, const Pw& value) {
  if (master >= 0) UpdateState(c, master, value);
  c.Return(Cast(value, c.in(0).dtype()));
}

// Dtypes of mp_ forms: weight and gradient share one, all other arrays are float32.
template <typename P>
void MixedTypes(const P&, Specs& in, Specs& out) {
  DType& weight = in[0].dtype;
  if (weight == DType::kUnknown) weight = in[1].dtype;
  if (weight == DType::kUnknown) weight = out[0].dtype;
  Check(in[1].dtype == DType::kUnknown || in[1].dtype == weight, ErrorKind::kType,
        "update: weight is ", weight, " and grad ", in[1].dtype,
        "; equal dtypes were expected");
  in[1].dtype = out[0].dtype = weight;
  for (size_t i = 2; i < in.size(); ++i) {
    if (in[i].dtype == DType::kUnknown) in[i].dtype = DType::kFloat32;
    Check(in[i].dtype == DType::kFloat32, ErrorKind::kType, "update: array ", i, " is ",
          in[i].dtype, "; float32 was expected for a master copy or a state");
  }
}

// ---------------------------------------------------------------- several groups

// Shapes and dtypes of n groups of `stride` arrays and `extra` ones behind them: the
// arrays of a group have one shape; with `mixed`, weight and gradient have a dtype of
// their own and the rest is float32.
inline bool InferGroups(const char* op, int n, int stride, int extra, Specs& in,
                        Specs& out) {
  Check(n > 0, op, ": the number of weights is ", n, "; at least 1 was expected");
  const int64_t wanted = int64_t{n} * stride + extra;
  Check(static_cast<int64_t>(in.size()) == wanted, op, ": got ", in.size(),
        " arrays for ", n, " weights; ", wanted, " were expected");
  for (int g = 0; g < n; ++g) {
    for (int i = 0; i < stride; ++i) {
      const int at = g * stride + i;
      Check(Unify(in[at].shape, out[g].shape), op, ": arrays of weight ", g,
            " have shapes ", in[at].shape, " and ", out[g].shape,
            "; one shape was expected");
    }
  }
  return true;
}
inline void GroupTypes(int n, int stride, bool mixed, Specs& in, Specs& out) {
  for (int g = 0; g < n && (g + 1) * stride <= static_cast<int>(in.size()); ++g) {
    out[g].dtype = in[g * stride].dtype;
    if (out[g].dtype == DType::kUnknown) continue;
    Check(in[g * stride + 1].dtype == out[g].dtype, ErrorKind::kType, "update: weight ",
          g, " is ", out[g].dtype, " and its gradient ", in[g * stride + 1].dtype,
          "; equal dtypes were expected");
    for (int i = 2; i < stride; ++i) {
      const DType wanted = mixed ? DType::kFloat32 : out[g].dtype;
      Check(in[g * stride + i].dtype == wanted, ErrorKind::kType, "update: array ", i,
            " of weight ", g, " is ", in[g * stride + i].dtype, "; ", wanted,
            " was expected");
    }
  }
}

// Runs update(group, PwCall&) for every group. With `shared`, the last array of the
// call is the last input of every group.
template <typename F>
void RunGroups(const KernelArgs& args, int stride, bool shared, F&& update) {
  for (size_t g = 0; g < args.out.size(); ++g) {
    SmallVector<View, 8> in;
    for (int i = 0; i < stride; ++i) in.push_back(args.in[g * stride + i]);
    if (shared) in.push_back(args.in.back());
    RunExpression(in, args.out.subspan(g, 1), args.out[g].shape(),
                  [&](PwCall& c) { update(static_cast<int>(g), c); });
  }
}

// Sample inputs of updates: nothing is differentiated.
inline SampleInput State(Shape shape) {
  return Uniform(std::move(shape), 0.1, 1);
}
inline SampleInput Half(SampleInput s) {
  s.dtype = DType::kFloat16;
  return s;
}

}  // namespace plait

#endif  // PLAIT_OPS_OPTIMIZER_UPDATE_H_
