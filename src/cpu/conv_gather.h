// The sums of a convolution's data gradient, gathered from products of taps and pixels.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_CONV_GATHER_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_CONV_GATHER_H_
#undef PLAIT_CPU_CONV_GATHER_H_
#else
#define PLAIT_CPU_CONV_GATHER_H_
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/conv_plan.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// Pixels of y that are worked on together: whole rows, or a part of one row. A row is
// counted through planes: z * height + y.
struct PixelChunk {
  int64_t row_begin, row_end;
  int64_t x_begin, x_end;
  int64_t pixels() const { return (row_end - row_begin) * (x_end - x_begin); }
};

// Adds to rows of dx what a chunk of y contributes: element u of a padded row gets, for
// each tap, the product of the pixel that the tap carries there.
//
// A row of dx is computed in registers, each product read once. (To scatter the
// products one tap after the other is 10 times slower: a load that needs parts of
// stores still under way waits for them.) With a stride, elements of dx fall into
// classes that have no tap in common; those of one class are neighbours among the
// products.
template <typename T>
class Gather {
 public:
  Gather(const ConvPlan& plan, const PixelChunk& chunk) : p_(plan.p), chunk_(chunk) {
    for (int64_t phase = 0; phase < p_.stride[2]; ++phase) AddClass(phase);
  }

  // products: (channels * taps of a channel, chunk.pixels()), rows `width` apart. dx:
  // the first of these channels. first: dx is overwritten, not added to.
  void Run(const T* products, int64_t width, int64_t channels, bool first, T* dx) {
    for (int64_t z = 0; z < p_.in[0]; ++z) {
      for (int64_t y = 0; y < p_.in[1]; ++y) {
        FindRows(z, y, width);
        if (!first && rows_.empty()) continue;
        for (int64_t c = 0; c < channels; ++c) {
          Row(products + c * p_.KernelSize() * width, width, first,
              dx + (c * p_.in[0] + z) * p_.in[1] * p_.in[2] + y * p_.in[2]);
        }
      }
    }
  }

 private:
  // Elements of a row whose padded place is phase modulo the stride. Step j of them is
  // element at + j * stride.
  struct Class {
    int64_t at, count;
    std::vector<std::pair<int64_t, int64_t>> taps;  // tap, first product - step
  };

  void AddClass(int64_t phase) {
    const int64_t stride = p_.stride[2], pad = p_.pad_low[2];
    // The padded place of step j is phase + (first + j) * stride.
    const int64_t first = (std::max<int64_t>(0, pad - phase) + stride - 1) / stride;
    Class c{phase + first * stride - pad, 0, {}};
    if (c.at >= p_.in[2]) return;
    c.count = (p_.in[2] - 1 - c.at) / stride + 1;
    for (int64_t tap = 0; tap < p_.kernel[2]; ++tap) {
      const int64_t place = tap * p_.dilation[2] - phase;
      if (place % stride == 0) c.taps.emplace_back(tap, first - place / stride);
    }
    classes_.push_back(std::move(c));
  }

  // The rows of products that reach row (z, y) of dx, as offsets.
  void FindRows(int64_t z, int64_t y, int64_t width) {
    rows_.clear();
    const int64_t out_d = p_.Out(0), out_h = p_.Out(1);
    for (int64_t kz = 0; kz < p_.kernel[0]; ++kz) {
      const int64_t from_z = z + p_.pad_low[0] - kz * p_.dilation[0];
      if (from_z < 0 || from_z % p_.stride[0] != 0 || from_z / p_.stride[0] >= out_d) {
        continue;
      }
      for (int64_t ky = 0; ky < p_.kernel[1]; ++ky) {
        const int64_t from_y = y + p_.pad_low[1] - ky * p_.dilation[1];
        if (from_y < 0 || from_y % p_.stride[1] != 0 ||
            from_y / p_.stride[1] >= out_h) {
          continue;
        }
        const int64_t row = from_z / p_.stride[0] * out_h + from_y / p_.stride[1];
        if (row < chunk_.row_begin || row >= chunk_.row_end) continue;
        rows_.push_back((kz * p_.kernel[1] + ky) * p_.kernel[2] * width +
                        (row - chunk_.row_begin) * (chunk_.x_end - chunk_.x_begin));
      }
    }
  }

  void Row(const T* products, int64_t width, bool first, T* dx) const {
    for (const Class& c : classes_) {
      for (int64_t j = 0; j < c.count; j += kLanes<T>) {
        Steps(c, j, std::min<int64_t>(kLanes<T>, c.count - j), products, width, first,
              dx + c.at + j * p_.stride[2]);
      }
    }
  }

  // Steps [j, j + count) of a class; to: the first of them.
  void Steps(const Class& c, int64_t j, int64_t count, const T* products, int64_t width,
             bool first, T* to) const {
    const TileTag<T> d;
    const int64_t stride = p_.stride[2], length = chunk_.x_end - chunk_.x_begin;
    HWY_ALIGN T strided[kLanes<T>] = {};
    const auto all = hn::FirstN(d, static_cast<size_t>(count));
    auto sum = hn::Zero(d);
    if (!first && stride == 1 && kSafeMasks) {
      sum = hn::MaskedLoad(all, d, to);
    } else if (!first) {
      for (int64_t i = 0; i < count; ++i) strided[i] = to[i * stride];
      sum = hn::Load(d, strided);
    }
    for (const auto& [tap, shift] : c.taps) {
      // Lane i is product (pixel) at + i; those within [0, length) are there.
      const int64_t at = j + shift - chunk_.x_begin;
      const int64_t low = std::max<int64_t>(0, -at),
                    high = std::min(count, length - at);
      if (low >= high) continue;
      const T* from = products + tap * width + at;
      if constexpr (kSafeMasks) {
        const auto mask = hn::AndNot(hn::FirstN(d, static_cast<size_t>(low)),
                                     hn::FirstN(d, static_cast<size_t>(high)));
        for (const int64_t row : rows_) {
          sum = hn::Add(sum, hn::MaskedLoad(mask, d, from + row));
        }
      } else {
        hn::Store(sum, d, strided);
        for (const int64_t row : rows_) {
          for (int64_t i = low; i < high; ++i) strided[i] += from[row + i];
        }
        sum = hn::Load(d, strided);
      }
    }
    if (stride == 1 && kSafeMasks) {
      hn::BlendedStore(sum, all, d, to);
    } else {
      hn::Store(sum, d, strided);
      for (int64_t i = 0; i < count; ++i) to[i * stride] = strided[i];
    }
  }

  const ConvProblem& p_;
  const PixelChunk chunk_;
  std::vector<Class> classes_;
  std::vector<int64_t> rows_;
};

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_CONV_GATHER_H_
