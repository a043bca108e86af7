// Image files: decoding to NumPy arrays (no engine) and to NDArrays, and encoding.

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bindings.h"
#include "image/codec.h"
#include "image/resize.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// The bytes of a Python object, held while this lives.
class Bytes {
 public:
  explicit Bytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0)
      throw PythonError();
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  std::span<const uint8_t> get() const {
    return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

// OpenCV's flags, as programs for MXNet give them.
image::DecodeOptions OptionsOf(int flag, bool red_first, int64_t shorter_edge) {
  constexpr int kIgnoreOrientation = 128;
  image::DecodeOptions options;
  options.red_first = red_first;
  options.shorter_edge = shorter_edge;
  if (flag == -1) {
    options.channels = image::Channels::kAsStored;
    options.orient = false;
    return options;
  }
  options.orient = (flag & kIgnoreOrientation) == 0;
  flag &= ~kIgnoreOrientation;
  Check(flag == 0 || flag == 1, "image: flag ", flag,
        "; -1 (as stored), 0 (gray) or 1 (colour) was expected");
  options.channels = static_cast<image::Channels>(flag);
  return options;
}

nb::object DecodeToNumpy(nb::handle file, int flag, bool red_first,
                         int64_t shorter_edge) {
  const Bytes bytes(file);
  const image::DecodeOptions options = OptionsOf(flag, red_first, shorter_edge);
  std::unique_ptr<uint8_t[]> pixels;
  image::Layout layout;
  {
    nb::gil_scoped_release unlocked;
    image::Decode(bytes.get(), options, [&](const image::Layout& l) {
      layout = l;
      pixels.reset(new uint8_t[static_cast<size_t>(l.bytes())]);
      return pixels.get();
    });
  }
  uint8_t* data = pixels.get();
  nb::capsule owner(pixels.release(),
                    [](void* p) noexcept { delete[] static_cast<uint8_t*>(p); });
  const size_t shape[3] = {static_cast<size_t>(layout.height),
                           static_cast<size_t>(layout.width),
                           static_cast<size_t>(layout.channels)};
  const size_t rank = layout.channels == 1 ? 2 : 3;
  const nb::dlpack::dtype dtype =
      layout.wide ? nb::dtype<uint16_t>() : nb::dtype<uint8_t>();
  return nb::cast(nb::ndarray<nb::numpy>(data, rank, shape, owner, nullptr, dtype));
}

NDArray DecodeToArray(nb::handle file, int flag, bool red_first, int64_t shorter_edge) {
  const Bytes bytes(file);
  const image::DecodeOptions options = OptionsOf(flag, red_first, shorter_edge);
  NDArray array;
  nb::gil_scoped_release unlocked;
  image::Decode(bytes.get(), options, [&](const image::Layout& l) {
    array = NDArray::Empty({l.height, l.width, l.channels},
                           l.wide ? DType::kUint16 : DType::kUint8);
    return array.data();
  });
  return array;
}

nb::bytes EncodeFromNumpy(const nb::ndarray<nb::numpy, nb::ro, nb::c_contig>& pixels,
                          const std::string& extension, int quality, bool red_first) {
  const bool wide = pixels.dtype() == nb::dtype<uint16_t>();
  Check((wide || pixels.dtype() == nb::dtype<uint8_t>()) &&
            (pixels.ndim() == 2 || pixels.ndim() == 3),
        ErrorKind::kType, "image: an array of ", pixels.ndim(), " axes with ",
        pixels.dtype().bits,
        "-bit elements cannot be encoded; (height, width[, channels]) of uint8 or "
        "uint16 was expected");
  const image::Layout layout = {
      .height = static_cast<int64_t>(pixels.shape(0)),
      .width = static_cast<int64_t>(pixels.shape(1)),
      .channels = pixels.ndim() == 2 ? 1 : static_cast<int>(pixels.shape(2)),
      .wide = wide};
  const image::EncodeOptions options = {
      .red_first = red_first, .quality = quality, .compression = quality};
  std::vector<uint8_t> bytes;
  {
    nb::gil_scoped_release unlocked;
    bytes = image::Encode(pixels.data(), layout, extension, options);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

struct Recoding {
  int flag = 1;
  bool center_crop = false;
  int64_t resize = 0;  // of the shorter edge; 0: as it is
  std::string extension;
  int quality = 95;
  bool exact = false;
};

// The middle square of an image, as a smaller image.
std::vector<uint8_t> Square(const std::vector<uint8_t>& pixels, image::Layout* layout) {
  const int64_t edge = std::min(layout->height, layout->width);
  const int64_t pixel = layout->bytes() / (layout->height * layout->width);
  const int64_t top = (layout->height - edge) / 2, left = (layout->width - edge) / 2;
  std::vector<uint8_t> square(static_cast<size_t>(edge * edge * pixel));
  for (int64_t i = 0; i < edge; ++i) {
    std::memcpy(square.data() + i * edge * pixel,
                pixels.data() + ((top + i) * layout->width + left) * pixel,
                static_cast<size_t>(edge * pixel));
  }
  layout->height = layout->width = edge;
  return square;
}

// Decodes a file, makes it square and smaller, and encodes it.
std::vector<uint8_t> Recode(std::span<const uint8_t> file, const Recoding& r) {
  const int64_t scaled = r.exact ? 0 : r.resize;
  image::Layout layout;
  std::vector<uint8_t> pixels;
  image::Decode(file, OptionsOf(r.flag, false, scaled), [&](const image::Layout& l) {
    layout = l;
    pixels.resize(static_cast<size_t>(l.bytes()));
    return pixels.data();
  });
  if (r.center_crop) pixels = Square(pixels, &layout);
  if (r.resize > 0) {
    Check(!layout.wide, "image: 16 bits cannot be resized; 8 were expected");
    int64_t height = r.resize, width = r.resize;
    if (layout.height > layout.width) {
      height = layout.height * r.resize / layout.width;
    } else {
      width = layout.width * r.resize / layout.height;
    }
    std::vector<uint8_t> resized(static_cast<size_t>(height * width * layout.channels));
    image::ResizeBytes(pixels.data(), layout.width * layout.channels, layout.height,
                       layout.width, layout.channels, resized.data(), height, width,
                       image::Interpolation::kLinear);
    pixels = std::move(resized);
    layout.height = height;
    layout.width = width;
  }
  return image::Encode(
      pixels.data(), layout, r.extension,
      {.red_first = false, .quality = r.quality, .compression = r.quality});
}

// y (height, width, channels) from x of the same dtype, which both must have.
template <typename T>
void ResizeInto(const void* x, int64_t height, int64_t width, int64_t channels, void* y,
                int64_t y_height, int64_t y_width, int interp, bool antialias) {
  if (antialias) {
    return image::ResizeAntialias(static_cast<const T*>(x), width * channels, height,
                                  width, channels, static_cast<T*>(y), y_height,
                                  y_width, static_cast<image::Interpolation>(interp));
  }
  image::Resize(static_cast<const T*>(x), height, width, channels, static_cast<T*>(y),
                y_height, y_width, static_cast<image::Interpolation>(interp));
}

void ResizeNumpy(const nb::ndarray<nb::numpy, nb::ro, nb::c_contig>& x,
                 const nb::ndarray<nb::numpy, nb::c_contig>& y, int interp,
                 bool antialias) {
  Check(x.ndim() == 3 && y.ndim() == 3 && x.shape(2) == y.shape(2) &&
            x.dtype() == y.dtype() && interp >= 0 && interp <= 4 && x.size() > 0 &&
            y.size() > 0,
        "resize: images (height, width, channels) of the same dtype and channels, with "
        "pixels, and interp 0 to 4 were expected");
  const auto run = x.dtype() == nb::dtype<uint8_t>()   ? ResizeInto<uint8_t>
                   : x.dtype() == nb::dtype<int32_t>() ? ResizeInto<int32_t>
                   : x.dtype() == nb::dtype<float>()   ? ResizeInto<float>
                   : x.dtype() == nb::dtype<double>()  ? ResizeInto<double>
                                                       : nullptr;
  Check(run != nullptr, ErrorKind::kType,
        "resize: uint8, int32, float32 or float64 was expected");
  nb::gil_scoped_release unlocked;
  const auto n = [](size_t size) { return static_cast<int64_t>(size); };
  run(x.data(), n(x.shape(0)), n(x.shape(1)), n(x.shape(2)), y.data(), n(y.shape(0)),
      n(y.shape(1)), interp, antialias);
}

}  // namespace

void BindImage(nb::module_& m) {
  m.def("decode_image", DecodeToNumpy, nb::arg("file"), nb::arg("flag") = 1,
        nb::arg("red_first") = true, nb::arg("shorter_edge") = 0,
        "A NumPy array (height, width[, channels]) of an image file in memory.");
  m.def("decode_image_array", DecodeToArray, nb::arg("file"), nb::arg("flag") = 1,
        nb::arg("red_first") = true, nb::arg("shorter_edge") = 0,
        "An NDArray (height, width, channels) of an image file in memory.");
  m.def("resize_image", ResizeNumpy, nb::arg("src").noconvert(),
        nb::arg("dst").noconvert(), nb::arg("interp"), nb::arg("antialias") = false,
        "Resizes one NumPy array into another.");
  m.def("encode_image", EncodeFromNumpy, nb::arg("pixels"), nb::arg("extension"),
        nb::arg("quality") = 95, nb::arg("red_first") = false,
        "The bytes of an image file; quality is PNG's compression, too.");
  m.def(
      "recode_image",
      [](nb::handle file, int flag, bool center_crop, int64_t resize,
         std::string extension, int quality, bool exact) {
        const Bytes bytes(file);
        std::vector<uint8_t> out;
        {
          nb::gil_scoped_release unlocked;
          out = Recode(bytes.get(), {flag, center_crop, resize, std::move(extension),
                                     quality, exact});
        }
        return nb::bytes(out.data(), out.size());
      },
      "An image file made square, smaller, or of another format.");
  m.def(
      "image_shape",
      [](nb::handle file) {
        const image::Layout l = image::ReadLayout(Bytes(file).get());
        return nb::make_tuple(l.height, l.width, l.channels);
      },
      "(height, width, channels) as an image file's head has them.");
}

}  // namespace plait::python
