// SampleMaker, GatherRows and BoxLabels: hand-made cases, and random steps on damaged
// images.

#include "data/sample_maker.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/testing.h"
#include "data/detection.h"

namespace plait::data {
namespace {

using Kind = PixelStep::Kind;

NDArray Bytes(const Shape& shape) {
  NDArray array = NDArray::Empty(shape, DType::kUint8);
  for (int64_t i = 0; i < array.size(); ++i)
    array.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  return array;
}

TEST(SampleMaker, WritesPlanesOfNormalisedFloats) {
  const NDArray rows = Bytes({3, 2, 4, 3});
  SampleOptions o;
  o.to_tensor = o.normalises = true;
  o.mean = {0.5f};
  o.std = {0.1f, 0.2f, 0.4f};
  o.dtype = DType::kFloat32;
  const NDArray batch = SampleMaker(o).FromRows(rows, {2, 0}, {});
  ASSERT_EQ(batch.shape(), Shape({2, 3, 2, 4}));
  for (int64_t c = 0; c < 3; ++c) {
    const uint8_t x = rows.data<uint8_t>()[2 * 24 + 1 * 12 + 3 * 3 + c];
    EXPECT_EQ(batch.data<float>()[c * 8 + 7],
              (static_cast<float>(x) / 255.0f - 0.5f) / o.std[static_cast<size_t>(c)]);
  }
}

TEST(SampleMaker, DependsOnThePlaceAlone) {
  const NDArray rows = Bytes({9, 20, 30, 3});
  SampleOptions o;
  o.steps = {{.kind = Kind::kRandomResizedCrop,
              .width = 8,
              .height = 6,
              .interpolation = 10,
              .min_area = 0.1,
              .max_area = 1,
              .min_log_ratio = -0.3,
              .max_log_ratio = 0.3},
             {.kind = Kind::kFlipLeftRight},
             {.kind = Kind::kFlipTopBottom}};
  const SampleMaker maker(o);
  const NDArray whole = maker.FromRows(rows, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 0});
  const NDArray end = maker.FromRows(rows, {5, 6, 7, 8}, {1, 2, 5});
  const int64_t size = 8 * 6 * 3;
  EXPECT_EQ(
      std::memcmp(whole.data<uint8_t>() + 5 * size, end.data<uint8_t>(), 4 * size), 0);
  const NDArray other = maker.FromRows(rows, {5, 6, 7, 8}, {1, 3, 5});
  EXPECT_NE(std::memcmp(other.data<uint8_t>(), end.data<uint8_t>(), 4 * size), 0);
}

TEST(SampleMaker, WrongOptionsAreErrors) {
  SampleOptions o;
  o.dtype = DType::kInt64;
  EXPECT_THROW(SampleMaker{o}, Error);
  o.dtype = DType::kInt32;
  o.to_tensor = true;
  EXPECT_THROW(SampleMaker{o}, Error);
  o = {};
  o.flag = 2;
  EXPECT_THROW(SampleMaker{o}, Error);
  o = {};
  o.steps = {{.kind = Kind::kCrop, .x = 3, .part_width = 2, .part_height = 2}};
  EXPECT_THROW(SampleMaker(o).FromRows(Bytes({1, 4, 4, 3}), {0}, {}), Error);
  EXPECT_THROW(SampleMaker({}).FromFiles({"/no/such/file"}, {}), Error);
}

// Random steps on damaged files give batches or errors.
TEST(SampleMaker, FuzzedFilesGiveBatchesOrErrors) {
  if (!image::HasCodec("JPEG") || !image::HasCodec("PNG")) GTEST_SKIP();
  const std::string path = TestFile("image");
  std::mt19937 random(5);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const NDArray pixels = Bytes({25, 31, 3});
  int sound = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<uint8_t> file =
        image::Encode(pixels.data(), {.height = 25, .width = 31, .channels = 3},
                      i % 2 == 0 ? ".jpg" : ".png", {.quality = 80});
    for (int64_t n = draw(0, 3); n > 0; --n)
      file[static_cast<size_t>(draw(0, static_cast<int64_t>(file.size()) - 1))] ^=
          static_cast<uint8_t>(1 << draw(0, 7));
    if (draw(0, 4) == 0) file.resize(static_cast<size_t>(draw(0, 400)));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
    SampleOptions o;
    for (int64_t n = draw(0, 3); n > 0; --n) {
      o.steps.push_back({.kind = static_cast<Kind>(draw(0, 5)),
                         .x = draw(0, 9),
                         .y = draw(0, 9),
                         .part_width = draw(1, 20),
                         .part_height = draw(1, 20),
                         .width = draw(1, 40),
                         .height = draw(1, 40),
                         .keep_ratio = draw(0, 1) == 1,
                         .interpolation = static_cast<int>(draw(0, 4)),
                         .antialias = draw(0, 1) == 1,
                         .min_area = 0.05,
                         .max_area = 1,
                         .min_log_ratio = -1,
                         .max_log_ratio = 1});
    }
    o.to_tensor = draw(0, 1) == 1;
    if (o.to_tensor) o.dtype = DType::kFloat16;
    try {
      const NDArray batch =
          SampleMaker(o).FromFiles({path}, {static_cast<uint64_t>(i), 0, 0});
      sound += batch ? 1 : 0;
    } catch (const Error&) {
    }
  }
  std::remove(path.c_str());
  EXPECT_GT(sound, 30);
}

TEST(GatherRows, CopiesRowsAndRefusesOthers) {
  const NDArray array = Bytes({5, 3});
  const std::vector<int64_t> rows = {4, 0, 1, 2, 2};
  const NDArray batch = GatherRows(array, rows);
  ASSERT_EQ(batch.shape(), Shape({5, 3}));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::memcmp(batch.data<uint8_t>() + i * 3,
                          array.data<uint8_t>() + rows[i] * 3, 3),
              0);
  }
  EXPECT_EQ(GatherRows(array, {}).shape(), Shape({0, 3}));
  EXPECT_THROW(GatherRows(array, std::vector<int64_t>{5}), Error);
  EXPECT_THROW(GatherRows(array, std::vector<int64_t>{-1}), Error);
  EXPECT_THROW(GatherRows(NDArray(), {}), Error);
}

TEST(BoxLabels, FollowMirrorsAndCrops) {
  const std::vector<float> labels = {2,    5, 7,     0.25f, 0.25f, 0.5f,
                                     0.5f, 8, 0.75f, 0.75f, 1,     1};
  BoxLabels boxes(labels);
  boxes.Mirror();
  EXPECT_EQ(boxes.ToArray()[3], 0.5f);
  EXPECT_EQ(boxes.ToArray()[5], 0.75f);
  ASSERT_TRUE(boxes.Crop({0.5f, 0, 0.5f, 0.5f}, {}, {}));
  EXPECT_EQ(boxes.ToArray(), (std::vector<float>{2, 5, 7, 0, 0.5f, 0.5f, 1}));
  const CropSampler strict = {.min_overlap = 0.9};
  EXPECT_FALSE(boxes.Crop({0, 0, 0.5f, 0.5f}, strict, {}));
  EXPECT_FALSE(boxes.Crop({0.6f, 0, 0.4f, 0.4f}, {}, {}));  // nothing is left
  EXPECT_EQ(boxes.ToArray().size(), 7u);
}

}  // namespace
}  // namespace plait::data
