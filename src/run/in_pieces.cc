// _in_pieces: runs a graph for each part of the batch, and adds up its sums.

#include "run/in_pieces.h"

#include <utility>

#include "run/loop.h"
#include "run/push.h"

namespace plait {
namespace {

struct InPiecesParams {
  Pieces pieces;
  Ref<const CompiledGraph> part;
};
using P = InPiecesParams;

Spec Whole(const P& p, GraphEntry e, bool sliced) {
  Spec spec = p.pieces.part.spec(e);
  if (sliced) spec.shape[0] *= p.pieces.count;
  return spec;
}
int NumOutputs(const P& p) {
  return static_cast<int>(p.pieces.sliced_out.size());
}

void CheckInputs(const P& p, const Specs& in) {
  Check(p.part.get() != nullptr && in.size() == p.pieces.sliced_in.size(),
        "_in_pieces: got ", in.size(), " arrays; ", p.pieces.sliced_in.size(),
        " were expected, and a graph");
}

bool Infer(const P& p, Specs& in, Specs& out) {
  CheckInputs(p, in);
  bool fits = true;
  for (size_t i = 0; i < in.size(); ++i) {
    Shape x = Whole(p, {p.pieces.part.inputs[i], 0}, p.pieces.sliced_in[i]).shape;
    fits &= Unify(in[i].shape, x);
  }
  for (int k = 0; k < NumOutputs(p); ++k) {
    Shape y = Whole(p, p.pieces.part.outputs[k], p.pieces.sliced_out[k]).shape;
    fits &= Unify(out[k].shape, y);
  }
  Shape work{p.pieces.work_bytes};
  return Unify(out[NumOutputs(p)].shape, work) && fits;
}

void SetTypes(const P& p, Specs& in, Specs& out) {
  CheckInputs(p, in);
  for (size_t i = 0; i < in.size(); ++i)
    in[i].dtype = p.pieces.part.spec({p.pieces.part.inputs[i], 0}).dtype;
  for (int k = 0; k < NumOutputs(p); ++k)
    out[k].dtype = p.pieces.part.spec(p.pieces.part.outputs[k]).dtype;
  out[NumOutputs(p)].dtype = DType::kUint8;
}

void Run(const P& p, const KernelArgs& args) {
  const Pieces& pieces = p.pieces;
  char* const arena = args.out.back().data<char>();
  char* const sums = arena + p.part->plan().arena_bytes;
  SmallVector<char*, 8> in, out;
  for (int64_t i = 0; i < pieces.count; ++i) {
    const auto slice = [&](const View& x, bool sliced) {
      return x.data<char>() + (sliced ? x.bytes() / pieces.count * i : 0);
    };
    in.clear();
    out.clear();
    for (size_t k = 0; k < pieces.sliced_in.size(); ++k)
      in.push_back(slice(args.in[k], pieces.sliced_in[k]));
    // Sums of the first part are written where all of them belong.
    int64_t next = 0;
    for (size_t k = 0; k < pieces.sliced_out.size(); ++k) {
      const bool adds = i > 0 && !pieces.sliced_out[k];
      out.push_back(adds ? sums + next : slice(args.out[k], pieces.sliced_out[k]));
      if (!pieces.sliced_out[k]) next += AlignedSum(args.out[k].bytes());
    }
    GraphCall::RunHere(*p.part, GraphCall::kForward, arena, in, out, {});
    for (size_t k = 0; i > 0 && k < pieces.sliced_out.size(); ++k) {
      const View& y = args.out[k];
      if (!pieces.sliced_out[k]) AddTo(y.data<char>(), out[k], y.dtype, y.size());
    }
  }
}

double Cost(const P& p, const Specs&, const Specs&) {
  constexpr double kOperation = 0.01;  // as EstimateCost has it
  return static_cast<double>(p.pieces.count) * p.part->ForwardCost() / kOperation;
}

[[maybe_unused]] const OpDef& in_pieces = Register<P>({
    .name = "_in_pieces",
    .doc = "Nodes that run for one part of the batch after the other; graphs make it.",
    .inputs = {{"data", Types::kAny, "What the nodes read."}},
    .variable_inputs = true,
    .num_outputs = [](const P& p) { return NumOutputs(p) + 1; },
    .visible_outputs = NumOutputs,
    .types = SetTypes,
    .infer = Infer,
    .cpu = {{"parts", Run}},
    .cost = Cost,
    .finish =
        [](P&, const std::vector<Symbol>&) {
          Fail(ErrorKind::kValue, "_in_pieces: only the pass of this name makes it");
        },
});

}  // namespace

ParamsRef MakeInPieces(Pieces pieces, Ref<const CompiledGraph> part) {
  return MakeParams(InPiecesParams{std::move(pieces), std::move(part)});
}

}  // namespace plait
