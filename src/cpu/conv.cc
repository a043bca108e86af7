// Convolution: the choice of a kernel, and the half types by way of float.

#include "cpu/conv.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/conv_kernel.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {
namespace {

template <typename T>
constexpr bool kHalf = !std::is_arithmetic_v<T>;

// Types that a chosen kernel takes as they are; Float16 goes there by way of float.
template <typename T>
[[maybe_unused]] constexpr bool kDirect =
    std::is_arithmetic_v<T> || std::is_same_v<T, Bfloat16>;

// Elements of float copies that a half convolution works on at a time.
constexpr int64_t kFloatElements = 1 << 22;

template <typename From, typename To>
void ConvertAll(const From* from, To* to, int64_t n) {
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    Convert(from + begin, kDTypeOf<From>, to + begin, kDTypeOf<To>, end - begin);
  });
}

// Calls f(images, first) for parts of the batch: `images` is the problem of the part.
template <typename F>
void ForEachPart(const ConvProblem& p, F&& f) {
  const int64_t one = p.in_channels * p.InSize() + p.out_channels * p.OutSize();
  const int64_t images = std::clamp<int64_t>(kFloatElements / one, 1, p.batch);
  for (int64_t first = 0; first < p.batch; first += images) {
    ConvProblem part = p;
    part.batch = std::min(images, p.batch - first);
    f(part, first);
  }
}

struct Sizes {
  explicit Sizes(const ConvProblem& p)
      : x(p.in_channels * p.InSize()),
        y(p.out_channels * p.OutSize()),
        weight(p.WeightSize()) {}
  int64_t x, y;  // of one image
  int64_t weight;
};

template <typename T>
void HalfForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                 bool relu, T* y, ConvAlgorithm algorithm) {
  const Sizes n(p);
  const Scratch filters(Scratch::Bytes<float>(n.weight + p.out_channels));
  float* wf = filters.As<float>();
  float* bf = bias != nullptr ? wf + n.weight : nullptr;
  ConvertAll(weight, wf, n.weight);
  if (bias != nullptr) ConvertAll(bias, bf, p.out_channels);
  ForEachPart(p, [&](const ConvProblem& part, int64_t first) {
    const Scratch images(Scratch::Bytes<float>((n.x + n.y) * part.batch));
    float *xf = images.As<float>(), *yf = xf + n.x * part.batch;
    ConvertAll(x + first * n.x, xf, n.x * part.batch);
    ConvForward<float>(part, xf, wf, bf, relu, yf, algorithm);
    ConvertAll(yf, y + first * n.y, n.y * part.batch);
  });
}

template <typename T>
void HalfBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx,
                      ConvAlgorithm algorithm) {
  const Sizes n(p);
  const Scratch filters(Scratch::Bytes<float>(n.weight));
  float* wf = filters.As<float>();
  ConvertAll(weight, wf, n.weight);
  ForEachPart(p, [&](const ConvProblem& part, int64_t first) {
    const Scratch images(Scratch::Bytes<float>((n.x + n.y) * part.batch));
    float *dxf = images.As<float>(), *dyf = dxf + n.x * part.batch;
    ConvertAll(dy + first * n.y, dyf, n.y * part.batch);
    ConvBackwardData<float>(part, dyf, wf, dxf, algorithm);
    ConvertAll(dxf, dx + first * n.x, n.x * part.batch);
  });
}

template <typename T>
void HalfBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                        T* dbias, ConvAlgorithm algorithm) {
  const Sizes n(p);
  const int64_t both = n.weight + p.out_channels;
  const Scratch sums(Scratch::Bytes<float>(2 * both));
  float *sum = sums.As<float>(), *one = sum + both;
  std::fill_n(sum, both, 0.0f);
  ForEachPart(p, [&](const ConvProblem& part, int64_t first) {
    const Scratch images(Scratch::Bytes<float>((n.x + n.y) * part.batch));
    float *xf = images.As<float>(), *dyf = xf + n.x * part.batch;
    ConvertAll(x + first * n.x, xf, n.x * part.batch);
    ConvertAll(dy + first * n.y, dyf, n.y * part.batch);
    ConvBackwardWeight<float>(part, xf, dyf, one,
                              dbias != nullptr ? one + n.weight : nullptr, algorithm);
    const int64_t used = dbias != nullptr ? both : n.weight;
    for (int64_t i = 0; i < used; ++i) sum[i] += one[i];
  });
  ConvertAll(sum, dweight, n.weight);
  if (dbias != nullptr) ConvertAll(sum + n.weight, dbias, p.out_channels);
}

// Nothing to multiply: y is the bias.
template <typename T>
void FillBias(const ConvProblem& p, const T* bias, bool relu, T* y) {
  const int64_t size = p.OutSize();
  for (int64_t i = 0; i < p.batch * p.out_channels; ++i) {
    T value = bias != nullptr ? bias[i % p.out_channels] : T(0);
    if (relu && static_cast<double>(value) < 0) value = T(0);
    std::fill_n(y + i * size, size, value);
  }
}

// No multiplications: dweight is zero, dbias the sum of dy.
template <typename T>
void EmptyBackwardWeight(const ConvProblem& p, const T* dy, T* dweight, T* dbias) {
  std::fill_n(dweight, Sizes(p).weight, T(0));
  if (dbias == nullptr) return;
  std::fill_n(dbias, p.out_channels, T(0));
  const int64_t size = p.OutSize();
  for (int64_t i = 0; i < p.batch * p.out_channels; ++i) {
    Accumulate<T> sum = 0;
    for (int64_t j = 0; j < size; ++j) sum += dy[i * size + j];
    T& total = dbias[i % p.out_channels];
    total = T(total + sum);
  }
}

bool Empty(const ConvProblem& p) {
  return p.batch == 0 || p.in_channels == 0 || p.out_channels == 0;
}

}  // namespace

double ConvProblem::Work() const {
  return static_cast<double>(batch) * static_cast<double>(out_channels) *
         static_cast<double>(OutSize()) * static_cast<double>(in_channels / groups) *
         static_cast<double>(KernelSize());
}

ConvProblem MakeConvProblem(std::span<const int64_t> x, int64_t out_channels,
                            int64_t groups, std::span<const int64_t> kernel,
                            std::span<const int64_t> stride,
                            std::span<const int64_t> dilation,
                            std::span<const int64_t> pad) {
  ConvProblem p;
  p.rank = static_cast<int64_t>(kernel.size());
  p.batch = x[0];
  p.in_channels = x[1];
  p.out_channels = out_channels;
  p.groups = groups;
  for (int64_t i = 0; i < p.rank; ++i) {
    const int64_t axis = 3 - p.rank + i;
    p.in[axis] = x[2 + i];
    p.kernel[axis] = kernel[i];
    p.stride[axis] = stride[i];
    p.dilation[axis] = dilation[i];
    p.pad_low[axis] = p.pad_high[axis] = pad[i];
  }
  return p;
}

#ifdef PLAIT_USE_ONEDNN
namespace {

int64_t XOfSample(const ConvProblem& p) {
  return p.in_channels * p.InSize();
}
int64_t YOfSample(const ConvProblem& p) {
  return p.out_channels * p.OutSize();
}

// oneDNN wants copies of x and y in its own layouts. Large arrays are worked on in
// parts of the batch, so that these copies stay in memory that is warm and small beside
// the arrays.
template <typename T, typename F>
void InParts(const ConvProblem& p, ConvPass pass, ConvAlgorithm algorithm, F&& run) {
  constexpr double kScratch = 40 << 20;
  const double sample = sizeof(T) * static_cast<double>(XOfSample(p) + YOfSample(p));
  int64_t step =
      std::clamp<int64_t>(static_cast<int64_t>(kScratch / sample), 1, p.batch);
  while (p.batch % step != 0) --step;
  ConvProblem part = p;
  part.batch = step;
  // Sums of half precision are not to be rounded for each part.
  if (pass == ConvPass::kBackwardWeight && sizeof(T) < sizeof(float))
    part.batch = p.batch;
  if (step < p.batch && !onednn::HasConv(part, kDTypeOf<T>, pass, algorithm))
    part.batch = p.batch;
  for (int64_t first = 0; first < p.batch; first += part.batch) run(part, first);
}

// The gradient by weight and bias, added up over parts of the batch.
template <typename T>
class WeightSum {
 public:
  WeightSum(const ConvProblem& p, T* weight, T* bias)
      : n_(p.WeightSize()), channels_(p.out_channels), weight_(weight), bias_(bias) {}
  T* weight(int64_t first) {
    if (first == 0) return weight_;
    if (part_.empty()) part_.resize(n_ + channels_);
    return part_.data();
  }
  T* bias(int64_t first) {
    if (bias_ == nullptr || first == 0) return bias_;
    return weight(first) + n_;
  }
  void Add(int64_t first) {
    if (first == 0) return;
    AddTo(weight_, part_.data(), n_);
    if (bias_ != nullptr) AddTo(bias_, part_.data() + n_, channels_);
  }

 private:
  static void AddTo(T* sum, const T* part, int64_t n) {
    ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum[i] =
            static_cast<T>(static_cast<float>(sum[i]) + static_cast<float>(part[i]));
    });
  }

  const int64_t n_, channels_;
  T *weight_, *bias_;
  std::vector<T> part_;
};

}  // namespace
#endif

template <typename T>
void ConvForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                 bool relu, T* y, ConvAlgorithm algorithm) {
  if (Empty(p)) return FillBias(p, bias, relu, y);
  if constexpr (kDirect<T>) {
    const ConvAlgorithm chosen = ChooseConv<T>(p, ConvPass::kForward, algorithm);
    if constexpr (std::is_arithmetic_v<T>) {
      if (chosen == ConvAlgorithm::kWinograd) {
        return WinogradForward<T>(p, x, weight, nullptr, bias, nullptr, relu, y,
                                  ImageLayout::kPlain);
      }
    }
#ifdef PLAIT_USE_ONEDNN
    if (chosen == ConvAlgorithm::kDirect) {
      return InParts<T>(
          p, ConvPass::kForward, chosen, [&](const ConvProblem& part, int64_t first) {
            onednn::ConvForward(part, kDTypeOf<T>, chosen, {}, x + first * XOfSample(p),
                                weight, bias, relu, y + first * YOfSample(p));
          });
    }
#endif
  }
  if constexpr (kHalf<T>) {
    HalfForward(p, x, weight, bias, relu, y, algorithm);
  } else {
    OwnConvForward(p, x, weight, bias, relu, y);
  }
}

template <typename T>
void ConvBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx,
                      ConvAlgorithm algorithm) {
  if (Empty(p)) {
    std::fill_n(dx, p.batch * p.in_channels * p.InSize(), T(0));
    return;
  }
  if constexpr (kDirect<T>) {
    const ConvAlgorithm chosen = ChooseConv<T>(p, ConvPass::kBackwardData, algorithm);
    if constexpr (std::is_arithmetic_v<T>) {
      if (chosen == ConvAlgorithm::kWinograd) {
        return WinogradBackwardData<T>(p, dy, weight, nullptr, dx, ImageLayout::kPlain);
      }
    }
#ifdef PLAIT_USE_ONEDNN
    if (chosen == ConvAlgorithm::kDirect) {
      return InParts<T>(p, ConvPass::kBackwardData, chosen,
                        [&](const ConvProblem& part, int64_t first) {
                          onednn::ConvBackwardData(part, kDTypeOf<T>, chosen, {},
                                                   dy + first * YOfSample(p), weight,
                                                   dx + first * XOfSample(p));
                        });
    }
#endif
  }
  if constexpr (kHalf<T>) {
    HalfBackwardData(p, dy, weight, dx, algorithm);
  } else {
    OwnConvBackwardData(p, dy, weight, dx);
  }
}

template <typename T>
void ConvBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                        T* dbias, ConvAlgorithm algorithm) {
  if (Empty(p)) return EmptyBackwardWeight(p, dy, dweight, dbias);
  if constexpr (kDirect<T>) {
    const ConvAlgorithm chosen = ChooseConv<T>(p, ConvPass::kBackwardWeight, algorithm);
    if constexpr (std::is_arithmetic_v<T>) {
      if (chosen == ConvAlgorithm::kWinograd) {
        return WinogradBackwardWeight(p, x, dy, dweight, dbias, ImageLayout::kPlain);
      }
    }
#ifdef PLAIT_USE_ONEDNN
    if (chosen == ConvAlgorithm::kDirect) {
      WeightSum<T> sum(p, dweight, dbias);
      InParts<T>(p, ConvPass::kBackwardWeight, chosen,
                 [&](const ConvProblem& part, int64_t first) {
                   onednn::ConvBackwardWeight(
                       part, kDTypeOf<T>, chosen, {}, x + first * XOfSample(p),
                       dy + first * YOfSample(p), sum.weight(first), sum.bias(first));
                   sum.Add(first);
                 });
      return;
    }
#endif
  }
  if constexpr (kHalf<T>) {
    HalfBackwardWeight(p, x, dy, dweight, dbias, algorithm);
  } else {
    OwnConvBackwardWeight(p, x, dy, dweight, dbias);
  }
}

#define PLAIT_CONV(T)                                                                  \
  template void ConvForward<T>(const ConvProblem&, const T*, const T*, const T*, bool, \
                               T*, ConvAlgorithm);                                     \
  template void ConvBackwardData<T>(const ConvProblem&, const T*, const T*, T*,        \
                                    ConvAlgorithm);                                    \
  template void ConvBackwardWeight<T>(const ConvProblem&, const T*, const T*, T*, T*,  \
                                      ConvAlgorithm);
PLAIT_CONV(float)
PLAIT_CONV(double)
PLAIT_CONV(Float16)
PLAIT_CONV(Bfloat16)
#undef PLAIT_CONV

}  // namespace plait::cpu
