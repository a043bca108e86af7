// Sums over devices: every length and place, and several keys in one operation.

#include "kvstore/device_sums.h"

#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

NDArray Counted(int64_t n, float from) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = from + static_cast<float>(i % 1000);
  return NDArray::FromHost(values.data(), {n}, DType::kFloat32);
}

std::vector<float> FloatsOf(const NDArray& x) {
  std::vector<float> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

std::vector<double> DoublesOf(const NDArray& x) {
  if (x.dtype() == DType::kFloat32) {
    const std::vector<float> floats = FloatsOf(x);
    return {floats.begin(), floats.end()};
  }
  std::vector<double> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

TEST(DeviceSums, AddUpArraysOfAnyLengthAtAnyPlace) {
  for (int64_t n : {1, 7, 8191, 65535, 65536, 65537, 300001}) {
    for (int64_t first : {0, 1, 3, 15}) {
      DeviceSums sums;
      std::vector<NDArray> arrays;
      for (int d = 0; d < 3; ++d)
        arrays.push_back(Counted(n + 5, static_cast<float>(d)).View({n}, d));
      const NDArray whole = Counted(n + 16, -1);
      sums.Add(arrays, whole.View({n}, first));
      sums.Flush();
      const std::vector<float> found = FloatsOf(whole),
                               old = FloatsOf(Counted(n + 16, -1));
      for (int64_t i = 0; i < n + 16; ++i) {
        const auto at = static_cast<size_t>(i);
        const int64_t k = i - first;
        float wanted = old[at];
        if (k >= 0 && k < n) {
          wanted = 0;
          for (int64_t d = 0; d < 3; ++d)
            wanted += static_cast<float>(d) + static_cast<float>((k + d) % 1000);
        }
        ASSERT_EQ(found[at], wanted)
            << n << " elements at " << first << ", place " << i;
      }
    }
  }
}

TEST(DeviceSums, TakeManyKeysTogetherAndOtherDtypesToo) {
  DeviceSums sums;
  std::vector<NDArray> results;
  for (int64_t key = 0; key < 40; ++key) {
    const int64_t n = key % 3 == 0 ? 100000 : key;
    const DType dtype = key % 7 == 0 ? DType::kFloat64 : DType::kFloat32;
    std::vector<NDArray> arrays;
    for (int d = 0; d < 4; ++d) {
      const std::vector<double> values(static_cast<size_t>(n),
                                       static_cast<double>(key + d));
      const std::vector<float> floats(values.begin(), values.end());
      arrays.push_back(dtype == DType::kFloat64
                           ? NDArray::FromHost(values.data(), {n}, dtype)
                           : NDArray::FromHost(floats.data(), {n}, dtype));
    }
    results.push_back(NDArray::Empty({n}, dtype));
    sums.Add(arrays, results.back());
  }
  sums.Flush();
  sums.Flush();  // nothing is left
  for (int64_t key = 0; key < 40; ++key) {
    const std::vector<double> found = DoublesOf(results[static_cast<size_t>(key)]);
    EXPECT_EQ(found,
              std::vector<double>(found.size(), static_cast<double>(4 * key + 6)));
  }
}

}  // namespace
}  // namespace plait
