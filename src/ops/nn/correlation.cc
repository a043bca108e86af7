// Correlation: how alike two images are around each place, for each displacement
// (Dosovitskiy et al., FlowNet, 2015).

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct CorrelationParams {
  int kernel_size = 1;
  int max_displacement = 1;
  int stride1 = 1, stride2 = 1;
  int pad_size = 0;
  bool is_multiply = true;
  int which = 0;  // of the gradient: the image that it is for
};
using P = CorrelationParams;

int64_t GridRadius(const P& p) {
  return p.max_displacement / p.stride2;
}
int64_t GridWidth(const P& p) {
  return 2 * GridRadius(p) + 1;
}
int64_t OutSize(const P& p, int64_t size) {
  const int64_t border = p.max_displacement + (p.kernel_size - 1) / 2;
  const int64_t room = size + 2 * p.pad_size - 2 * border;
  return room <= 0 ? 0 : (room + p.stride1 - 1) / p.stride1;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.kernel_size > 0 && p.kernel_size % 2 == 1 && p.stride1 > 0 && p.stride2 > 0 &&
            p.max_displacement >= 0 && p.pad_size >= 0,
        "Correlation: kernel_size is ", p.kernel_size, ", strides ", p.stride1, " and ",
        p.stride2, "; an odd kernel and positive strides were expected");
  Shape &x = in[0].shape, &y = in[1].shape;
  Check(Unify(x, y) && Assign(x, Shape::Filled(4, kUnknownSize)), "Correlation: data1 ",
        x, " and data2 ", y, "; equal shapes (n, channels, h, w) were expected");
  if (!x.known()) return true;
  const int64_t h = OutSize(p, x[2]), w = OutSize(p, x[3]);
  Check(h > 0 && w > 0, "Correlation: data1 ", x, " is too small for max_displacement ",
        p.max_displacement, ", kernel_size ", p.kernel_size, " and pad_size ",
        p.pad_size);
  return Assign(out[0].shape, {x[0], GridWidth(p) * GridWidth(p), h, w});
}

// Calls f(element of y, element of data1, element of data2), each an offset in its
// sample, -1 for padding, over all channels and elements of the kernel.
template <typename F>
void ForEachPair(const P& p, const Shape& x, const Shape& y, F&& f) {
  const int64_t channels = x[1], h = x[2], w = x[3], grid = GridWidth(p);
  const auto at = [&](int64_t c, int64_t row, int64_t column) -> int64_t {
    const int64_t i = row - p.pad_size, j = column - p.pad_size;
    return i < 0 || j < 0 || i >= h || j >= w ? -1 : (c * h + i) * w + j;
  };
  for (int64_t o = 0; o < y[1] * y[2] * y[3]; ++o) {
    const int64_t d = o / (y[2] * y[3]);
    const int64_t row = o / y[3] % y[2] * p.stride1 + p.max_displacement;
    const int64_t column = o % y[3] * p.stride1 + p.max_displacement;
    const int64_t down = (d / grid - GridRadius(p)) * p.stride2;
    const int64_t right = (d % grid - GridRadius(p)) * p.stride2;
    for (int64_t a = 0; a < p.kernel_size; ++a) {
      for (int64_t b = 0; b < p.kernel_size; ++b) {
        for (int64_t c = 0; c < channels; ++c) {
          f(o, at(c, row + a, column + b), at(c, row + down + a, column + right + b));
        }
      }
    }
  }
}

double Divisor(const P& p, const Shape& x) {
  return static_cast<double>(p.kernel_size) * p.kernel_size * static_cast<double>(x[1]);
}

template <typename T>
double Read(const T* data, int64_t i) {
  return i < 0 ? 0 : static_cast<double>(static_cast<Accumulate<T>>(data[i]));
}

void Forward(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.out[0].shape();
  const int64_t in = x.size(1, 4), out = y.size(1, 4);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(x[0], 1, [&](int64_t first, int64_t last) {
      std::vector<double> sums(static_cast<size_t>(out));
      for (int64_t n = first; n < last; ++n) {
        const T *a = args.in[0].data<const T>() + n * in,
                *b = args.in[1].data<const T>() + n * in;
        std::fill(sums.begin(), sums.end(), 0);
        ForEachPair(p, x, y, [&](int64_t o, int64_t i, int64_t j) {
          const double u = Read(a, i), v = Read(b, j);
          sums[o] += p.is_multiply ? u * v : std::abs(u - v);
        });
        for (int64_t o = 0; o < out; ++o) {
          args.out[0].data<T>()[n * out + o] =
              static_cast<T>(static_cast<Accumulate<T>>(sums[o] / Divisor(p, x)));
        }
      }
    });
  });
}

// From dy and both images, the gradient for image `which`: dy times the other image, or
// times the sign of the difference.
void Backward(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[1].shape(), &y = args.in[0].shape();
  const int64_t in = x.size(1, 4), out = y.size(1, 4);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    ParallelFor(x[0], 1, [&](int64_t first, int64_t last) {
      std::vector<double> sums(static_cast<size_t>(in));
      for (int64_t n = first; n < last; ++n) {
        const T *dy = args.in[0].data<const T>() + n * out,
                *a = args.in[1].data<const T>() + n * in,
                *b = args.in[2].data<const T>() + n * in;
        std::fill(sums.begin(), sums.end(), 0);
        ForEachPair(p, x, y, [&](int64_t o, int64_t i, int64_t j) {
          const int64_t mine = p.which == 0 ? i : j;
          if (mine < 0) return;
          const double u = Read(a, i), v = Read(b, j);
          // Equal values count as a difference above zero.
          const double slope = p.is_multiply                ? (p.which == 0 ? v : u)
                               : (p.which == 0) == (u >= v) ? 1
                                                            : -1;
          sums[mine] += Read(dy, o) * slope;
        });
        for (int64_t i = 0; i < in; ++i) {
          args.out[0].data<T>()[n * in + i] =
              static_cast<T>(static_cast<Accumulate<T>>(sums[i] / Divisor(p, x)));
        }
      }
    });
  });
}

Value CorrelationOf(P p, const Value& a, const Value& b);
Value BackwardOf(P p, int which, const Value& dy, const Value& a, const Value& b);

Values Gradient(const P& p, const GradArgs& g) {
  Values result(2);
  for (int i = 0; i < 2; ++i) {
    if (g.wants(i)) result[i] = BackwardOf(p, i, g.dout(0), g.in(0), g.in(1));
  }
  return result;
}

// With products, the gradient for one image is linear in dy and in the other image;
// with differences it is linear in dy alone, and flat in the images.
Values BackwardGradient(const P& p, const GradArgs& g) {
  const Value &dy = g.in(0), &u = g.dout(0);
  const int other = 1 - p.which;
  Values result(3);
  if (!p.is_multiply) {
    Check(!g.wants(0), ErrorKind::kNotImplemented,
          "Correlation: a second derivative is ",
          "not there with is_multiply False; only the first was expected");
    return result;
  }
  const Value& rest = g.in(1 + other);
  const Value &first = p.which == 0 ? u : rest, &second = p.which == 0 ? rest : u;
  if (g.wants(0)) result[0] = CorrelationOf(p, first, second);
  if (g.wants(1 + other)) result[1 + other] = BackwardOf(p, other, dy, first, second);
  return result;
}

const OpDef& correlation = Register<P>({
    .name = "Correlation",
    .doc = "The mean product (or absolute difference) of windows of two images, for "
           "each displacement of the second one.",
    .inputs = {{"data1", Types::kFloats, "(n, channels, h, w)."},
               {"data2", Types::kFloats, "Like data1."}},
    .outputs = {{"output", Types::kFloats, "(n, displacements, out_h, out_w)."}},
    .params = {{"kernel_size", &P::kernel_size, "Size of a window; odd."},
               {"max_displacement", &P::max_displacement, "In pixels, both ways."},
               {"stride1", &P::stride1, "Steps between places."},
               {"stride2", &P::stride2, "Steps between displacements."},
               {"pad_size", &P::pad_size, "Zeros on both sides of the images."},
               {"is_multiply", &P::is_multiply,
                "Products; else absolute differences."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Forward}},
    .cost =
        [](const P& p, const Specs& in, const Specs& out) {
          return 4.0 * static_cast<double>(out[0].shape.size()) *
                 Divisor(p, in[0].shape);
        },
    .samples = {{{Normal({2, 2, 4, 5}), Normal({2, 2, 4, 5})}, {.pad_size = 1}},
                {{Normal({1, 2, 6, 6}), Normal({1, 2, 6, 6})},
                 {.kernel_size = 3,
                  .max_displacement = 2,
                  .stride1 = 2,
                  .stride2 = 2,
                  .pad_size = 2}},
                {{Normal({1, 2, 4, 4}), Normal({1, 2, 4, 4})},
                 {.pad_size = 1, .is_multiply = false}}},
});

const OpDef& backward_op = Register<P>({
    .name = "_backward_Correlation",
    .doc = "The gradient of Correlation for one image.",
    .inputs = {{"dy", Types::kFloats},
               {"data1", Types::kFloats},
               {"data2", Types::kFloats}},
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          Specs images{in[1], in[2]}, y{in[0]};
          Check(Infer(p, images, y), "_backward_Correlation: dy ", in[0].shape,
                " does not fit images ", in[1].shape);
          return Unify(in[1].shape, in[2].shape) && Unify(in[1].shape, out[0].shape);
        },
    .gradient = BackwardGradient,
    .uses = {.in = 0b111},
    .cpu = {{"plain", Backward}},
    .samples = {{{Normal({2, 9, 4, 5}), Normal({2, 2, 4, 5}), Normal({2, 2, 4, 5})},
                 {.pad_size = 1}}},
});

Value CorrelationOf(P p, const Value& a, const Value& b) {
  const Value inputs[] = {a, b};
  return ApplyOne(correlation, MakeParams(std::move(p)), inputs);
}
Value BackwardOf(P p, int which, const Value& dy, const Value& a, const Value& b) {
  p.which = which;
  const Value inputs[] = {dy, a, b};
  return ApplyOne(backward_op, MakeParams(std::move(p)), inputs);
}

}  // namespace
}  // namespace plait
