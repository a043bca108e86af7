// Convolution of blocked arrays of half types by way of float32: some pixels at a time
// for windows of one pixel, some images at a time else.

#include <algorithm>

#include "cpu/half_parts.h"

namespace plait::cpu::half {
namespace {

// Pixels of a strip: with its results it fills a part of a second-level cache.
int64_t StripPixels(const ConvProblem& p) {
  const int64_t channels =
      FilledChannels(p.in_channels) + FilledChannels(p.out_channels);
  return std::clamp<int64_t>((1 << 17) / channels, 48, 192);
}
bool HasWideStrips(const ConvProblem& p, const HalfConv& how) {
  return how.wide.kind == BlockedConv::kPixels && p.stride[1] == 1 &&
         p.stride[2] == 1 &&
         p.batch * (p.InSize() / StripPixels(p) + 1) >= ComputeThreads();
}

// By way of floats, some pixels at a time: windows of one pixel at stride 1.
template <typename T>
void WideStrips(const ConvProblem& p, ConvPass pass, const HalfConv& how, const T* x,
                const float* packed, const HalfFinish<T>& finish, const float* bias,
                T* y) {
  const bool forward = pass == ConvPass::kForward;
  const int64_t block = ChannelBlock(), pixels = p.InSize();
  const int64_t in = FilledChannels(p.in_channels),
                out = FilledChannels(p.out_channels);
  const int64_t xs = forward ? in : out, ys = forward ? out : in;
  const int64_t strip = StripPixels(p), strips = (pixels + strip - 1) / strip;
  ParallelFor(p.batch * strips, 1, [&](int64_t first, int64_t last) {
    const ScopedComputeThreads alone(1);
    const Scratch floats(Scratch::Bytes<float>(strip * (xs + 2 * ys)));
    float *const xf = floats.As<float>(), *const yf = xf + strip * xs,
                 *const of = yf + strip * ys;
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = pixels * (i % strips) / strips,
                    n = pixels * (i % strips + 1) / strips - begin;
      // Calls f(place in the array, place in the copy, elements) for each block.
      const auto blocks = [&](int64_t channels, auto&& f) {
        for (int64_t b = 0; b < channels / block; ++b)
          f(((i / strips * (channels / block) + b) * pixels + begin) * block,
            b * n * block, n * block);
      };
      const auto widen = [&](const T* from, float* to) {
        return [=](int64_t at, int64_t place, int64_t count) {
          Convert(from + at, kDTypeOf<T>, to + place, DType::kFloat32, count);
        };
      };
      blocks(xs, widen(x, xf));
      if (finish.other != nullptr) blocks(ys, widen(finish.other, of));
      ConvProblem part = p;
      part.batch = 1;
      part.in = {1, 1, n};
      if (forward) {
        BlockedConvForward(part, how.wide, xf, {nullptr, packed},
                           {.bias = bias,
                            .other = finish.other != nullptr ? of : nullptr,
                            .bounded = finish.bounded,
                            .low = finish.low,
                            .high = finish.high},
                           yf);
      } else {
        BlockedConvBackwardData(part, how.wide, xf, {nullptr, packed}, yf);
      }
      blocks(ys, [&](int64_t at, int64_t place, int64_t count) {
        Convert(yf + place, DType::kFloat32, y + at, kDTypeOf<T>, count);
      });
    }
  });
}

}  // namespace

template <typename T>
void WideForward(const ConvProblem& p, const HalfConv& how, const T* x,
                 const float* packed, const HalfFinish<T>& finish, T* y) {
  const Widened bias(finish.bias, p.out_channels);
  if (HasWideStrips(p, how))
    return WideStrips(p, ConvPass::kForward, how, x, packed, finish, bias.data(), y);
  InParts(p, how.plain_x, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const int64_t size = part.batch * YOfImage(p);
            const Widened xf(x + xs, part.batch * XOfImage(p, how.plain_x));
            const Widened other(finish.other == nullptr ? nullptr : finish.other + ys,
                                size);
            const Scratch yf(Scratch::Bytes<float>(size));
            BlockedConvForward(part, how.wide, xf.data(), {nullptr, packed},
                               {.bias = bias.data(),
                                .other = other.data(),
                                .bounded = finish.bounded,
                                .low = finish.low,
                                .high = finish.high},
                               yf.As<float>());
            ConvertAll(yf.As<float>(), y + ys, size);
          });
}

template <typename T>
void WideBackwardData(const ConvProblem& p, const HalfConv& how, const T* dy,
                      const float* packed, T* dx) {
  if (HasWideStrips(p, how))
    return WideStrips<T>(p, ConvPass::kBackwardData, how, dy, packed, {}, nullptr, dx);
  InParts(p, false, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const int64_t size = part.batch * XOfImage(p, false);
            const Widened dyf(dy + ys, part.batch * YOfImage(p));
            const Scratch dxf(Scratch::Bytes<float>(size));
            BlockedConvBackwardData(part, how.wide, dyf.data(), {nullptr, packed},
                                    dxf.As<float>());
            ConvertAll(dxf.As<float>(), dx + xs, size);
          });
}

template <typename T>
void WideBackwardWeight(const ConvProblem& p, const HalfConv& how, const T* x,
                        const T* dy, T* dweight) {
  const int64_t size = p.WeightSize();
  const Scratch sums(Scratch::Bytes<float>(2 * size));
  float *const sum = sums.As<float>(), *const one = sum + size;
  InParts(p, how.plain_x, sizeof(float),
          [&](const ConvProblem& part, int64_t xs, int64_t ys) {
            const Widened xf(x + xs, part.batch * XOfImage(p, how.plain_x)),
                dyf(dy + ys, part.batch * YOfImage(p));
            const bool first = ys == 0;
            BlockedConvBackwardWeight(part, how.wide, xf.data(), dyf.data(),
                                      first ? sum : one);
            if (!first) AddAll(size, one, sum);
          });
  ConvertAll(sum, dweight, size);
}

template void WideForward(const ConvProblem&, const HalfConv&, const Bfloat16*,
                          const float*, const HalfFinish<Bfloat16>&, Bfloat16*);
template void WideBackwardData(const ConvProblem&, const HalfConv&, const Bfloat16*,
                               const float*, Bfloat16*);
template void WideBackwardWeight(const ConvProblem&, const HalfConv&, const Bfloat16*,
                                 const Bfloat16*, Bfloat16*);
template void WideForward(const ConvProblem&, const HalfConv&, const Float16*,
                          const float*, const HalfFinish<Float16>&, Float16*);
template void WideBackwardData(const ConvProblem&, const HalfConv&, const Float16*,
                               const float*, Float16*);
template void WideBackwardWeight(const ConvProblem&, const HalfConv&, const Float16*,
                                 const Float16*, Float16*);

}  // namespace plait::cpu::half
