// _random_randint: integers of the uniform distribution on [low, high).

#include "base/parallel.h"
#include "cpu/random.h"
#include "graph/op.h"

namespace plait {
namespace {

struct RandintParams {
  int64_t low = 0, high = 0;
  Shape shape = Shape::Unknown();
  std::string ctx;
  DType dtype = DType::kInt32;
};

void Run(const RandintParams& p, const KernelArgs& args) {
  Check(p.low < p.high, "_random_randint: low is ", p.low, " and high is ", p.high,
        "; low < high was expected");
  const View& y = args.out[0];
  VisitDType(y.dtype, [&]<typename T>() {
    ParallelFor(y.size(), 1 << 10, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        cpu::ElementRandom random(args.random, i);
        y.data<T>()[i] = static_cast<T>(cpu::NextInteger(random, p.low, p.high));
      }
    });
  });
}

[[maybe_unused]] const OpDef& randint = Register<RandintParams>({
    .name = "_random_randint",
    .aliases = {"random_randint", "_npi_random_randint"},
    .doc = "Integers drawn evenly from [low, high).",
    .params = {Required("low", &RandintParams::low, "The smallest integer."),
               Required("high", &RandintParams::high, "One above the largest."),
               {"shape", &RandintParams::shape,
                "Shape of the result; (1,) by default."},
               {"ctx", &RandintParams::ctx, "The device, as text."},
               {"dtype", &RandintParams::dtype, "int32 or int64."}},
    .types =
        [](const RandintParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kInt32 : p.dtype;
          Check(IsInteger(out[0].dtype), ErrorKind::kType, "_random_randint: dtype is ",
                out[0].dtype, "; an integer dtype was expected");
        },
    .infer =
        [](const RandintParams& p, Specs&, Specs& out) {
          out[0].shape = p.shape.rank_known() ? p.shape : Shape{1};
          return true;
        },
    .cpu = {{"plain", Run}},
    .random = true,
    .may_fail = true,
    .samples = {{{}, {.low = -3, .high = 9, .shape = {4, 5}}},
                {{}, {.low = 0, .high = 2, .shape = {7}, .dtype = DType::kInt64}}},
});

}  // namespace
}  // namespace plait
