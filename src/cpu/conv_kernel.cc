// The project's own convolution: matrix products whose panels come from the image.

#include "cpu/conv_kernel.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/conv_plan.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/conv_gather.h"
#include "cpu/conv_pack.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// Elements of packed panels that a thread works on at a time; they stay in L2.
constexpr int64_t kPackedElements = 1 << 16;
// The most of k that one tile adds up.
constexpr int64_t kMaxTaps = 512;

// The padded form of channels [first, last) of one group of one image.
template <typename T>
class PaddedImage {
 public:
  PaddedImage(const ConvPlan& plan, int64_t first, int64_t last)
      : plan_(plan),
        first_(first),
        last_(last),
        scratch_(plan.padded ? Scratch::Bytes<T>((last - first) * plan.channel) : 0) {}

  // x: the group's first channel. A pointer for use with ConvPlan::tap.
  const T* Load(const T* x) {
    if (!plan_.padded) return x;
    T* to = scratch_.template As<T>();
    std::fill_n(to, (last_ - first_) * plan_.channel, T(0));
    ForEachRow([&](int64_t plain, int64_t padded) {
      std::copy_n(x + plain, plan_.p.in[2], to + padded - first_ * plan_.channel);
    });
    return to - first_ * plan_.channel;
  }

 private:
  template <typename F>
  void ForEachRow(F&& f) const {
    const ConvProblem& p = plan_.p;
    int64_t plain = first_ * plan_.in_size;
    for (int64_t c = first_; c < last_; ++c) {
      for (int64_t z = 0; z < p.in[0]; ++z) {
        for (int64_t y = 0; y < p.in[1]; ++y, plain += p.in[2]) {
          f(plain, c * plan_.channel + (z + p.pad_low[0]) * plan_.plane +
                       (y + p.pad_low[1]) * plan_.row + p.pad_low[2]);
        }
      }
    }
  }

  const ConvPlan& plan_;
  int64_t first_, last_;
  Scratch scratch_;
};

// A matrix of `rows` by k packed for tiles: pieces of k, in each the panels of rows.
template <typename T>
class PackedRowPanels {
 public:
  PackedRowPanels(int64_t rows, int64_t k)
      : panels(rows), pieces(CeilDiv(k, kMaxTaps)), k_(k) {}
  int64_t size() const { return panels.rows * k_; }
  int64_t Begin(int64_t piece) const { return k_ * piece / pieces; }
  int64_t Length(int64_t piece) const { return Begin(piece + 1) - Begin(piece); }
  int64_t Offset(int64_t panel, int64_t piece) const {
    return Begin(piece) * panels.rows + panels.First(panel) * Length(piece);
  }
  void Pack(const Operand<T>& x, T* to) const {
    for (int64_t i = 0; i < panels.count; ++i) {
      for (int64_t s = 0; s < pieces; ++s) {
        HWY_NAMESPACE::Pack(x.From(panels.First(i), Begin(s)), panels.Rows(i),
                            Length(s), panels.Rows(i), to + Offset(i, s));
      }
    }
  }
  const RowPanels panels;
  const int64_t pieces;

 private:
  int64_t k_;
};

// How many parts to cut each of `items` into, so that all threads have work.
inline int64_t Parts(int64_t items, int64_t most, double work) {
  const int64_t threads =
      std::min<int64_t>(ComputeThreads(), 1 + static_cast<int64_t>(work / 1e6));
  return std::clamp<int64_t>(CeilDiv(2 * threads, items), 1,
                             items >= threads ? 1 : most);
}

template <typename T>
void Forward(const ConvProblem& problem, const T* x, const T* weight, const T* bias,
             bool relu, T* y) {
  constexpr int64_t kWidth = kTileColumns<T>;
  const ConvPlan plan(problem, kWidth, kLanes<T>);
  const ConvProblem& p = plan.p;
  const PackedRowPanels<T> rows(plan.out_channels, plan.taps);
  const Scratch packed(Scratch::Bytes<T>(rows.size() * p.groups));
  for (int64_t g = 0; g < p.groups; ++g) {
    rows.Pack({weight + g * rows.size(), plan.taps, 1},
              packed.As<T>() + g * rows.size());
  }
  const int64_t images = p.batch * p.groups, panels = CeilDiv(plan.pixels, kWidth);
  const int64_t parts = Parts(images, panels, p.Work());
  const int64_t longest = rows.Length(rows.pieces - 1) + 1;
  const int64_t chunk =
      std::clamp<int64_t>(kPackedElements / (longest * kWidth), 1, panels);
  ParallelFor(images * parts, 1, [&](int64_t begin, int64_t end) {
    PaddedImage<T> padded(plan, 0, plan.in_channels);
    const Scratch scratch(Scratch::Bytes<T>(longest * chunk * kWidth));
    T* b = scratch.As<T>();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / parts, group = image % p.groups, part = task % parts;
      const T* a = packed.As<T>() + group * rows.size();
      const T* from = padded.Load(x + image * plan.in_channels * plan.in_size);
      T* to = y + image * plan.out_channels * plan.pixels;
      const int64_t last = panels * (part + 1) / parts;
      for (int64_t first = panels * part / parts; first < last; first += chunk) {
        const int64_t count = std::min(chunk, last - first);
        for (int64_t s = 0; s < rows.pieces; ++s) {
          const int64_t k = rows.Length(s);
          for (int64_t j = 0; j < count; ++j) {
            const ColumnPanel<T> panel(plan.pixels, (first + j) * kWidth);
            PackPixels(plan, from, rows.Begin(s), k, first + j, panel.columns,
                       panel.width, b + j * kWidth * k);
          }
          TileStore<T> store{nullptr, plan.pixels,
                             T(1),    s == 0 ? T(0) : T(1),
                             nullptr, relu && s + 1 == rows.pieces};
          for (int64_t i = 0; i < rows.panels.count; ++i) {
            const int64_t row = rows.panels.First(i);
            if (bias != nullptr && s == 0) {
              store.bias = bias + group * plan.out_channels + row;
            }
            for (int64_t j = 0; j < count; ++j) {
              const ColumnPanel<T> panel(plan.pixels, (first + j) * kWidth);
              store.c = to + row * plan.pixels + (first + j) * kWidth;
              FindPackedTile<T>(rows.panels.Rows(i), panel.vecs)(
                  k, a + rows.Offset(i, s), b + j * kWidth * k, panel.columns, store);
            }
          }
        }
      }
    }
  });
}

// dx: the transposed filters times dy give, for each pixel of y and each tap, what the
// pixel adds to the element of dx under the tap; Gather adds these up.
template <typename T>
class DataGradient {
 public:
  DataGradient(const ConvProblem& problem, const T* dy, const T* weight, T* dx)
      : dy_(dy),
        dx_(dx),
        plan_(problem, problem.OutSize(), problem.OutSize()),
        p_(plan_.p),
        oc_(plan_.out_channels),
        pointwise_(plan_.kernel == 1 && plan_.in_size == plan_.pixels),
        images_(p_.batch * p_.groups),
        parts_(Parts(images_, plan_.in_channels, p_.Work())),
        together_(std::clamp<int64_t>(96 / plan_.kernel, 1, plan_.in_channels)),
        packed_(Scratch::Bytes<T>(plan_.taps * oc_ * p_.groups)) {
    for (int64_t g = 0; g < p_.groups; ++g) {
      ForEachChannels(0, plan_.in_channels, [&](int64_t c, int64_t count) {
        const int64_t tap = c * plan_.kernel;
        PackedRowPanels<T>(count * plan_.kernel, oc_)
            .Pack({weight + g * oc_ * plan_.taps + tap, 1, plan_.taps},
                  packed_.template As<T>() + (g * plan_.taps + tap) * oc_);
      });
    }
    MakeChunks();
  }

  void Run() {
    ParallelFor(images_ * parts_, 1, [&](int64_t begin, int64_t end) {
      const Scratch scratch(
          Scratch::Bytes<T>((oc_ + together_ * plan_.kernel) * longest_));
      for (int64_t task = begin; task < end; ++task) {
        Image(task / parts_, task % parts_, scratch.As<T>());
      }
    });
  }

 private:
  // Calls f(first, count) for the channels in [begin, end) that are worked on together.
  // Blocks are the same for all parts, so the packed filters serve each.
  template <typename F>
  void ForEachChannels(int64_t begin, int64_t end, F&& f) const {
    for (int64_t c = begin; c < end; c += together_) {
      f(c, std::min(together_, end - c));
    }
  }

  // Whole rows as far as the panels of a chunk stay in L2, else parts of a row.
  void MakeChunks() {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t most = std::min(kPackedElements / oc_,
                                  kPackedElements / 2 / (together_ * plan_.kernel)) /
                         kWidth * kWidth;
    const int64_t width = p_.Out(2), rows = p_.Out(0) * p_.Out(1);
    const int64_t part = std::min(width, std::max(most, kWidth));
    const int64_t step = std::max<int64_t>(1, most / width);
    for (int64_t row = 0; row < rows; row += step) {
      for (int64_t x = 0; x < width; x += part) {
        chunks_.push_back(
            {row, std::min(rows, row + step), x, std::min(width, x + part)});
        longest_ = std::max(longest_, chunks_.back().pixels() + kWidth);
      }
    }
  }

  // Some channels of one group of one image: no two tasks write the same element.
  void Image(int64_t image, int64_t part, T* scratch) const {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t blocks = CeilDiv(plan_.in_channels, together_);
    const int64_t c0 = std::min(plan_.in_channels, blocks * part / parts_ * together_);
    const int64_t c1 =
        std::min(plan_.in_channels, blocks * (part + 1) / parts_ * together_);
    const T* a = packed_.template As<T>() + image % p_.groups * plan_.taps * oc_;
    T* dx = dx_ + image * plan_.in_channels * plan_.in_size;
    const bool only = chunks_.size() == 1;
    if (!only && !pointwise_) {
      std::fill(dx + c0 * plan_.in_size, dx + c1 * plan_.in_size, T(0));
    }
    for (const PixelChunk& chunk : chunks_) {
      const int64_t n = chunk.pixels(),
                    first = chunk.row_begin * p_.Out(2) + chunk.x_begin;
      const int64_t width = CeilDiv(n, kWidth) * kWidth;
      T* b = scratch;
      T* products = scratch + oc_ * width;
      for (int64_t j = 0; j < n; j += kWidth) {
        const ColumnPanel<T> panel(n, j);
        Pack(Operand<T>{dy_ + image * oc_ * plan_.pixels + first + j, 1, plan_.pixels},
             panel.columns, oc_, panel.width, b + j * oc_);
      }
      Gather<T> gather(plan_, chunk);
      ForEachChannels(c0, c1, [&](int64_t c, int64_t count) {
        T* to = dx + c * plan_.in_size;
        if (pointwise_) {
          Multiply(count, a + c * oc_, b, n, to + first, plan_.pixels);
        } else {
          Multiply(count * plan_.kernel, a + c * plan_.kernel * oc_, b, n, products,
                   width);
          gather.Run(products, width, count, only, to);
        }
      });
    }
  }

  // c (m, n) = packed filters (m, oc) * packed dy (oc, n).
  void Multiply(int64_t m, const T* a, const T* b, int64_t n, T* c, int64_t ldc) const {
    constexpr int64_t kWidth = kTileColumns<T>;
    const PackedRowPanels<T> rows(m, oc_);
    for (int64_t j = 0; j < n; j += kWidth) {
      const ColumnPanel<T> panel(n, j);
      for (int64_t i = 0; i < rows.panels.count; ++i) {
        for (int64_t s = 0; s < rows.pieces; ++s) {
          FindPackedTile<T>(rows.panels.Rows(i), panel.vecs)(
              rows.Length(s), a + rows.Offset(i, s),
              b + j * oc_ + rows.Begin(s) * panel.width, panel.columns,
              {c + rows.panels.First(i) * ldc + j, ldc, T(1), s == 0 ? T(0) : T(1),
               nullptr, false});
        }
      }
    }
  }

  const T* dy_;
  T* dx_;
  const ConvPlan plan_;
  const ConvProblem& p_;
  const int64_t oc_;
  const bool pointwise_;
  const int64_t images_, parts_;
  const int64_t together_;  // channels whose products are gathered together
  const Scratch packed_;
  std::vector<PixelChunk> chunks_;
  int64_t longest_ = 0;  // pixels of a chunk, and a tile's width
};

template <typename T>
T RowSum(const T* x, int64_t n) {
  const TileTag<T> d;
  auto s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * kLanes<T> <= n; i += 2 * kLanes<T>) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + kLanes<T>));
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// dweight: dy times the transposed matrix of taps and pixels, added up over the images.
//
// The batch is cut into shares whose number depends on sizes only; each adds up its own
// dweight, and these are added in order. So the bits do not depend on the threads.
template <typename T>
class WeightGradient {
 public:
  WeightGradient(const ConvProblem& problem, const T* x, const T* dy, T* dweight,
                 T* dbias)
      : x_(x),
        dy_(dy),
        dweight_(dweight),
        dbias_(dbias),
        panel_(CeilDiv(problem.OutSize(), CeilDiv(problem.OutSize(), kMaxPixels))),
        plan_(problem, panel_, kMaxPixels),
        p_(plan_.p),
        panels_(CeilDiv(plan_.pixels, panel_)),
        together_(std::max<int64_t>(1, kMaxPixels / plan_.pixels)),
        size_(p_.out_channels * plan_.taps),
        blocks_(CeilDiv(plan_.taps, kMaxColumns)),
        shares_(std::clamp<int64_t>(
            std::min<int64_t>(static_cast<int64_t>(p_.Work() / 4e6), (1 << 23) / size_),
            1, std::min<int64_t>(p_.batch, 16))) {}

  void Run() {
    const Scratch partial(Scratch::Bytes<T>((size_ + p_.out_channels) * (shares_ - 1)));
    partial_ = partial.As<T>();
    ParallelFor(shares_ * p_.groups * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task % blocks_, group = task / blocks_ % p_.groups;
        Block(task / blocks_ / p_.groups, group, block);
      }
    });
    AddUp(dweight_, partial_, size_);
    if (dbias_ != nullptr) {
      AddUp(dbias_, partial_ + size_ * (shares_ - 1), p_.out_channels);
    }
  }

 private:
  static constexpr int64_t kMaxPixels = 256, kMaxColumns = 256;

  void AddUp(T* sum, const T* parts, int64_t n) const {
    ParallelFor(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s + 1 < shares_; ++s) {
        for (int64_t i = begin; i < end; ++i) sum[i] += parts[s * n + i];
      }
    });
  }

  // Share `share` of the images, one group, one block of taps.
  void Block(int64_t share, int64_t group, int64_t block) {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t t0 = plan_.taps * block / blocks_,
                  t1 = plan_.taps * (block + 1) / blocks_;
    const int64_t oc = plan_.out_channels, longest = panel_ * together_;
    const RowPanels rows(oc);
    const int64_t columns = CeilDiv(t1 - t0, kWidth) * kWidth;
    const Scratch scratch(Scratch::Bytes<T>((columns + oc) * longest));
    T* b = scratch.As<T>();
    T* a = b + columns * longest;
    T* dw = share == 0 ? dweight_ : partial_ + (share - 1) * size_;
    dw += group * oc * plan_.taps + t0;
    T* db = nullptr;
    if (dbias_ != nullptr && block == 0) {
      db = share == 0
               ? dbias_
               : partial_ + size_ * (shares_ - 1) + (share - 1) * p_.out_channels;
      db += group * oc;
      std::fill_n(db, oc, T(0));
    }
    PaddedImage<T> padded(plan_, t0 / plan_.kernel, (t1 - 1) / plan_.kernel + 1);
    // A single image's dy is read in place, unless its rows share lines of L1 or many
    // columns pay for a copy.
    const bool packs_dy = together_ > 1 || columns > 4 * kWidth ||
                          plan_.pixels * int64_t{sizeof(T)} % 1024 == 0;
    bool first = true;
    const int64_t last = p_.batch * (share + 1) / shares_;
    for (int64_t n = p_.batch * share / shares_; n < last; n += together_) {
      const int64_t images = std::min(together_, last - n);
      for (int64_t panel = 0; panel < panels_; ++panel) {
        const int64_t pixels = std::min(panel_, plan_.pixels - panel * panel_);
        const int64_t k = images * pixels;
        for (int64_t m = 0; m < images; ++m) {
          const int64_t image = (n + m) * p_.groups + group;
          const T* dy = dy_ + image * oc * plan_.pixels + panel * panel_;
          PackImage(padded.Load(x_ + image * plan_.in_channels * plan_.in_size), panel,
                    t0, t1, m * pixels, k, b);
          for (int64_t i = 0; packs_dy && i < rows.count; ++i) {
            Pack(Operand<T>{dy + rows.First(i) * plan_.pixels, plan_.pixels, 1},
                 rows.Rows(i), pixels, rows.Rows(i),
                 a + rows.First(i) * k + m * pixels * rows.Rows(i));
          }
          for (int64_t i = 0; db != nullptr && i < oc; ++i) {
            db[i] += RowSum(dy + i * plan_.pixels, pixels);
          }
        }
        const T* dy =
            dy_ + (n * p_.groups + group) * oc * plan_.pixels + panel * panel_;
        for (int64_t j = 0; j < t1 - t0; j += kWidth) {
          const ColumnPanel<T> tile(t1 - t0, j);
          for (int64_t i = 0; i < rows.count; ++i) {
            const TileStore<T> store{dw + rows.First(i) * plan_.taps + j,
                                     plan_.taps,
                                     T(1),
                                     first ? T(0) : T(1),
                                     nullptr,
                                     false};
            if (packs_dy) {
              FindPackedTile<T>(rows.Rows(i), tile.vecs)(
                  k, a + rows.First(i) * k, b + j * k, tile.columns, store);
            } else {
              FindDirectTile<T>(rows.Rows(i), tile.vecs)(
                  k, dy + rows.First(i) * plan_.pixels, plan_.pixels, 1, b + j * k,
                  tile.width, tile.columns, store);
            }
          }
        }
        first = false;
      }
    }
  }

  void PackImage(const T* image, int64_t panel, int64_t t0, int64_t t1, int64_t at,
                 int64_t k, T* b) const {
    for (int64_t j = 0; j < t1 - t0; j += kTileColumns<T>) {
      const ColumnPanel<T> tile(t1 - t0, j);
      PackTaps(plan_, image, t0 + j, panel, tile.width, b + j * k + at * tile.width);
    }
  }

  const T* x_;
  const T* dy_;
  T* dweight_;
  T* dbias_;
  T* partial_ = nullptr;
  const int64_t panel_;  // pixels of a panel
  const ConvPlan plan_;
  const ConvProblem& p_;
  const int64_t panels_;    // of an image
  const int64_t together_;  // images that are added up in one product
  const int64_t size_;      // elements of dweight
  const int64_t blocks_, shares_;
};

void ForwardF32(const ConvProblem& p, const float* x, const float* w, const float* b,
                bool relu, float* y) {
  Forward(p, x, w, b, relu, y);
}
void ForwardF64(const ConvProblem& p, const double* x, const double* w, const double* b,
                bool relu, double* y) {
  Forward(p, x, w, b, relu, y);
}
void DataF32(const ConvProblem& p, const float* dy, const float* w, float* dx) {
  DataGradient(p, dy, w, dx).Run();
}
void DataF64(const ConvProblem& p, const double* dy, const double* w, double* dx) {
  DataGradient(p, dy, w, dx).Run();
}
void WeightF32(const ConvProblem& p, const float* x, const float* dy, float* dw,
               float* db) {
  WeightGradient<float>(p, x, dy, dw, db).Run();
}
void WeightF64(const ConvProblem& p, const double* x, const double* dy, double* dw,
               double* db) {
  WeightGradient<double>(p, x, dy, dw, db).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(DataF32);
HWY_EXPORT(DataF64);
HWY_EXPORT(WeightF32);
HWY_EXPORT(WeightF64);

auto* Forward(float) {
  return HWY_DYNAMIC_DISPATCH(ForwardF32);
}
auto* Forward(double) {
  return HWY_DYNAMIC_DISPATCH(ForwardF64);
}
auto* Data(float) {
  return HWY_DYNAMIC_DISPATCH(DataF32);
}
auto* Data(double) {
  return HWY_DYNAMIC_DISPATCH(DataF64);
}
auto* Weight(float) {
  return HWY_DYNAMIC_DISPATCH(WeightF32);
}
auto* Weight(double) {
  return HWY_DYNAMIC_DISPATCH(WeightF64);
}

}  // namespace kernel

template <typename T>
void OwnConvForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                    bool relu, T* y) {
  kernel::Forward(T())(p, x, weight, bias, relu, y);
}
template <typename T>
void OwnConvBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx) {
  kernel::Data(T())(p, dy, weight, dx);
}
template <typename T>
void OwnConvBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                           T* dbias) {
  kernel::Weight(T())(p, x, dy, dweight, dbias);
}

#define PLAIT_CONV(T)                                                                \
  template void OwnConvForward<T>(const ConvProblem&, const T*, const T*, const T*,  \
                                  bool, T*);                                         \
  template void OwnConvBackwardData<T>(const ConvProblem&, const T*, const T*, T*);  \
  template void OwnConvBackwardWeight<T>(const ConvProblem&, const T*, const T*, T*, \
                                         T*);
PLAIT_CONV(float)
PLAIT_CONV(double)
#undef PLAIT_CONV

}  // namespace plait::cpu
#endif  // HWY_ONCE
