// Augment: decode, resize, warp, pad, crop, colours.

#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "image/resize.h"

namespace plait::data {
namespace {

using Rectangle = image::Window;

// The size of an image whose shorter edge is resized.
std::pair<int64_t, int64_t> ShorterEdge(int64_t edge, int64_t width, int64_t height) {
  if (height > width) return {edge, edge * height / width};
  return {edge * width / height, edge};
}

void Pad(const AugmentOptions& o, Picture& p) {
  Picture padded;
  padded.Make(p.height + 2 * o.pad, p.width + 2 * o.pad, p.channels);
  std::fill(padded.pixels.begin(), padded.pixels.end(),
            static_cast<uint8_t>(o.fill_value));
  for (int64_t i = 0; i < p.height; ++i) {
    std::memcpy(padded.data() + (i + o.pad) * padded.stride + o.pad * p.channels,
                p.data() + i * p.stride, static_cast<size_t>(p.width * p.channels));
  }
  p = std::move(padded);
}

// A rectangle of random area and proportions; nothing where ten attempts do not fit.
std::optional<Rectangle> RandomArea(const AugmentOptions& o, int64_t width,
                                    int64_t height, SampleRandom& random) {
  const double least = o.LeastAspect(), most = o.MostAspect();
  const bool any =
      o.max_random_area != 1 || o.min_random_area != 1 || most != 1 || least != 1;
  if (!any) return std::nullopt;
  for (int i = 0; i < 10; ++i) {
    const double area = random.Uniform(o.min_random_area, o.max_random_area) *
                        static_cast<double>(height * width);
    const double ratio = random.Uniform(least, most);
    auto h = static_cast<int64_t>(std::round(std::sqrt(area / ratio)));
    auto w = static_cast<int64_t>(std::round(std::sqrt(area * ratio)));
    if (random.Unit() > 0.5) std::swap(h, w);
    if (h < 1 || w < 1 || h > height || w > width) continue;
    const int64_t y = random.Whole(0, height - h), x = random.Whole(0, width - w);
    return Rectangle{x, y, w, h};
  }
  return std::nullopt;
}

// A square of a random size.
Rectangle RandomSquare(const AugmentOptions& o, int64_t width, int64_t height,
                       SampleRandom& random) {
  Check(width >= o.max_crop_size && height >= o.max_crop_size, "image of ", width,
        " x ", height, " pixels is smaller than max_crop_size ", o.max_crop_size);
  const int64_t size = random.Whole(o.min_crop_size, o.max_crop_size);
  int64_t y = height - size, x = width - size;
  y = o.rand_crop ? random.Whole(0, y) : y / 2;
  x = o.rand_crop ? random.Whole(0, x) : x / 2;
  return {x, y, size, size};
}

// The result's size, anywhere or in the middle.
Rectangle Place(const AugmentOptions& o, int64_t width, int64_t height,
                SampleRandom& random) {
  const int64_t y = height - o.height, x = width - o.width;
  if (!o.rand_crop) return {x / 2, y / 2, o.width, o.height};
  const int64_t top = random.Whole(0, y), left = random.Whole(0, x);
  return {left, top, o.width, o.height};
}

// The rectangle that is cut out and resized to the result; nothing: a plain crop of the
// result's size.
std::optional<Rectangle> ChooseCrop(const AugmentOptions& o, int64_t width,
                                    int64_t height, SampleRandom& random) {
  if (o.random_resized_crop) return RandomArea(o, width, height, random);
  if (o.max_crop_size != -1 || o.min_crop_size != -1)
    return RandomSquare(o, width, height, random);
  return std::nullopt;
}

void PlainCrop(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  const int method =
      ChooseInterpolation(o.inter_method, p.width, p.height, o.width, o.height, random);
  const auto scaled = [](int64_t to, int64_t from, int64_t other) {
    return static_cast<int64_t>(static_cast<float>(to) / static_cast<float>(from) *
                                static_cast<float>(other));
  };
  if (p.height < o.height)
    ResizePicture(p, scaled(o.height, p.height, p.width), o.height, method);
  if (p.width < o.width)
    ResizePicture(p, o.width, scaled(o.width, p.width, p.height), method);
  Check(p.height >= o.height && p.width >= o.width, "image of ", p.width, " x ",
        p.height, " pixels is smaller than the result of ", o.width, " x ", o.height);
  const Rectangle r = Place(o, p.width, p.height, random);
  p.Cut(r.x, r.y, r.width, r.height);
}

void CropAndResize(const AugmentOptions& o, const Rectangle& r, SampleRandom& random,
                   Picture& p) {
  p.Cut(r.x, r.y, r.width, r.height);
  ResizePicture(p, o.width, o.height,
                ChooseInterpolation(o.inter_method, r.width, r.height, o.width,
                                    o.height, random));
}

image::DecodeOptions HowToDecode(const AugmentOptions& o) {
  image::DecodeOptions decode;
  decode.channels = o.channels == 1   ? image::Channels::kGray
                    : o.channels == 3 ? image::Channels::kColour
                                      : image::Channels::kAsStored;
  decode.orient = o.orient;
  return decode;
}

Picture Decode(std::span<const uint8_t> file, const AugmentOptions& o,
               const image::DecodeOptions& options) {
  Picture picture;
  image::Decode(file, options, [&](const image::Layout& l) {
    Check(!l.wide && l.channels == o.channels, "image has ", l.channels,
          " channels of ", l.wide ? 16 : 8, " bits; ", o.channels,
          " channels of 8 bits were expected (data_shape)");
    picture.Make(l.height, l.width, l.channels);
    return picture.data();
  });
  return picture;
}

// Decodes, resizes the shorter edge and crops, where no more than the crop depends on
// is decoded and resized. Nothing: this cannot be done so.
std::optional<Picture> DecodePart(std::span<const uint8_t> file,
                                  const AugmentOptions& o, image::DecodeOptions decode,
                                  SampleRandom& random) {
  const image::Layout stored = image::ReadLayout(file);
  if (!o.exact && 2 * o.resize <= std::min(stored.height, stored.width))
    return std::nullopt;  // a smaller decoding is better
  const auto [width, height] = ShorterEdge(o.resize, stored.width, stored.height);
  if (width < o.width || height < o.height || width >= (1 << 20) || height >= (1 << 20))
    return std::nullopt;
  SampleRandom ahead = random;  // nothing is drawn unless it can be done
  const int method = ChooseInterpolation(o.inter_method, stored.width, stored.height,
                                         width, height, ahead);
  const bool shrinks = width <= stored.width && height <= stored.height;
  if (method == 0 || (method == 3 && shrinks)) return std::nullopt;
  random = ahead;
  std::optional<Rectangle> crop = ChooseCrop(o, width, height, random);
  if (!crop) crop = Place(o, width, height, random);
  const image::PartialResize resize = {.height = stored.height,
                                       .width = stored.width,
                                       .channels = o.channels,
                                       .y_height = height,
                                       .y_width = width,
                                       .how = static_cast<image::Interpolation>(method),
                                       .part = *crop};
  const Rectangle source = resize.Source();
  decode.region = {source.x, source.y, source.width, source.height};
  const Picture part = Decode(file, o, decode);
  Picture picture;
  picture.Make(crop->height, crop->width, part.channels);
  resize.Run(part.data(), part.stride, picture.data());
  CropAndResize(o, {0, 0, crop->width, crop->height}, random, picture);
  return picture;
}

}  // namespace

void Picture::Make(int64_t new_height, int64_t new_width, int new_channels) {
  height = new_height;
  width = new_width;
  channels = new_channels;
  begin = 0;
  stride = width * channels;
  pixels.resize(static_cast<size_t>(height * stride));
}

void Picture::Cut(int64_t x, int64_t y, int64_t new_width, int64_t new_height) {
  begin += y * stride + x * channels;
  width = new_width;
  height = new_height;
}

int ChooseInterpolation(int method, int64_t width, int64_t height, int64_t new_width,
                        int64_t new_height, SampleRandom& random) {
  if (method == 10) return static_cast<int>(random.Whole(0, 4));
  if (method != 9) return method;
  if (new_width > width && new_height > height) return 2;
  return new_width < width && new_height < height ? 3 : 1;
}

void ResizePicture(Picture& picture, int64_t width, int64_t height, int method) {
  if (picture.width == width && picture.height == height) return;
  Check(width > 0 && height > 0 && width < (1 << 20) && height < (1 << 20), "image of ",
        picture.width, " x ", picture.height, " pixels would become ", width, " x ",
        height);
  Picture resized;
  resized.Make(height, width, picture.channels);
  image::ResizeBytes(picture.data(), picture.stride, picture.height, picture.width,
                     picture.channels, resized.data(), height, width,
                     static_cast<image::Interpolation>(method));
  picture = std::move(resized);
}

void ResizeShorterEdge(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  const auto [width, height] = ShorterEdge(o.resize, p.width, p.height);
  ResizePicture(
      p, width, height,
      ChooseInterpolation(o.inter_method, p.width, p.height, width, height, random));
}

Picture DecodeWhole(std::span<const uint8_t> file, const AugmentOptions& o) {
  image::DecodeOptions decode = HowToDecode(o);
  if (!o.exact) decode.shorter_edge = std::max<int64_t>(o.resize, 0);
  return Decode(file, o, decode);
}

Picture Augment(std::span<const uint8_t> file, const AugmentOptions& o,
                SampleRandom& random) {
  image::DecodeOptions decode = HowToDecode(o);
  // What is cut out of the stored image is known before it is decoded.
  const bool cuts_first = o.resize <= 0 && !o.Warps() && o.pad == 0;
  std::optional<Rectangle> crop;
  if (cuts_first && !o.orient) {
    const image::Layout stored = image::ReadLayout(file);
    crop = ChooseCrop(o, stored.width, stored.height, random);
    if (!crop && stored.height >= o.height && stored.width >= o.width)
      crop = Place(o, stored.width, stored.height, random);
    if (crop) {
      decode.region = {crop->x, crop->y, crop->width, crop->height};
    }
  } else if (o.resize > 0 && !o.Warps() && o.pad == 0 && !o.orient) {
    std::optional<Picture> part = DecodePart(file, o, decode, random);
    if (part) {
      ChangeColours(o, random, *part);
      return std::move(*part);
    }
  }
  if (!crop && !o.exact) {
    decode.shorter_edge = std::max<int64_t>(o.resize, 0);
  }
  Picture picture = Decode(file, o, decode);
  if (crop) {
    CropAndResize(o, {0, 0, crop->width, crop->height}, random, picture);
  } else {
    if (o.resize > 0) ResizeShorterEdge(o, random, picture);
    if (o.Warps()) Warp(o, random, picture);
    if (o.pad > 0) Pad(o, picture);
    if (!cuts_first || o.orient)
      crop = ChooseCrop(o, picture.width, picture.height, random);
    if (crop) {
      CropAndResize(o, *crop, random, picture);
    } else {
      PlainCrop(o, random, picture);
    }
  }
  ChangeColours(o, random, picture);
  return picture;
}

}  // namespace plait::data
