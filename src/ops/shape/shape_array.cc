// shape_array, size_array: the shape of an array as an array.

#include "graph/op.h"

namespace plait {
namespace {

void Int64(const NoParams&, Specs&, Specs& out) {
  out[0].dtype = DType::kInt64;
}

[[maybe_unused]] const OpDef& shape_array = Register<NoParams>({
    .name = "shape_array",
    .aliases = {"_npx_shape_array"},
    .doc = "The sizes of the axes of x, as int64.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .types = Int64,
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          if (!in[0].shape.rank_known()) return true;
          Shape y{in[0].shape.rank()};
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               int64_t* y = args.out[0].data<int64_t>();
               for (int64_t size : args.in[0].shape()) *y++ = size;
             }}},
    .samples = {{{Normal({2, 3})}}, {{Normal({0, 4, 1})}}},
});

[[maybe_unused]] const OpDef& size_array = Register<NoParams>({
    .name = "size_array",
    .doc = "The number of elements of x, as int64 of shape (1,).",
    .inputs = {{"data", Types::kAny, "An array."}},
    .types = Int64,
    .infer =
        [](const NoParams&, Specs&, Specs& out) {
          Shape y{1};
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               *args.out[0].data<int64_t>() = args.in[0].size();
             }}},
    .samples = {{{Normal({2, 3})}}, {{Normal({0, 4})}}},
});

}  // namespace
}  // namespace plait
