// _image_crop and the flips of images.

#include <cstring>

#include "cpu/random.h"
#include "graph/math.h"
#include "ops/image/image.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- crop

struct CropParams {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

bool InferCrop(const CropParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  CheckImages("_image_crop", x);
  const ImageSizes sizes(x);
  Check(p.x >= 0 && p.y >= 0 && p.width > 0 && p.height > 0 &&
            p.width <= sizes.width - p.x && p.height <= sizes.height - p.y,
        "_image_crop: a rectangle of width ", p.width, " and height ", p.height,
        " at (", p.x, ", ", p.y, ") is not inside data ", x);
  return Assign(out[0].shape, Resized(x, p.height, p.width));
}

void Crop(const CropParams& p, const KernelArgs& args) {
  const ImageSizes from(args.in[0].shape()), to(args.out[0].shape());
  const size_t bytes =
      static_cast<size_t>(p.width * from.channels) * SizeOf(args.in[0].dtype);
  for (int64_t i = 0; i < from.batch; ++i) {
    for (int64_t row = 0; row < p.height; ++row) {
      const int64_t at =
          ((i * from.height + p.y + row) * from.width + p.x) * from.channels;
      const int64_t put = (i * to.height + row) * to.width * to.channels;
      std::memcpy(At(args.out[0], put), At(args.in[0], at), bytes);
    }
  }
}

Values CropGradient(const CropParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  Shape begin = Shape::Filled(x.rank(), 0), end = x;
  begin = Resized(begin, p.y, p.x);
  end = Resized(end, p.y + p.height, p.x + p.width);
  return {Make("_slice_assign", {zeros(g.in_spec(0)), g.dout(0)},
               {{"begin", Attr(begin)}, {"end", Attr(end)}})};
}

[[maybe_unused]] const OpDef& crop = Register<CropParams>({
    .name = "_image_crop",
    .aliases = {"_npx__image_crop"},
    .doc = "A rectangle of images.",
    .inputs = {{"data", Types::kAny, "(height, width, channels), or a batch."}},
    .params = {Required<CropParams>("x", &CropParams::x, "The left column."),
               Required<CropParams>("y", &CropParams::y, "The upper row."),
               Required<CropParams>("width", &CropParams::width, "Columns."),
               Required<CropParams>("height", &CropParams::height, "Rows.")},
    .infer = InferCrop,
    .gradient = CropGradient,
    .cpu = {{"plain", Crop}},
    .samples = {{{Normal({4, 5, 3})}, {.x = 1, .y = 2, .width = 3, .height = 2}},
                {{Normal({2, 3, 3, 1})}, {.x = 0, .y = 0, .width = 3, .height = 1}},
                {{Integers({3, 3, 3}, 0, 256, DType::kUint8)},
                 {.x = 2, .y = 1, .width = 1, .height = 2}}},
});

// ---------------------------------------------------------------- flips

// The axis of rows is 3 from the end, that of columns 2.
template <int kFromEnd>
void Flip(const View& x, const View& y) {
  const ImageSizes s(x.shape());
  const int64_t outer = kFromEnd == 3 ? s.batch : s.batch * s.height;
  const int64_t n = kFromEnd == 3 ? s.height : s.width;
  const int64_t inner = kFromEnd == 3 ? s.width * s.channels : s.channels;
  const size_t bytes = static_cast<size_t>(inner) * SizeOf(x.dtype);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(At(y, (o * n + i) * inner), At(x, (o * n + n - 1 - i) * inner),
                  bytes);
    }
  }
}

bool InferFlip(const NoParams& p, Specs& in, Specs& out) {
  if (!SameShape(p, in, out)) return false;
  if (in[0].shape.rank_known()) CheckImages("image flip", in[0].shape);
  return true;
}

template <int kFromEnd>
OpSpec<NoParams> FlipSpec(const char* name, const char* alias, const char* doc) {
  return {
      .name = name,
      .aliases = {alias},
      .doc = doc,
      .inputs = {{"data", Types::kAny, "(height, width, channels), or a batch."}},
      .infer = InferFlip,
      .cpu = {{"plain",
               [](const NoParams&, const KernelArgs& args) {
                 Flip<kFromEnd>(args.in[0], args.out[0]);
               }}},
      .samples = {{{Normal({3, 4, 2})}},
                  {{Normal({2, 2, 3, 1})}},
                  {{Integers({2, 3, 3}, 0, 256, DType::kUint8)}}},
  };
}

template <int kFromEnd>
Values FlipGradient(const NoParams&, const GradArgs& g) {
  const int axis = g.in_spec(0).shape.rank() - kFromEnd;
  return {Make("reverse", {g.dout(0)}, {{"axis", Attr(axis)}})};
}

template <int kFromEnd>
void AddFlips(const char* name, const char* alias, const char* random,
              const char* random_alias, const char* doc) {
  OpSpec<NoParams> flip = FlipSpec<kFromEnd>(name, alias, doc);
  flip.gradient = FlipGradient<kFromEnd>;
  Register(flip);
  OpSpec<NoParams> maybe = FlipSpec<kFromEnd>(
      random, random_alias, "Flips images or leaves them, each with chance 1/2.");
  maybe.cpu = {{"plain", [](const NoParams&, const KernelArgs& args) {
                  if (cpu::ElementRandom(args.random, 0).NextUint32() >> 31) {
                    Flip<kFromEnd>(args.in[0], args.out[0]);
                  } else {
                    CopyKernel(NoParams{}, args);
                  }
                }}};
  maybe.random = true;
  Register(maybe);
}

[[maybe_unused]] const bool kAdded = [] {
  AddFlips<2>("_image_flip_left_right", "_npx__image_flip_left_right",
              "_image_random_flip_left_right", "_npx__image_random_flip_left_right",
              "Images with left and right exchanged.");
  AddFlips<3>("_image_flip_top_bottom", "_npx__image_flip_top_bottom",
              "_image_random_flip_top_bottom", "_npx__image_random_flip_top_bottom",
              "Images with top and bottom exchanged.");
  return true;
}();

}  // namespace
}  // namespace plait
