// ImageLoader: order, threads, positions, broken records, by random use of all of them.

#include "data/image_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/testing.h"
#include "data/record_writer.h"

namespace plait::data {
namespace {

class ImageLoaderTest : public ::testing::Test {
 protected:
  ImageLoaderTest() { path_ = TestFile("images.rec"); }
  ~ImageLoaderTest() override { std::remove(path_.c_str()); }

  void SetUp() override {
    if (!image::HasCodec("PNG")) GTEST_SKIP() << "the codec for PNG is missing";
  }

  // Record i has an image of the value i and the label i, or no image.
  void Write(int count, const std::vector<int>& broken = {}) {
    RecordWriter writer(path_, RecordWriter::Mode::kNew);
    for (int i = 0; i < count; ++i) {
      const std::vector<uint8_t> pixels(8 * 8 * 3, static_cast<uint8_t>(i));
      std::vector<uint8_t> file = image::Encode(
          pixels.data(), {.height = 8, .width = 8, .channels = 3}, ".png", {});
      if (std::find(broken.begin(), broken.end(), i) != broken.end()) file.resize(40);
      std::string record(24, '\0');
      const auto label = static_cast<float>(i);
      const auto id = static_cast<uint64_t>(i);
      std::memcpy(record.data() + 4, &label, 4);
      std::memcpy(record.data() + 8, &id, 8);
      record.append(file.begin(), file.end());
      writer.Write(record);
    }
    writer.Close();
  }

  LoaderOptions Options() const {
    LoaderOptions o;
    o.records.records = path_;
    o.augment.height = o.augment.width = 8;
    o.batch_size = 4;
    o.dtype = DType::kUint8;
    o.threads = 3;
    return o;
  }

  std::string path_;
};

// The numbers of a batch, which its pixels and labels confirm.
std::vector<int> Rows(const ImageBatch& batch) {
  std::vector<int> rows;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const int number = static_cast<int>(batch.ids[i]);
    EXPECT_EQ(batch.data.data<uint8_t>()[i * 192 + 191], number);
    EXPECT_EQ(batch.label.data<float>()[i], number);
    rows.push_back(number);
  }
  return rows;
}

std::vector<int> Epoch(ImageLoader& loader) {
  std::vector<int> all;
  while (const auto batch = loader.Next()) {
    const std::vector<int> rows = Rows(*batch);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST_F(ImageLoaderTest, GivesEachRecordOnceInAPass) {
  Write(23);
  for (const int threads : {1, 2, 7}) {
    LoaderOptions o = Options();
    o.threads = threads;
    o.shuffle = true;
    ImageLoader loader(o);
    std::vector<int> stream;
    for (int epoch = 0; epoch < 4; ++epoch) {
      const std::vector<int> rows = Epoch(loader);
      stream.insert(stream.end(), rows.begin(), rows.end());
      EXPECT_FALSE(loader.Next());
      loader.Reset();
    }
    for (size_t pass = 0; pass + 1 < stream.size() / 23; ++pass) {
      std::vector<int> rows(stream.begin() + static_cast<int64_t>(23 * pass),
                            stream.begin() + static_cast<int64_t>(23 * pass + 23));
      std::sort(rows.begin(), rows.end());
      for (int i = 0; i < 23; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)], i);
    }
  }
}

// Whatever is done before, a position gives the batches of a loader that did nothing.
TEST_F(ImageLoaderTest, RandomUseEndsAtTheSameBatches) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    const int count = 5 + static_cast<int>(random() % 30);
    std::vector<int> broken;
    if (round % 2 == 0) {
      for (int i = 0; i < 3; ++i)
        broken.push_back(static_cast<int>(random() % static_cast<unsigned>(count)));
    }
    Write(count, broken);
    LoaderOptions o = Options();
    o.shuffle = random() % 2 == 0;
    o.round_batch = random() % 2 == 0;
    o.skip_broken = true;
    o.seed = random();
    o.threads = 1 + static_cast<int>(random() % 4);
    o.prefetch = 1 + static_cast<int>(random() % 4);
    ImageLoader loader(o);
    for (int step = 0; step < 25; ++step) {
      switch (random() % 8) {
        case 0:
          loader.Reset();
          break;
        case 1:
          loader.Seek({random() % 3, random() % static_cast<unsigned>(count), false});
          break;
        default:
          if (!loader.Next()) loader.Reset();
      }
    }
    LoaderOptions plain = o;
    plain.threads = 1;
    plain.prefetch = 1;
    ImageLoader other(plain);
    other.Seek(loader.position());
    for (int step = 0; step < 10; ++step) {
      const auto a = loader.Next(), b = other.Next();
      ASSERT_EQ(a.has_value(), b.has_value()) << "round " << round;
      if (a) {
        EXPECT_EQ(a->ids, b->ids);
        EXPECT_EQ(a->pad, b->pad);
        if (o.round_batch) Rows(*a);
      } else {
        loader.Reset();
        other.Reset();
      }
    }
  }
}

TEST_F(ImageLoaderTest, MayEndAtAnyTime) {
  Write(40);
  for (int taken = 0; taken < 12; ++taken) {
    LoaderOptions o = Options();
    o.threads = 4;
    ImageLoader loader(o);
    for (int i = 0; i < taken; ++i) loader.Next();
  }
}

TEST_F(ImageLoaderTest, ErrorsComeInTheOrderOfBatches) {
  Write(12, {5, 6, 9});
  ImageLoader loader(Options());
  EXPECT_EQ(Rows(*loader.Next()), (std::vector<int>{0, 1, 2, 3}));
  for (const char* image : {"image 5:", "image 9:"}) {
    try {
      loader.Next();
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(image), std::string::npos) << e.what();
    }
  }
  EXPECT_FALSE(loader.Next());
}

TEST_F(ImageLoaderTest, HoldsNoMoreBatchesThanItMay) {
  Write(40);
  LoaderOptions o = Options();
  o.prefetch = 100;
  o.prefetch_bytes = 3 * 4 * 192;  // three batches
  const size_t before = memory::GetStats(Device()).live;
  ImageLoader loader(o);
  ::usleep(50000);
  EXPECT_LE(memory::GetStats(Device()).live - before, size_t{3 * (4 * 192 + 512)});
  EXPECT_EQ(Epoch(loader).size(), 40u);
}

}  // namespace
}  // namespace plait::data
