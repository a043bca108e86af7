// _slice_assign, _slice_assign_scalar: x with a part replaced.

#include "ops/gradients.h"
#include "ops/shape/copy.h"
#include "ops/shape/slices.h"

namespace plait {
namespace {

// Output 0 starts as a copy of input 0, unless it is its memory.
void StartAsCopy(const KernelArgs& args) {
  CopyKernel(NoParams{}, args);
}

AttrValue AttrOf(const OptionalInts& numbers) {
  return AttrCodec<OptionalInts>::Encode(numbers);
}

// x with zeros in the slice.
Value Blanked(const Value& x, const SliceParams& p) {
  return Make(
      "_slice_assign_scalar", {x},
      {{"begin", AttrOf(p.begin)}, {"end", AttrOf(p.end)}, {"step", AttrOf(p.step)}});
}

[[maybe_unused]] const OpDef& slice_assign = Register<SliceParams>({
    .name = "_slice_assign",
    .aliases = {"_crop_assign", "_npi_slice_assign"},
    .doc = "x with the part from begin to end replaced by another array.",
    .inputs = {{"lhs", Types::kAny, "x."},
               {"rhs", Types::kAny, "The new part, of the shape of the slice."}},
    .params = {Required<SliceParams>("begin", &SliceParams::begin,
                                     "Where each axis begins; None: at its start."),
               Required<SliceParams>("end", &SliceParams::end,
                                     "Where each axis ends; None: at its end."),
               {"step", &SliceParams::step, "The step along each axis."}},
    .infer =
        [](const SliceParams& p, Specs& in, Specs& out) {
          if (!Unify(in[0].shape, out[0].shape)) return false;
          if (!in[0].shape.rank_known()) return true;
          Shape part = ResolveSlice(in[0].shape, p, "_slice_assign").sizes;
          const Shape given = in[1].shape;
          Check(Unify(part, in[1].shape), "_slice_assign: the new part has shape ",
                given, "; the shape of the slice, ", part, ", was expected");
          return true;
        },
    .gradient = [](const SliceParams& p, const GradArgs& g) -> Values {
      return {g.wants(0) ? Blanked(g.dout(0), p) : Value(),
              g.wants(1) ? slice(g.dout(0), p) : Value()};
    },
    .cpu = {{"plain",
             [](const SliceParams& p, const KernelArgs& args) {
               StartAsCopy(args);
               const View& y = args.out[0];
               CopyToSlice(args.in[1], ResolveSlice(y.shape(), p, "_slice_assign"), y);
             }}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4}), Normal({2, 3})}, {{0, 1}, {2, 4}}},
                {{Normal({4}), Normal({2})}, {{3}, {std::nullopt}, {-2}}},
                {{Normal({4}), Normal({0})}, {{3}, {3}}}},
});

struct ScalarParams {
  double scalar = 0;
  OptionalInts begin, end, step;
  SliceParams slice() const { return {begin, end, step}; }
};

void RunScalar(const ScalarParams& p, const KernelArgs& args) {
  StartAsCopy(args);
  const View& y = args.out[0];
  const Slice s = ResolveSlice(y.shape(), p.slice(), "_slice_assign_scalar");
  uint64_t one = 0;
  const Shape single{1};
  const View value{&one, &single, y.dtype};
  FillValue(value, p.scalar);
  FillSlice(value, s, y);
}

[[maybe_unused]] const OpDef& slice_assign_scalar = Register<ScalarParams>({
    .name = "_slice_assign_scalar",
    .aliases = {"_crop_assign_scalar", "_npi_slice_assign_scalar"},
    .doc = "x with the part from begin to end replaced by a number.",
    .inputs = {{"data", Types::kAny, "x."}},
    .params = {{"scalar", &ScalarParams::scalar, "The number."},
               Required<ScalarParams>("begin", &ScalarParams::begin,
                                      "Where each axis begins; None: at its start."),
               Required<ScalarParams>("end", &ScalarParams::end,
                                      "Where each axis ends; None: at its end."),
               {"step", &ScalarParams::step, "The step along each axis."}},
    .infer =
        [](const ScalarParams& p, Specs& in, Specs& out) {
          if (in[0].shape.rank_known()) {
            ResolveSlice(in[0].shape, p.slice(), "_slice_assign_scalar");
          }
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = [](const ScalarParams& p, const GradArgs& g) -> Values {
      return {Blanked(g.dout(0), p.slice())};
    },
    .cpu = {{"plain", RunScalar}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4})}, {2.5, {0, 1}, {2, 4}}},
                {{Normal({4})}, {-1, {3}, {std::nullopt}, {-2}}},
                {{Normal({4})}, {-1, {2}, {2}}}},
});

}  // namespace
}  // namespace plait
