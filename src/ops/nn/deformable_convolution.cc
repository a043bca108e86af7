// Deformable convolution: every element of the window has an offset of its own (Dai et
// al., 2017), and in the modulated form a weight too (Zhu et al., 2018).
//
// The windows become columns by the sampler of this room, and the columns a product
// with the weight. Gradients are written over the same steps, so that any order works.

#include <vector>

#include "base/parallel.h"
#include "cpu/gemm.h"
#include "cpu/scratch.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/nn/conv.h"
#include "ops/nn/sampler.h"

namespace plait {
namespace {

struct DeformableParams {
  Shape kernel, stride, dilate, pad;
  int64_t num_filter = 0, num_group = 1, num_deformable_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  int64_t im2col_step = 64;
  ConvLayout layout = ConvLayout::kNone;
  Shape result;  // of the grid's gradient: the shape of the offsets
};
using P = DeformableParams;

// Sizes of one call. A deformable group is a part of the channels that shares offsets.
struct Sizes {
  int64_t batch, channels, h, w, out_h, out_w, taps, filters, groups, parts;
  int64_t places() const { return out_h * out_w; }
};

int64_t Out(const P& p, int i, int64_t size) {
  const int64_t window = ConvEntry(p.dilate, i, 1) * (p.kernel[i] - 1) + 1;
  const int64_t room = size + 2 * ConvEntry(p.pad, i, 0) - window;
  return room < 0 ? 0 : room / ConvEntry(p.stride, i, 1) + 1;
}

Sizes SizesOf(const P& p, const Shape& x) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          Out(p, 0, x[2]),
          Out(p, 1, x[3]),
          p.kernel[0] * p.kernel[1],
          p.num_filter,
          p.num_group,
          p.num_deformable_group};
}

SampleParams Reading(bool modulated) {
  return {.pixels = true, .clamp = !modulated};
}

// The offsets (n * parts, 2 taps, out_h, out_w), y and x of a tap side by side, as
// points (n * parts, 2, taps, places) with the place of each tap added.
void Points(const P& p, const Sizes& s, const View& offset, const View& grid,
            bool add) {
  const int64_t places = s.places();
  VisitFloat(grid.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(s.batch * s.parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first * 2 * s.taps * places; i < last * 2 * s.taps * places;
           ++i) {
        const int64_t place = i % places, tap = i / places % s.taps;
        const int64_t axis = i / (places * s.taps) % 2;
        const int64_t block = i / (places * s.taps * 2);
        const int64_t from = ((block * s.taps + tap) * 2 + axis) * places + place;
        if (!add) {
          grid.data<T>()[from] = offset.data<const T>()[i];
          continue;
        }
        const int d = static_cast<int>(axis);
        const int64_t at = d == 0 ? place / s.out_w : place % s.out_w;
        const int64_t k = d == 0 ? tap / p.kernel[1] : tap % p.kernel[1];
        const int64_t base = at * ConvEntry(p.stride, d, 1) - ConvEntry(p.pad, d, 0) +
                             k * ConvEntry(p.dilate, d, 1);
        grid.data<T>()[i] = static_cast<T>(
            static_cast<A>(base) + static_cast<A>(offset.data<const T>()[from]));
      }
    });
  });
}

bool Infer(const P& p, bool modulated, Specs& in, Specs& out) {
  const char* op = modulated ? "_contrib_ModulatedDeformableConvolution"
                             : "_contrib_DeformableConvolution";
  CheckConvParams({.kernel = p.kernel,
                   .stride = p.stride,
                   .dilate = p.dilate,
                   .pad = p.pad,
                   .num_filter = p.num_filter,
                   .num_group = p.num_group},
                  op);
  Check(p.kernel.rank() == 2, op, ": kernel is ", p.kernel, "; (h, w) was expected");
  Shape& x = in[0].shape;
  Check(Assign(x, Shape::Filled(4, kUnknownSize)), op, ": data ", x,
        "; (batch, channels, h, w) was expected");
  const int w = modulated ? 3 : 2;
  if (!p.no_bias) {
    Check(Assign(in[w + 1].shape, {p.num_filter}), op, ": bias ", in[w + 1].shape,
          " does not fit; (", p.num_filter, ",) was expected");
  }
  if (!x.known()) return true;
  const Sizes s = SizesOf(p, x);
  Check(s.parts > 0 && s.channels % s.parts == 0 && s.channels % s.groups == 0, op,
        ": data ", x, " has ", s.channels, " channels; a multiple of num_group ",
        s.groups, " and of num_deformable_group ", s.parts, " was expected");
  Check(s.out_h > 0 && s.out_w > 0, op, ": kernel ", p.kernel, " is larger than data ",
        x, " with pad ", p.pad);
  const Shape offsets{s.batch, 2 * s.parts * s.taps, s.out_h, s.out_w};
  Check(Assign(in[1].shape, offsets), op, ": offset ", in[1].shape, " does not fit; ",
        offsets, " was expected");
  if (modulated) {
    const Shape masks{s.batch, s.parts * s.taps, s.out_h, s.out_w};
    Check(Assign(in[2].shape, masks), op, ": mask ", in[2].shape, " does not fit; ",
          masks, " was expected");
  }
  const Shape weights{s.filters, s.channels / s.groups, p.kernel[0], p.kernel[1]};
  Check(Assign(in[w].shape, weights), op, ": weight ", in[w].shape, " does not fit; ",
        weights, " was expected");
  return Assign(out[0].shape, {s.batch, s.filters, s.out_h, s.out_w});
}

// Columns times mask, in place: the columns of a part are (channels, taps, places).
template <typename T>
void Modulate(const Sizes& s, const T* mask, T* columns) {
  const int64_t plane = s.taps * s.places(), channels = s.channels / s.parts;
  for (int64_t block = 0; block < s.batch * s.parts; ++block) {
    for (int64_t i = 0; i < channels * plane; ++i) {
      T& v = columns[block * channels * plane + i];
      using A = Accumulate<T>;
      v = static_cast<T>(static_cast<A>(v) *
                         static_cast<A>(mask[block * plane + i % plane]));
    }
  }
}

template <bool kModulated>
void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0], &weight = args.in[kModulated ? 3 : 2];
  const Sizes s = SizesOf(p, x.shape());
  const int64_t plane = s.taps * s.places(), blocks = s.batch * s.parts;
  const Shape grid_shape{blocks, 2, s.taps, s.places()};
  const Shape image{blocks, s.channels / s.parts, s.h, s.w};
  const Shape column_shape{blocks, s.channels / s.parts, s.taps, s.places()};
  const cpu::Scratch grid(static_cast<size_t>(grid_shape.size()) * SizeOf(x.dtype));
  const cpu::Scratch columns(static_cast<size_t>(column_shape.size()) *
                             SizeOf(x.dtype));
  const View points{grid.As<void>(), &grid_shape, x.dtype};
  Points(p, s, args.in[1], points, true);
  SampleAt(Reading(kModulated), {x.ptr, &image, x.dtype}, points,
           {columns.As<void>(), &column_shape, x.dtype});
  const int64_t filters = s.filters / s.groups, inputs = s.channels / s.groups * s.taps;
  VisitFloat(y.dtype, [&]<typename T>() {
    if constexpr (kModulated) Modulate(s, args.in[2].data<const T>(), columns.As<T>());
    T* out = y.data<T>();
    if (!p.no_bias) {
      const T* bias = args.in.back().data<const T>();
      for (int64_t i = 0; i < y.size(); ++i) out[i] = bias[i / s.places() % s.filters];
    }
    for (int64_t n = 0; n < s.batch; ++n) {
      cpu::GemmBatch(s.groups, false, false, filters, s.places(), inputs, 1,
                     weight.data<const T>(), inputs, filters * inputs,
                     columns.As<T>() + n * s.channels * plane, s.places(),
                     inputs * s.places(), p.no_bias ? 0 : 1,
                     out + n * s.filters * s.places(), s.places(),
                     filters * s.places());
    }
  });
}

Value GridOf(const P& p, const Value& offset);
Value OffsetsOf(P p, const Value& grid, const Shape& shape);

// y = W columns, columns = Sample(x, grid) * mask.
template <bool kModulated>
Values Gradient(const P& p, const GradArgs& g) {
  constexpr int kWeight = kModulated ? 3 : 2;
  const Sizes s = SizesOf(p, g.in_spec(0).shape);
  const int64_t blocks = s.batch * s.parts, filters = s.filters / s.groups;
  const int64_t inputs = s.channels / s.groups * s.taps, each = s.batch * s.groups;
  const SampleParams reading = Reading(kModulated);
  const Value image = reshape(g.in(0), {blocks, s.channels / s.parts, s.h, s.w});
  const Value grid = GridOf(p, g.in(1));
  const Value dy = reshape(g.dout(0), {each, filters, s.places()});
  const Value sampled = SampleOf(reading, image, grid);
  Value mask, columns = sampled;
  if constexpr (kModulated) {
    mask = reshape(g.in(2), {blocks, 1, s.taps, s.places()});
    columns = sampled * mask;
  }
  Values result(g.num_inputs());
  const Value weights =
      reshape(broadcast_to(reshape(g.in(kWeight), {1, s.groups, filters, inputs}),
                           {s.batch, s.groups, filters, inputs}),
              {each, filters, inputs});
  const Value dcolumns = reshape(batch_dot(weights, dy, true, false), sampled.shape());
  const Value dsampled = kModulated ? dcolumns * mask : dcolumns;
  if (g.wants(0)) {
    result[0] =
        reshape(SpreadOf(reading, dsampled, grid, image.shape()), g.in_spec(0).shape);
  }
  if (g.wants(1)) {
    result[1] =
        OffsetsOf(p, GridGradient(reading, dsampled, image, grid), g.in_spec(1).shape);
  }
  if (kModulated && g.wants(2)) {
    result[2] = reshape(sum(dcolumns * sampled, {.axes = {1}}), g.in_spec(2).shape);
  }
  if (g.wants(kWeight)) {
    const Value d =
        batch_dot(dy, reshape(columns, {each, inputs, s.places()}), false, true);
    result[kWeight] =
        reshape(sum(reshape(d, {s.batch, s.filters, inputs}), {.axes = {0}}),
                g.in_spec(kWeight).shape);
  }
  if (!p.no_bias && g.wants(kWeight + 1)) {
    result[kWeight + 1] = sum(g.dout(0), {.axes = {0, 2, 3}});
  }
  return result;
}

std::vector<Param<P>> ParamList(bool modulated) {
  std::vector<Param<P>> rows = {
      Required("kernel", &P::kernel, "Size of the window: (h, w)."),
      {"stride", &P::stride, "Steps of the window; () is 1."},
      {"dilate", &P::dilate, "Distance of the window's elements; () is 1."},
      {"pad", &P::pad, "Zeros on both sides of x; () is 0."},
      Required("num_filter", &P::num_filter, "Number of output channels."),
      {"num_group", &P::num_group, "Channels are split into so many parts."},
      {"num_deformable_group", &P::num_deformable_group,
       "So many parts of the channels have offsets of their own."},
      {"workspace", &P::workspace, "A hint in megabytes, not used."},
      {"no_bias", &P::no_bias, "Adds no bias."}};
  if (modulated) {
    rows.push_back({"im2col_step", &P::im2col_step, "A hint, not used."});
  }
  rows.push_back({"layout",
                  &P::layout,
                  {"None", "NCDHW", "NCHW", "NCW"},
                  "Order of the axes; channels are first."});
  return rows;
}

double Cost(const P& p, const Specs& in, const Specs& out) {
  return 2.0 * static_cast<double>(out[0].shape.size()) * p.kernel[0] * p.kernel[1] *
         in[0].shape[1] / p.num_group;
}

// Offsets away from whole numbers, where the slope jumps.
SampleInput Offsets(Shape shape) {
  return Uniform(std::move(shape), 0.1, 0.9);
}

const OpDef& deformable = Register<P>({
    .name = "_contrib_DeformableConvolution",
    .doc = "A convolution whose window elements are moved by given offsets.",
    .inputs = {{"data", Types::kFloats, "(batch, channels, h, w)."},
               {"offset", Types::kFloats,
                "y and x of each element: (batch, 2 * groups * kernel, out_h, out_w)."},
               {"weight", Types::kFloats,
                "(num_filter, channels / num_group, kernel)."},
               {"bias", Types::kFloats, "(num_filter,)."}},
    .outputs = {{"output", Types::kFloats, "(batch, num_filter, out_h, out_w)."}},
    .params = ParamList(false),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, !p.no_bias};
    },
    .infer = [](const P& p, Specs& in, Specs& out) { return Infer(p, false, in, out); },
    .gradient = Gradient<false>,
    .uses = {.in = 0b111},
    .cpu = {{"plain", Forward<false>}},
    .cost = Cost,
    .samples = {{{Normal({2, 2, 4, 4}), Offsets({2, 8, 3, 3}), Normal({3, 2, 2, 2}),
                  Normal({3})},
                 {.kernel = {2, 2}, .num_filter = 3}},
                {{Normal({1, 4, 5, 4}), Offsets({1, 24, 3, 2}), Normal({2, 2, 3, 2})},
                 {.kernel = {3, 2},
                  .stride = {2, 2},
                  .pad = {1, 0},
                  .num_filter = 2,
                  .num_group = 2,
                  .num_deformable_group = 2,
                  .no_bias = true}}},
});

const OpDef& modulated = Register<P>({
    .name = "_contrib_ModulatedDeformableConvolution",
    .doc =
        "A convolution whose window elements are moved by given offsets and weighted "
        "by a given mask.",
    .inputs = {{"data", Types::kFloats, "(batch, channels, h, w)."},
               {"offset", Types::kFloats,
                "y and x of each element: (batch, 2 * groups * kernel, out_h, out_w)."},
               {"mask", Types::kFloats, "(batch, groups * kernel, out_h, out_w)."},
               {"weight", Types::kFloats,
                "(num_filter, channels / num_group, kernel)."},
               {"bias", Types::kFloats, "(num_filter,)."}},
    .outputs = {{"output", Types::kFloats, "(batch, num_filter, out_h, out_w)."}},
    .params = ParamList(true),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, true, !p.no_bias};
    },
    .infer = [](const P& p, Specs& in, Specs& out) { return Infer(p, true, in, out); },
    .gradient = Gradient<true>,
    .uses = {.in = 0b1111},
    .cpu = {{"plain", Forward<true>}},
    .cost = Cost,
    .samples = {{{Normal({2, 2, 4, 4}), Offsets({2, 8, 3, 3}),
                  Uniform({2, 4, 3, 3}, 0, 1), Normal({3, 2, 2, 2}), Normal({3})},
                 {.kernel = {2, 2}, .num_filter = 3}},
                {{Normal({1, 2, 4, 4}), Offsets({1, 36, 4, 4}),
                  Uniform({1, 18, 4, 4}, 0, 1), Normal({2, 2, 3, 3})},
                 {.kernel = {3, 3},
                  .pad = {1, 1},
                  .num_filter = 2,
                  .num_deformable_group = 2,
                  .no_bias = true}}},
});

// The grid's operator knows the parts from the number of offsets.
Sizes GridSizes(const P& p, const Shape& offset) {
  Sizes s{};
  s.batch = offset[0];
  s.taps = p.kernel[0] * p.kernel[1];
  s.parts = offset[1] / (2 * s.taps);
  s.out_h = offset[2];
  s.out_w = offset[3];
  return s;
}

bool InferGrid(const P& p, Specs& in, Specs& out) {
  Shape& offset = in[0].shape;
  Check(p.kernel.rank() == 2 && Assign(offset, Shape::Filled(4, kUnknownSize)),
        "_deformable_grid: kernel ", p.kernel, " and offset ", offset,
        "; (h, w) and (batch, 2 * groups * kernel, out_h, out_w) were expected");
  if (!offset.known()) return true;
  const Sizes s = GridSizes(p, offset);
  return Assign(out[0].shape, {s.batch * s.parts, 2, s.taps, s.places()});
}

P GridSample(const Shape& result) {
  return {.kernel = {2, 1}, .stride = {2, 1}, .pad = {1, 0}, .result = result};
}

const OpDef& grid_op = Register<P>({
    .name = "_deformable_grid",
    .doc = "The points (y, x), in pixels, that a deformable convolution reads.",
    .inputs = {{"offset", Types::kFloats}},
    .infer = InferGrid,
    .gradient = [](const P& p, const GradArgs& g) -> Values {
      return {OffsetsOf(p, g.dout(0), g.in_spec(0).shape)};
    },
    .cpu = {{"plain",
             [](const P& p, const KernelArgs& args) {
               Points(p, GridSizes(p, args.in[0].shape()), args.in[0], args.out[0],
                      true);
             }}},
    .samples = {{{Normal({2, 8, 3, 2})}, GridSample({})}},
});

// The gradient is the same order of elements backwards; forwards again it is a grid of
// offsets less the grid of no offsets.
const OpDef& offsets_op = Register<P>({
    .name = "_backward_deformable_grid",
    .doc = "The gradient of _deformable_grid.",
    .inputs = {{"dy", Types::kFloats}},
    .infer =
        [](const P& p, Specs& in, Specs& out) {
          const Shape& s = p.result;
          Check(
              s.rank() == 4 && (!in[0].shape.known() || in[0].shape.size() == s.size()),
              "_backward_deformable_grid: dy ", in[0].shape, " does not fit ", s);
          return Assign(out[0].shape, s);
        },
    .gradient = [](const P& p, const GradArgs& g) -> Values {
      const Value& u = g.dout(0);
      return {GridOf(p, u) - GridOf(p, zeros_like(u))};
    },
    .cpu = {{"plain",
             [](const P& p, const KernelArgs& args) {
               Points(p, GridSizes(p, p.result), args.in[0], args.out[0], false);
             }}},
    .samples = {{{Normal({4, 2, 2, 6})}, GridSample({2, 8, 3, 2})}},
});

Value GridOf(const P& p, const Value& offset) {
  return ApplyOne(grid_op, MakeParams(P(p)), {&offset, 1});
}
Value OffsetsOf(P p, const Value& grid, const Shape& shape) {
  p.result = shape;
  return ApplyOne(offsets_op, MakeParams(std::move(p)), {&grid, 1});
}

}  // namespace
}  // namespace plait
