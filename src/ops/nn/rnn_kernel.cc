// The kernels of recurrent layers: layer by layer, all steps of a layer in one product.

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/gemm.h"
#include "cpu/pointwise.h"
#include "cpu/random.h"
#include "cpu/scratch.h"
#include "ops/nn/rnn.h"

namespace plait {

namespace {

// A view as T: itself, or a converted copy that is written back at the end.
template <typename T>
class Converted {
 public:
  Converted(const View& view, bool is_output) : view_(view), output_(is_output) {
    data_ = view.data<T>();
    if (view.dtype == kDTypeOf<T>) return;
    copy_.resize(static_cast<size_t>(view.size()));
    data_ = copy_.data();
    if (!is_output) {
      cpu::Convert(view.ptr, view.dtype, data_, kDTypeOf<T>, view.size());
    }
  }
  void Finish() {
    if (!output_ || view_.dtype == kDTypeOf<T>) return;
    cpu::Convert(data_, kDTypeOf<T>, view_.ptr, view_.dtype, view_.size());
  }
  T* data() const { return data_; }

 private:
  View view_;
  bool output_;
  T* data_ = nullptr;
  std::vector<T> copy_;
};

template <typename T>
struct Inputs {
  Inputs(const RnnParams& p, const KernelArgs& args)
      : x(args.in[0], false), parameters(args.in[1], false), state(args.in[2], false) {
    if (p.lstm()) cell.emplace(args.in[3], false);
    if (!p.use_sequence_length) return;
    const View& given = args.in[p.lstm() ? 4 : 3];
    std::vector<double> numbers(static_cast<size_t>(given.size()));
    cpu::Convert(given.ptr, given.dtype, numbers.data(), DType::kFloat64, given.size());
    const int64_t steps = args.in[0].shape()[0];
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double n = numbers[i];
      Check(n >= 0 && n <= static_cast<double>(steps), ErrorKind::kValue,
            "RNN: sequence_length[", i, "] is ", n, " for data of ", steps,
            " steps; 0 to ", steps, " was expected");
      lengths.push_back(static_cast<int64_t>(n));
    }
  }
  Converted<T> x, parameters, state;
  std::optional<Converted<T>> cell;
  std::vector<int64_t> lengths;
};

// The walk of direction d of a layer, but for where its states lie.
template <typename T>
cpu::RnnSteps<T> StepsOf(const RnnParams& p, const RnnLayout& at, int64_t place,
                         const Inputs<T>& in, T* kept) {
  const RnnLayout::Place& here = at.places[static_cast<size_t>(place)];
  const T* parameters = in.parameters.data();
  cpu::RnnSteps<T> s;
  s.mode = p.mode;
  s.steps = at.steps;
  s.batch = at.batch;
  s.hidden = at.hidden;
  s.projected = p.projection_size.value_or(0);
  s.reverse = place % at.directions == 1;
  s.lengths = p.use_sequence_length ? in.lengths.data() : nullptr;
  if (p.lstm_state_clip_min) {
    s.clip = {true, *p.lstm_state_clip_min, *p.lstm_state_clip_max,
              p.lstm_state_clip_nan};
  }
  s.recurrent = parameters + here.hidden_weight;
  s.projection = parameters + here.projection;
  s.bias_input = parameters + here.input_bias;
  s.bias_hidden = parameters + here.hidden_bias;
  s.h0 = in.state.data() + place * at.batch * at.state;
  if (in.cell) s.c0 = in.cell->data() + place * at.batch * at.hidden;
  s.gates = kept + here.kept_gates;
  s.cells = kept + here.kept_cells;
  s.inner = kept + here.kept_inner;
  s.raw = kept + here.kept_raw;
  return s;
}

// Where the states lie: in the layer's output, or apart where samples end early.
template <typename T>
void PlaceStates(const RnnParams& p, const RnnLayout& at, int64_t place, T* kept,
                 T* output, cpu::RnnSteps<T>& s) {
  s.hs = output + place % at.directions * at.state;
  s.hs_row = at.directions * at.state;
  if (!p.use_sequence_length) return;
  s.hs = kept + at.places[static_cast<size_t>(place)].kept_hidden;
  s.hs_row = at.state;
}

// The output of a layer: zeros past the end of a sample.
template <typename T>
void CopyStates(const RnnLayout& at, int64_t place, const cpu::RnnSteps<T>& s,
                T* output) {
  const int64_t row = at.directions * at.state;
  output += place % at.directions * at.state;
  for (int64_t i = 0; i < at.steps * at.batch; ++i) {
    if (i / at.batch < s.lengths[i % at.batch]) {
      std::copy_n(s.hs + i * s.hs_row, at.state, output + i * row);
    } else {
      std::fill_n(output + i * row, at.state, T(0));
    }
  }
}

// The last state in the order of the walk, from `rows` (steps, batch, width).
template <typename T>
void CopyLast(const cpu::RnnSteps<T>& s, const T* initial, const T* rows, int64_t row,
              int64_t width, T* to) {
  if (s.steps > 0) rows += s.TimeOf(s.steps - 1) * s.batch * row;
  for (int64_t n = 0; n < s.batch; ++n) {
    std::copy_n(s.steps > 0 ? rows + n * row : initial + n * width, width,
                to + n * width);
  }
}

template <typename T>
void DrawMask(float p, RandomStream stream, int64_t first, int64_t n, T* mask) {
  const auto below = static_cast<uint64_t>((1 - static_cast<double>(p)) * 0x1p32);
  const T scale = p < 1 ? static_cast<T>(1 / (1 - static_cast<double>(p))) : T(0);
  constexpr int64_t kChunk = 1024;
  ParallelFor((n + kChunk - 1) / kChunk, 16, [&](int64_t begin, int64_t end) {
    uint32_t bits[kChunk];
    for (int64_t i = begin * kChunk; i < std::min(end * kChunk, n); i += kChunk) {
      const int64_t count = std::min(kChunk, n - i);
      cpu::FillUniformBits(stream, first + i, bits, count);
      for (int64_t j = 0; j < count; ++j) mask[i + j] = bits[j] < below ? scale : T(0);
    }
  });
}

// y = x * mask.
template <typename T>
void Drop(const T* x, const T* mask, int64_t n, T* y) {
  ParallelFor(n, 1 << 15, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) y[i] = x[i] * mask[i];
  });
}

template <typename T>
void Forward(const RnnParams& p, const KernelArgs& args) {
  const Shape& x_shape = args.in[0].shape();
  const bool drops = p.Drops(args.training);
  const RnnLayout at(p, x_shape[0], x_shape[1], x_shape[2], p.p > 0);
  const Inputs<T> in(p, args);
  Converted<T> y(args.out[0], true), last(args.out[1], true);
  std::optional<Converted<T>> last_cell;
  if (p.lstm()) last_cell.emplace(args.out[2], true);
  T* const kept = args.out.back().data<T>();
  const int64_t all = at.steps * at.batch, rows = at.gates * at.hidden;
  const int64_t wide = all * at.directions * at.state;
  const cpu::Scratch dropped(drops ? cpu::Scratch::Bytes<T>(wide) : 0);

  const T* x = in.x.data();
  for (int64_t layer = 0; layer < p.num_layers; ++layer) {
    const bool top = layer + 1 == p.num_layers;
    T* const out =
        top ? y.data() : kept + at.outputs[static_cast<size_t>(layer)].values;
    for (int64_t d = 0; d < at.directions; ++d) {
      const int64_t place = layer * at.directions + d, width = at.Input(layer);
      cpu::RnnSteps<T> s = StepsOf(p, at, place, in, kept);
      PlaceStates(p, at, place, kept, out, s);
      cpu::Gemm(
          false, true, all, rows, width, 1, x, width,
          in.parameters.data() + at.places[static_cast<size_t>(place)].input_weight,
          width, 0, s.gates, rows);
      cpu::RnnForward(s);
      if (p.use_sequence_length) CopyStates(at, place, s, out);
      CopyLast(s, s.h0, s.hs, s.hs_row, at.state,
               last.data() + place * at.batch * at.state);
      if (p.lstm()) {
        CopyLast(s, s.c0, s.cells, at.hidden, at.hidden,
                 last_cell->data() + place * at.batch * at.hidden);
      }
    }
    x = out;
    if (top || !drops) continue;
    T* const mask = kept + at.outputs[static_cast<size_t>(layer)].mask;
    DrawMask(p.p, args.random, layer * wide, wide, mask);
    Drop(out, mask, wide, dropped.As<T>());
    x = dropped.As<T>();
  }
  y.Finish();
  last.Finish();
  if (last_cell) last_cell->Finish();
}

// ---------------------------------------------------------------- backward

// One layer's gradients: what is needed of one direction at a time.
template <typename T>
class BackwardPass {
 public:
  BackwardPass(const RnnParams& p, const KernelArgs& args)
      : p_(p),
        at_(p, args.in[0].shape()[0], args.in[0].shape()[1], args.in[0].shape()[2],
            p.p > 0),
        in_(p, args),
        all_(at_.steps * at_.batch),
        rows_(at_.gates * at_.hidden),
        dx_(args.out[0], true),
        dparameters_(args.out[1], true),
        dstate_(args.out[2], true) {
    size_t next = 3u + p.lstm() + p.use_sequence_length;
    y_.emplace(args.in[next++], false);
    kept_ = args.in[next++].template data<T>();
    dy_.emplace(args.in[next++], false);
    if (p.heads & 1) Start(dstate_, args.in[next++]);
    if (!(p.heads & 1)) Clear(dstate_, args.out[2]);
    if (!p.lstm()) return;
    dcell_.emplace(args.out[3], true);
    if (p.heads & 2) Start(*dcell_, args.in[next++]);
    if (!(p.heads & 2)) Clear(*dcell_, args.out[3]);
  }

  void Run() {
    if (all_ == 0) {
      // Nothing goes through the steps: states pass, and parameters have no part.
      std::fill_n(dparameters_.data(), at_.parameters, T(0));
    } else {
      Layers();
    }
    if (p_.want & 1) dx_.Finish();
    dparameters_.Finish();
    dstate_.Finish();
    if (dcell_) dcell_->Finish();
  }

 private:
  void Layers() {
    const bool gru = p_.mode == cpu::RnnMode::kGru;
    const int64_t wide = all_ * at_.directions * at_.state;
    const bool deep = p_.num_layers > 1;
    const cpu::Scratch gates(cpu::Scratch::Bytes<T>(all_ * rows_ * (gru ? 2 : 1)));
    const cpu::Scratch states(
        cpu::Scratch::Bytes<T>(p_.projection_size ? all_ * at_.state : 0));
    const cpu::Scratch upper(cpu::Scratch::Bytes<T>(deep ? wide : 0));
    const cpu::Scratch lower(cpu::Scratch::Bytes<T>(deep ? wide : 0));
    const cpu::Scratch dropped(cpu::Scratch::Bytes<T>(deep && p_.dropped ? wide : 0));
    g_.dgates = gates.As<T>();
    g_.dgates_hidden = gru ? gates.As<T>() + all_ * rows_ : g_.dgates;
    g_.dhs = states.As<T>();
    g_.dy_row = at_.directions * at_.state;
    T *above = upper.As<T>(), *below = lower.As<T>();
    for (int64_t layer = p_.num_layers - 1; layer >= 0; --layer) {
      const bool top = layer + 1 == p_.num_layers;
      const T* dy = top ? dy_->data() : above;
      if (!top && p_.dropped) Drop(above, Mask(layer), wide, above);
      T* const out = top ? y_->data() : Output(layer);
      T* const dx = layer == 0 ? ((p_.want & 1) ? dx_.data() : nullptr) : below;
      Layer(layer, InputOf(layer, wide, dropped.As<T>()), dy, out, dx);
      std::swap(above, below);
    }
  }

  static void Start(Converted<T>& to, const View& from) {
    cpu::Convert(from.ptr, from.dtype, to.data(), kDTypeOf<T>, from.size());
  }
  static void Clear(Converted<T>& to, const View& like) {
    std::fill_n(to.data(), like.size(), T(0));
  }
  T* Output(int64_t layer) const {
    return kept_ + at_.outputs[static_cast<size_t>(layer)].values;
  }
  T* Mask(int64_t layer) const {
    return kept_ + at_.outputs[static_cast<size_t>(layer)].mask;
  }
  const T* InputOf(int64_t layer, int64_t wide, T* dropped) const {
    if (layer == 0) return in_.x.data();
    if (!p_.dropped) return Output(layer - 1);
    Drop(Output(layer - 1), Mask(layer - 1), wide, dropped);
    return dropped;
  }

  void Layer(int64_t layer, const T* x, const T* dy, T* out, T* dx) {
    for (int64_t d = 0; d < at_.directions; ++d) {
      const int64_t place = layer * at_.directions + d, width = at_.Input(layer);
      const RnnLayout::Place& here = at_.places[static_cast<size_t>(place)];
      T* const dw = dparameters_.data();
      cpu::RnnSteps<T> s = StepsOf(p_, at_, place, in_, kept_);
      PlaceStates(p_, at_, place, kept_, out, s);
      g_.dy = dy + d * at_.state;
      g_.dh = dstate_.data() + place * at_.batch * at_.state;
      if (dcell_) g_.dc = dcell_->data() + place * at_.batch * at_.hidden;
      g_.dbias_input = dw + here.input_bias;
      g_.dbias_hidden = dw + here.hidden_bias;
      cpu::RnnBackward(s, g_);
      if (p_.mode != cpu::RnnMode::kGru) {
        std::copy_n(g_.dbias_input, rows_, g_.dbias_hidden);
      }
      if (dx != nullptr) {
        cpu::Gemm(false, false, all_, width, rows_, 1, g_.dgates, rows_,
                  in_.parameters.data() + here.input_weight, width, d == 0 ? 0 : 1, dx,
                  width);
      }
      if (!(p_.want & 2)) continue;
      cpu::Gemm(true, false, rows_, width, all_, 1, g_.dgates, rows_, x, width, 0,
                dw + here.input_weight, width);
      HiddenWeight(s, dw + here.hidden_weight);
      if (!p_.projection_size) continue;
      cpu::Gemm(true, false, at_.state, at_.hidden, all_, 1, g_.dhs, at_.state, s.raw,
                at_.hidden, 0, dw + here.projection, at_.hidden);
    }
  }

  // Gradients of a step's gates times the state before it, which is h0 at first.
  void HiddenWeight(const cpu::RnnSteps<T>& s, T* dw) const {
    const int64_t n = at_.batch, P = at_.state, later = (s.steps - 1) * n;
    const T* dg = g_.dgates_hidden;
    const T* first = dg;
    const T* h = s.hs;
    if (s.reverse) {
      first += later * rows_;
      h += n * s.hs_row;
    } else {
      dg += n * rows_;
    }
    cpu::Gemm(true, false, rows_, P, later, 1, dg, rows_, h, s.hs_row, 0, dw, P);
    cpu::Gemm(true, false, rows_, P, n, 1, first, rows_, s.h0, P, 1, dw, P);
  }

  const RnnParams& p_;
  const RnnLayout at_;
  const Inputs<T> in_;
  const int64_t all_, rows_;
  std::optional<Converted<T>> y_, dy_;
  T* kept_ = nullptr;
  Converted<T> dx_, dparameters_, dstate_;
  std::optional<Converted<T>> dcell_;
  cpu::RnnGradients<T> g_;
};

// Half types are computed in float.
template <typename F>
void Visit(DType dtype, F&& f) {
  if (dtype == DType::kFloat64) return f.template operator()<double>();
  f.template operator()<float>();
}

}  // namespace

void RnnForwardKernel(const RnnParams& p, const KernelArgs& args) {
  Visit(args.in[0].dtype, [&]<typename T>() { Forward<T>(p, args); });
}

void RnnBackwardKernel(const RnnParams& p, const KernelArgs& args) {
  Visit(args.in[0].dtype, [&]<typename T>() { BackwardPass<T>(p, args).Run(); });
}

}  // namespace plait
