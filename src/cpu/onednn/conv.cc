// Convolution by oneDNN, on buffers in any layout.

#include "cpu/onednn/conv.h"

#include <algorithm>
#include <string_view>

#include "base/parallel.h"
#include "cpu/onednn/lru_cache.h"
#include "cpu/onednn/primitive.h"

namespace plait::cpu::onednn {
namespace {

struct Key {
  ConvProblem p;
  int64_t threads;
  int32_t dtype, pass, algorithm, bias;
};

struct Entry {
  bool available = false;
  dnnl::primitive primitive;
  Md x, weight, bias, y, scratchpad;
  ConvLayouts layouts;
};

// The arguments that all three passes' descriptors share.
struct Args {
  explicit Args(const Key& key)
      : dims(key.p),
        type(TypeOf(static_cast<DType>(key.dtype))),
        algorithm(static_cast<ConvAlgorithm>(key.algorithm) == ConvAlgorithm::kWinograd
                      ? dnnl::algorithm::convolution_winograd
                      : dnnl::algorithm::convolution_direct),
        x(Any(dims.X())),
        weight(Any(dims.Weight())),
        bias(key.bias != 0 ? Md({key.p.out_channels}, type, dnnl::memory::format_tag::a)
                           : Md()),
        y(Any(dims.Y())) {
    for (int64_t i = 3 - key.p.rank; i < 3; ++i) {
      stride.push_back(key.p.stride[i]);
      dilation.push_back(key.p.dilation[i] - 1);
      low.push_back(key.p.pad_low[i]);
      high.push_back(key.p.pad_high[i]);
    }
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }
  Md Any(std::span<const int64_t> d) const {
    return Md(Dims(d.begin(), d.end()), type, dnnl::memory::format_tag::any);
  }

  ConvDims dims;
  dnnl::memory::data_type type;
  dnnl::algorithm algorithm;
  Md x, weight, bias, y;
  Dims stride, dilation, low, high;
  dnnl::primitive_attr attr;
};

using Forward = dnnl::convolution_forward;
using Data = dnnl::convolution_backward_data;
using Weight = dnnl::convolution_backward_weights;

#if DNNL_VERSION_MAJOR >= 3
Forward::primitive_desc ForwardPd(const Args& a) {
  return {Engine(),    dnnl::prop_kind::forward_training,
          a.algorithm, a.x,
          a.weight,    a.bias,
          a.y,         a.stride,
          a.dilation,  a.low,
          a.high,      a.attr};
}
Data::primitive_desc DataPd(const Args& a) {
  return {Engine(),   a.algorithm, a.x,    a.weight,     a.y,   a.stride,
          a.dilation, a.low,       a.high, ForwardPd(a), a.attr};
}
Weight::primitive_desc WeightPd(const Args& a) {
  return {Engine(), a.algorithm, a.x,   a.weight, a.bias,       a.y,
          a.stride, a.dilation,  a.low, a.high,   ForwardPd(a), a.attr};
}
#else
Forward::primitive_desc ForwardPd(const Args& a) {
  return {{dnnl::prop_kind::forward_training, a.algorithm, a.x, a.weight, a.bias, a.y,
           a.stride, a.dilation, a.low, a.high},
          a.attr,
          Engine()};
}
Data::primitive_desc DataPd(const Args& a) {
  return {{a.algorithm, a.x, a.weight, a.y, a.stride, a.dilation, a.low, a.high},
          a.attr,
          Engine(),
          ForwardPd(a)};
}
Weight::primitive_desc WeightPd(const Args& a) {
  return {
      {a.algorithm, a.x, a.weight, a.bias, a.y, a.stride, a.dilation, a.low, a.high},
      a.attr,
      Engine(),
      ForwardPd(a)};
}
#endif

// Loops in C++ (ref) and products of matrices (gemm) are no gain.
bool Generated(std::string_view name) {
  return name.find("ref") == name.npos && name.find("gemm:") == name.npos;
}

template <typename Pd>
void Fill(const Args& a, const Key& key, const Pd& pd, const Md& x, const Md& weight,
          const Md& y, Entry* entry) {
  if (!Generated(pd.impl_info_str())) return;
  const DType dtype = static_cast<DType>(key.dtype);
  entry->x = x;
  entry->weight = weight;
  entry->bias = a.bias;
  entry->y = y;
  entry->scratchpad = pd.scratchpad_desc();
  entry->layouts = {LayoutOf(x, a.dims.X(), dtype),
                    LayoutOf(weight, a.dims.Weight(), dtype),
                    LayoutOf(y, a.dims.Y(), dtype)};
  entry->available = true;
}

Entry Make(const Key& key) {
  Entry entry;
  try {
    const Args a(key);
    switch (static_cast<ConvPass>(key.pass)) {
      case ConvPass::kForward: {
        const auto pd = ForwardPd(a);
        Fill(a, key, pd, pd.src_desc(), pd.weights_desc(), pd.dst_desc(), &entry);
        if (entry.available) entry.primitive = Forward(pd);
        break;
      }
      case ConvPass::kBackwardData: {
        const auto pd = DataPd(a);
        Fill(a, key, pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(),
             &entry);
        if (entry.available) entry.primitive = Data(pd);
        break;
      }
      case ConvPass::kBackwardWeight: {
        const auto pd = WeightPd(a);
        Fill(a, key, pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(),
             &entry);
        if (entry.available) entry.primitive = Weight(pd);
        break;
      }
    }
  } catch (const dnnl::error& e) {
    // Not implemented, or (Winograd) arguments that it does not take.
    if (e.status == dnnl_out_of_memory) Rethrow(e, "Convolution");
    entry = Entry();
  }
  return entry;
}

// Must be called inside a ScopedTeam.
std::shared_ptr<const Entry> Find(const ConvProblem& p, DType dtype, ConvPass pass,
                                  ConvAlgorithm algorithm, bool bias) {
  static auto& cache = *new LruCache<Key, Entry>(kCacheCapacity);
  const Key key{p,
                ComputeThreads(),
                static_cast<int32_t>(dtype),
                static_cast<int32_t>(pass),
                static_cast<int32_t>(algorithm),
                bias};
  return cache.Get(key, Make);
}

// In a pass over all of the buffer, padding included: relu(0) is 0. oneDNN's fused relu
// would make zeros of NaNs. Every element is stored, so that vectors can do it.
template <typename T>
void Relu(T* y, int64_t n) {
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T v = y[i];
      y[i] = static_cast<float>(v) < 0 ? T(0.0f) : v;
    }
  });
}

}  // namespace

ConvDims::ConvDims(const ConvProblem& p) : x{}, weight{}, y{} {
  const auto add = [](std::array<int64_t, 6>& dims, int& n, int64_t size) {
    dims[n++] = size;
  };
  int y_rank = 0;
  add(x, rank, p.batch);
  add(x, rank, p.in_channels);
  add(y, y_rank, p.batch);
  add(y, y_rank, p.out_channels);
  if (p.groups > 1) add(weight, weight_rank, p.groups);
  add(weight, weight_rank, p.out_channels / p.groups);
  add(weight, weight_rank, p.in_channels / p.groups);
  for (int axis = static_cast<int>(3 - p.rank); axis < 3; ++axis) {
    add(x, rank, p.in[axis]);
    add(y, y_rank, p.Out(axis));
    add(weight, weight_rank, p.kernel[axis]);
  }
}

bool HasConv(const ConvProblem& p, DType dtype, ConvPass pass,
             ConvAlgorithm algorithm) {
  const ScopedTeam team;
  return Find(p, dtype, pass, algorithm, false)->available;
}

ConvLayouts PreferredLayouts(const ConvProblem& p, DType dtype, ConvPass pass,
                             ConvAlgorithm algorithm) {
  const ScopedTeam team;
  return Find(p, dtype, pass, algorithm, false)->layouts;
}

void ConvForward(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                 const ConvLayouts& layouts, const void* x, const void* weight,
                 const void* bias, bool relu, void* y) {
  const ScopedTeam team;
  const auto e = Find(p, dtype, ConvPass::kForward, algorithm, bias != nullptr);
  const ConvDims dims(p);
  const InLayout xs(dims.X(), dtype, layouts.x, x, e->layouts.x, e->x);
  const InLayout ws(dims.Weight(), dtype, layouts.weight, weight, e->layouts.weight,
                    e->weight);
  const InLayout ys(dims.Y(), dtype, layouts.y, y, e->layouts.y, e->y);
  if (bias != nullptr) {
    Execute(e->primitive, e->scratchpad,
            {{DNNL_ARG_SRC, &e->x, xs.data()},
             {DNNL_ARG_WEIGHTS, &e->weight, ws.data()},
             {DNNL_ARG_BIAS, &e->bias, bias},
             {DNNL_ARG_DST, &e->y, ys.data()}},
            "Convolution");
  } else {
    Execute(e->primitive, e->scratchpad,
            {{DNNL_ARG_SRC, &e->x, xs.data()},
             {DNNL_ARG_WEIGHTS, &e->weight, ws.data()},
             {DNNL_ARG_DST, &e->y, ys.data()}},
            "Convolution");
  }
  ys.Done();
  if (!relu) return;
  const int64_t n =
      static_cast<int64_t>(LayoutBytes(layouts.y, dims.Y(), dtype) / SizeOf(dtype));
  if (dtype == DType::kBfloat16) {
    Relu(static_cast<Bfloat16*>(y), n);
  } else {
    Relu(static_cast<float*>(y), n);
  }
}

void ConvBackwardData(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                      const ConvLayouts& layouts, const void* dy, const void* weight,
                      void* dx) {
  const ScopedTeam team;
  const auto e = Find(p, dtype, ConvPass::kBackwardData, algorithm, false);
  const ConvDims dims(p);
  const InLayout ys(dims.Y(), dtype, layouts.y, dy, e->layouts.y, e->y);
  const InLayout ws(dims.Weight(), dtype, layouts.weight, weight, e->layouts.weight,
                    e->weight);
  const InLayout xs(dims.X(), dtype, layouts.x, dx, e->layouts.x, e->x);
  Execute(e->primitive, e->scratchpad,
          {{DNNL_ARG_DIFF_DST, &e->y, ys.data()},
           {DNNL_ARG_WEIGHTS, &e->weight, ws.data()},
           {DNNL_ARG_DIFF_SRC, &e->x, xs.data()}},
          "Convolution");
  xs.Done();
}

void ConvBackwardWeight(const ConvProblem& p, DType dtype, ConvAlgorithm algorithm,
                        const ConvLayouts& layouts, const void* x, const void* dy,
                        void* dweight, void* dbias) {
  const ScopedTeam team;
  const auto e = Find(p, dtype, ConvPass::kBackwardWeight, algorithm, dbias != nullptr);
  const ConvDims dims(p);
  const InLayout xs(dims.X(), dtype, layouts.x, x, e->layouts.x, e->x);
  const InLayout ys(dims.Y(), dtype, layouts.y, dy, e->layouts.y, e->y);
  const InLayout ws(dims.Weight(), dtype, layouts.weight, dweight, e->layouts.weight,
                    e->weight);
  if (dbias != nullptr) {
    Execute(e->primitive, e->scratchpad,
            {{DNNL_ARG_SRC, &e->x, xs.data()},
             {DNNL_ARG_DIFF_DST, &e->y, ys.data()},
             {DNNL_ARG_DIFF_WEIGHTS, &e->weight, ws.data()},
             {DNNL_ARG_DIFF_BIAS, &e->bias, dbias}},
            "Convolution");
  } else {
    Execute(e->primitive, e->scratchpad,
            {{DNNL_ARG_SRC, &e->x, xs.data()},
             {DNNL_ARG_DIFF_DST, &e->y, ys.data()},
             {DNNL_ARG_DIFF_WEIGHTS, &e->weight, ws.data()}},
            "Convolution");
  }
  ws.Done();
}

}  // namespace plait::cpu::onednn
