// Image files: what comes back, regions, smaller decoding, orientation, bad input.

#include "image/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"
#include "image/orient.h"

namespace plait::image {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Waves(int64_t height, int64_t width, int channels) {
  Bytes x;
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      for (int c = 0; c < channels; ++c) {
        const double v = std::sin(static_cast<double>(j) / (3 + c)) *
                         std::cos(static_cast<double>(i) / (7 - c));
        x.push_back(static_cast<uint8_t>(127.5 + 127 * v));
      }
    }
  }
  return x;
}

// The codecs that this build has.
class CodecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasCodec("JPEG") || !HasCodec("PNG")) GTEST_SKIP() << "a codec is missing";
  }
};

struct Image {
  Layout layout;
  Bytes pixels;
};

Image DecodeAll(const Bytes& file, const DecodeOptions& options = {}) {
  Image image;
  Decode(file, options, [&](const Layout& l) {
    image.layout = l;
    image.pixels.resize(static_cast<size_t>(l.bytes()));
    return image.pixels.data();
  });
  return image;
}

TEST_F(CodecTest, PngComesBackAsItWas) {
  for (const int channels : {1, 3, 4}) {
    const Layout layout = {.height = 13, .width = 9, .channels = channels};
    const Bytes x = Waves(13, 9, channels);
    const Bytes file = Encode(x.data(), layout, ".png", {});
    const Image y = DecodeAll(file, {.channels = Channels::kAsStored});
    EXPECT_EQ(y.layout.channels, channels);
    EXPECT_EQ(y.pixels, x);
    EXPECT_EQ(ReadLayout(file).width, 9);
  }
}

// As much around a region is decoded as its pixels depend on.
TEST_F(CodecTest, RegionsHaveThePixelsOfTheWholeImage) {
  std::mt19937 random(3);
  for (const int channels : {1, 3}) {
    for (const auto& [height, width] : {std::pair{97, 131}, {64, 64}, {200, 33}}) {
      const Bytes x = Waves(height, width, channels);
      const Layout layout = {.height = height, .width = width, .channels = channels};
      for (const char* extension : {".jpg", ".png"}) {
        const Bytes file = Encode(x.data(), layout, extension, {.quality = 90});
        const Image whole = DecodeAll(file);
        for (int round = 0; round < 60; ++round) {
          DecodeOptions options;
          auto& r = options.region;
          r.width = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(width));
          r.height = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(height));
          r.x = static_cast<int64_t>(random() %
                                     static_cast<uint64_t>(width - r.width + 1));
          r.y = static_cast<int64_t>(random() %
                                     static_cast<uint64_t>(height - r.height + 1));
          const Image part = DecodeAll(file, options);
          ASSERT_EQ(part.layout.width, r.width);
          ASSERT_EQ(part.layout.height, r.height);
          for (int64_t i = 0; i < r.height; ++i) {
            ASSERT_EQ(
                std::memcmp(
                    &part.pixels[static_cast<size_t>(i * r.width * 3)],
                    &whole.pixels[static_cast<size_t>(((r.y + i) * width + r.x) * 3)],
                    static_cast<size_t>(r.width * 3)),
                0)
                << extension << " " << r.width << " x " << r.height << " at " << r.x
                << ", " << r.y << " row " << i;
          }
        }
      }
    }
  }
}

TEST_F(CodecTest, RegionsOutsideTheImageAreErrors) {
  const Bytes x = Waves(8, 8, 3);
  const Bytes file =
      Encode(x.data(), {.height = 8, .width = 8, .channels = 3}, ".jpg", {});
  DecodeOptions options;
  options.region = {.x = 4, .y = 0, .width = 5, .height = 8};
  EXPECT_THROW(DecodeAll(file, options), Error);
  options.region = {.x = -1, .y = 0, .width = 5, .height = 8};
  EXPECT_THROW(DecodeAll(file, options), Error);
}

TEST_F(CodecTest, JpegIsHalvedAsLongAsTheEdgeIsLongEnough) {
  const Bytes x = Waves(100, 160, 3);
  const Bytes file =
      Encode(x.data(), {.height = 100, .width = 160, .channels = 3}, ".jpg", {});
  for (const auto& [edge, height] : {std::pair{0, 100},
                                     {101, 100},
                                     {51, 100},
                                     {50, 50},
                                     {26, 50},
                                     {25, 25},
                                     {1, 13}})
    EXPECT_EQ(DecodeAll(file, {.shorter_edge = edge}).layout.height, height) << edge;
}

TEST_F(CodecTest, ImagesOverTheLimitAreNotDecoded) {
  const Bytes x = Waves(8, 8, 3);
  for (const char* extension : {".jpg", ".png"}) {
    const Bytes file =
        Encode(x.data(), {.height = 8, .width = 8, .channels = 3}, extension, {});
    EXPECT_EQ(DecodeAll(file, {.most_pixels = 64}).pixels.size(), 192u);
    EXPECT_THROW(DecodeAll(file, {.most_pixels = 63}), Error);
  }
}

TEST_F(CodecTest, FuzzedRegionsGivePixelsOrErrors) {
  std::mt19937 random(11);
  const Bytes x = Waves(60, 80, 3);
  const Bytes sound =
      Encode(x.data(), {.height = 60, .width = 80, .channels = 3}, ".jpg", {});
  for (int round = 0; round < 2000; ++round) {
    Bytes file = sound;
    for (int n = 0; n < 3; ++n)
      file[random() % file.size()] = static_cast<uint8_t>(random());
    DecodeOptions options;
    options.region = {.x = 20, .y = 30, .width = 25, .height = 20};
    try {
      DecodeAll(file, options);
    } catch (const Error&) {
    }
  }
}

TEST(Orient, AppliedTwiceOrWithItsInverseChangesNothing) {
  const Bytes x = Waves(5, 7, 3);
  constexpr int kInverse[9] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Bytes y(x.size()), z(x.size());
    Orient(x.data(), 5, 7, 3, orientation, y.data());
    const bool turned = Transposes(orientation);
    Orient(y.data(), turned ? 7 : 5, turned ? 5 : 7, 3, kInverse[orientation],
           z.data());
    EXPECT_EQ(z, x) << orientation;
    EXPECT_EQ(y == x, orientation == 1);
  }
}

TEST(Orient, DamagedExifDataMeansUpright) {
  std::mt19937 random(1);
  const std::string sound(
      "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 28);
  Bytes exif(sound.begin(), sound.end());
  EXPECT_EQ(ExifOrientation(exif), 6);
  for (size_t n = 0; n < exif.size() - 3; ++n)
    EXPECT_EQ(ExifOrientation(std::span(exif).first(n)), 1);
  for (int round = 0; round < 2000; ++round) {
    Bytes damaged = exif;
    damaged[6 + random() % (damaged.size() - 6)] = static_cast<uint8_t>(random());
    const int found = ExifOrientation(damaged);
    EXPECT_TRUE(found >= 1 && found <= 8);
  }
}

}  // namespace
}  // namespace plait::image
