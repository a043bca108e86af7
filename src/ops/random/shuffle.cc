// _shuffle: the rows of an array in random order.

#include <cstring>
#include <numeric>
#include <vector>

#include "cpu/random.h"
#include "graph/op.h"

namespace plait {
namespace {

bool Infer(const NoParams&, Specs& in, Specs& out) {
  return Unify(in[0].shape, out[0].shape);
}

// Fisher and Yates; the permutation is one sequence of draws, so it is made serially.
void Run(const NoParams&, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const int64_t rows = x.shape().rank() > 0 ? x.shape()[0] : 1;
  if (y.size() == 0) return;
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = rows - 1; i > 0; --i) {
    cpu::ElementRandom random(args.random, i);
    std::swap(order[i], order[cpu::NextInteger(random, 0, i + 1)]);
  }
  const size_t bytes = static_cast<size_t>(y.bytes() / rows);
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(static_cast<char*>(y.ptr) + i * bytes,
                static_cast<const char*>(x.ptr) + order[i] * bytes, bytes);
  }
}

[[maybe_unused]] const OpDef& shuffle = Register<NoParams>({
    .name = "_shuffle",
    .aliases = {"shuffle", "_npi_shuffle"},
    .doc = "The array with the parts along its first axis in random order.",
    .inputs = {{"data", Types::kAny, "An array of any shape."}},
    .infer = Infer,
    .zero_gradient = true,
    .cpu = {{"plain", Run}},
    .random = true,
    .samples = {{{Normal({6, 2})}}, {{Normal({5})}}},
});

}  // namespace
}  // namespace plait
