// Max pooling that remembers where each maximum was: a byte for each window.
//
// Graphs use these two instead of _backward_Pooling_max, so that the pooled array need
// not be kept until the backward part (passes/pool_index.h).

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/nn/pool.h"

namespace plait {
namespace {

constexpr uint8_t kNone = 255;
constexpr int64_t kGrain = 1 << 15;  // elements of work for a thread

using P = PoolIndexParams;

void CheckWindow(const P& p, const char* op) {
  Check(p.kernel.rank() == 2 && p.stride.rank() == 2 && p.pad.rank() == 2 &&
            p.kernel[0] > 0 && p.kernel[1] > 0 && p.kernel.size() < kNone &&
            p.kernel[0] < kNone && p.stride[0] > 0 && p.stride[1] > 0 &&
            p.pad[0] >= 0 && p.pad[1] >= 0,
        op, ": kernel, stride and pad are ", p.kernel, ", ", p.stride, " and ", p.pad,
        "; two positive sizes each (pad: from 0) and at most 254 elements in a window "
        "were expected");
}

// Rows and columns of a window that lie in a plane of h x w.
struct Window {
  int64_t top, left, first_row, last_row, first_column, last_column;
  Window(const P& p, int64_t i, int64_t j, int64_t h, int64_t w)
      : top(i * p.stride[0] - p.pad[0]),
        left(j * p.stride[1] - p.pad[1]),
        first_row(std::max<int64_t>(top, 0)),
        last_row(std::min(top + p.kernel[0], h)),
        first_column(std::max<int64_t>(left, 0)),
        last_column(std::min(left + p.kernel[1], w)) {}
};

// Calls f(plane) on threads; a plane is one channel of one sample.
template <typename F>
void ForEachPlane(const Shape& x, F&& f) {
  const int64_t planes = x[0] * x[1];
  const int64_t size = std::max<int64_t>(x[2] * x[3], 1);
  ParallelFor(planes, std::max<int64_t>(kGrain / size, 1),
              [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) f(i);
              });
}

bool InferIndex(const P& p, Specs& in, Specs& out) {
  CheckWindow(p, "_pooling_index");
  const Shape &x = in[0].shape, &y = in[1].shape;
  if (x.rank_known() && y.rank_known()) {
    Check(x.rank() == 4 && y.rank() == 4, "_pooling_index: data is ", x, " and pooled ",
          y, "; (batch, channels, rows, columns) was expected");
    Check(!x.known() || !y.known() || (x[0] == y[0] && x[1] == y[1]),
          "_pooling_index: data ", x, " and pooled ", y,
          " differ in batch or channels; equal ones were expected");
  }
  return Unify(in[1].shape, out[0].shape);
}
void IndexTypes(const P&, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = in[1].dtype;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = in[0].dtype;
  Check(in[0].dtype == in[1].dtype, ErrorKind::kType, "_pooling_index: data is ",
        in[0].dtype, " and pooled ", in[1].dtype, "; one dtype was expected");
  out[0].dtype = DType::kUint8;
}

void FindIndex(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.in[1].shape();
  VisitFloat(args.in[0].dtype, [&]<typename T>() {
    ForEachPlane(y, [&](int64_t plane) {
      const T* src = args.in[0].data<const T>() + plane * x[2] * x[3];
      const T* largest = args.in[1].data<const T>() + plane * y[2] * y[3];
      uint8_t* index = args.out[0].data<uint8_t>() + plane * y[2] * y[3];
      for (int64_t i = 0; i < y[2]; ++i) {
        for (int64_t j = 0; j < y[3]; ++j, ++index) {
          const Window w(p, i, j, x[2], x[3]);
          const float wanted = static_cast<float>(*largest++);
          const bool nan = wanted != wanted;
          *index = kNone;
          for (int64_t a = w.first_row; a < w.last_row && *index == kNone; ++a) {
            for (int64_t b = w.first_column; b < w.last_column; ++b) {
              const float v = static_cast<float>(src[a * x[3] + b]);
              if (v == wanted || (nan && v != v)) {
                *index = static_cast<uint8_t>((a - w.top) * p.kernel[1] + b - w.left);
                break;
              }
            }
          }
        }
      }
    });
  });
}

bool InferSpread(const P& p, Specs& in, Specs& out) {
  CheckWindow(p, "_backward_pooling_index");
  Check(p.result.rank() == 4 && p.result.known(), "_backward_pooling_index: result is ",
        p.result, "; the shape of the pooled array was expected");
  const Shape& dy = in[0].shape;
  if (dy.known()) {
    Check(dy.rank() == 4 && dy[0] == p.result[0] && dy[1] == p.result[1],
          "_backward_pooling_index: dy ", dy, " does not fit the pooled ", p.result,
          "; equal batch and channels were expected");
    for (int d = 0; d < 2; ++d) {
      Check(
          dy[2 + d] == 0 || (dy[2 + d] - 1) * p.stride[d] - p.pad[d] < p.result[2 + d],
          "_backward_pooling_index: dy ", dy, " has windows outside the pooled ",
          p.result, "; fewer were expected");
    }
  }
  return Unify(in[0].shape, in[1].shape) && [&] {
    Shape x = p.result;
    return Unify(out[0].shape, x);
  }();
}
void SpreadTypes(const P&, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  if (in[1].dtype == DType::kUnknown) in[1].dtype = DType::kUint8;
  Check(in[1].dtype == DType::kUint8, ErrorKind::kType,
        "_backward_pooling_index: index is ", in[1].dtype, "; uint8 was expected");
  out[0].dtype = in[0].dtype;
}

void Spread(const P& p, const KernelArgs& args) {
  const Shape &dy = args.in[0].shape(), &x = args.out[0].shape();
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ForEachPlane(x, [&](int64_t plane) {
      T* dx = args.out[0].data<T>() + plane * x[2] * x[3];
      const T* from = args.in[0].data<const T>() + plane * dy[2] * dy[3];
      const uint8_t* index = args.in[1].data<const uint8_t>() + plane * dy[2] * dy[3];
      std::memset(static_cast<void*>(dx), 0, sizeof(T) * x[2] * x[3]);
      for (int64_t i = 0; i < dy[2]; ++i) {
        for (int64_t j = 0; j < dy[3]; ++j, ++index, ++from) {
          if (*index == kNone) continue;
          const int64_t a = i * p.stride[0] - p.pad[0] + *index / p.kernel[1];
          const int64_t b = j * p.stride[1] - p.pad[1] + *index % p.kernel[1];
          if (a < 0 || b < 0 || a >= x[2] || b >= x[3]) continue;
          T& sum = dx[a * x[3] + b];
          sum = static_cast<T>(static_cast<float>(sum) + static_cast<float>(*from));
        }
      }
    });
  });
}

std::vector<Param<P>> WindowParams() {
  return {Required<P>("kernel", &P::kernel, "Rows and columns of a window."),
          Required<P>("stride", &P::stride, "Steps of the window."),
          Required<P>("pad", &P::pad, "Padding on both sides.")};
}

[[maybe_unused]] const bool kAdded = [] {
  Register<P>({
      .name = "_pooling_index",
      .doc = "Where in its window each maximum of max pooling is, in row-major order.",
      .inputs = {{"data", Types::kFloats, "(batch, channels, rows, columns)."},
                 {"pooled", Types::kFloats, "What max pooling gave."}},
      .params = WindowParams(),
      .types = IndexTypes,
      .infer = InferIndex,
      .zero_gradient = true,
      .cpu = {{"plain", FindIndex}},
      .samples = {{{Normal({1, 2, 4, 4}), Normal({1, 2, 2, 2})},
                   {.kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0}}}},
  });
  std::vector<Param<P>> params = WindowParams();
  params.push_back(Required<P>("result", &P::result, "The shape of the result."));
  Register<P>({
      .name = "_backward_pooling_index",
      .doc = "The gradient of max pooling from the places of the maxima.",
      .inputs = {{"dy", Types::kFloats, "As the pooled array."},
                 {"index", Types::kAny, "What _pooling_index gave."}},
      .params = params,
      .types = SpreadTypes,
      .infer = InferSpread,
      .cpu = {{"plain", Spread}},
      .samples = {{{Normal({1, 2, 2, 2}), Integers({1, 2, 2, 2}, 0, 4, DType::kUint8)},
                   {.kernel = {2, 2},
                    .stride = {2, 2},
                    .pad = {0, 0},
                    .result = {1, 2, 4, 4}}}},
  });
  return true;
}();

}  // namespace
}  // namespace plait
