// The arithmetic of recurrent cells on a block of hidden units, for the Highway target
// at hand.
//
// Included once for each target, after hwy/foreach_target.h. A cell works on `units`
// units from `first` on, for all samples of a step. The products with the hidden state
// are in the gates already; biases are not.

#if defined(PLAIT_CPU_RNN_CELL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_RNN_CELL_H_
#undef PLAIT_CPU_RNN_CELL_H_
#else
#define PLAIT_CPU_RNN_CELL_H_
#endif

#include <cmath>
#include <cstdint>

#include "cpu/rnn.h"
#include "cpu/simd/words.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if PLAIT_HAVE_VECTORS
namespace words = plait::cpu::HWY_NAMESPACE;

template <typename T>
using CellTag = hn::ScalableTag<T>;

template <class D, class V>
HWY_INLINE V SigmoidOf(D d, V x) {
  const V one = hn::Set(d, 1);
  return hn::Div(one, hn::Add(one, words::Exp(d, hn::Neg(x))));
}
// t / (t + 2) with t = e^2|x| - 1.
template <class D, class V>
HWY_INLINE V TanhOf(D d, V x) {
  const V a = words::AtMost(hn::Set(d, 20), hn::Abs(x));
  const V t = words::Expm1(d, hn::Add(a, a));
  return hn::CopySign(hn::Div(t, hn::Add(t, hn::Set(d, 2))), x);
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadSome(D d, const T* p, int64_t n) {
  return n >= static_cast<int64_t>(hn::Lanes(d))
             ? hn::LoadU(d, p)
             : words::LoadTail(d, p, static_cast<size_t>(n));
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreSome(hn::Vec<D> v, D d, T* p, int64_t n) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, p);
  words::StoreTail(v, d, p, static_cast<size_t>(n));
}
#else  // one element at a time
template <typename T>
using CellTag = hn::CappedTag<T, 1>;

template <class D, class V>
HWY_INLINE V SigmoidOf(D d, V x) {
  return hn::Set(d, 1 / (1 + std::exp(-hn::GetLane(x))));
}
template <class D, class V>
HWY_INLINE V TanhOf(D d, V x) {
  return hn::Set(d, std::tanh(hn::GetLane(x)));
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadSome(D d, const T* p, int64_t) {
  return hn::Set(d, *p);
}
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreSome(hn::Vec<D> v, D, T* p, int64_t) {
  *p = hn::GetLane(v);
}
#endif

// Where a block lies, and what the steps around it are.
struct CellBlock {
  int64_t time;       // the step that is computed
  int64_t before;     // the one computed before it; -1: none, the initial states
  int64_t first = 0;  // unit
  int64_t units = 0;
};

// The hidden state of a sample before a step.
template <typename T>
HWY_INLINE const T* HiddenBefore(const RnnSteps<T>& s, const CellBlock& b, int64_t n) {
  return b.before < 0 ? s.h0 + n * s.state()
                      : s.hs + (b.before * s.batch + n) * s.hs_row;
}
template <typename T>
HWY_INLINE const T* CellBefore(const RnnSteps<T>& s, const CellBlock& b, int64_t n) {
  return b.before < 0 ? s.c0 + n * s.hidden
                      : s.cells + (b.before * s.batch + n) * s.hidden;
}
template <typename T>
HWY_INLINE bool Active(const RnnSteps<T>& s, int64_t time, int64_t n) {
  return s.lengths == nullptr || time < s.lengths[n];
}

template <class D, class V>
HWY_INLINE V ClipCell(D d, const RnnClip& clip, V c) {
  using T = hn::TFromD<D>;
  const V low = hn::Set(d, static_cast<T>(clip.low));
  const V high = hn::Set(d, static_cast<T>(clip.high));
  V y = hn::IfThenElse(hn::Lt(c, low), low, hn::IfThenElse(hn::Gt(c, high), high, c));
  // NaN alone is not equal to itself.
  return clip.stop_nan ? hn::IfThenElse(hn::Eq(c, c), y, low) : y;
}

// Calls f(unit, count) for each vector of a block.
template <class D, class F>
HWY_INLINE void EachVector(D d, const CellBlock& b, F&& f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < b.units; i += lanes) f(b.first + i, b.units - i);
}

// ---------------------------------------------------------------- forward

// `h` has a row of the new hidden states for each sample, `row` values apart: hs, or
// what will be projected.
template <typename T>
void ForwardLstm(const RnnSteps<T>& s, const CellBlock& b, T* h, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  for (int64_t n = 0; n < s.batch; ++n) {
    T* const gates = s.gates + (b.time * s.batch + n) * 4 * H;
    T* const cell = s.cells + (b.time * s.batch + n) * H;
    const T* const cell_before = CellBefore(s, b, n);
    const bool active = Active(s, b.time, n);
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      if (!active) {
        StoreSome(LoadSome(d, cell_before + u, count), d, cell + u, count);
        StoreSome(hn::Zero(d), d, h + n * row + u, count);
        return;
      }
      const auto gate = [&](int64_t k) HWY_ATTR {
        const V bias = hn::Add(LoadSome(d, s.bias_input + k * H + u, count),
                               LoadSome(d, s.bias_hidden + k * H + u, count));
        return hn::Add(LoadSome(d, gates + k * H + u, count), bias);
      };
      const V i = SigmoidOf(d, gate(0)), f = SigmoidOf(d, gate(1));
      const V g = TanhOf(d, gate(2)), o = SigmoidOf(d, gate(3));
      V c = hn::MulAdd(f, LoadSome(d, cell_before + u, count), hn::Mul(i, g));
      if (s.clip.on) c = ClipCell(d, s.clip, c);
      StoreSome(i, d, gates + u, count);
      StoreSome(f, d, gates + H + u, count);
      StoreSome(g, d, gates + 2 * H + u, count);
      StoreSome(o, d, gates + 3 * H + u, count);
      StoreSome(c, d, cell + u, count);
      StoreSome(hn::Mul(o, TanhOf(d, c)), d, h + n * row + u, count);
    });
  }
}

template <typename T>
void ForwardGru(const RnnSteps<T>& s, const CellBlock& b, T* h, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  for (int64_t n = 0; n < s.batch; ++n) {
    if (!Active(s, b.time, n)) continue;
    T* const gates = s.gates + (b.time * s.batch + n) * 3 * H;
    T* const inner = s.inner + (b.time * s.batch + n) * H;
    const T* const before = HiddenBefore(s, b, n);
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      const auto biased = [&](const T* x, const T* bias, int64_t k) HWY_ATTR {
        return hn::Add(LoadSome(d, x + u, count), LoadSome(d, bias + k * H + u, count));
      };
      const auto gate = [&](int64_t k) HWY_ATTR {
        return hn::Add(biased(gates + k * H, s.bias_input, k),
                       LoadSome(d, s.bias_hidden + k * H + u, count));
      };
      const V r = SigmoidOf(d, gate(0)), z = SigmoidOf(d, gate(1));
      const V hidden = biased(inner, s.bias_hidden, 2);
      const V c =
          TanhOf(d, hn::MulAdd(r, hidden, biased(gates + 2 * H, s.bias_input, 2)));
      StoreSome(r, d, gates + u, count);
      StoreSome(z, d, gates + H + u, count);
      StoreSome(c, d, gates + 2 * H + u, count);
      StoreSome(hidden, d, inner + u, count);
      const V old = LoadSome(d, before + u, count);
      StoreSome(hn::MulAdd(z, hn::Sub(old, c), c), d, h + n * row + u, count);
    });
  }
}

template <typename T>
void ForwardPlain(const RnnSteps<T>& s, const CellBlock& b, T* h, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  const bool relu = s.mode == RnnMode::kRelu;
  for (int64_t n = 0; n < s.batch; ++n) {
    if (!Active(s, b.time, n)) continue;
    const T* const gates = s.gates + (b.time * s.batch + n) * H;
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      const V bias = hn::Add(LoadSome(d, s.bias_input + u, count),
                             LoadSome(d, s.bias_hidden + u, count));
      const V x = hn::Add(LoadSome(d, gates + u, count), bias);
      // The select keeps NaN, which Max would lose.
      const V y =
          relu ? hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x) : TanhOf(d, x);
      StoreSome(y, d, h + n * row + u, count);
    });
  }
}

template <typename T>
void ForwardCell(const RnnSteps<T>& s, const CellBlock& b, T* h, int64_t row) {
  switch (s.mode) {
    case RnnMode::kLstm:
      return ForwardLstm(s, b, h, row);
    case RnnMode::kGru:
      return ForwardGru(s, b, h, row);
    default:
      return ForwardPlain(s, b, h, row);
  }
}

// ---------------------------------------------------------------- backward

// Adds to the gradients of biases; a thread owns its units.
template <class D, class V, typename T = hn::TFromD<D>>
HWY_INLINE void AddTo(D d, V v, T* p, int64_t n) {
  StoreSome(hn::Add(LoadSome(d, p, n), v), d, p, n);
}

// `dh` has the gradient of what the cell gave, a row for each sample; what flows past
// the cell to the state before it is left in g.dh for the units. Gradients of gates are
// zero past the end of a sample.
template <typename T>
void BackwardLstm(const RnnSteps<T>& s, const RnnGradients<T>& g, const CellBlock& b,
                  const T* dh, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  const V one = hn::Set(d, 1), zero = hn::Zero(d);
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = b.time * s.batch + n;
    const T *gates = s.gates + at * 4 * H, *cell = s.cells + at * H;
    const T* before = CellBefore(s, b, n);
    T *dgates = g.dgates + at * 4 * H, *dcell = g.dc + n * H;
    const bool active = Active(s, b.time, n);
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      const auto give = [&](int64_t k, V v) HWY_ATTR {
        StoreSome(v, d, dgates + k * H + u, count);
        AddTo(d, v, g.dbias_input + k * H + u, count);
      };
      if (!active) {
        for (int64_t k = 0; k < 4; ++k) StoreSome(zero, d, dgates + k * H + u, count);
        return;
      }
      const V i = LoadSome(d, gates + u, count), f = LoadSome(d, gates + H + u, count);
      const V c = LoadSome(d, gates + 2 * H + u, count);
      const V o = LoadSome(d, gates + 3 * H + u, count);
      const V m = LoadSome(d, cell + u, count), t = TanhOf(d, m);
      const V dy = LoadSome(d, dh + n * row + u, count);
      V dm = hn::MulAdd(hn::Mul(dy, o), hn::NegMulAdd(t, t, one),
                        LoadSome(d, dcell + u, count));
      if (s.clip.on) {
        const V low = hn::Set(d, static_cast<T>(s.clip.low));
        const V high = hn::Set(d, static_cast<T>(s.clip.high));
        dm = hn::IfThenElse(hn::Le(m, low), zero, dm);
        dm = hn::IfThenElse(hn::Ge(m, high), zero, dm);
      }
      give(0, hn::Mul(hn::Mul(dm, c), hn::NegMulAdd(i, i, i)));
      give(1, hn::Mul(hn::Mul(dm, LoadSome(d, before + u, count)),
                      hn::NegMulAdd(f, f, f)));
      give(2, hn::Mul(hn::Mul(dm, i), hn::NegMulAdd(c, c, one)));
      give(3, hn::Mul(hn::Mul(dy, t), hn::NegMulAdd(o, o, o)));
      StoreSome(hn::Mul(dm, f), d, dcell + u, count);
    });
  }
}

template <typename T>
void BackwardGru(const RnnSteps<T>& s, const RnnGradients<T>& g, const CellBlock& b,
                 const T* dh, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  const V one = hn::Set(d, 1), zero = hn::Zero(d);
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = b.time * s.batch + n;
    const T *gates = s.gates + at * 3 * H, *inner = s.inner + at * H;
    const T* before = HiddenBefore(s, b, n);
    T* const dx = g.dgates + at * 3 * H;
    T* const dhidden = g.dgates_hidden + at * 3 * H;
    const bool active = Active(s, b.time, n);
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      const auto give = [&](int64_t k, V from_x, V from_hidden) HWY_ATTR {
        StoreSome(from_x, d, dx + k * H + u, count);
        StoreSome(from_hidden, d, dhidden + k * H + u, count);
        if (!active) return;
        AddTo(d, from_x, g.dbias_input + k * H + u, count);
        AddTo(d, from_hidden, g.dbias_hidden + k * H + u, count);
      };
      const V dy = LoadSome(d, dh + n * row + u, count);
      if (!active) {
        for (int64_t k = 0; k < 3; ++k) give(k, zero, zero);
        StoreSome(dy, d, g.dh + n * H + u, count);
        return;
      }
      const V r = LoadSome(d, gates + u, count), z = LoadSome(d, gates + H + u, count);
      const V c = LoadSome(d, gates + 2 * H + u, count);
      const V hidden = LoadSome(d, inner + u, count);
      const V old = LoadSome(d, before + u, count);
      const V dc = hn::Mul(hn::NegMulAdd(dy, z, dy), hn::NegMulAdd(c, c, one));
      const V dr = hn::Mul(hn::Mul(dc, hidden), hn::NegMulAdd(r, r, r));
      const V dz = hn::Mul(hn::Mul(dy, hn::Sub(old, c)), hn::NegMulAdd(z, z, z));
      give(0, dr, dr);
      give(1, dz, dz);
      give(2, dc, hn::Mul(dc, r));
      StoreSome(hn::Mul(dy, z), d, g.dh + n * H + u, count);
    });
  }
}

template <typename T>
void BackwardPlain(const RnnSteps<T>& s, const RnnGradients<T>& g, const CellBlock& b,
                   const T* dh, int64_t row) {
  const CellTag<T> d;
  using V = hn::Vec<CellTag<T>>;
  const int64_t H = s.hidden;
  const bool relu = s.mode == RnnMode::kRelu;
  const T* const states = s.projected > 0 ? s.raw : s.hs;
  const int64_t states_row = s.projected > 0 ? H : s.hs_row;
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t at = b.time * s.batch + n;
    T* const dx = g.dgates + at * H;
    const bool active = Active(s, b.time, n);
    EachVector(d, b, [&](int64_t u, int64_t count) HWY_ATTR {
      V v = hn::Zero(d);
      if (active) {
        const V y = LoadSome(d, states + at * states_row + u, count);
        const V dy = LoadSome(d, dh + n * row + u, count);
        v = relu ? hn::IfThenElse(hn::Gt(y, v), dy, v)
                 : hn::Mul(dy, hn::NegMulAdd(y, y, hn::Set(d, 1)));
        AddTo(d, v, g.dbias_input + u, count);
      }
      StoreSome(v, d, dx + u, count);
    });
  }
}

template <typename T>
void BackwardCell(const RnnSteps<T>& s, const RnnGradients<T>& g, const CellBlock& b,
                  const T* dh, int64_t row) {
  switch (s.mode) {
    case RnnMode::kLstm:
      return BackwardLstm(s, g, b, dh, row);
    case RnnMode::kGru:
      return BackwardGru(s, g, b, dh, row);
    default:
      return BackwardPlain(s, g, b, dh, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_RNN_CELL_H_
