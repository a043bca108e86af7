// Record files: round trips, damage, fuzzed bytes, sizes over 4 GiB.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/testing.h"
#include "data/record_index.h"
#include "data/record_reader.h"
#include "data/record_writer.h"

namespace plait::data {
namespace {

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() { path_ = TestFile("records.rec"); }
  ~RecordTest() override { std::remove(path_.c_str()); }

  void WriteRecords(const std::vector<std::string>& records,
                    RecordWriter::Mode mode = RecordWriter::Mode::kNew) {
    RecordWriter writer(path_, mode);
    for (const std::string& r : records) writer.Write(r);
    writer.Close();
  }
  std::vector<std::string> ReadRecords() {
    RecordReader reader(path_);
    std::vector<std::string> records;
    while (const auto r = reader.Next()) records.emplace_back(r->data(), r->size());
    return records;
  }
  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  // What reading all records says.
  std::string ErrorOfReading() {
    try {
      ReadRecords();
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kIo);
      return e.what();
    }
  }

  std::string path_;
};

std::string Magic() {
  return {reinterpret_cast<const char*>(&kRecordMagic), 4};
}

// Records of many sizes; with the magic at many places.
std::vector<std::string> Varied() {
  std::vector<std::string> records = {"", "a", "four", "eight by",
                                      std::string(300, 'x')};
  for (size_t before = 0; before < 9; ++before) {
    for (size_t after = 0; after < 6; ++after)
      records.push_back(std::string(before, 'b') + Magic() + std::string(after, 'a'));
  }
  records.push_back(Magic());
  records.push_back(Magic() + Magic() + Magic());
  records.push_back(std::string(700000, 'y') + Magic() + std::string(1 << 20, 'z') +
                    Magic() + "end");
  records.push_back("last");
  return records;
}

TEST_F(RecordTest, ComesBackAsItWasWritten) {
  WriteRecords(Varied());
  EXPECT_EQ(ReadRecords(), Varied());
  // The same by offsets, last one first, and into the caller's memory.
  const RandomFile file(path_);
  const std::vector<uint64_t> offsets = ScanRecords(file, 0, file.size());
  ASSERT_EQ(offsets.size(), Varied().size());
  RecordReader reader(path_);
  for (size_t i = offsets.size(); i-- > 0;) {
    reader.Seek(offsets[i]);
    std::string record(reader.NextSize().value(), '\0');
    reader.Take(record.data());
    EXPECT_EQ(record, Varied()[i]) << i;
    if (i + 1 < offsets.size()) {
      EXPECT_EQ(reader.offset(), offsets[i + 1]);
    }
  }
}

TEST_F(RecordTest, HasTheBytesOfTheFormat) {
  WriteRecords({"hello", "abcd" + Magic() + "x"});
  const std::string expected(
      "\x0a\x23\xd7\xce\x05\0\0\0hello\0\0\0"
      "\x0a\x23\xd7\xce\x04\0\0\x20"
      "abcd"
      "\x0a\x23\xd7\xce\x01\0\0\x60x\0\0\0",
      16 + 12 + 12);
  EXPECT_EQ(Bytes(), expected);
}

TEST_F(RecordTest, IsAppendedTo) {
  WriteRecords({"one"});
  WriteRecords({"two", "three"}, RecordWriter::Mode::kAppend);
  EXPECT_EQ(ReadRecords(), (std::vector<std::string>{"one", "two", "three"}));
  SetBytes("abc");
  EXPECT_THROW(WriteRecords({"x"}, RecordWriter::Mode::kAppend), Error);
}

TEST_F(RecordTest, OfNoBytesHasNoRecords) {
  SetBytes("");
  EXPECT_TRUE(ReadRecords().empty());
}

TEST_F(RecordTest, ThatIsATextFileIsAnErrorWithThePlace) {
  SetBytes("this is a text file, and no records are in it\n");
  const std::string error = ErrorOfReading();
  EXPECT_NE(error.find(path_ + ": at offset 0 (record 0): no record begins here"),
            std::string::npos)
      << error;
}

TEST_F(RecordTest, DamageNamesOffsetAndRecordAndCanBePassed) {
  std::vector<std::string> records;
  for (int i = 0; i < 10; ++i) records.push_back("record " + std::to_string(i));
  WriteRecords(records);
  std::string bytes = Bytes();
  bytes[5 * 16] ^= 1;  // the magic of record 5
  SetBytes(bytes);
  EXPECT_NE(ErrorOfReading().find("at offset 80 (record 5)"), std::string::npos);
  RecordReader reader(path_);
  int sound = 0, damaged = 0;
  while (true) {
    try {
      if (!reader.Next()) break;
      ++sound;
    } catch (const Error&) {
      ++damaged;
      if (!reader.Recover()) break;
    }
  }
  EXPECT_EQ(sound, 9);
  EXPECT_EQ(damaged, 1);
}

TEST_F(RecordTest, ThatIsCutOffIsAnErrorAtEveryLength) {
  WriteRecords({"abcd" + Magic() + "defgh"});
  const std::string bytes = Bytes();
  for (size_t n = 1; n < bytes.size() - 3; ++n) {
    SetBytes(bytes.substr(0, n));
    EXPECT_NE(ErrorOfReading(), "") << n;
    const RandomFile file(path_);
    EXPECT_THROW(ScanRecords(file, 0, n), Error) << n;
  }
  SetBytes(bytes.substr(0, bytes.size() - 3));  // only the zeros are missing
  EXPECT_EQ(ErrorOfReading(), "");
}

TEST_F(RecordTest, OffsetsBehindTheEndAreErrors) {
  WriteRecords({"one"});
  RecordReader reader(path_);
  for (const uint64_t offset : {uint64_t{1000}, uint64_t{1} << 62, ~uint64_t{7}}) {
    reader.Seek(offset);
    EXPECT_THROW(reader.Next(), Error) << offset;
  }
  reader.Seek(0);
  EXPECT_TRUE(reader.Next());
}

TEST_F(RecordTest, PartsOfAFileCoverEachRecordOnce) {
  std::vector<std::string> records = Varied();
  WriteRecords(records);
  const RandomFile file(path_);
  const std::vector<uint64_t> all = ScanRecords(file, 0, file.size());
  for (const uint64_t parts : {2, 3, 7, 100, 1000}) {
    std::vector<uint64_t> found;
    for (uint64_t part = 0; part < parts; ++part) {
      const auto some = ScanRecords(file, file.size() * part / parts,
                                    file.size() * (part + 1) / parts);
      found.insert(found.end(), some.begin(), some.end());
    }
    EXPECT_EQ(found, all) << parts;
  }
}

TEST_F(RecordTest, MayLieBehindFourGibibytes) {
  constexpr uint64_t kFar = (uint64_t{5} << 30) + 16;
  {
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(kFar)), 0);  // a hole
    ::close(fd);
  }
  {
    RecordWriter writer(path_, RecordWriter::Mode::kAppend);
    EXPECT_EQ(writer.offset(), kFar);
    writer.Write(std::string_view("far away"));
    writer.Close();
  }
  RecordReader reader(path_);
  reader.Seek(kFar);
  const auto record = reader.Next();
  ASSERT_TRUE(record);
  EXPECT_EQ(std::string(record->data(), record->size()), "far away");
  EXPECT_FALSE(reader.Next());
}

TEST_F(RecordTest, FuzzedBytesGiveRecordsOrErrors) {
  std::mt19937 random(7);
  std::vector<std::string> records = Varied();
  records.erase(records.end() - 2);  // the long one
  WriteRecords(records);
  const std::string sound = Bytes();
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = sound;
    for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] ^= static_cast<char>(1 << random() % 8);
          break;
        case 1:
          bytes[at] = static_cast<char>(random());
          break;
        case 2:
          bytes.erase(at, random() % 9);
          break;
        case 3:
          bytes.insert(at, Magic());
      }
    }
    SetBytes(bytes);
    RecordReader reader(path_);
    uint64_t before = 0;
    for (int steps = 0; steps < 1000; ++steps) {
      try {
        if (!reader.Next()) break;
      } catch (const Error&) {
        if (!reader.Recover()) break;
      }
      EXPECT_GT(reader.offset(), before);
      before = reader.offset();
    }
    const RandomFile file(path_);
    int64_t skipped = 0;
    for (const uint64_t at : ScanRecords(file, 0, file.size(), &skipped)) {
      reader.Seek(at);
      EXPECT_TRUE(reader.Next());
    }
  }
}

TEST_F(RecordTest, IndexFindsKeysInAnyOrder) {
  SetBytes("3\t30\n1\t10\r\n 2 \t20\n\n1\t11");
  const RecordIndex index(path_);
  EXPECT_EQ(index.keys(), (std::vector<int64_t>{3, 1, 2, 1}));
  EXPECT_EQ(index.Find(1), 11u);
  EXPECT_EQ(index.Find(2), 20u);
  EXPECT_EQ(index.Find(3), 30u);
  EXPECT_EQ(index.Find(4), std::nullopt);
  SetBytes("5\t0\n6\t16\n9\t32\n");
  const RecordIndex gaps(path_);
  EXPECT_EQ(gaps.Find(9), 32u);
  EXPECT_EQ(gaps.Find(7), std::nullopt);
  EXPECT_EQ(gaps.Find(-5), std::nullopt);
}

TEST_F(RecordTest, IndexErrorsNameTheLine) {
  for (const char* bad : {"1\t0\nx\t3\n", "1\t0\n2\n", "1\t0\n2\t-4\n",
                          "1\t0\n2\t4\t5\n", "1\t0\n99999999999999999999\t5\n"}) {
    SetBytes(bad);
    try {
      RecordIndex index(path_);
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(path_ + ": line 2"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plait::data
