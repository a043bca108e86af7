// Tests of LibSVM files.

#include "data/libsvm.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/testing.h"

namespace plait {
namespace {

class LibSvm : public testing::Test {
 protected:
  void Write(const std::string& text) {
    path_ = TestFile("rows.txt");
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~LibSvm() override { std::remove(path_.c_str()); }

  std::string Complaint(const std::string& text) {
    Write(text);
    try {
      ReadLibSvm(path_, 4, 0, 1);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::string path_;
};

TEST_F(LibSvm, ReadsLabelsAndPairs) {
  Write("1 0:0.5 2:+1.5e1\r\n\n# a comment\n-2\n3:9 1 3:-1 # end\n4 3:1e-60");
  const LibSvmRows rows = ReadLibSvm(path_, 4, 0, 1);
  EXPECT_EQ(rows.labels, (std::vector<float>{1, -2, 3, 4}));
  EXPECT_EQ(rows.bounds, (std::vector<int64_t>{0, 2, 2, 4, 5}));
  EXPECT_EQ(rows.columns, (std::vector<int64_t>{0, 2, 1, 3, 3}));
  EXPECT_EQ(rows.values, (std::vector<float>{0.5f, 15, 1, -1, 0}));
}

TEST_F(LibSvm, PartsHaveEveryLineOnce) {
  std::string text;
  for (int i = 0; i < 57; ++i)
    text += std::to_string(i) + " 1:" + std::string(i % 7, '0') + "2\n";
  Write(text);
  for (int parts : {1, 2, 3, 5, 57, 200}) {
    std::vector<float> labels;
    for (int k = 0; k < parts; ++k) {
      const LibSvmRows rows = ReadLibSvm(path_, 4, k, parts);
      labels.insert(labels.end(), rows.labels.begin(), rows.labels.end());
    }
    ASSERT_EQ(labels.size(), 57u) << parts;
    for (int i = 0; i < 57; ++i) EXPECT_EQ(labels[i], i);
  }
}

TEST_F(LibSvm, RefusesWhatIsNoSuchFile) {
  EXPECT_NE(Complaint("1 -1:2").find("at byte 2 column -1"), std::string::npos);
  EXPECT_NE(Complaint("1 4:2").find("column 4"), std::string::npos);
  EXPECT_NE(Complaint("1 2:2 1:3").find("column 1 follows 2"), std::string::npos);
  EXPECT_NE(Complaint("1 2:2 2:3").find("column 2 follows 2"), std::string::npos);
  EXPECT_NE(Complaint("abc").find("'abc' is no label"), std::string::npos);
  EXPECT_NE(Complaint("1 2:x").find("is no value"), std::string::npos);
  EXPECT_NE(Complaint("1 2:").find("is no value"), std::string::npos);
  EXPECT_NE(Complaint("1 2:3x").find("follows a number"), std::string::npos);
  EXPECT_NE(Complaint("1 99999999999999999999:3").find("is no column"),
            std::string::npos);
  EXPECT_THROW(ReadLibSvm("/nonexistent/file", 4, 0, 1), Error);
  EXPECT_THROW(ReadLibSvm(path_, 4, 2, 2), Error);
}

TEST_F(LibSvm, AnEmptyFileHasNoRows) {
  Write("");
  EXPECT_EQ(ReadLibSvm(path_, 4, 0, 1).labels.size(), 0u);
}

}  // namespace
}  // namespace plait
