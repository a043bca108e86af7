// im2col and col2im: the windows of a convolution as columns, and their transpose.

#include <algorithm>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/conv.h"

namespace plait {
namespace {

struct ColumnParams {
  Shape kernel, stride, dilate, pad;
  Shape output_size;  // of col2im: the space of the image
};
using P = ColumnParams;

ConvParams Window(const P& p) {
  return {.kernel = p.kernel,
          .stride = p.stride,
          .dilate = p.dilate,
          .pad = p.pad,
          .num_filter = 1};
}

// The shape of the columns of an image: (batch, channels * kernel, positions).
Shape Columns(const P& p, const Shape& x, const char* op) {
  int64_t taps = 1, positions = 1;
  for (int i = 0; i < p.kernel.rank(); ++i) {
    const int64_t window = ConvEntry(p.dilate, i, 1) * (p.kernel[i] - 1) + 1;
    const int64_t room = x[2 + i] + 2 * ConvEntry(p.pad, i, 0) - window;
    Check(room >= 0, op, ": kernel ", p.kernel, " is larger than the image ", x,
          " with pad ", p.pad);
    taps *= p.kernel[i];
    positions *= room / ConvEntry(p.stride, i, 1) + 1;
  }
  return {x[0], x[1] * taps, positions};
}

bool Infer(const P& p, Specs& in, Specs& out) {
  CheckConvParams(Window(p), "im2col");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() == p.kernel.rank() + 2, "im2col: x ", x, " and kernel ", p.kernel,
        " do not match; x must have ", p.kernel.rank() + 2, " axes");
  return Assign(out[0].shape, Columns(p, x, "im2col"));
}

bool InferBack(const P& p, Specs& in, Specs& out) {
  CheckConvParams(Window(p), "col2im");
  const Shape& columns = in[0].shape;
  if (!columns.known()) return true;
  Check(p.output_size.rank() == p.kernel.rank(), "col2im: output_size is ",
        p.output_size, " and kernel ", p.kernel, "; as many numbers were expected");
  int64_t taps = 1;
  for (int64_t size : p.kernel) taps *= size;
  Check(columns.rank() == 3 && columns[1] % taps == 0, "col2im: x ", columns,
        "; (batch, channels * ", taps, ", positions) was expected");
  Shape image{columns[0], columns[1] / taps};
  for (int64_t size : p.output_size) image.Append(size);
  const Shape wanted = Columns(p, image, "col2im");
  Check(wanted == columns, "col2im: x ", columns, " does not fit output_size ",
        p.output_size, "; ", wanted, " was expected");
  return Assign(out[0].shape, image);
}

ConvGeometry GeometryOf(const P& p, const Shape& image) {
  Shape y = image;
  for (int i = 0; i < p.kernel.rank(); ++i) {
    const int64_t window = ConvEntry(p.dilate, i, 1) * (p.kernel[i] - 1) + 1;
    y[2 + i] = (image[2 + i] + 2 * ConvEntry(p.pad, i, 0) - window) /
                   ConvEntry(p.stride, i, 1) +
               1;
  }
  return MakeConvGeometry(Window(p), image, y);
}

// Calls f(element of the plane or -1 for padding, element of the columns) for each
// element of the columns that belong to one channel.
template <typename F>
void ForEachElement(const ConvGeometry& g, F&& f) {
  int64_t column = 0;
  ConvGeometry::Triple tap, at, from;
  for (tap[0] = 0; tap[0] < g.kernel[0]; ++tap[0])
    for (tap[1] = 0; tap[1] < g.kernel[1]; ++tap[1])
      for (tap[2] = 0; tap[2] < g.kernel[2]; ++tap[2])
        for (at[0] = 0; at[0] < g.out[0]; ++at[0])
          for (at[1] = 0; at[1] < g.out[1]; ++at[1])
            for (at[2] = 0; at[2] < g.out[2]; ++at[2]) {
              bool inside = true;
              for (int d = 0; d < 3; ++d) {
                from[d] = at[d] * g.stride[d] - g.pad[d] + tap[d] * g.dilate[d];
                inside = inside && from[d] >= 0 && from[d] < g.in[d];
              }
              f(inside ? (from[0] * g.in[1] + from[1]) * g.in[2] + from[2] : -1,
                column++);
            }
}

void ToColumns(const P& p, const KernelArgs& args) {
  const ConvGeometry g = GeometryOf(p, args.in[0].shape());
  const int64_t plane = g.in_size(), columns = g.kernel_size() * g.out_size();
  VisitSize(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(g.batch * g.in_channels, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) {
        const T* x = args.in[0].data<const T>() + c * plane;
        T* y = args.out[0].data<T>() + c * columns;
        ForEachElement(
            g, [&](int64_t from, int64_t to) { y[to] = from < 0 ? T{} : x[from]; });
      }
    });
  });
}

void FromColumns(const P& p, const KernelArgs& args) {
  const ConvGeometry g = GeometryOf(p, args.out[0].shape());
  const int64_t plane = g.in_size(), columns = g.kernel_size() * g.out_size();
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(g.batch * g.in_channels, 1, [&](int64_t first, int64_t last) {
      std::vector<A> sums(static_cast<size_t>(plane));
      for (int64_t c = first; c < last; ++c) {
        std::fill(sums.begin(), sums.end(), A{0});
        const T* y = args.in[0].data<const T>() + c * columns;
        ForEachElement(g, [&](int64_t from, int64_t to) {
          if (from >= 0) sums[from] += static_cast<A>(y[to]);
        });
        T* x = args.out[0].data<T>() + c * plane;
        for (int64_t i = 0; i < plane; ++i) x[i] = static_cast<T>(sums[i]);
      }
    });
  });
}

std::vector<Param<P>> ParamList(bool back) {
  std::vector<Param<P>> rows;
  if (back) {
    rows.push_back(
        Required("output_size", &P::output_size, "The space of the image: (h, w)."));
  }
  rows.push_back(Required("kernel", &P::kernel, "Size of the window."));
  rows.push_back({"stride", &P::stride, "Steps of the window; () is 1."});
  rows.push_back({"dilate", &P::dilate, "Distance of the window's elements; () is 1."});
  rows.push_back({"pad", &P::pad, "Zeros on both sides of the image; () is 0."});
  return rows;
}

template <bool kBack>
Values Gradient(const P& p, const GradArgs& g);

const OpDef& im2col = Register<P>({
    .name = "im2col",
    .doc = "The windows of a convolution as columns.",
    .inputs = {{"data", Types::kFloats, "(batch, channels, ...)."}},
    .outputs = {{"output", Types::kFloats, "(batch, channels * kernel, positions)."}},
    .params = ParamList(false),
    .infer = Infer,
    .gradient = Gradient<true>,
    .cpu = {{"plain", ToColumns}},
    .samples = {{{Normal({2, 2, 4, 5})},
                 {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0}}},
                {{Normal({1, 2, 6})}, {.kernel = {2}, .dilate = {3}}}},
});

const OpDef& col2im = Register<P>({
    .name = "col2im",
    .doc = "Adds columns up into the image whose windows they are.",
    .inputs = {{"data", Types::kFloats, "(batch, channels * kernel, positions)."}},
    .outputs = {{"output", Types::kFloats, "(batch, channels, output_size)."}},
    .params = ParamList(true),
    .infer = InferBack,
    .gradient = Gradient<false>,
    .cpu = {{"plain", FromColumns}},
    .samples =
        {{{Normal({2, 12, 8})},
          {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0}, .output_size = {4, 5}}}},
});

template <bool kBack>
Values Gradient(const P& p, const GradArgs& g) {
  P q = p;
  if (kBack) {
    const Shape& x = g.in_spec(0).shape;
    q.output_size = Shape(x.begin() + 2, x.end());
  }
  const Value dy = g.dout(0);
  return {ApplyOne(kBack ? col2im : im2col, MakeParams(std::move(q)), {&dy, 1})};
}

}  // namespace
}  // namespace plait
