// _linalg_extractdiag, makediag, extracttrian, maketrian: parts of matrices as vectors.

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

// The part of a square matrix of n rows that a vector holds: a lower triangle row by
// row, an upper one column by column.
struct Part {
  int64_t n = 0;       // rows of the matrix
  int64_t offset = 0;  // of the diagonal: above (> 0) or below (< 0) the main one
  bool diagonal = true;
  bool lower = true;  // which triangle, at offset 0

  int64_t side() const { return n - std::abs(offset); }
  int64_t size() const { return diagonal ? side() : side() * (side() + 1) / 2; }

  // Calls f(place in the matrix, number of elements) for each piece of a row.
  template <typename F>
  void ForEachPiece(F&& f) const {
    const bool low = offset < 0 || (offset == 0 && lower);
    const int64_t m = side();
    for (int64_t k = 0; k < m; ++k) {
      const int64_t row = k + std::max<int64_t>(0, -offset);
      const int64_t column = k + std::max<int64_t>(0, offset);
      if (diagonal) {
        f(row * n + column, int64_t{1});
      } else if (low) {
        f(row * n, k + 1);
      } else {
        for (int64_t r = 0; r <= k; ++r) f(r * n + column, int64_t{1});
      }
    }
  }
};

// Between (..., n, n) and (..., size).
void CopyPart(const Part& part, const View& x, const View& y, bool extract) {
  if (x.size() == 0) return;
  const int64_t whole = part.n * part.n, size = part.size();
  const int64_t count = (extract ? y : x).size() / size;
  if (!extract) std::memset(y.ptr, 0, static_cast<size_t>(y.bytes()));
  VisitSize(x.dtype, [&]<typename T>() {
    ParallelFor(count, 1 + (1 << 13) / size, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const T* src = x.data<const T>() + i * (extract ? whole : size);
        T* dst = y.data<T>() + i * (extract ? size : whole);
        part.ForEachPiece([&](int64_t at, int64_t n) {
          if (extract) {
            dst = std::copy_n(src + at, n, dst);
          } else {
            std::copy_n(src, n, dst + at);
            src += n;
          }
        });
      }
    });
  });
}

bool InferExtract(Part part, Specs& in, Specs& out, const char* op) {
  const Shape& x = in[0].shape;
  CheckSquare(x, op);
  if (!x.known()) return true;
  part.n = x.back();
  Check(part.side() > 0, op, ": offset ", part.offset, " is beyond matrices of shape ",
        x, "; a diagonal inside was expected");
  Shape y(x.begin(), x.end() - 1);
  y.back() = part.size();
  return Unify(y, out[0].shape);
}

// The rows of the matrix that a vector of `size` numbers makes; 0 when none fits.
int64_t RowsFor(int64_t size, int64_t offset, bool diagonal) {
  if (diagonal) return size + std::abs(offset);
  auto m =
      static_cast<int64_t>((std::sqrt(8.0 * static_cast<double>(size) + 1) - 1) / 2);
  while (m * (m + 1) / 2 < size) ++m;
  return m * (m + 1) / 2 == size ? m + std::abs(offset) : 0;
}

bool InferMake(int64_t offset, bool diagonal, Specs& in, Specs& out, const char* op) {
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  const int64_t n = x.rank() > 0 ? RowsFor(x.back(), offset, diagonal) : 0;
  Check(x.rank() > 0 && (n > 0 || x.back() == 0), op, ": x has shape ", x, "; ",
        diagonal ? "at least one axis was expected"
                 : "a last axis of m (m + 1) / 2 numbers was expected");
  Shape y = x;
  y.back() = n;
  y.Append(n);
  return Unify(y, out[0].shape);
}

// ---------------------------------------------------------------- diagonals

struct DiagParams {
  int64_t offset = 0;
  Part part(const Shape& matrix) const { return {matrix.back(), offset, true, true}; }
};

const char* const kOffsetDoc =
    "Which diagonal: 0 the main one, positive above, negative below.";

[[maybe_unused]] const OpDef& extractdiag = Register<DiagParams>({
    .name = "_linalg_extractdiag",
    .aliases = {"linalg_extractdiag"},
    .doc = "A diagonal of each matrix.",
    .inputs = {{"A", Types::kAny, "Square matrices."}},
    .params = {{"offset", &DiagParams::offset, kOffsetDoc}},
    .infer =
        [](const DiagParams& p, Specs& in, Specs& out) {
          return InferExtract({0, p.offset}, in, out, "_linalg_extractdiag");
        },
    .gradient = [](const DiagParams& p, const GradArgs& g) -> Values {
      return {Make("_linalg_makediag", {g.dout(0)}, {{"offset", Attr(p.offset)}})};
    },
    .cpu = {{"plain",
             [](const DiagParams& p, const KernelArgs& args) {
               CopyPart(p.part(args.in[0].shape()), args.in[0], args.out[0], true);
             }}},
    .samples = {{{Normal({3, 3})}},
                {{Normal({2, 4, 4})}, {1}},
                {{Normal({3, 3})}, {-2}}},
});

[[maybe_unused]] const OpDef& makediag = Register<DiagParams>({
    .name = "_linalg_makediag",
    .aliases = {"linalg_makediag"},
    .doc = "Matrices with given numbers on a diagonal, and zeros elsewhere.",
    .inputs = {{"A", Types::kAny, "The diagonals."}},
    .params = {{"offset", &DiagParams::offset, kOffsetDoc}},
    .infer =
        [](const DiagParams& p, Specs& in, Specs& out) {
          return InferMake(p.offset, true, in, out, "_linalg_makediag");
        },
    .gradient = [](const DiagParams& p, const GradArgs& g) -> Values {
      return {Make("_linalg_extractdiag", {g.dout(0)}, {{"offset", Attr(p.offset)}})};
    },
    .cpu = {{"plain",
             [](const DiagParams& p, const KernelArgs& args) {
               CopyPart(p.part(args.out[0].shape()), args.in[0], args.out[0], false);
             }}},
    .samples = {{{Normal({3})}}, {{Normal({2, 3})}, {1}}, {{Normal({2})}, {-2}}},
});

// ---------------------------------------------------------------- triangles

struct TrianParams {
  int64_t offset = 0;
  bool lower = true;
  Part part(const Shape& matrix) const { return {matrix.back(), offset, false, lower}; }
};

std::vector<Param<TrianParams>> TrianList() {
  return {{"offset", &TrianParams::offset,
           "The diagonal that bounds the triangle: above the main one (> 0) it is an "
           "upper triangle, below (< 0) a lower one."},
          {"lower", &TrianParams::lower, "Which triangle, at offset 0."}};
}

[[maybe_unused]] const OpDef& extracttrian = Register<TrianParams>({
    .name = "_linalg_extracttrian",
    .aliases = {"linalg_extracttrian"},
    .doc = "A triangle of each matrix, row by row.",
    .inputs = {{"A", Types::kAny, "Square matrices."}},
    .params = TrianList(),
    .infer =
        [](const TrianParams& p, Specs& in, Specs& out) {
          return InferExtract({0, p.offset, false}, in, out, "_linalg_extracttrian");
        },
    .gradient = [](const TrianParams& p, const GradArgs& g) -> Values {
      return {Make("_linalg_maketrian", {g.dout(0)},
                   {{"offset", Attr(p.offset)}, {"lower", Attr(p.lower)}})};
    },
    .cpu = {{"plain",
             [](const TrianParams& p, const KernelArgs& args) {
               CopyPart(p.part(args.in[0].shape()), args.in[0], args.out[0], true);
             }}},
    .samples = {{{Normal({3, 3})}},
                {{Normal({2, 3, 3})}, {.lower = false}},
                {{Normal({4, 4})}, {.offset = 1}},
                {{Normal({4, 4})}, {.offset = -2}}},
});

[[maybe_unused]] const OpDef& maketrian = Register<TrianParams>({
    .name = "_linalg_maketrian",
    .aliases = {"linalg_maketrian"},
    .doc =
        "Matrices with given numbers in a triangle, row by row, and zeros elsewhere.",
    .inputs = {{"A", Types::kAny, "The triangles."}},
    .params = TrianList(),
    .infer =
        [](const TrianParams& p, Specs& in, Specs& out) {
          return InferMake(p.offset, false, in, out, "_linalg_maketrian");
        },
    .gradient = [](const TrianParams& p, const GradArgs& g) -> Values {
      return {Make("_linalg_extracttrian", {g.dout(0)},
                   {{"offset", Attr(p.offset)}, {"lower", Attr(p.lower)}})};
    },
    .cpu = {{"plain",
             [](const TrianParams& p, const KernelArgs& args) {
               CopyPart(p.part(args.out[0].shape()), args.in[0], args.out[0], false);
             }}},
    .samples = {{{Normal({6})}},
                {{Normal({2, 3})}, {.lower = false}},
                {{Normal({3})}, {.offset = 1}},
                {{Normal({3})}, {.offset = -1}}},
});

}  // namespace
}  // namespace plait
