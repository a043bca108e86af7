// Tests of sparse arrays: parts, checks, and memory that nobody gets.

#include "ndarray/sparse.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plait {
namespace {

NDArray Numbers(std::vector<int64_t> v) {
  return NDArray::FromHost(v.data(), Shape{static_cast<int64_t>(v.size())},
                           DType::kInt64);
}
NDArray Floats(std::vector<float> v, Shape shape) {
  return NDArray::FromHost(v.data(), shape, DType::kFloat32);
}
NDArray Csr() {
  return MakeSparse(
      {Storage::kCsr, Floats({1, 2}, Shape{2}), Numbers({0, 2}), Numbers({0, 1, 2})},
      Shape{2, 3});
}

TEST(Sparse, HasShapeAndPartsButNoMemory) {
  const NDArray x = Csr();
  EXPECT_TRUE(IsSparse(x));
  EXPECT_EQ(StorageOf(x), Storage::kCsr);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(Integers(PartsOf(x).indices), (std::vector<int64_t>{0, 2}));
  EXPECT_THROW(x.chunk(), Error);
  EXPECT_THROW(x.WaitToRead(), Error);
  EXPECT_FALSE(IsSparse(Floats({1}, Shape{1})));
}

TEST(Sparse, OtherPartsLeaveCopiesAlone) {
  const NDArray x = Csr();
  const SparseParts before = PartsOf(x);
  SparseParts after = before;
  after.indices = Numbers({1, 1});
  SetParts(x, after);
  EXPECT_EQ(Integers(PartsOf(x).indices), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(Integers(before.indices), (std::vector<int64_t>{0, 2}));
}

TEST(Sparse, RefusesPartsThatDoNotFit) {
  EXPECT_THROW(MakeSparse({Storage::kCsr, Floats({1}, Shape{1}), Numbers({0, 1}),
                           Numbers({0, 1})},
                          Shape{1, 3}),
               Error);
  EXPECT_THROW(
      MakeSparse({Storage::kRowSparse, Floats({1, 2}, Shape{1, 2}), Numbers({0}), {}},
                 Shape{4, 3}),
      Error);
  EXPECT_THROW(EmptySparse(Storage::kCsr, Shape{2}, DType::kFloat32), Error);
  EXPECT_THROW(EmptySparse(Storage::kRowSparse, Shape{}, DType::kFloat32), Error);
  SparseParts rows{Storage::kRowSparse, Floats({}, Shape{0, 3}), Numbers({}), {}};
  EXPECT_THROW(SetParts(Csr(), rows), Error);
}

TEST(Sparse, ChecksAsStrictlyAsAskedFor) {
  const auto make = [](std::vector<int64_t> indices, std::vector<int64_t> indptr) {
    return MakeSparse(
        {Storage::kCsr, Floats({1, 2}, Shape{2}), Numbers(indices), Numbers(indptr)},
        Shape{2, 3});
  };
  EXPECT_NO_THROW(CheckFormat(make({0, 2}, {0, 1, 2}), Strictness::kOrdered));
  const NDArray unsorted = make({2, 0}, {0, 2, 2});
  EXPECT_NO_THROW(CheckFormat(unsorted, Strictness::kInRange));
  EXPECT_THROW(CheckFormat(unsorted, Strictness::kOrdered), Error);
  const NDArray far = make({0, 3}, {0, 1, 2});
  EXPECT_NO_THROW(CheckFormat(far, Strictness::kEnds));
  EXPECT_THROW(CheckFormat(far, Strictness::kInRange), Error);
  EXPECT_THROW(CheckFormat(make({0, 1}, {0, 3, 2}), Strictness::kInRange), Error);
  EXPECT_THROW(CheckFormat(make({0, 1}, {0, -1, 2}), Strictness::kInRange), Error);
  EXPECT_THROW(CheckFormat(make({0, 1}, {1, 1, 2}), Strictness::kEnds), Error);
}

}  // namespace
}  // namespace plait
