// Resizing bytes. Weights are whole numbers of 11 bits, but for cubic: OpenCV's
// results.
//
// A row of x that the result needs is stretched once, into a ring of as many rows as a
// sample has taps; what the result does not need is never touched.

#if defined(__SSE2__)  // of every x86-64
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "image/resize_taps.h"

namespace plait::image {
namespace {

constexpr int kBits = 11;

std::vector<int32_t> Fixed(const Taps& taps) {
  std::vector<int32_t> weights;
  weights.reserve(taps.weight.size());
  for (const float w : taps.weight)
    weights.push_back(static_cast<int32_t>(std::lrint(w * (1 << kBits))));
  return weights;
}

// A stretched sample. Of two taps the four lowest bits do not count, and 15 are left.
template <int kTaps>
using Stretched = std::conditional_t<kTaps == 2, int16_t, int32_t>;

// How many samples after the last one of a row may be written.
constexpr int64_t kRoom = 8;

#if defined(__SSE2__)
// The first samples of a row of three channels, a pixel at a time; returns how many.
// `end`: how many bytes of x may be read.
int64_t StretchColours(const uint8_t* x, const int32_t* at, const int32_t* weight,
                       int64_t n, int64_t end, int16_t* y) {
  const auto load = [x](int32_t from) {
    int32_t word;
    std::memcpy(&word, x + from, sizeof(word));
    return _mm_cvtsi32_si128(word);
  };
  int64_t i = 0;
  for (; i < n && std::max(at[0], at[1]) + 4 <= end;
       ++i, at += 2, weight += 2, y += 3) {
    const __m128i both = _mm_unpacklo_epi8(load(at[0]), load(at[1]));
    const __m128i pairs = _mm_unpacklo_epi8(both, _mm_setzero_si128());
    const __m128i weights = _mm_set1_epi32(weight[0] | weight[1] << 16);
    const __m128i sums = _mm_srai_epi32(_mm_madd_epi16(pairs, weights), 4);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), _mm_packs_epi32(sums, sums));
  }
  return i;
}
#endif

// One row of x, stretched: kChannels 0: any number of them.
template <int kTaps, int kChannels>
void Stretch(const uint8_t* x, const int32_t* at, const int32_t* weight, int64_t n,
             int64_t any_channels, int64_t end, Stretched<kTaps>* y) {
  const int64_t channels = kChannels == 0 ? any_channels : kChannels;
  int64_t first = 0;
#if defined(__SSE2__)
  if constexpr (kTaps == 2 && kChannels == 3)
    first = StretchColours(x, at, weight, n, end, y);
#else
  (void)end;
#endif
  for (int64_t i = first; i < n; ++i) {
    const int32_t *const from = at + i * kTaps, *const w = weight + i * kTaps;
    for (int64_t c = 0; c < channels; ++c) {
      int32_t sum = 0;
      for (int k = 0; k < kTaps; ++k) sum += w[k] * x[from[k] + c];
      if constexpr (kTaps == 2) sum >>= 4;
      y[i * channels + c] = static_cast<Stretched<kTaps>>(sum);
    }
  }
}

template <int kTaps>
void Sum(const Stretched<kTaps>* const* rows, const int32_t* weight, int64_t n,
         uint8_t* y) {
  if constexpr (kTaps == 2) {
    const int16_t *const a = rows[0], *const b = rows[1];
    const auto wa = static_cast<int16_t>(weight[0]),
               wb = static_cast<int16_t>(weight[1]);
    int64_t i = 0;
#if defined(__SSE2__)
    const __m128i was = _mm_set1_epi16(wa), wbs = _mm_set1_epi16(wb);
    const auto at = [](const int16_t* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    };
    for (; i + 8 <= n; i += 8) {
      __m128i sum = _mm_add_epi16(_mm_mulhi_epi16(was, at(a + i)),
                                  _mm_mulhi_epi16(wbs, at(b + i)));
      sum = _mm_srai_epi16(_mm_add_epi16(sum, _mm_set1_epi16(2)), 2);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(y + i), _mm_packus_epi16(sum, sum));
    }
#endif
    for (; i < n; ++i) {
      const int32_t sum = (wa * a[i] >> 16) + (wb * b[i] >> 16);
      y[i] = static_cast<uint8_t>((sum + 2) >> 2);
    }
  } else {
    // Products have 30 bits and more where a kernel overshoots.
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int k = 0; k < kTaps; ++k)
        sum += static_cast<float>(weight[k]) * static_cast<float>(rows[k][i]);
      sum = sum * (1.0f / (1 << 2 * kBits)) + 0.5f;
      y[i] = static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
    }
  }
}

template <int kTaps, int kChannels>
void Run(const uint8_t* x, int64_t stride, int64_t channels, const Taps& down,
         const Taps& across, uint8_t* y) {
  const std::vector<int32_t> down_weights = Fixed(down), weights = Fixed(across);
  std::vector<int32_t> at;
  at.reserve(across.index.size());
  for (const int64_t i : across.index) at.push_back(static_cast<int32_t>(i * channels));
  const auto y_width = static_cast<int64_t>(at.size()) / kTaps;
  const int64_t row = y_width * channels;
  const int64_t end =
      at.empty() ? 0 : *std::max_element(at.begin(), at.end()) + channels;
  std::vector<Stretched<kTaps>> ring(static_cast<size_t>(kTaps * (row + kRoom)));
  int64_t held[kTaps];
  std::fill(held, held + kTaps, int64_t{-1});
  const auto y_height = static_cast<int64_t>(down.index.size()) / kTaps;
  for (int64_t i = 0; i < y_height; ++i, y += row) {
    const Stretched<kTaps>* rows[kTaps];
    for (int k = 0; k < kTaps; ++k) {
      // Taps of a sample are neighbours, so places of the ring do not collide.
      const int64_t from = down.index[i * kTaps + k], slot = from % kTaps;
      Stretched<kTaps>* const to = ring.data() + slot * (row + kRoom);
      if (held[slot] != from) {
        Stretch<kTaps, kChannels>(x + from * stride, at.data(), weights.data(), y_width,
                                  channels, end, to);
        held[slot] = from;
      }
      rows[k] = to;
    }
    Sum<kTaps>(rows, down_weights.data() + i * kTaps, row, y);
  }
}

template <int kTaps>
void RunChannels(const uint8_t* x, int64_t stride, int64_t channels, const Taps& down,
                 const Taps& across, uint8_t* y) {
  switch (channels) {
    case 1:
      return Run<kTaps, 1>(x, stride, channels, down, across, y);
    case 3:
      return Run<kTaps, 3>(x, stride, channels, down, across, y);
    default:
      return Run<kTaps, 0>(x, stride, channels, down, across, y);
  }
}

// The taps of some samples of the result.
Taps PartOf(const Taps& taps, int64_t first, int64_t count) {
  const int64_t begin = first * taps.count, end = begin + count * taps.count;
  return {.count = taps.count,
          .index = {taps.index.begin() + begin, taps.index.begin() + end},
          .weight = {taps.weight.begin() + begin, taps.weight.begin() + end}};
}

// The first sample that is needed, and how many from there on.
std::pair<int64_t, int64_t> RangeOf(const Taps& taps) {
  const auto [low, high] = std::minmax_element(taps.index.begin(), taps.index.end());
  return {*low, *high - *low + 1};
}

}  // namespace

void ResizeBytes(const uint8_t* x, int64_t stride, int64_t height, int64_t width,
                 int64_t channels, uint8_t* y, int64_t y_height, int64_t y_width,
                 Interpolation how) {
  const bool shrinks = y_height <= height && y_width <= width;
  if (height == y_height && width == y_width) {
    for (int64_t i = 0; i < height; ++i) {
      std::memcpy(y + i * width * channels, x + i * stride,
                  static_cast<size_t>(width * channels));
    }
    return;
  }
  if (how == Interpolation::kNearest || (how == Interpolation::kArea && shrinks)) {
    std::vector<uint8_t> part;
    if (stride != width * channels) {
      part.resize(static_cast<size_t>(height * width * channels));
      ResizeBytes(x, stride, height, width, channels, part.data(), height, width, how);
      x = part.data();
    }
    return Resize(x, height, width, channels, y, y_height, y_width, how);
  }
  const PartialResize whole = {.height = height,
                               .width = width,
                               .channels = channels,
                               .y_height = y_height,
                               .y_width = y_width,
                               .how = how,
                               .part = {0, 0, y_width, y_height}};
  const Window source = whole.Source();
  whole.Run(x + source.y * stride + source.x * channels, stride, y);
}

Window PartialResize::Source() const {
  const bool shrinks = y_height <= height && y_width <= width;
  const auto [top, rows] =
      RangeOf(PartOf(TapsOf(height, y_height, how, shrinks), part.y, part.height));
  const auto [left, columns] =
      RangeOf(PartOf(TapsOf(width, y_width, how, shrinks), part.x, part.width));
  return {left, top, columns, rows};
}

void PartialResize::Run(const uint8_t* source, int64_t stride, uint8_t* y) const {
  const bool shrinks = y_height <= height && y_width <= width;
  Taps down = PartOf(TapsOf(height, y_height, how, shrinks), part.y, part.height);
  Taps across = PartOf(TapsOf(width, y_width, how, shrinks), part.x, part.width);
  for (Taps* taps : {&down, &across}) {
    const int64_t first = RangeOf(*taps).first;
    for (int64_t& i : taps->index) i -= first;
  }
  switch (down.count) {
    case 2:
      return RunChannels<2>(source, stride, channels, down, across, y);
    case 4:
      return RunChannels<4>(source, stride, channels, down, across, y);
    default:
      return RunChannels<8>(source, stride, channels, down, across, y);
  }
}

}  // namespace plait::image
