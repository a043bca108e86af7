// Winograd's convolution: forward, and the gradient of the data.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#include "cpu/winograd_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/winograd_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_tile.h"
#include "cpu/winograd_filters.h"
#include "cpu/winograd_gather.h"
#include "cpu/winograd_product.h"
#include "cpu/winograd_transform.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

// Tiles whose values are worked on at a time: by one thread, whose second-level cache
// they should not leave far behind, and by all threads together.
constexpr int64_t kStripTiles = 48, kSharedStripTiles = 132;
// From this size on filters are read from memory rather than from a cache.
constexpr int64_t kManyFilters = 1 << 20;
// A result of this size will not be found in a cache later.
constexpr int64_t kLargeResult = 1 << 22;

// What becomes of the pixels of a block of channels.
template <typename F, typename S>
struct Finish {
  const F* bias;  // of the block
  const S* sum;   // as y, or nullptr
  bool relu;
  bool stream;       // past the caches; y is aligned
  int64_t channels;  // that exist in the block
};

// Writes the tile's rows and columns of y that exist; y's rows are `row` values apart.
template <typename F, typename S>
HWY_NOINLINE void FinishTile(const F* m, int64_t stride, const Finish<F, S>& f,
                             int64_t rows, int64_t columns, S* y, int64_t row) {
  const Tag<F> d;
  const V<F> zero = hn::Zero(d), bias = hn::LoadU(d, f.bias);
  const auto mask = hn::FirstN(d, static_cast<size_t>(f.channels));
  const S* sum = f.sum;
  const bool relu = f.relu, stream = f.stream;
  ResultTile<F>(m, stride, [&](int i, int j, V<F> v) HWY_ATTR {
    if (i >= rows || j >= columns) return;
    const int64_t at = i * row + j * kBlock<F>;
    v = hn::Add(v, bias);
    if (sum != nullptr) v = hn::Add(v, cpu::HWY_NAMESPACE::Read(d, sum + at));
    // Max would lose a NaN; the select keeps it.
    if (relu) v = hn::IfThenElse(hn::Lt(v, zero), zero, v);
    v = hn::IfThenElseZero(mask, v);
    if constexpr (std::is_same_v<F, S>) {
      if (stream) return hn::Stream(v, d, y + at);
    }
    cpu::HWY_NAMESPACE::Write(v, d, y + at);
  });
}

// F: what is computed in. S: of images and filters; F, or a half type where F is float.
template <typename F, typename S>
class Convolution {
 public:
  explicit Convolution(const WinogradCall<F, S>& c)
      : c_(c), p_(c.problem, c.kind), plan_(kB, p_.in, p_.out), u_(c.u) {
    const int64_t size = p_.batch * plan_.out_blocks * p_.out_h * p_.out_w * kB;
    stream_ = std::is_same_v<F, S> && c.layout == ImageLayout::kBlocked &&
              size >= kLargeResult &&
              reinterpret_cast<uintptr_t>(c.y) % (kB * sizeof(F)) == 0;
  }

  void Run() {
    const Scratch bias(Scratch::Bytes<F>(plan_.out_blocks * kB));
    bias_ = bias.As<F>();
    std::fill_n(bias.As<F>(), plan_.out_blocks * kB, F(0));
    if (c_.bias != nullptr) std::copy_n(c_.bias, p_.out, bias.As<F>());

    const bool many = plan_.Size() >= kManyFilters;
    const bool one_strip = many && p_.Tiles() <= kSharedStripTiles;
    // Filters that only one strip needs are transformed on the way.
    const bool filters = u_ == nullptr && !one_strip;
    const Scratch u(filters ? Scratch::Bytes<F>(plan_.Size()) : 0);
    if (filters) {
      TransformFilters(c_.problem, c_.kind, c_.weight, 0, plan_.out_blocks, u.As<F>());
      u_ = u.As<F>();
    }
    const int64_t threads = ComputeThreads();
    const int64_t own = CeilDiv(p_.Tiles(), kStripTiles);
    if (!one_strip && own >= threads) {
      const int64_t strips = CeilDiv(own, threads) * threads;
      ParallelFor(strips, 1,
                  [&](int64_t first, int64_t last) { Strips(first, last, strips); });
    } else {
      const int64_t strips = CeilDiv(p_.Tiles(), kSharedStripTiles);
      Strips(0, strips, strips);
    }
  }

 private:
  // Row panels [first, last) of a strip and one panel of filters.
  struct Part {
    const RowPanels& rows;
    int64_t first, last;
    int64_t panel;
    int64_t tile;  // the strip's first one
    int64_t Begin() const { return rows.First(first); }
    int64_t Tiles() const { return rows.First(last) - rows.First(first); }
  };

  void Strips(int64_t first, int64_t last, int64_t strips) {
    const int64_t tiles = p_.Tiles();
    const Scratch scratch(
        Scratch::Bytes<F>(Values<F>::Size(CeilDiv(tiles, strips) * plan_.in_blocks)));
    for (int64_t s = first; s < last; ++s) {
      const int64_t begin = tiles * s / strips, end = tiles * (s + 1) / strips;
      if (end > begin) Strip(begin, end - begin, scratch.As<F>());
    }
  }
  // On all threads, unless it is called from one of several.
  void Strip(int64_t first, int64_t count, F* v) {
    const RowPanels rows(count);
    const Values<F> values{v, Values<F>::Stride(count * plan_.in_blocks)};
    const Images<F, S> x{c_.x, p_.in, p_.in_h, p_.in_w, c_.layout};
    ParallelFor(plan_.in_blocks * rows.count, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = i % rows.count, block = i / rows.count;
        const int64_t row = rows.First(panel), n = rows.Rows(panel);
        GatherData(p_, x, block, first + row, n,
                   v + (row * plan_.in_blocks + block * n) * kB, values.stride);
      }
    });
    const int64_t cuts =
        u_ == nullptr ? 1
                      : std::min(rows.count, CeilDiv(ComputeThreads(), plan_.panels));
    ParallelFor(plan_.panels * cuts, 1, [&](int64_t begin, int64_t end) {
      const Scratch m(Scratch::Bytes<F>(Values<F>::Size(count * 2)));
      const Scratch filters(
          u_ == nullptr ? Scratch::Bytes<F>(36 * plan_.MatrixStride(0)) : 0);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = i / cuts, cut = i % cuts;
        const Part part{rows, rows.count * cut / cuts, rows.count * (cut + 1) / cuts,
                        panel, first};
        if (u_ == nullptr) {
          TransformFilters(c_.problem, c_.kind, c_.weight, 2 * panel,
                           2 * panel + plan_.Vecs(panel), filters.As<F>());
        }
        const F* const u =
            u_ == nullptr ? filters.As<F>() : u_ + plan_.PanelOffset(panel);
        Compute(part, values, u, m.As<F>());
      }
      if (stream_) hwy::FlushStream();
    });
  }
  void Compute(const Part& part, const Values<F>& v, const F* u, F* m) const {
    const int64_t vecs = plan_.Vecs(part.panel);
    const Values<F> sums{m, Values<F>::Stride(part.Tiles() * vecs)};
    Multiply(part, v, u, sums);
    for (int64_t j = 0; j < vecs; ++j) {
      FinishBlock(part, 2 * part.panel + j, vecs * kB, {m + j * kB, sums.stride});
    }
  }
  void Multiply(const Part& part, const Values<F>& v, const F* u,
                const Values<F>& m) const {
    const int64_t vecs = plan_.Vecs(part.panel),
                  stride = plan_.MatrixStride(part.panel);
    const int64_t half = plan_.in_blocks * kB * kB;
    for (int64_t i = 0; i < kPoints; ++i, u += stride) {
      for (int64_t r = part.first; r < part.last; ++r) {
        const int64_t row = part.rows.First(r);
        // The first two products ask for the halves of the next matrix.
        const int64_t ask = std::min<int64_t>(r - part.first, vecs - 1) * half;
        const ProductFn<F> product =
            FindProduct<F>(part.rows.Rows(r), static_cast<int>(vecs));
        const F* from = v.data + i * v.stride + row * plan_.in_blocks * kB;
        F* const to = m.data + i * m.stride + (row - part.Begin()) * vecs * kB;
        for (int64_t k = 0; k < plan_.in_blocks; k += kSumChannels / kB) {
          const int64_t blocks = std::min(plan_.in_blocks - k, kSumChannels / kB);
          const int64_t at = k * kB * vecs * kB;
          product(blocks, from + k * part.rows.Rows(r) * kB, u + at, k > 0, to,
                  u + stride + ask + k * kB * kB);
        }
      }
    }
  }
  void FinishBlock(const Part& part, int64_t block, int64_t width,
                   const Values<F>& m) const {
    HWY_ALIGN S buffer[kRunPixels * kB];
    const int64_t size = p_.out_h * p_.out_w;
    const int64_t channels = std::min(kB, p_.out - block * kB);
    const bool direct = c_.layout == ImageLayout::kBlocked;
    Finish<F, S> finish{bias_ + block * kB, nullptr, c_.relu, stream_, channels};
    const auto run = [&](const WinogradTile& tile, int64_t done, int64_t n) HWY_ATTR {
      const int64_t top = tile.y * kOut, left = tile.x * kOut;
      const int64_t first = tile.n * plan_.out_blocks + block;
      const int64_t at = (first * size + top * p_.out_w + left) * kB;
      const int64_t row = (direct ? p_.out_w : n * kOut) * kB;
      S* const y = direct ? c_.y + at : buffer;
      for (int64_t t = 0; t < n; ++t) {
        if (direct && c_.sum != nullptr) finish.sum = c_.sum + at + t * kOut * kB;
        FinishTile(m.data + (done + t) * width, m.stride, finish, p_.out_h - top,
                   p_.out_w - left - t * kOut, y + t * kOut * kB, row);
      }
      if constexpr (std::is_same_v<F, S>) {
        if (direct) return;
        const int64_t columns = std::min(n * kOut, p_.out_w - left);
        for (int64_t r = 0; r < std::min<int64_t>(kOut, p_.out_h - top); ++r)
          Transpose(buffer + r * row, columns, channels, size,
                    c_.y + (tile.n * p_.out + block * kB) * size +
                        (top + r) * p_.out_w + left);
      }
    };
    ForEachRun(p_, part.tile + part.Begin(), part.Tiles(), run);
  }

  static constexpr int64_t kB = kBlock<F>;
  const WinogradCall<F, S>& c_;
  const WinogradPass p_;
  const WinogradFilterPlan plan_;
  const F* u_;
  const F* bias_ = nullptr;
  bool stream_ = false;
};

}  // namespace winograd

void ConvolutionF32(const WinogradCall<float, float>& call) {
  winograd::Convolution(call).Run();
}
void ConvolutionB16(const WinogradCall<float, Bfloat16>& call) {
  winograd::Convolution(call).Run();
}
void ConvolutionF16(const WinogradCall<float, Float16>& call) {
  winograd::Convolution(call).Run();
}
void ConvolutionF64(const WinogradCall<double, double>& call) {
  winograd::Convolution(call).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(ConvolutionF32);
HWY_EXPORT(ConvolutionB16);
HWY_EXPORT(ConvolutionF16);
HWY_EXPORT(ConvolutionF64);
void Run(const WinogradCall<float, float>& call) {
  HWY_DYNAMIC_DISPATCH(ConvolutionF32)(call);
}
void Run(const WinogradCall<float, Bfloat16>& call) {
  HWY_DYNAMIC_DISPATCH(ConvolutionB16)(call);
}
void Run(const WinogradCall<float, Float16>& call) {
  HWY_DYNAMIC_DISPATCH(ConvolutionF16)(call);
}
void Run(const WinogradCall<double, double>& call) {
  HWY_DYNAMIC_DISPATCH(ConvolutionF64)(call);
}

}  // namespace kernel

template <typename T>
void WinogradForward(const ConvProblem& p, const T* x, const T* weight,
                     const WinogradSum<T>* u, const WinogradSum<T>* bias, const T* sum,
                     bool relu, T* y, ImageLayout layout) {
  kernel::Run(WinogradCall<WinogradSum<T>, T>{p, ConvPass::kForward, layout, x, weight,
                                              u, bias, sum, relu, y});
}

template <typename T>
void WinogradBackwardData(const ConvProblem& p, const T* dy, const T* weight,
                          const WinogradSum<T>* u, T* dx, ImageLayout layout) {
  kernel::Run(WinogradCall<WinogradSum<T>, T>{p, ConvPass::kBackwardData, layout, dy,
                                              weight, u, nullptr, nullptr, false, dx});
}

#define PLAIT_WINOGRAD(T)                                                     \
  template void WinogradForward(const ConvProblem&, const T*, const T*,       \
                                const WinogradSum<T>*, const WinogradSum<T>*, \
                                const T*, bool, T*, ImageLayout);             \
  template void WinogradBackwardData(const ConvProblem&, const T*, const T*,  \
                                     const WinogradSum<T>*, T*, ImageLayout);
PLAIT_WINOGRAD(float)
PLAIT_WINOGRAD(double)
PLAIT_WINOGRAD(Bfloat16)
PLAIT_WINOGRAD(Float16)
#undef PLAIT_WINOGRAD

}  // namespace plait::cpu
#endif  // HWY_ONCE
