// Crop: a window of an image.

#include <algorithm>

#include "graph/math.h"
#include "graph/op.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct CropParams {
  int num_args = 0;  // as many as there are
  Shape offset{0, 0};
  Shape h_w{0, 0};
  bool center_crop = false;
};
using P = CropParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  Check(in.size() == 1 || in.size() == 2, "Crop: got ", in.size(),
        " arrays; x, or x and an array of the size wanted, were expected");
  Check(p.offset.rank() == 2 && p.h_w.rank() == 2, "Crop: offset is ", p.offset,
        " and h_w ", p.h_w, "; two numbers each were expected");
  const Shape& x = in[0].shape;
  const bool like = in.size() == 2;
  if (!x.rank_known() || (like && !in[1].shape.rank_known())) return true;
  Check(x.rank() == 4 && (!like || in[1].shape.rank() == 4), "Crop: x ", x,
        "; (batch, channels, height, width) was expected");
  Shape y = x;
  for (int i = 0; i < 2; ++i) {
    const int64_t size = like ? in[1].shape[2 + i] : p.h_w[i];
    y[2 + i] = size;
    if (size == kUnknownSize || x[2 + i] == kUnknownSize) continue;
    const int64_t offset = p.center_crop ? 0 : p.offset[i];
    Check(size >= 1 && offset >= 0 && offset + size <= x[2 + i], "Crop: a window of ",
          size, " at ", offset, " is not inside x ", x, " along axis ", 2 + i);
  }
  return Assign(out[0].shape, y);
}

int64_t Offset(const P& p, const Shape& x, const Shape& y, int i) {
  return p.center_crop ? (x[2 + i] - y[2 + i]) / 2 : p.offset[i];
}

void Forward(const P& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.out[0].shape();
  const int64_t top = Offset(p, x, y, 0), left = Offset(p, x, y, 1);
  VisitSize(args.out[0].dtype, [&]<typename T>() {
    const T* src = args.in[0].data<const T>();
    T* dst = args.out[0].data<T>();
    for (int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
      for (int64_t row = 0; row < y[2]; ++row) {
        const T* from = src + (plane * x[2] + top + row) * x[3] + left;
        dst = std::copy_n(from, y[3], dst);
      }
    }
  });
}

Values Gradient(const P& p, const GradArgs& g) {
  const Shape &x = g.in_spec(0).shape, &y = g.out_spec(0).shape;
  const int64_t top = Offset(p, x, y, 0), left = Offset(p, x, y, 1);
  const Shape widths{0, 0, 0, 0, top, x[2] - y[2] - top, left, x[3] - y[3] - left};
  Values result(g.num_inputs());
  result[0] = Make("Pad", {g.dout(0)},
                   {{"mode", Attr("constant")}, {"pad_width", Attr(widths)}});
  return result;
}

SampleInput Like(Shape shape) {
  SampleInput s = Normal(std::move(shape));
  s.differentiable = false;
  return s;
}

const OpDef& crop = Register<P>({
    .name = "Crop",
    .doc = "Cuts a window out of every image, of size h_w or of the size of a second "
           "array.",
    .inputs = {{"data", Types::kAny, "x, then perhaps an array of the size wanted."}},
    .params = {{"num_args", &P::num_args, "Number of arrays, 1 or 2."},
               {"offset", &P::offset, "Where the window begins: (y, x)."},
               {"h_w", &P::h_w, "Size of the window, when there is one array."},
               {"center_crop", &P::center_crop, "The window is in the middle."}},
    .variable_inputs = true,
    .count_param = "num_args",
    .infer = Infer,
    .gradient = Gradient,
    .cpu = {{"plain", Forward}},
    .samples = {{{Normal({2, 2, 5, 4})}, {.offset = {1, 2}, .h_w = {3, 2}}},
                {{Normal({1, 2, 5, 4}), Like({1, 1, 2, 3})},
                 {.num_args = 2, .center_crop = true}}},
});

}  // namespace
}  // namespace plait
