// _ravel_multi_index, _unravel_index: places of an array as numbers or as coordinates.

#include <algorithm>

#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "graph/op.h"

namespace plait {
namespace {

struct RavelParams {
  Shape shape = Shape::Unknown();
};

void CheckShape(const RavelParams& p, const char* op) {
  Check(p.shape.rank() > 0, op,
        ": no shape is given; the shape of the array was expected");
  // The first size makes no difference and may be unknown.
  for (int i = p.shape[0] == kUnknownSize ? 1 : 0; i < p.shape.rank(); ++i) {
    Check(p.shape[i] > 0, op, ": shape ", p.shape, " has an axis of size ", p.shape[i],
          "; sizes above 0 were expected");
  }
}

std::vector<Param<RavelParams>> Fields() {
  return {{"shape", &RavelParams::shape, "The shape of the array."}};
}

void RunRavel(const RavelParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const int64_t n = args.out[0].size();
  cpu::Scratch coordinates(static_cast<size_t>(x.size()) * sizeof(int64_t));
  cpu::Scratch numbers(static_cast<size_t>(n) * sizeof(int64_t));
  const int64_t* from = coordinates.As<int64_t>();
  int64_t* to = numbers.As<int64_t>();
  cpu::Convert(x.ptr, x.dtype, coordinates.As<void>(), DType::kInt64, x.size());
  std::fill_n(to, n, int64_t{0});
  for (int axis = 0; axis < p.shape.rank(); ++axis) {
    // Coordinates may be anything: what does not fit wraps around.
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<int64_t>(static_cast<uint64_t>(to[i]) *
                                       static_cast<uint64_t>(p.shape[axis]) +
                                   static_cast<uint64_t>(from[axis * n + i]));
    }
  }
  cpu::Convert(to, DType::kInt64, args.out[0].ptr, args.out[0].dtype, n);
}

[[maybe_unused]] const OpDef& ravel = Register<RavelParams>({
    .name = "_ravel_multi_index",
    .aliases = {"ravel_multi_index"},
    .doc = "Coordinates of places in an array as their numbers in row-major order.",
    .inputs = {{"data", Types::kAny, "Of shape (axes, ...): the coordinates."}},
    .params = Fields(),
    .infer =
        [](const RavelParams& p, Specs& in, Specs& out) {
          CheckShape(p, "_ravel_multi_index");
          const Shape& x = in[0].shape;
          if (!x.rank_known()) return true;
          Check(x.rank() >= 1 && (x[0] == p.shape.rank() || x[0] == kUnknownSize),
                "_ravel_multi_index: data has shape ", x, "; shape (", p.shape.rank(),
                ", ...) was expected for shape ", p.shape);
          Shape y(x.begin() + 1, x.end());
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain", RunRavel}},
    .samples = {{{Numbers({2, 3}, {3, 6, 6, 4, 5, 1})}, {{7, 6}}},
                {{Integers({3, 2}, 0, 4, DType::kInt64)}, {{4, 4, 4}}},
                {{Numbers({2, 0}, {})}, {{7, 6}}}},
});

void RunUnravel(const RavelParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  const int64_t n = x.size();
  cpu::Scratch numbers(static_cast<size_t>(n) * sizeof(int64_t));
  cpu::Scratch coordinates(static_cast<size_t>(y.size()) * sizeof(int64_t));
  int64_t* rest = numbers.As<int64_t>();
  int64_t* to = coordinates.As<int64_t>();
  cpu::Convert(x.ptr, x.dtype, rest, DType::kInt64, n);
  for (int axis = p.shape.rank() - 1; axis > 0; --axis) {
    for (int64_t i = 0; i < n; ++i) {
      to[axis * n + i] = rest[i] % p.shape[axis];
      rest[i] /= p.shape[axis];
    }
  }
  std::copy_n(rest, n, to);
  cpu::Convert(to, DType::kInt64, y.ptr, y.dtype, y.size());
}

[[maybe_unused]] const OpDef& unravel = Register<RavelParams>({
    .name = "_unravel_index",
    .aliases = {"unravel_index"},
    .doc = "Numbers of places in an array, in row-major order, as their coordinates.",
    .inputs = {{"data", Types::kAny, "The numbers, of any shape."}},
    .params = Fields(),
    .infer =
        [](const RavelParams& p, Specs& in, Specs& out) {
          CheckShape(p, "_unravel_index");
          if (!in[0].shape.rank_known()) return true;
          Shape y = in[0].shape;
          y.Insert(0, p.shape.rank());
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain", RunUnravel}},
    .samples = {{{Numbers({3}, {22, 41, 37})}, {{7, 6}}},
                {{Integers({2, 2}, 0, 24, DType::kInt32)}, {{2, 3, 4}}},
                {{Numbers({0}, {})}, {{7, 6}}}},
});

}  // namespace
}  // namespace plait
