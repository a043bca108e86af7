// SequenceMask, SequenceLast, SequenceReverse: batches of sequences of unequal length.
//
// One axis is time, the other of the first two is the batch. Without lengths every
// sequence has the length of the array.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/gradients.h"
#include "ops/index/indices.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct SequenceParams {
  bool use_sequence_length = false;
  int axis = 0;
};
struct MaskParams {
  bool use_sequence_length = false;
  float value = 0;
  int axis = 0;
};

template <typename P>
std::vector<bool> Present(const P& p) {
  return {true, p.use_sequence_length};
}

template <typename P>
void DataType(const P&, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
  out[0].dtype = in[0].dtype;
}

// Sizes of x as (time, batch, rest), with the strides of the first two.
struct Sequences {
  int64_t time, batch, rest, time_step, batch_step;
};
Sequences View3(const Shape& x, int axis) {
  const int64_t rest = x.size(2, x.rank());
  const int64_t time = x[axis], batch = x[1 - axis];
  return axis == 0 ? Sequences{time, batch, rest, batch * rest, rest}
                   : Sequences{time, batch, rest, rest, time * rest};
}

template <typename P>
void CheckData(const P& p, Specs& in, const char* op) {
  Check(p.axis == 0 || p.axis == 1, op, ": axis is ", p.axis, "; 0 or 1 was expected");
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return;
  Check(x.rank() >= 2, op, ": data has shape ", x, "; at least two axes were expected");
  if (!p.use_sequence_length) return;
  Shape lengths{x[1 - p.axis]};
  Check(Unify(lengths, in[1].shape), op, ": sequence_length has shape ", in[1].shape,
        "; shape ", lengths, " was expected for data of shape ", x);
}

// The length of each sequence, between 0 and the size of the time axis.
template <typename P>
std::vector<int64_t> Lengths(const P& p, const KernelArgs& args, const Sequences& s,
                             const char* op) {
  std::vector<int64_t> lengths(s.batch, s.time);
  if (!p.use_sequence_length || s.batch == 0) return lengths;
  const ResolvedIndices given(args.in[1], s.time + 1, IndexMode::kClip, {op});
  std::copy_n(given.data(), s.batch, lengths.begin());
  return lengths;
}

template <typename P>
Values WithLengths(Value dx, const P& p) {
  Values all{std::move(dx)};
  if (p.use_sequence_length) all.push_back(Value());
  return all;
}
template <typename P>
Uses LengthsOnly(const P& p) {
  return p.use_sequence_length ? Uses{.in = 2} : Uses{};
}

// Applies an operator of this family with the lengths of the call, if it has them.
Value Again(const char* name, const Value& x, const GradArgs& g, bool lengths,
            std::initializer_list<MathAttr> attrs) {
  return lengths ? Make(name, {x, g.in(1)}, attrs) : Make(name, {x}, attrs);
}

std::vector<SampleInput> Batch(Shape shape, std::vector<double> lengths) {
  const int64_t n = static_cast<int64_t>(lengths.size());
  SampleInput given = Numbers({n}, std::move(lengths));
  given.differentiable = false;
  return {Normal(std::move(shape)), given};
}

// ---------------------------------------------------------------- SequenceMask

void RunMask(const MaskParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  CopyKernel(p, args);
  if (!p.use_sequence_length || y.size() == 0) return;
  const Sequences s = View3(y.shape(), p.axis);
  const std::vector<int64_t> lengths = Lengths(p, args, s, "SequenceMask");
  const Shape rest{s.rest};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = lengths[b]; t < s.time; ++t) {
      FillValue({At(y, t * s.time_step + b * s.batch_step), &rest, y.dtype}, p.value);
    }
  }
}

[[maybe_unused]] const OpDef& sequence_mask = Register<MaskParams>({
    .name = "SequenceMask",
    .aliases = {"_npx_sequence_mask"},
    .doc = "Sequences with a number behind their ends.",
    .inputs = {{"data", Types::kAny,
                "Of shape (time, batch, ...), or with axis 1 "
                "(batch, time, ...)."},
               {"sequence_length", Types::kAny, "The length of each sequence."}},
    .params = {{"use_sequence_length", &MaskParams::use_sequence_length,
                "Whether there are lengths."},
               {"value", &MaskParams::value, "The number."},
               {"axis", &MaskParams::axis, "The axis of time, 0 or 1."}},
    .optional_inputs = Present<MaskParams>,
    .types = DataType<MaskParams>,
    .infer =
        [](const MaskParams& p, Specs& in, Specs& out) {
          CheckData(p, in, "SequenceMask");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient =
        [](const MaskParams& p, const GradArgs& g) {
          if (!p.use_sequence_length) return WithLengths(g.dout(0), p);
          return WithLengths(
              Again("SequenceMask", g.dout(0), g, true,
                    {{"use_sequence_length", Attr(true)}, {"axis", Attr(p.axis)}}),
              p);
        },
    .uses_for = LengthsOnly<MaskParams>,
    .cpu = {{"plain", RunMask}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 2, 2})}},
                {Batch({3, 2, 2}, {1, 3}), {.use_sequence_length = true, .value = -1}},
                {Batch({2, 4}, {0, 2}), {.use_sequence_length = true, .axis = 1}},
                {Batch({2, 0, 3}, {}), {.use_sequence_length = true}}},
});

// ---------------------------------------------------------------- SequenceLast

Shape LastShape(const Shape& x, int axis) {
  Shape y = x;
  y.Erase(axis);
  return y;
}

void RunLast(const SequenceParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (y.size() == 0) return;
  const Sequences s = View3(x.shape(), p.axis);
  const std::vector<int64_t> lengths = Lengths(p, args, s, "SequenceLast");
  const int64_t bytes = s.rest * static_cast<int64_t>(SizeOf(x.dtype));
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t t = std::max<int64_t>(0, lengths[b] - 1);
    std::memcpy(At(y, b * s.rest), At(x, t * s.time_step + b * s.batch_step), bytes);
  }
}

void RunLastBackward(const SequenceParams& p, const KernelArgs& args, const View& dy,
                     const View& dx) {
  cpu::FillZero(dx.ptr, dx.bytes());
  if (dy.size() == 0) return;
  const Sequences s = View3(dx.shape(), p.axis);
  const std::vector<int64_t> lengths = Lengths(p, args, s, "_backward_SequenceLast");
  const int64_t bytes = s.rest * static_cast<int64_t>(SizeOf(dx.dtype));
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t t = std::max<int64_t>(0, lengths[b] - 1);
    std::memcpy(At(dx, t * s.time_step + b * s.batch_step), At(dy, b * s.rest), bytes);
  }
}

[[maybe_unused]] const OpDef& sequence_last = Register<SequenceParams>({
    .name = "SequenceLast",
    .doc = "The last element of each sequence.",
    .inputs = {{"data", Types::kAny,
                "Of shape (time, batch, ...), or with axis 1 "
                "(batch, time, ...)."},
               {"sequence_length", Types::kAny, "The length of each sequence."}},
    .params = {{"use_sequence_length", &SequenceParams::use_sequence_length,
                "Whether there are lengths."},
               {"axis", &SequenceParams::axis, "The axis of time, 0 or 1."}},
    .optional_inputs = Present<SequenceParams>,
    .types = DataType<SequenceParams>,
    .infer =
        [](const SequenceParams& p, Specs& in, Specs& out) {
          CheckData(p, in, "SequenceLast");
          const Shape& x = in[0].shape;
          if (!x.rank_known()) return true;
          Shape y = LastShape(x, p.axis);
          Check(!y.known() || y.size() == 0 || x[p.axis] != 0,
                "SequenceLast: data of shape ", x,
                " has no element along the axis of time");
          return Unify(y, out[0].shape);
        },
    .gradient =
        [](const SequenceParams& p, const GradArgs& g) {
          return WithLengths(
              Again("_backward_SequenceLast", g.dout(0), g, p.use_sequence_length,
                    {{"use_sequence_length", Attr(p.use_sequence_length)},
                     {"axis", Attr(p.axis)},
                     {"size", Attr(g.in_spec(0).shape[p.axis])}}),
              p);
        },
    .uses_for = LengthsOnly<SequenceParams>,
    .cpu = {{"plain", RunLast}},
    .samples = {{{Normal({3, 2, 2})}},
                {Batch({3, 2, 2}, {1, 3}), {.use_sequence_length = true}},
                {Batch({2, 4, 3}, {4, 2}), {.use_sequence_length = true, .axis = 1}},
                {{Normal({1, 0, 0})}}},
});

struct LastBackwardParams {
  bool use_sequence_length = false;
  int axis = 0;
  int64_t size = 0;
};

[[maybe_unused]] const OpDef& sequence_last_backward = Register<LastBackwardParams>({
    .name = "_backward_SequenceLast",
    .doc =
        "Zeros with one given element in each sequence: the gradient of SequenceLast.",
    .inputs = {{"data", Types::kAny, "The last elements, of shape (batch, ...)."},
               {"sequence_length", Types::kAny, "The length of each sequence."}},
    .params = {{"use_sequence_length", &LastBackwardParams::use_sequence_length,
                "Whether there are lengths."},
               {"axis", &LastBackwardParams::axis, "The axis of time, 0 or 1."},
               Required<LastBackwardParams>("size", &LastBackwardParams::size,
                                            "The size of the axis of time.")},
    .optional_inputs = Present<LastBackwardParams>,
    .types = DataType<LastBackwardParams>,
    .infer =
        [](const LastBackwardParams& p, Specs& in, Specs& out) {
          Check((p.axis == 0 || p.axis == 1) && p.size >= 0,
                "_backward_SequenceLast: axis is ", p.axis, " and size ", p.size,
                "; 0 or 1, and at least 0, were expected");
          if (!in[0].shape.rank_known()) return true;
          Check(in[0].shape.rank() >= 1,
                "_backward_SequenceLast: data is a scalar; shape (batch, ...) was "
                "expected");
          Shape x = in[0].shape;
          x.Insert(p.axis, p.size);
          if (!Unify(x, out[0].shape)) return false;
          Specs data{{x, in[0].dtype}};
          if (p.use_sequence_length) data.push_back(in[1]);
          CheckData(p, data, "_backward_SequenceLast");
          return true;
        },
    .gradient =
        [](const LastBackwardParams& p, const GradArgs& g) {
          return WithLengths(
              Again("SequenceLast", g.dout(0), g, p.use_sequence_length,
                    {{"use_sequence_length", Attr(p.use_sequence_length)},
                     {"axis", Attr(p.axis)}}),
              p);
        },
    .uses_for = LengthsOnly<LastBackwardParams>,
    .cpu = {{"plain",
             [](const LastBackwardParams& p, const KernelArgs& args) {
               RunLastBackward({p.use_sequence_length, p.axis}, args, args.in[0],
                               args.out[0]);
             }}},
    .samples = {{{Normal({2, 2})}, {.size = 3}}, {Batch({2, 3}, {1, 2}), {true, 1, 3}}},
});

// ---------------------------------------------------------------- SequenceReverse

void RunReverse(const SequenceParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (y.size() == 0) return;
  const Sequences s = View3(x.shape(), p.axis);
  const std::vector<int64_t> lengths = Lengths(p, args, s, "SequenceReverse");
  const int64_t bytes = s.rest * static_cast<int64_t>(SizeOf(x.dtype));
  ParallelFor(s.batch, 1 + (1 << 14) / (s.time * s.rest),
              [&](int64_t first, int64_t last) {
                for (int64_t b = first; b < last; ++b) {
                  for (int64_t t = 0; t < s.time; ++t) {
                    const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
                    std::memcpy(At(y, t * s.time_step + b * s.batch_step),
                                At(x, from * s.time_step + b * s.batch_step), bytes);
                  }
                }
              });
}

[[maybe_unused]] const OpDef& sequence_reverse = Register<SequenceParams>({
    .name = "SequenceReverse",
    .doc = "Each sequence in the opposite order; what lies behind its end stays.",
    .inputs = {{"data", Types::kAny, "Of shape (time, batch, ...)."},
               {"sequence_length", Types::kAny, "The length of each sequence."}},
    .params = {{"use_sequence_length", &SequenceParams::use_sequence_length,
                "Whether there are lengths."},
               {"axis", &SequenceParams::axis, "The axis of time, 0 or 1."}},
    .optional_inputs = Present<SequenceParams>,
    .types = DataType<SequenceParams>,
    .infer =
        [](const SequenceParams& p, Specs& in, Specs& out) {
          CheckData(p, in, "SequenceReverse");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient =
        [](const SequenceParams& p, const GradArgs& g) {
          return WithLengths(
              Again("SequenceReverse", g.dout(0), g, p.use_sequence_length,
                    {{"use_sequence_length", Attr(p.use_sequence_length)},
                     {"axis", Attr(p.axis)}}),
              p);
        },
    .uses_for = LengthsOnly<SequenceParams>,
    .cpu = {{"plain", RunReverse}},
    .samples = {{{Normal({3, 2, 2})}},
                {Batch({4, 3}, {1, 4, 2}), {.use_sequence_length = true}},
                {Batch({2, 3, 2}, {2, 3}), {.use_sequence_length = true, .axis = 1}},
                {{Normal({0, 2})}}},
});

}  // namespace
}  // namespace plait
