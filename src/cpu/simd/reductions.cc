// Vector loops of reductions: rows to one value each, and rows added to a row.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/reductions.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"
#include "cpu/simd/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;

template <typename T, class Op>
void Rows(const void* x, int64_t rows, int64_t length, void* acc) {
  const T* from = static_cast<const T*>(x);
  Wide<T>* to = static_cast<Wide<T>*>(acc);
  const T* const end = from + rows * length;
  for (int64_t r = 0; r < rows; ++r, from += length) {
    to[r] =
        Op::Scalar(to[r], static_cast<Wide<T>>(ReduceRow<T, Op>(from, length, end)));
  }
}

// acc[i] = acc[i] (op) y[i], where acc is of the wide type.
template <typename T, class Op>
void AccumulateWide(const void*, const void* y, const void*, void* out, int64_t n,
                    unsigned) {
  using W = Wide<T>;
  const Tag<W> dw;
  const hn::Rebind<T, decltype(dw)> d;
  const size_t lanes = hn::Lanes(dw);
  const T* from = static_cast<const T*>(y);
  W* to = static_cast<W*>(out);
  const auto widen = [&](auto v) HWY_ATTR {
    if constexpr (std::is_same_v<T, W>) {
      return v;
    } else {
      return hn::PromoteTo(dw, v);
    }
  };
  size_t left = static_cast<size_t>(n);
  for (; left >= lanes; left -= lanes, from += lanes, to += lanes) {
    hn::StoreU(Op::Vector(dw, hn::LoadU(dw, to), widen(hn::LoadU(d, from))), dw, to);
  }
  if (left > 0) {
    StoreTail(Op::Vector(dw, LoadTail(dw, to, left), widen(LoadTail(d, from, left))),
              dw, to, left);
  }
}

template <class Op>
void FillReduction(Kernels& k, Reduction reduction) {
  const int r = static_cast<int>(reduction);
  const auto set = [&]<typename T>(Compute compute, T) {
    k.rows[r][static_cast<int>(compute)] = Rows<T, Op>;
    k.accumulate_wide[r][static_cast<int>(compute)] = AccumulateWide<T, Op>;
  };
  set(Compute::kF32, float{});
  set(Compute::kF64, double{});
  set(Compute::kI32, int32_t{});
  set(Compute::kI64, int64_t{});
  set(Compute::kU64, uint64_t{});
}

}  // namespace

void FillReductions(Kernels& k) {
  FillReduction<SumOp>(k, Reduction::kSum);
  FillReduction<ProdOp>(k, Reduction::kProd);
  FillReduction<MaxOp>(k, Reduction::kMax);
  FillReduction<MinOp>(k, Reduction::kMin);
}

#else

void FillReductions(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillReductions);
void internal::FillReductions(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillReductions)(k);
}
}  // namespace plait::cpu
#endif
