// Winograd's convolution: forward, and the gradient of the data.

#include <algorithm>
#include <cstdlib>

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
#include "cpu/winograd_gather.h"
#include "cpu/winograd_product.h"
#include "cpu/winograd_transform.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

// What becomes of the pixels of a block of channels.
struct Finish {
  const float* bias;  // of the block
  const float* sum;   // as y, or nullptr
  bool relu;
  int64_t channels;  // that exist in the block
};

// Writes the tile's rows and columns of y that exist; y's rows are `row` values apart.
HWY_NOINLINE void FinishTile(const float* m, int64_t stride, const Finish& f,
                             int64_t rows, int64_t columns, float* y, int64_t row) {
  const Tag d;
  const V zero = hn::Zero(d), bias = hn::LoadU(d, f.bias);
  const auto mask = hn::FirstN(d, static_cast<size_t>(f.channels));
  const float* sum = f.sum;
  const bool relu = f.relu;
  ResultTile(m, stride, [&](int i, int j, V v) HWY_ATTR {
    if (i >= rows || j >= columns) return;
    const int64_t at = i * row + j * kBlock;
    v = hn::Add(v, bias);
    if (sum != nullptr) v = hn::Add(v, hn::LoadU(d, sum + at));
    // Max would lose a NaN; the select keeps it.
    if (relu) v = hn::IfThenElse(hn::Lt(v, zero), zero, v);
    hn::StoreU(hn::IfThenElseZero(mask, v), d, y + at);
  });
}

class Convolution {
 public:
  Convolution(const WinogradPass& p, const float* x, const float* u, const float* bias,
              const float* sum, bool relu, float* y)
      : p_(p),
        plan_(kBlock, p.in, p.out),
        x_(x),
        u_(u),
        bias_(bias),
        sum_(sum),
        relu_(relu),
        y_(y) {}

  void Run() {
    const Scratch bias(Scratch::Bytes<float>(plan_.out_blocks * kBlock));
    padded_bias_ = bias.As<float>();
    std::fill_n(padded_bias_, plan_.out_blocks * kBlock, 0.0f);
    if (bias_ != nullptr) std::copy_n(bias_, p_.out, padded_bias_);
    const int64_t tiles = p_.Tiles(), threads = ComputeThreads();
    static const int64_t want = std::getenv("WT") ? std::atoi(std::getenv("WT")) : 48;
    int64_t strips = CeilDiv(tiles, want);
    if (strips >= threads) {
      strips = CeilDiv(strips, threads) * threads;
      ParallelFor(strips, 1, [&](int64_t first, int64_t last) {
        Strips(first, last, strips);
      });
    } else {
      Strips(0, strips, strips);
    }
  }

 private:
  void Strips(int64_t first, int64_t last, int64_t strips) {
    const int64_t tiles = p_.Tiles();
    const Scratch scratch(
        Scratch::Bytes<float>(Values::Size(CeilDiv(tiles, strips) * plan_.in_blocks)));
    for (int64_t s = first; s < last; ++s) {
      const int64_t begin = tiles * s / strips, end = tiles * (s + 1) / strips;
      if (end > begin) Strip(begin, end - begin, scratch.As<float>());
    }
  }
  // Works together with the other threads, unless it is called from one of several.
  void Strip(int64_t first, int64_t count, float* v) {
    const RowPanels rows(count);
    const Values values{v, Values::Stride(count * plan_.in_blocks)};
    ParallelFor(plan_.in_blocks * rows.count, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        GatherPanel(p_, x_, plan_.in_blocks, i / rows.count, rows, i % rows.count,
                    first, values);
      }
    });
    ParallelFor(plan_.panels, 1, [&](int64_t begin, int64_t end) {
      const Scratch scratch(Scratch::Bytes<float>(Values::Size(count * 2)));
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t vecs = plan_.Vecs(panel);
        const Values m{scratch.As<float>(), Values::Stride(count * vecs)};
        Multiply(rows, values, panel, m);
        for (int64_t j = 0; j < vecs; ++j) {
          FinishBlock(first, count, 2 * panel + j, vecs * kBlock,
                      {m.data + j * kBlock, m.stride});
        }
      }
    });
  }
  void Multiply(const RowPanels& rows, const Values& v, int64_t panel,
                const Values& m) const {
    const int64_t vecs = plan_.Vecs(panel);
    const float* u = u_ + plan_.PanelOffset(panel);
    for (int64_t i = 0; i < kPoints; ++i, u += plan_.MatrixStride(panel)) {
      for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t row = rows.First(r);
        FindProduct(rows.Rows(r), vecs)(
            plan_.in_blocks, v.data + i * v.stride + row * plan_.in_blocks * kBlock, u,
            m.data + i * m.stride + row * vecs * kBlock);
      }
    }
  }
  void FinishBlock(int64_t first, int64_t count, int64_t block, int64_t width,
                   const Values& m) const {
    const int64_t row = p_.out_w * kBlock, plane = p_.out_h * row;
    WinogradTile tile(p_, first);
    for (int64_t i = 0; i < count; ++i, tile.Next(p_)) {
      const int64_t at = (tile.n * plan_.out_blocks + block) * plane +
                         tile.y * kOut * row + tile.x * kOut * kBlock;
      const Finish finish{padded_bias_ + block * kBlock,
                          sum_ != nullptr ? sum_ + at : nullptr, relu_,
                          p_.out - block * kBlock};
      FinishTile(m.data + i * width, m.stride, finish, p_.out_h - tile.y * kOut,
                 p_.out_w - tile.x * kOut, y_ + at, row);
    }
  }

  const WinogradPass& p_;
  const WinogradFilterPlan plan_;
  const float *const x_, *const u_, *const bias_, *const sum_;
  const bool relu_;
  float* const y_;
  float* padded_bias_ = nullptr;
};

}  // namespace winograd

void WinogradConvolution(const WinogradPass& p, const float* x, const float* u,
                         const float* bias, const float* sum, bool relu, float* y) {
  winograd::Convolution(p, x, u, bias, sum, relu, y).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(WinogradConvolution);
void Run(const WinogradPass& p, const float* x, const float* u, const float* bias,
         const float* sum, bool relu, float* y) {
  HWY_DYNAMIC_DISPATCH(WinogradConvolution)(p, x, u, bias, sum, relu, y);
}

}  // namespace kernel

void WinogradForward(const ConvProblem& p, const float* x, const float* u,
                     const float* bias, const float* sum, bool relu, float* y) {
  kernel::Run(WinogradPass(p, ConvPass::kForward), x, u, bias, sum, relu, y);
}

void WinogradBackwardData(const ConvProblem& p, const float* dy, const float* u,
                          float* dx) {
  kernel::Run(WinogradPass(p, ConvPass::kBackwardData), dy, u, nullptr, nullptr, false,
              dx);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
