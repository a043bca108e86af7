// diag: the diagonal of a matrix, or a matrix with a given diagonal.

#include <algorithm>

#include "ops/gradients.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct DiagParams {
  int k = 0;
  int axis1 = 0, axis2 = 1;
};

// The diagonal of an array of at least two axes: where it starts, its step and length.
struct Diagonal {
  int a, b;  // the axes
  int64_t offset, step, length;
};

Diagonal Find(const DiagParams& p, const Shape& x, const char* op) {
  Diagonal d{NormalizeAxis(p.axis1, x.rank(), op), NormalizeAxis(p.axis2, x.rank(), op),
             0, 0, 0};
  Check(d.a != d.b, op, ": axis1 and axis2 are both ", d.a,
        "; different axes were expected");
  const int64_t down = p.k < 0 ? -int64_t{p.k} : 0, right = p.k > 0 ? p.k : 0;
  const cpu::Strides strides = cpu::RowMajor(x);
  d.offset = down * strides[d.a] + right * strides[d.b];
  d.step = strides[d.a] + strides[d.b];
  d.length = std::max<int64_t>(0, std::min(x[d.a] - down, x[d.b] - right));
  return d;
}

Shape DiagonalShape(const Shape& x, const Diagonal& d) {
  Shape y = x;
  y.Erase(std::max(d.a, d.b));
  y.Erase(std::min(d.a, d.b));
  y.Append(d.length);
  return y;
}

cpu::Strides StridesIn(const Shape& x, const Diagonal& d) {
  cpu::Strides strides = cpu::RowMajor(x);
  strides.Erase(std::max(d.a, d.b));
  strides.Erase(std::min(d.a, d.b));
  strides.Append(d.step);
  return strides;
}

// Copies between the diagonal of `whole` and the array `part`.
void CopyDiagonal(const View& whole, const View& part, const Diagonal& d,
                  bool to_whole) {
  if (part.size() == 0) return;
  const Shape& sizes = part.shape();
  const cpu::Strides inside = StridesIn(whole.shape(), d), own = cpu::RowMajor(sizes);
  char* start = At(whole, d.offset);
  if (to_whole) {
    cpu::CopyStrided(sizes, start, inside, part.ptr, own, SizeOf(part.dtype));
  } else {
    cpu::CopyStrided(sizes, part.ptr, own, start, inside, SizeOf(part.dtype));
  }
}

// A vector becomes the diagonal k of a square matrix.
DiagParams OfMatrix(const DiagParams& p) {
  return {p.k, 0, 1};
}

bool InferDiag(const DiagParams& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() > 0, "diag: x is a scalar; at least one axis was expected");
  const int64_t n = x[0] + std::abs(int64_t{p.k});
  Shape y{n, n};
  if (x.rank() > 1) y = DiagonalShape(x, Find(p, x, "diag"));
  return Unify(y, out[0].shape);
}

void RunDiag(const DiagParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (x.shape().rank() == 1) {
    cpu::FillZero(y.ptr, y.bytes());
    CopyDiagonal(y, x, Find(OfMatrix(p), y.shape(), "diag"), true);
  } else {
    CopyDiagonal(x, y, Find(p, x.shape(), "diag"), false);
  }
}

Values DiagGradient(const DiagParams& p, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  if (x.rank() == 1) return {Make("diag", {g.dout(0)}, {{"k", Attr(p.k)}})};
  return {Make("_diag_backward", {g.dout(0)},
               {{"k", Attr(p.k)},
                {"axis1", Attr(p.axis1)},
                {"axis2", Attr(p.axis2)},
                {"shape", Attr(x)}})};
}

[[maybe_unused]] const OpDef& diag = Register<DiagParams>({
    .name = "diag",
    .doc = "The diagonal of x, or for a vector the matrix that has it as its diagonal.",
    .inputs = {{"data", Types::kAny, "An array of at least one axis."}},
    .params = {{"k", &DiagParams::k, "Which diagonal; positive ones lie above."},
               {"axis1", &DiagParams::axis1, "The axis that counts as rows."},
               {"axis2", &DiagParams::axis2, "The axis that counts as columns."}},
    .infer = InferDiag,
    .gradient = DiagGradient,
    .cpu = {{"plain", RunDiag}},
    .samples = {{{Normal({3, 4})}},
                {{Normal({3})}, {.k = 1}},
                {{Normal({4, 3})}, {.k = -2}},
                {{Normal({2, 3, 4})}, {.k = 1, .axis1 = -1, .axis2 = 1}},
                {{Normal({2, 3})}, {.k = 5}}},
});

struct BackwardParams {
  int k = 0;
  int axis1 = 0, axis2 = 1;
  Shape shape;
  DiagParams diag() const { return {k, axis1, axis2}; }
};

[[maybe_unused]] const OpDef& diag_backward = Register<BackwardParams>({
    .name = "_diag_backward",
    .doc = "Zeros of a shape with a given diagonal: the gradient of diag.",
    .inputs = {{"data", Types::kAny, "The diagonal."}},
    .params = {{"k", &BackwardParams::k, "As for diag."},
               {"axis1", &BackwardParams::axis1, "As for diag."},
               {"axis2", &BackwardParams::axis2, "As for diag."},
               Required<BackwardParams>("shape", &BackwardParams::shape,
                                        "The shape of the result.")},
    .infer =
        [](const BackwardParams& p, Specs& in, Specs& out) {
          Shape x = p.shape, y = DiagonalShape(x, Find(p.diag(), x, "_diag_backward"));
          return Unify(y, in[0].shape) && Unify(x, out[0].shape);
        },
    .gradient = [](const BackwardParams& p, const GradArgs& g) -> Values {
      return {
          Make("diag", {g.dout(0)},
               {{"k", Attr(p.k)}, {"axis1", Attr(p.axis1)}, {"axis2", Attr(p.axis2)}})};
    },
    .cpu = {{"plain",
             [](const BackwardParams& p, const KernelArgs& args) {
               const View& dx = args.out[0];
               cpu::FillZero(dx.ptr, dx.bytes());
               CopyDiagonal(dx, args.in[0], Find(p.diag(), p.shape, "_diag_backward"),
                            true);
             }}},
    .samples = {{{Normal({2})}, {.k = 1, .shape = {3, 3}}},
                {{Normal({2, 3})},
                 {.k = 0, .axis1 = 1, .axis2 = 2, .shape = {2, 3, 4}}}},
});

}  // namespace
}  // namespace plait
