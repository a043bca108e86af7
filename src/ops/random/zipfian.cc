// _sample_unique_zipfian: different classes drawn with a chance that falls with rank.

#include <cmath>
#include <unordered_set>

#include "base/parallel.h"
#include "cpu/random.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct ZipfianParams {
  int64_t range_max = 0;
  Shape shape = Shape::Unknown();
};

bool Infer(const ZipfianParams& p, Specs&, Specs& out) {
  Check(p.shape.rank() == 2 && p.shape[0] >= 0 && p.shape[1] >= 0,
        "_sample_unique_zipfian: shape is ", p.shape,
        "; (rows, classes in each) was expected");
  Check(p.shape[1] <= p.range_max, "_sample_unique_zipfian: ", p.shape[1],
        " different classes are asked for of range_max = ", p.range_max,
        "; at most as many were expected");
  Shape samples = p.shape, rows{p.shape[0]};
  return Unify(samples, out[0].shape) && Unify(rows, out[1].shape);
}

// Class k has a chance near log((k + 2) / (k + 1)) / log(range_max). Classes are drawn
// until enough are different. The numbers of one element repeat after some time, so
// that long rows go on with those of others.
void DrawRow(const ZipfianParams& p, RandomStream stream, int64_t i, int64_t* row,
             int64_t* tries) {
  constexpr int64_t kMostOfElement = 1 << 16;
  const double top = std::log(static_cast<double>(p.range_max));
  const int64_t rows = p.shape[0], count = p.shape[1];
  std::unordered_set<int64_t> seen;
  cpu::ElementRandom random(stream, i);
  int64_t n = 0;
  for (*tries = 0; n < count;) {
    if (*tries > 0 && *tries % kMostOfElement == 0) {
      random = cpu::ElementRandom(stream, i + *tries / kMostOfElement * rows);
    }
    ++*tries;
    const auto k =
        static_cast<int64_t>(std::lround(std::exp(random.NextUniform() * top)) - 1);
    if (k < p.range_max && seen.insert(k).second) row[n++] = k;
  }
}

void Run(const ZipfianParams& p, const KernelArgs& args) {
  const int64_t count = p.shape[1];
  ParallelFor(p.shape[0], 1 + 1000 / (1 + count), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      DrawRow(p, args.random, i, args.out[0].data<int64_t>() + i * count,
              args.out[1].data<int64_t>() + i);
    }
  });
}

[[maybe_unused]] const OpDef& zipfian = Register<ZipfianParams>({
    .name = "_sample_unique_zipfian",
    .doc = "Rows of different classes, drawn with a chance that falls with the class, "
           "and how many draws each row took.",
    .outputs = {{"samples", Types::kIntegers, "Classes in [0, range_max)."},
                {"tries", Types::kIntegers, "Draws of each row."}},
    .params = {Required<ZipfianParams>("range_max", &ZipfianParams::range_max,
                                       "The number of classes."),
               {"shape", &ZipfianParams::shape, "(rows, classes in each)."}},
    .types = [](const ZipfianParams&, Specs&,
                Specs& out) { out[0].dtype = out[1].dtype = DType::kInt64; },
    .infer = Infer,
    .cpu = {{"plain", Run}},
    .random = true,
    .samples = {{{}, {1000, {3, 5}}}, {{}, {4, {2, 4}}}, {{}, {1, {2, 1}}}},
});

}  // namespace
}  // namespace plait
