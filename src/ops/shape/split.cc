// SliceChannel, _split_v2: one array cut into several along an axis.

#include "ops/gradients.h"
#include "ops/shape/copy.h"
#include "ops/shape/slices.h"

namespace plait {
namespace {

// Piece i is [ends[i], ends[i + 1]) of the axis.
struct Cut {
  int axis;
  std::vector<int64_t> ends;
  bool squeeze;
  int pieces() const { return static_cast<int>(ends.size()) - 1; }
};

std::vector<int64_t> EqualEnds(int64_t n, int pieces, const Shape& x, const char* op) {
  Check(pieces > 0, op, ": ", pieces, " pieces; at least one was expected");
  Check(n % pieces == 0, op, ": x of shape ", x, " cannot be cut into ", pieces,
        " equal pieces; a divisor of ", n, " was expected");
  std::vector<int64_t> ends;
  for (int i = 0; i <= pieces; ++i) ends.push_back(n / pieces * i);
  return ends;
}

Shape PieceShape(const Shape& x, const Cut& cut, int i) {
  Shape y = x;
  y[cut.axis] = cut.ends[i + 1] - cut.ends[i];
  if (cut.squeeze) y.Erase(cut.axis);
  return y;
}

bool InferPieces(const Shape& x, const Cut& cut, Specs& out, const char* op) {
  for (int i = 0; i < cut.pieces(); ++i) {
    Check(!cut.squeeze || cut.ends[i + 1] - cut.ends[i] == 1, op,
          ": pieces of x of shape ", x, " along axis ", cut.axis,
          " are no single slices; squeeze_axis expects size 1");
    Shape y = PieceShape(x, cut, i);
    if (y.rank() == 0) y.Append(1);
    if (!Unify(y, out[i].shape)) return false;
  }
  return true;
}

void RunPieces(const Cut& cut, const KernelArgs& args) {
  const View& x = args.in[0];
  const int rank = x.shape().rank();
  const int64_t outer = x.shape().size(0, cut.axis);
  const int64_t inner = x.shape().size(cut.axis + 1, rank);
  const int64_t row = x.shape()[cut.axis] * inner;
  for (int i = 0; i < cut.pieces(); ++i) {
    const int64_t n = (cut.ends[i + 1] - cut.ends[i]) * inner;
    cpu::CopyStrided({outer, n}, args.out[i].ptr, {n, 1}, At(x, cut.ends[i] * inner),
                     {row, 1}, SizeOf(x.dtype));
  }
}

Values JoinPieces(const Cut& cut, const GradArgs& g) {
  const Shape& x = g.in_spec(0).shape;
  const OpDef& concat = GetOp("Concat");
  Values parts;
  for (int i = 0; i < cut.pieces(); ++i) {
    Shape kept = x;
    kept[cut.axis] = cut.ends[i + 1] - cut.ends[i];
    parts.push_back(reshape(g.dout(i), kept));
  }
  const NamedAttr attrs[] = {{"dim", Attr(cut.axis)}};
  return {ApplyOne(concat, MakeParams(concat, attrs), parts)};
}

// ---------------------------------------------------------------- SliceChannel

struct SplitParams {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
};

Cut EqualCut(const SplitParams& p, const Shape& x) {
  const int axis = NormalizeAxis(p.axis, x.rank(), "SliceChannel");
  return {axis, EqualEnds(x[axis], p.num_outputs, x, "SliceChannel"), p.squeeze_axis};
}

int CountEqual(const SplitParams& p) {
  Check(p.num_outputs > 0, "SliceChannel: num_outputs is ", p.num_outputs,
        "; at least 1 was expected");
  return p.num_outputs;
}

// Each side tells the other what it knows; sizes along the axis differ by a factor.
bool InferEqual(const SplitParams& p, Specs& in, Specs& out) {
  Shape& x = in[0].shape;
  for (const Spec& piece : out) {
    if (!x.rank_known() && piece.shape.rank_known())
      x = Shape::Filled(piece.shape.rank() + p.squeeze_axis, kUnknownSize);
  }
  if (!x.rank_known()) return true;
  if (x.known()) return InferPieces(x, EqualCut(p, x), out, "SliceChannel");
  if (p.squeeze_axis && x.rank() == 1) return true;
  const int axis = NormalizeAxis(p.axis, x.rank(), "SliceChannel");
  if (p.squeeze_axis && x[axis] == kUnknownSize) x[axis] = p.num_outputs;
  Shape piece = x;
  if (x[axis] != kUnknownSize)
    piece[axis] = EqualEnds(x[axis], p.num_outputs, x, "SliceChannel")[1];
  if (p.squeeze_axis) piece.Erase(axis);
  for (int round = 0; round < 2; ++round) {
    for (Spec& y : out)
      if (!Unify(piece, y.shape)) return false;
  }
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis) continue;
    x[i] = piece[p.squeeze_axis && i > axis ? i - 1 : i];
  }
  if (!p.squeeze_axis && piece[axis] != kUnknownSize)
    x[axis] = piece[axis] * p.num_outputs;
  return true;
}

[[maybe_unused]] const OpDef& slice_channel = Register<SplitParams>({
    .name = "SliceChannel",
    .aliases = {"split"},
    .doc = "Cuts x into equal pieces along an axis.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<SplitParams>("num_outputs", &SplitParams::num_outputs,
                                     "How many pieces there are."),
               {"axis", &SplitParams::axis, "The axis that is cut."},
               {"squeeze_axis", &SplitParams::squeeze_axis,
                "Whether the axis, then of size 1, is taken away."}},
    .num_outputs = CountEqual,
    .infer = InferEqual,
    .gradient =
        [](const SplitParams& p, const GradArgs& g) {
          return JoinPieces(EqualCut(p, g.in_spec(0).shape), g);
        },
    .cpu = {{"plain",
             [](const SplitParams& p, const KernelArgs& args) {
               RunPieces(EqualCut(p, args.in[0].shape()), args);
             }}},
    .samples = {{{Normal({2, 4})}, {.num_outputs = 2}},
                {{Normal({3, 2, 2})},
                 {.num_outputs = 3, .axis = 0, .squeeze_axis = true}},
                {{Normal({2, 3})}, {.num_outputs = 1, .axis = -1}},
                {{Normal({2, 0})}, {.num_outputs = 2}}},
});

// ---------------------------------------------------------------- _split_v2

struct SplitAtParams {
  Shape indices;
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
};

Cut CutAt(const SplitAtParams& p, const Shape& x) {
  const int axis = NormalizeAxis(p.axis, x.rank(), "_split_v2");
  const int64_t n = x[axis];
  if (p.sections > 0) {
    return {axis, EqualEnds(n, p.sections, x, "_split_v2"), p.squeeze_axis};
  }
  Cut cut{axis, {}, p.squeeze_axis};
  for (int64_t at : p.indices) {
    if (at < 0) at += n;
    const int64_t before = cut.ends.empty() ? 0 : cut.ends.back();
    Check(at >= before && at <= n, ErrorKind::kIndex, "_split_v2: indices ", p.indices,
          " do not fit axis ", axis, " of x of shape ", x,
          "; rising numbers from 0 to its size were expected");
    cut.ends.push_back(at);
  }
  cut.ends.push_back(n);
  return cut;
}

int CountAt(const SplitAtParams& p) {
  const int n = p.sections > 0 ? p.sections : p.indices.rank();
  Check(n > 0, "_split_v2: neither sections nor indices are given; one was expected");
  return n;
}

[[maybe_unused]] const OpDef& split_at = Register<SplitAtParams>({
    .name = "_split_v2",
    .aliases = {"_npi_split"},
    .doc = "Cuts x along an axis, into equal pieces or at given places.",
    .inputs = {{"data", Types::kAny, "An array."}},
    .params = {Required<SplitAtParams>("indices", &SplitAtParams::indices,
                                       "Where each piece begins, 0 first."),
               {"axis", &SplitAtParams::axis, "The axis that is cut."},
               {"squeeze_axis", &SplitAtParams::squeeze_axis,
                "Whether the axis, then of size 1, is taken away."},
               {"sections", &SplitAtParams::sections,
                "How many equal pieces there are; 0: cut at indices."}},
    .num_outputs = CountAt,
    .infer =
        [](const SplitAtParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          if (!x.known()) return true;
          return InferPieces(x, CutAt(p, x), out, "_split_v2");
        },
    .gradient =
        [](const SplitAtParams& p, const GradArgs& g) {
          return JoinPieces(CutAt(p, g.in_spec(0).shape), g);
        },
    .cpu = {{"plain",
             [](const SplitAtParams& p, const KernelArgs& args) {
               RunPieces(CutAt(p, args.in[0].shape()), args);
             }}},
    .samples = {{{Normal({2, 4})}, {.indices = {0, 1, 3}}},
                {{Normal({4, 2})}, {.axis = 0, .sections = 2}},
                {{Normal({3, 2})}, {.axis = 0, .squeeze_axis = true, .sections = 3}},
                {{Normal({2, 4})}, {.indices = {0, 0, 4}}}},
});

}  // namespace
}  // namespace plait
