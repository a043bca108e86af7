// Blocked arrays for tests, from and to plain ones.

#ifndef PLAIT_CPU_BLOCKED_FOR_TEST_H_
#define PLAIT_CPU_BLOCKED_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cpu/blocked.h"
#include "cpu/conv.h"

namespace plait::cpu {

// Blocked arrays, on buffers that begin with no more alignment than a float has.
class Blocked {
 public:
  Blocked(int64_t n, int64_t channels, int64_t h, int64_t w)
      : b_(FloatLanes()),
        n_(n),
        channels_(channels),
        blocks_((channels + b_ - 1) / b_),
        size_(h * w),
        data_(static_cast<size_t>(n * blocks_ * size_ * b_ + 1)) {}
  Blocked(int64_t n, int64_t channels, int64_t h, int64_t w,
          const std::vector<float>& plain)
      : Blocked(n, channels, h, w) {
    for (int64_t i = 0; i < n * channels * size_; ++i) {
      data()[At(i / size_ / channels, i / size_ % channels, i % size_)] = plain[i];
    }
  }
  float* data() { return data_.data() + 1; }
  const float* data() const { return data_.data() + 1; }
  void Fill(float value) { std::fill(data_.begin(), data_.end(), value); }

  size_t Bytes() const { return (data_.size() - 1) * sizeof(float); }
  std::vector<float> Plain() const { return Plain(data()); }
  // Of another array of this one's shape.
  std::vector<float> Plain(const float* blocked) const {
    std::vector<float> plain(static_cast<size_t>(n_ * channels_ * size_));
    for (size_t i = 0; i < plain.size(); ++i) {
      const int64_t k = static_cast<int64_t>(i);
      plain[i] = blocked[At(k / size_ / channels_, k / size_ % channels_, k % size_)];
    }
    return plain;
  }
  void ExpectZerosBeyondTheChannels() const {
    for (int64_t n = 0; n < n_; ++n)
      for (int64_t c = channels_; c < blocks_ * b_; ++c)
        for (int64_t i = 0; i < size_; ++i) ASSERT_EQ(data()[At(n, c, i)], 0) << c;
  }
  bool operator==(const Blocked& other) const {
    return std::equal(data(), data() + Bytes() / sizeof(float), other.data());
  }

 private:
  int64_t At(int64_t n, int64_t c, int64_t i) const {
    return ((n * blocks_ + c / b_) * size_ + i) * b_ + c % b_;
  }
  int64_t b_, n_, channels_, blocks_, size_;
  std::vector<float> data_;
};

inline Blocked BlockedX(const ConvProblem& p, const std::vector<float>& plain) {
  return {p.batch, p.in_channels, p.in[1], p.in[2], plain};
}
inline Blocked BlockedY(const ConvProblem& p, const std::vector<float>& plain) {
  return {p.batch, p.out_channels, p.Out(1), p.Out(2), plain};
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_FOR_TEST_H_
