// _histogram: how many elements fall into each of several bins.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "cpu/pointwise.h"
#include "graph/op.h"

namespace plait {
namespace {

struct HistogramParams {
  std::optional<int> bin_cnt = std::nullopt;
  std::optional<std::vector<double>> range = std::nullopt;
};

std::vector<bool> Present(const HistogramParams& p) {
  return {true, !p.bin_cnt};
}

void HistogramTypes(const HistogramParams&, Specs& in, Specs& out) {
  out[0].dtype = DType::kInt64;
  if (in[0].dtype != DType::kUnknown) out[1].dtype = in[0].dtype;
}

bool InferHistogram(const HistogramParams& p, Specs& in, Specs& out) {
  int64_t edges = 0;
  if (p.bin_cnt) {
    Check(*p.bin_cnt >= 1, "_histogram: bin_cnt is ", *p.bin_cnt,
          "; at least 1 was expected");
    Check(!p.range || (p.range->size() == 2 && (*p.range)[0] <= (*p.range)[1]),
          "_histogram: range is not (low, high) with low <= high");
    edges = *p.bin_cnt + 1;
  } else {
    const Shape& bins = in[1].shape;
    if (!bins.known()) return true;
    Check(bins.rank() == 1 && bins[0] >= 2, "_histogram: bins has shape ", bins,
          "; one axis of at least two edges was expected");
    edges = bins[0];
  }
  Shape counts{edges - 1}, ends{edges};
  return Unify(counts, out[0].shape) && Unify(ends, out[1].shape);
}

std::vector<double> AsDoubles(const View& x) {
  std::vector<double> values(x.size());
  cpu::Convert(x.ptr, x.dtype, values.data(), DType::kFloat64, x.size());
  return values;
}

// The edges, as the dtype of the result rounds them.
void WriteEdges(const HistogramParams& p, const std::vector<double>& x, const View& y) {
  double low = 0, high = 1;
  if (p.range) {
    low = (*p.range)[0];
    high = (*p.range)[1];
  } else if (!x.empty()) {
    low = *std::min_element(x.begin(), x.end());
    high = *std::max_element(x.begin(), x.end());
  }
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  std::vector<double> edges;
  const double n = *p.bin_cnt;
  for (int i = 0; i <= *p.bin_cnt; ++i) edges.push_back((high * i + (n - i) * low) / n);
  cpu::Convert(edges.data(), DType::kFloat64, y.ptr, y.dtype, y.size());
}

void RunHistogram(const HistogramParams& p, const KernelArgs& args) {
  const std::vector<double> x = AsDoubles(args.in[0]);
  if (p.bin_cnt) {
    WriteEdges(p, x, args.out[1]);
  } else {
    cpu::Convert(args.in[1].ptr, args.in[1].dtype, args.out[1].ptr, args.out[1].dtype,
                 args.out[1].size());
  }
  const std::vector<double> edges = AsDoubles(args.out[1]);
  int64_t* counts = args.out[0].data<int64_t>();
  const int64_t bins = args.out[0].size();
  std::fill_n(counts, bins, int64_t{0});
  for (double value : x) {
    if (!(value >= edges.front() && value <= edges.back())) continue;  // NaN too
    const auto after = std::upper_bound(edges.begin(), edges.end(), value);
    ++counts[std::clamp<int64_t>(after - edges.begin() - 1, 0, bins - 1)];
  }
}

[[maybe_unused]] const OpDef& histogram = Register<HistogramParams>({
    .name = "_histogram",
    .aliases = {"_npi_histogram"},
    .doc = "Counts of the elements of x in bins, and the edges of the bins.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."},
               {"bins", Types::kAny, "Rising edges; absent with bin_cnt."}},
    .outputs = {{"counts"}, {"edges"}},
    .params = {{"bin_cnt", &HistogramParams::bin_cnt, "The number of equal bins."},
               {"range", &HistogramParams::range,
                "The lowest and highest edge; none: of the elements."}},
    .optional_inputs = Present,
    .types = HistogramTypes,
    .infer = InferHistogram,
    .zero_gradient = true,
    .cpu = {{"plain", RunHistogram}},
    .samples = {{{Normal({2, 9})}, {.bin_cnt = 4, .range = std::vector<double>{-2, 2}}},
                {{Normal({20}), Numbers({4}, {-1, 0, 0.5, 2})}},
                {{Normal({12})}, {.bin_cnt = 3}}},
});

}  // namespace
}  // namespace plait
