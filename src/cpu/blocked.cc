// Blocked arrays: the size of blocks, and copies from and to plain ones.

#include "cpu/blocked.h"

#include <algorithm>

#include "base/parallel.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {
namespace {

// Calls f(plain offset, blocked offset, channels) for each block of each sample: where
// its first pixels are, and how many channels it has.
template <typename F>
void ForEachBlock(const BlockedArray& a, F&& f) {
  const int64_t blocks = a.blocks();
  ParallelFor(a.batch * blocks,
              std::max<int64_t>(1, (1 << 11) / std::max<int64_t>(1, a.size)),
              [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) {
                  const int64_t n = i / blocks, c = i % blocks * a.block;
                  f((n * a.channels + c) * a.size, i * a.size * a.block,
                    std::min(a.block, a.channels - c));
                }
              });
}

// Pixels that are copied at a time: their lines stay in L1.
constexpr int64_t kTogether = 64;

template <int kBlock, typename T>
void Block(const BlockedArray& a, int64_t channels, const T* from, T* to) {
  for (int64_t begin = 0; begin < a.size; begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, a.size);
    if (channels < kBlock) std::fill(to + begin * kBlock, to + end * kBlock, T(0.0f));
    for (int64_t c = 0; c < channels; ++c) {
      const T* row = from + c * a.size;
      for (int64_t i = begin; i < end; ++i) to[i * kBlock + c] = row[i];
    }
  }
}
template <int kBlock, typename T>
void Unblock(const BlockedArray& a, int64_t channels, const T* from, T* to) {
  for (int64_t begin = 0; begin < a.size; begin += kTogether) {
    const int64_t end = std::min(begin + kTogether, a.size);
    for (int64_t c = 0; c < channels; ++c) {
      T* row = to + c * a.size;
      for (int64_t i = begin; i < end; ++i) row[i] = from[i * kBlock + c];
    }
  }
}

int64_t FindBlock() {
#ifdef PLAIT_USE_ONEDNN
  // What oneDNN prefers for an ordinary layer.
  ConvProblem p;
  p.batch = 1;
  p.in_channels = p.out_channels = 64;
  p.in = {1, 28, 28};
  p.kernel = {1, 3, 3};
  p.pad_low = p.pad_high = {0, 1, 1};
  const auto pass = ConvPass::kForward;
  if (!onednn::HasConv(p, DType::kFloat32, pass, ConvAlgorithm::kDirect)) return 0;
  const onednn::ConvLayouts l =
      onednn::PreferredLayouts(p, DType::kFloat32, pass, ConvAlgorithm::kDirect);
  if (!(l.x == l.y)) return 0;
  for (int64_t block : {16, 8}) {
    if (l.x == onednn::BlockedLayout(block) && block == FloatLanes()) return block;
  }
#endif
  return 0;
}

}  // namespace

int64_t ChannelBlock() {
  static const int64_t block = FindBlock();
  return block;
}

namespace {

template <typename T>
void FromPlain(const BlockedArray& a, const T* plain, T* blocked) {
  ForEachBlock(a, [&](int64_t from, int64_t to, int64_t channels) {
    (a.block == 16 ? Block<16, T> : Block<8, T>)(a, channels, plain + from,
                                                 blocked + to);
  });
}
template <typename T>
void ToPlain(const BlockedArray& a, const T* blocked, T* plain) {
  ForEachBlock(a, [&](int64_t to, int64_t from, int64_t channels) {
    (a.block == 16 ? Unblock<16, T> : Unblock<8, T>)(a, channels, blocked + from,
                                                     plain + to);
  });
}

}  // namespace

void BlockChannels(const BlockedArray& a, const float* plain, float* blocked) {
  FromPlain(a, plain, blocked);
}
void BlockChannels(const BlockedArray& a, const Bfloat16* plain, Bfloat16* blocked) {
  FromPlain(a, plain, blocked);
}
void BlockChannels(const BlockedArray& a, const Float16* plain, Float16* blocked) {
  FromPlain(a, plain, blocked);
}
void UnblockChannels(const BlockedArray& a, const Float16* blocked, Float16* plain) {
  ToPlain(a, blocked, plain);
}
void UnblockChannels(const BlockedArray& a, const float* blocked, float* plain) {
  ToPlain(a, blocked, plain);
}
void UnblockChannels(const BlockedArray& a, const Bfloat16* blocked, Bfloat16* plain) {
  ToPlain(a, blocked, plain);
}

}  // namespace plait::cpu
