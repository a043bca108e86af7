// _contrib_div_sqrt_dim: x over the square root of its last size, as attention scales.

#include <cmath>

#include "ops/expression.h"
#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

double Factor(const Shape& x) {
  return 1 / std::sqrt(static_cast<double>(x.back()));
}

[[maybe_unused]] const OpDef& div_sqrt_dim = Register<NoParams>({
    .name = "_contrib_div_sqrt_dim",
    .doc = "x divided by the square root of the size of its last axis.",
    .inputs = {{"data", Types::kFloats, "Numbers, of at least one axis."}},
    .infer =
        [](const NoParams& p, Specs& in, Specs& out) {
          if (!SameShape(p, in, out)) return false;
          Check(in[0].shape.rank() != 0,
                "_contrib_div_sqrt_dim: x is a scalar; at least one axis was expected");
          return true;
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {g.dout(0) * Factor(g.in_spec(0).shape)};
    },
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const Shape& shape = args.in[0].shape();
               const double factor = Factor(shape);
               RunExpression(args.in, args.out, shape,
                             [&](PwCall& c) { c.Return(c.in(0) * factor); });
             }}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 4})}}, {{Normal({3})}}, {{Normal({0, 4})}}},
});

}  // namespace
}  // namespace plait
