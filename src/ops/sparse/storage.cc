// cast_storage, _sparse_retain: on dense arrays. What they do on sparse ones is written
// over their parts; a graph, which has only dense arrays, runs these.

#include <cstring>
#include <string>
#include <vector>

#include "graph/math.h"
#include "graph/op.h"
#include "ops/index/indices.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class StorageName : uint8_t { kDefault, kRowSparse, kCsr };

struct CastStorageParams {
  StorageName stype = StorageName::kDefault;
};

[[maybe_unused]] const OpDef& cast_storage = Register<CastStorageParams>({
    .name = "cast_storage",
    .aliases = {"_sparse_cast_storage"},
    .doc = "The same values in another storage: default, row_sparse or csr.",
    .inputs = {{"data", Types::kAny, "The array."}},
    .outputs = {{"output", Types::kAny, "The values; in a graph, dense."}},
    .params = {Required<CastStorageParams>("stype", &CastStorageParams::stype,
                                           {"default", "row_sparse", "csr"},
                                           "The storage.")},
    .types = TypeOfFirst,
    .infer = [](const CastStorageParams&, Specs& in,
                Specs& out) { return Unify(in[0].shape, out[0].shape); },
    .gradient = [](const CastStorageParams&, const GradArgs& g) -> Values {
      return {g.dout(0)};
    },
    .uses = {.in = 0},
    .cpu = {{"plain",
             [](const CastStorageParams&, const KernelArgs& args) {
               if (args.out[0].size() > 0 && args.out[0].ptr != args.in[0].ptr)
                 std::memcpy(args.out[0].ptr, args.in[0].ptr,
                             static_cast<size_t>(args.in[0].bytes()));
             }}},
    .samples = {{{Normal({2, 3})}, {StorageName::kCsr}},
                {{Normal({2, 0})}, {StorageName::kRowSparse}}},
});

bool InferRetain(const NoParams&, Specs& in, Specs& out) {
  const Shape& data = in[0].shape;
  if (data.rank_known()) {
    Check(data.rank() >= 1, "sparse_retain: data has shape ", data,
          "; at least one axis was expected");
  }
  return Unify(in[0].shape, out[0].shape);
}

[[maybe_unused]] const OpDef& sparse_retain = Register<NoParams>({
    .name = "_sparse_retain",
    .doc = "The listed rows of an array; the others are zero.",
    .inputs = {{"data", Types::kNumbers, "The array."},
               {"indices", Types::kAny,
                "Numbers of rows, in any order; those that the "
                "array does not have are skipped."}},
    .outputs = {{"output", Types::kNumbers, "Of the shape of data."}},
    .types = TypeOfFirst,
    .infer = InferRetain,
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {g.wants(0) ? Make("_sparse_retain", {g.dout(0), g.in(1)}) : Value()};
    },
    .uses = {.in = 0b10},
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const View &x = args.in[0], &ids = args.in[1], &y = args.out[0];
               if (y.size() == 0) return;
               const int64_t rows = x.shape()[0];
               const auto row = static_cast<size_t>(x.bytes() / rows);
               std::vector<int64_t> listed(static_cast<size_t>(ids.size()));
               ReadIndices(ids, 0, ids.size(), listed.data());
               auto* to = static_cast<char*>(y.ptr);
               const auto* from = static_cast<const char*>(x.ptr);
               std::memset(to, 0, static_cast<size_t>(y.bytes()));
               for (int64_t r : listed) {
                 if (r < 0 || r >= rows) continue;
                 std::memcpy(to + row * static_cast<size_t>(r),
                             from + row * static_cast<size_t>(r), row);
               }
             }}},
    .samples = {{{Normal({4, 3}), Integers({2}, 0, 4)}},
                {{Normal({4}), Integers({3}, -2, 7, DType::kInt64)}},
                {{Normal({0, 2}), Integers({1}, 0, 3)}}},
});

}  // namespace
}  // namespace plait
