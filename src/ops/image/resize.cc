// _image_resize and _cvimresize: images of another size.

#include "image/resize.h"

#include "ops/image/image.h"

namespace plait {
namespace {

using image::Interpolation;

struct ResizeParams {
  Shape size;
  bool keep_ratio = false;
  int interp = 1;
};
struct CvResizeParams {
  int64_t w = 0, h = 0;
  int interp = 1;
};

// (height, width) of the result. A single number is both, or with keep_ratio the
// smaller one.
std::pair<int64_t, int64_t> SizeOf(const ResizeParams& p, int64_t height,
                                   int64_t width) {
  const Shape& size = p.size;
  Check((size.rank() == 1 || size.rank() == 2) && size[0] > 0 && size.back() > 0,
        "_image_resize: size is ", size, "; (width, height) was expected");
  if (size.rank() == 2) return {size[1], size[0]};
  if (!p.keep_ratio) return {size[0], size[0]};
  if (height > width) return {height * size[0] / width, size[0]};
  return {size[0], width * size[0] / height};
}
std::pair<int64_t, int64_t> SizeOf(const CvResizeParams& p, int64_t, int64_t) {
  Check(p.w > 0 && p.h > 0, "_cvimresize: w is ", p.w, " and h ", p.h,
        "; positive numbers were expected");
  return {p.h, p.w};
}
constexpr const char* NameOf(const ResizeParams&) {
  return "_image_resize";
}
constexpr const char* NameOf(const CvResizeParams&) {
  return "_cvimresize";
}

template <typename P>
bool Infer(const P& p, Specs& in, Specs& out) {
  Check(p.interp >= 0 && p.interp <= 4, NameOf(p), ": interp is ", p.interp,
        "; 0 to 4 (nearest, linear, cubic, area, lanczos) was expected");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  CheckImages(NameOf(p), x);
  const ImageSizes sizes(x);
  Check(sizes.height > 0 && sizes.width > 0, NameOf(p), ": data ", x, " has no pixels");
  const auto [height, width] = SizeOf(p, sizes.height, sizes.width);
  Check(height > 0 && width > 0, NameOf(p), ": data ", x, " would become (", height,
        ", ", width, "); positive sizes were expected");
  return Assign(out[0].shape, Resized(x, height, width));
}

template <typename P>
void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const ImageSizes from(x.shape()), to(y.shape());
  if (x.size() == 0 || y.size() == 0) return;
  const auto run = [&]<typename T>(T) {
    for (int64_t i = 0; i < from.batch; ++i) {
      image::Resize(x.data<const T>() + i * from.size(), from.height, from.width,
                    from.channels, y.data<T>() + i * to.size(), to.height, to.width,
                    static_cast<Interpolation>(p.interp));
    }
  };
  switch (x.dtype) {
    case DType::kUint8:
      return run(uint8_t{});
    case DType::kInt32:
      return run(int32_t{});
    case DType::kFloat32:
      return run(float{});
    case DType::kFloat64:
      return run(double{});
    default:
      return;
  }
}

template <typename P>
const char* Declines(const P&, const Specs& in, const Specs&) {
  const DType x = in[0].dtype;
  const bool fits = x == DType::kUint8 || x == DType::kInt32 || x == DType::kFloat32 ||
                    x == DType::kFloat64;
  return fits ? nullptr : "neither uint8, int32, float32 nor float64";
}

constexpr const char* kInterpDoc = "0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos.";

[[maybe_unused]] const OpDef& resize = Register<ResizeParams>({
    .name = "_image_resize",
    .aliases = {"_npx__image_resize"},
    .doc = "Images of another size.",
    .inputs = {{"data", Types::kNumbers, "(height, width, channels), or a batch."}},
    .params = {{"size", &ResizeParams::size, "(width, height), or one number."},
               {"keep_ratio", &ResizeParams::keep_ratio,
                "One number is the size of the shorter edge."},
               {"interp", &ResizeParams::interp, kInterpDoc}},
    .infer = Infer<ResizeParams>,
    .cpu = {{"plain", Forward<ResizeParams>, Declines<ResizeParams>}},
    .samples = {{{Normal({4, 5, 3})}, {.size = {3, 6}}},
                {{Normal({2, 5, 4, 1})}, {.size = {3}, .interp = 0}},
                {{Normal({6, 4, 2})}, {.size = {2}, .keep_ratio = true, .interp = 3}},
                {{Normal({3, 3, 1})}, {.size = {5, 4}, .interp = 2}},
                {{Normal({3, 3, 1})}, {.size = {5, 4}, .interp = 4}},
                {{Integers({4, 5, 3}, 0, 256, DType::kUint8)}, {.size = {7, 2}}}},
});

[[maybe_unused]] const OpDef& cv_resize = Register<CvResizeParams>({
    .name = "_cvimresize",
    .aliases = {"_npi_cvimresize"},
    .doc = "An image of another size.",
    .inputs = {{"src", Types::kNumbers, "(height, width, channels)."}},
    .params = {Required<CvResizeParams>("w", &CvResizeParams::w, "Width."),
               Required<CvResizeParams>("h", &CvResizeParams::h, "Height."),
               {"interp", &CvResizeParams::interp, kInterpDoc}},
    .infer = Infer<CvResizeParams>,
    .cpu = {{"plain", Forward<CvResizeParams>, Declines<CvResizeParams>}},
    .samples = {{{Integers({4, 5, 3}, 0, 256, DType::kUint8)}, {.w = 3, .h = 6}}},
});

}  // namespace
}  // namespace plait
