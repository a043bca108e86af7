// What the attention operators share: inference, problems, and plain loops.

#include "ops/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/random.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

using P = AttentionParams;

// The axes of an array by meaning; three axes: heads are part of the last one.
struct Axes {
  int batch = 0, heads = 1, rows = 2, size = 3;
  Axes(const P& p, int rank) {
    if (rank == 3 || p.layout != AttentionLayout::kHeadsFirst) {
      rows = 1;
      heads = rank == 3 ? -1 : 2;
      size = rank - 1;
    }
    if (p.layout == AttentionLayout::kTimeFirst) std::swap(batch, rows);
  }
};

// Sizes that an array of rows must share with others.
bool UnifyRows(const P& p, Shape& x, int64_t& batch, int64_t& heads, int64_t& rows,
               int64_t& size) {
  const Axes a(p, x.rank());
  bool fits = UnifySize(x[a.batch], batch) && UnifySize(x[a.rows], rows);
  if (a.heads >= 0) {
    return fits && UnifySize(x[a.heads], heads) && UnifySize(x[a.size], size);
  }
  int64_t own = p.heads;
  fits = fits && UnifySize(own, heads);
  if (x[a.size] == kUnknownSize && size != kUnknownSize) x[a.size] = size * p.heads;
  if (x[a.size] == kUnknownSize) return fits;
  int64_t each = x[a.size] / p.heads;
  return fits && x[a.size] % p.heads == 0 && UnifySize(each, size);
}

}  // namespace

void CheckAttentionMask(const char* op, const Shape& mask, const AttentionSizes& s) {
  if (!mask.rank_known()) return;
  const int64_t full[] = {s.batch, s.heads, s.queries, s.keys};
  bool fits = mask.rank() <= 4;
  for (int i = 1; fits && i <= mask.rank(); ++i) {
    const int64_t have = mask[mask.rank() - i], want = full[4 - i];
    fits = have == want || have == 1 || have == kUnknownSize || want == kUnknownSize;
  }
  Check(fits, op, ": mask has shape ", mask, "; one that broadcasts to ",
        Shape{s.batch, s.heads, s.queries, s.keys},
        " (batch, heads, queries, keys) was expected");
}

void CheckAttentionLength(const char* op, Shape& length, const AttentionSizes& s) {
  const int64_t full[] = {s.batch, s.heads, s.queries};
  bool fits = length.rank() == 3 || Assign(length, Shape{s.batch});
  for (int i = 0; fits && length.rank() == 3 && i < 3; ++i) {
    fits = length[i] == full[i] || length[i] == 1 || length[i] == kUnknownSize ||
           full[i] == kUnknownSize;
  }
  Check(fits, op, ": length has shape ", length, "; ", Shape{s.batch},
        ", a number of keys for each of the batch, or one that broadcasts to ",
        Shape{s.batch, s.heads, s.queries}, " was expected");
}

std::vector<Param<P>> AttentionParamList() {
  return {
      {"scale", &P::scale, "Of the scores; None is 1 / sqrt(size)."},
      {"causal", &P::causal,
       "A query sees no later keys; the last query is as late as the last key."},
      {"dropout", &P::dropout, "In training, the chance of a weight to become 0."},
      {"layout",
       &P::layout,
       {"BHTD", "BTHD", "TBHD"},
       "Of arrays with four axes: where batch, heads and length stand."},
      {"heads", &P::heads,
       "Of arrays with three axes, (batch, length, heads * size), or with the layout "
       "TBHD (length, batch, heads * size)."},
      {"use_mask", &P::use_mask, "Takes `mask`."},
      {"use_length", &P::use_length, "Takes `length`."}};
}

int MaskInput(const P& p) {
  return p.use_mask ? 3 : -1;
}
int LengthInput(const P& p) {
  return p.use_length ? 3 + p.use_mask : -1;
}

AttentionSizes SizesOf(const P& p, const Shape& q, const Shape& k, const Shape& v) {
  AttentionSizes s;
  Shape x = q, y = k, z = v;
  UnifyRows(p, x, s.batch, s.heads, s.queries, s.size);
  UnifyRows(p, y, s.batch, s.heads, s.keys, s.size);
  UnifyRows(p, z, s.batch, s.heads, s.keys, s.value_size);
  return s;
}

bool InferAttention(const P& p, const char* op, Specs& in, Shape* y) {
  Check(p.heads > 0, op, ": heads is ", p.heads, "; at least 1 was expected");
  Check(p.dropout >= 0 && p.dropout <= 1, op, ": dropout is ", p.dropout,
        "; a number in [0, 1] was expected");
  Check(!p.scale || std::isfinite(*p.scale), op, ": scale is ", p.scale.value_or(0),
        "; a finite number was expected");
  int rank = -1;
  for (int i = 0; i < 3; ++i) {
    if (in[i].shape.rank_known()) rank = in[i].shape.rank();
  }
  if (rank < 0) return true;
  for (int i = 0; i < 3; ++i) {
    if (!in[i].shape.rank_known()) in[i].shape = Shape::Filled(rank, kUnknownSize);
  }
  const auto fail = [&] {
    static constexpr const char* kLayouts[] = {
        "(batch, heads, length, size)",  "(batch, length, heads, size)",
        "(length, batch, heads, size)",  "(batch, length, heads * size)",
        "(batch, length, heads * size)", "(length, batch, heads * size)"};
    Fail(ErrorKind::kValue, op, ": query ", in[0].shape, ", key ", in[1].shape,
         " and value ", in[2].shape, " do not match; ",
         kLayouts[(rank == 3 ? 3 : 0) + static_cast<int>(p.layout)], ", with heads ",
         rank == 3 ? p.heads : 0,
         " where there are three axes, one batch, as many keys as values and one size "
         "of queries and keys were expected");
  };
  Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  if ((rank != 3 && rank != 4) || k.rank() != rank || v.rank() != rank ||
      q.rank() != rank)
    fail();
  if (y != nullptr && !y->rank_known()) *y = Shape::Filled(rank, kUnknownSize);
  if (y != nullptr && y->rank() != rank) return false;
  AttentionSizes s;
  for (int round = 0; round < 2; ++round) {
    if (!UnifyRows(p, q, s.batch, s.heads, s.queries, s.size) ||
        !UnifyRows(p, k, s.batch, s.heads, s.keys, s.size) ||
        !UnifyRows(p, v, s.batch, s.heads, s.keys, s.value_size))
      fail();
    if (y != nullptr && !UnifyRows(p, *y, s.batch, s.heads, s.queries, s.value_size))
      return false;
  }
  if (p.use_mask) CheckAttentionMask(op, in[MaskInput(p)].shape, s);
  if (p.use_length) {
    Shape& length = in[LengthInput(p)].shape;
    CheckAttentionLength(op, length, s);
  }
  return true;
}

void InferAttentionTypes(const P& p, const char* op, Specs& in) {
  DType all = DType::kUnknown;
  for (int i = 0; i < 3; ++i) UnifyDType(all, in[i].dtype);
  for (int i = 0; i < 3; ++i) UnifyDType(in[i].dtype, all);
  Check(in[0].dtype == in[1].dtype && in[1].dtype == in[2].dtype, ErrorKind::kType, op,
        ": query is ", in[0].dtype, ", key ", in[1].dtype, ", value ", in[2].dtype,
        "; one dtype for all was expected");
  if (p.use_mask) UnifyDType(in[MaskInput(p)].dtype, all);
  if (p.use_length && in[LengthInput(p)].dtype == DType::kUnknown)
    in[LengthInput(p)].dtype = DType::kFloat32;
}

double AttentionScale(const P& p, int64_t size) {
  return p.scale.value_or(1 /
                          std::sqrt(static_cast<double>(std::max<int64_t>(size, 1))));
}

double AttentionFlops(const P& p, const Specs& in) {
  const AttentionSizes s = SizesOf(p, in[0].shape, in[1].shape, in[2].shape);
  const double scores =
      static_cast<double>(s.batch * s.heads * s.queries) * static_cast<double>(s.keys);
  return 2 * scores * static_cast<double>(s.size + s.value_size) * (p.causal ? 0.5 : 1);
}

cpu::AttentionRows RowsOf(const P& p, const View& x) {
  const Shape& shape = x.shape();
  const Axes a(p, shape.rank());
  const auto stride = [&](int axis) { return shape.size(axis + 1, shape.rank()); };
  return {x.ptr, stride(a.batch),
          a.heads < 0 ? shape[a.size] / p.heads : stride(a.heads), stride(a.rows)};
}

void SetMaskAndLengths(cpu::AttentionProblem& problem, const View* mask,
                       const View* length, std::vector<int64_t>& lengths) {
  if (length != nullptr) {
    const View& x = *length;
    VisitDType(x.dtype, [&]<typename T>() {
      for (int64_t i = 0; i < x.size(); ++i) {
        const auto n =
            static_cast<double>(static_cast<Accumulate<T>>(x.data<const T>()[i]));
        // NaN counts as 0.
        lengths.push_back(
            n > 0 ? static_cast<int64_t>(std::min(n, static_cast<double>(problem.keys)))
                  : 0);
      }
    });
    problem.lengths = lengths.data();
    if (const Shape& n = x.shape(); n.rank() == 3) {
      problem.length_query = n[2] != 1;
      problem.length_head = n[1] != 1 ? n[2] : 0;
      problem.length_batch = n[0] != 1 ? n[1] * n[2] : 0;
    }
  }
  if (mask != nullptr) {
    const View& x = *mask;
    const Shape& shape = x.shape();
    int64_t stride = 1, strides[4] = {};
    for (int i = shape.rank() - 1, axis = 3; i >= 0; --i, --axis) {
      if (shape[i] != 1) strides[axis] = stride;
      stride *= shape[i];
    }
    problem.mask = {x.ptr, x.dtype, strides[0], strides[1], strides[2], strides[3]};
  }
}

cpu::AttentionProblem ProblemOf(const P& p, std::span<const View> in,
                                std::vector<int64_t>& lengths) {
  const AttentionSizes s = SizesOf(p, in[0].shape(), in[1].shape(), in[2].shape());
  cpu::AttentionProblem problem{s.batch, s.heads, s.queries,
                                s.keys,  s.size,  s.value_size};
  problem.dtype = in[0].dtype;
  problem.q = RowsOf(p, in[0]);
  problem.k = RowsOf(p, in[1]);
  problem.v = RowsOf(p, in[2]);
  problem.scale = AttentionScale(p, s.size);
  problem.causal = p.causal;
  SetMaskAndLengths(problem, p.use_mask ? &in[MaskInput(p)] : nullptr,
                    p.use_length ? &in[LengthInput(p)] : nullptr, lengths);
  return problem;
}

namespace {

double ElementOf(DType dtype, const void* data, int64_t i) {
  return VisitDType(dtype, [&]<typename T>() {
    return static_cast<double>(
        static_cast<Accumulate<T>>(static_cast<const T*>(data)[i]));
  });
}

double PlainScore(const cpu::AttentionProblem& p, int64_t b, int64_t h, int64_t i,
                  int64_t j) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (p.causal && j > i + p.keys - p.queries) return kHidden;
  if (j >= p.Length(b, h, i)) return kHidden;
  double s = 0;
  for (int64_t d = 0; d < p.size; ++d) {
    s += ElementOf(p.dtype, p.q.data, b * p.q.batch + h * p.q.head + i * p.q.row + d) *
         ElementOf(p.dtype, p.k.data, b * p.k.batch + h * p.k.head + j * p.k.row + d);
  }
  s *= p.scale;
  if (p.mask.data == nullptr) return s;
  const cpu::AttentionMask& m = p.mask;
  const double mask =
      ElementOf(m.dtype, m.data, b * m.batch + h * m.head + i * m.query + j * m.key);
  if (IsFloat(m.dtype)) return s + mask;
  return mask != 0 ? s : kHidden;
}

}  // namespace

std::vector<double> PlainAttentionWeights(const cpu::AttentionProblem& p,
                                          double* log_sums) {
  std::vector<double> weights(
      static_cast<size_t>(p.batch * p.heads * p.queries * p.keys));
  for (int64_t r = 0; r < p.batch * p.heads * p.queries; ++r) {
    const int64_t head = r / p.queries;
    double* w = weights.data() + r * p.keys;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < p.keys; ++j) {
      w[j] = PlainScore(p, head / p.heads, head % p.heads, r % p.queries, j);
      if (!(w[j] <= top)) top = w[j];  // NaN wins
    }
    const bool nothing = top == -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < p.keys; ++j) {
      w[j] = nothing ? 0 : std::exp(w[j] - top);
      sum += w[j];
    }
    for (int64_t j = 0; j < p.keys && !nothing; ++j) w[j] /= sum;
    if (log_sums != nullptr) {
      log_sums[r] = nothing ? std::numeric_limits<double>::infinity()
                            : top / std::log(2.0) + std::log2(sum);
    }
  }
  return weights;
}

std::vector<double> PlainAttentionKept(const cpu::AttentionProblem& p) {
  const int64_t n = p.batch * p.heads * p.queries * p.keys;
  std::vector<double> kept(static_cast<size_t>(n), 1.0);
  if (p.dropout <= 0) return kept;
  std::vector<uint32_t> bits(static_cast<size_t>(n));
  cpu::FillUniformBits(p.random, 0, bits.data(), n);
  const double below = std::floor((1 - p.dropout) * 0x1p32);
  for (int64_t i = 0; i < n; ++i) {
    kept[i] = bits[i] < below ? 1 / (1 - p.dropout) : 0;
  }
  return kept;
}

Value HeadsOf(const P& p, const Value& x) {
  const Shape& s = x.shape();
  const Axes a(p, s.rank());
  if (a.heads == 1) return reshape(x, {s[0] * s[1], s[2], s[3]});
  const int64_t heads = a.heads < 0 ? p.heads : s[2];
  const Value rows = reshape(x, {s[0], s[1], heads, s.size(2, s.rank()) / heads});
  return reshape(transpose(rows, {a.batch, 2, a.rows, 3}),
                 {s[a.batch] * heads, s[a.rows], rows.shape()[3]});
}

Value FromHeads(const P& p, const Value& x, const Shape& like) {
  const Axes a(p, like.rank());
  if (a.heads == 1) return reshape(x, like);
  const int64_t batch = like[a.batch], heads = a.heads < 0 ? p.heads : like[2];
  const Value each = reshape(x, {batch, heads, x.shape()[1], x.shape()[2]});
  return reshape(transpose(each, a.batch == 0 ? Shape{0, 2, 1, 3} : Shape{2, 0, 1, 3}),
                 like);
}

}  // namespace plait
