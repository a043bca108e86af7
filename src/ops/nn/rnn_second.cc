// The gradient of the gradient of recurrent layers, by other operators.
//
// Let y = f(x) be the operator, with x the data, the parameters and the states, J its
// derivative, and u the head gradients: the first gradient is J^T u. For gradients v of
// that, the gradient by u is J v, and the one by x is the gradient of u^T J v. So the
// layers are unrolled with tangents, which start as v and give J v at the end, and the
// gradient of what they give is taken once.

#include "ops/composition.h"
#include "ops/gradients.h"
#include "ops/nn/rnn.h"

namespace plait {
namespace {

using P = RnnParams;
using cpu::RnnMode;
using Var = Composition::Var;
constexpr Var kNone = Composition::kNone;

// A value and its tangent.
struct Dual {
  Var x = kNone, t = kNone;
};
using Duals = std::vector<Dual>;

// The arithmetic of duals.
class Tangents {
 public:
  explicit Tangents(Composition& c) : c_(c) {}

  // Of operators that are linear in one array.
  Duals LinearAll(std::string_view op, const Dual& a,
                  std::initializer_list<MathAttr> attrs) {
    const std::vector<Var> x = c_.CallAll(op, {&a.x, 1}, attrs);
    std::vector<Var> t(x.size(), kNone);
    if (a.t != kNone) t = c_.CallAll(op, {&a.t, 1}, attrs);
    Duals all;
    for (size_t i = 0; i < x.size(); ++i) all.push_back({x[i], t[i]});
    return all;
  }
  Dual Reshape(const Dual& a, const Shape& shape) {
    return LinearAll("_reshape_to", a, {{"shape", Attr(shape)}})[0];
  }
  Duals Split(const Dual& a, int axis, int64_t count, bool squeeze) {
    return LinearAll("SliceChannel", a,
                     {{"axis", Attr(axis)},
                      {"num_outputs", Attr(count)},
                      {"squeeze_axis", Attr(squeeze)}});
  }
  // Of operators that put arrays of one shape together.
  Dual Join(std::string_view op, const char* axis_name, int axis, const Duals& parts) {
    std::vector<Var> x, t;
    bool any = false;
    for (const Dual& d : parts) {
      x.push_back(d.x);
      any |= d.t != kNone;
    }
    const auto join = [&](const std::vector<Var>& in) {
      return c_.CallAll(op, in,
                        {{axis_name, Attr(axis)},
                         {"num_args", Attr(static_cast<int64_t>(in.size()))}})[0];
    };
    Dual y{join(x)};
    if (!any) return y;
    for (const Dual& d : parts) t.push_back(d.t == kNone ? ZerosLike(d.x) : d.t);
    y.t = join(t);
    return y;
  }
  // `b` may be broadcast to the shape of `a`.
  Dual Add(const Dual& a, const Dual& b) {
    return {c_.Call("broadcast_add", {a.x, b.x}), SumOf(a.t, b.t, a.x)};
  }
  Dual Subtract(const Dual& a, const Dual& b) {
    const Var t = b.t == kNone ? kNone : c_.Call("negative", {b.t});
    return {c_.Call("broadcast_sub", {a.x, b.x}), SumOf(a.t, t, a.x)};
  }
  Dual Multiply(const Dual& a, const Dual& b) {
    return {Times(a.x, b.x), SumOf(Times(a.t, b.x), Times(a.x, b.t), a.x)};
  }
  // a times the transpose of w.
  Dual Product(const Dual& a, const Dual& w) {
    const Var x = Dot(a.x, w.x);
    return {x, SumOf(Dot(a.t, w.x), Dot(a.x, w.t), x)};
  }
  Dual Sigmoid(const Dual& a) {
    const Var y = c_.Call("sigmoid", {a.x});
    if (a.t == kNone) return {y};
    return {y, Times(a.t, c_.Call("broadcast_sub", {y, Times(y, y)}))};
  }
  Dual Tanh(const Dual& a) {
    const Var y = c_.Call("tanh", {a.x});
    if (a.t == kNone) return {y};
    return {y, c_.Call("broadcast_sub", {a.t, Times(a.t, Times(y, y))})};
  }
  // a where the condition, a constant, is not 0, else b.
  Dual Where(Var condition, const Dual& a, const Dual& b) {
    Dual y{c_.Call("where", {condition, a.x, b.x})};
    if (a.t == kNone && b.t == kNone) return y;
    const auto tangent = [&](const Dual& d) {
      return d.t == kNone ? ZerosLike(d.x) : d.t;
    };
    y.t = c_.Call("where", {condition, tangent(a), tangent(b)});
    return y;
  }
  // A constant that depends on a value.
  template <typename F>
  Var ConstantOf(const Dual& a, F&& f) {
    return c_.Constant(f(c_.value(a.x)));
  }
  Dual Constant(Value v) { return {c_.Constant(std::move(v))}; }
  const Shape& shape(const Dual& a) const { return c_.shape(a.x); }
  Dual ZeroDual(const Dual& like) { return {ZerosLike(like.x)}; }

 private:
  Var ZerosLike(Var v) {
    return c_.Constant(zeros({c_.shape(v), c_.value(v).dtype()}));
  }
  Var Times(Var a, Var b) {
    return a == kNone || b == kNone ? kNone : c_.Call("broadcast_mul", {a, b});
  }
  Var Dot(Var a, Var w) {
    return a == kNone || w == kNone
               ? kNone
               : c_.Call("dot", {a, w}, {{"transpose_b", Attr(true)}});
  }
  // In the shape of `like`.
  Var SumOf(Var a, Var b, Var like) {
    if (a != kNone && b != kNone) return c_.Call("broadcast_add", {a, b});
    const Var one = a == kNone ? b : a;
    if (one == kNone || c_.shape(one) == c_.shape(like)) return one;
    return c_.Call("_broadcast_to", {one}, {{"shape", Attr(c_.shape(like))}});
  }

  Composition& c_;
};

// What an unrolled operator reads, as duals.
struct Weights {
  Dual input, hidden, projection, input_bias, hidden_bias;
};
struct Unrolled {
  Dual y;         // none without steps
  Duals h, cell;  // of each place, after its last step
};

class Unroller {
 public:
  Unroller(const P& p, const RnnLayout& at, Tangents& t, Value lengths)
      : p_(p), at_(at), t_(t), lengths_(std::move(lengths)) {}

  // Factors of dropout on the output of each layer but the last; none: no dropout.
  std::vector<Value> masks;

  Unrolled Run(Dual x, const std::vector<Weights>& weights, const Duals& h0,
               const Duals& c0) {
    Unrolled all;
    for (int64_t layer = 0; layer < p_.num_layers; ++layer) {
      Duals outputs;
      for (int64_t d = 0; d < at_.directions; ++d) {
        const auto place = static_cast<size_t>(layer * at_.directions + d);
        State s{h0[place], p_.lstm() ? c0[place] : Dual{}};
        outputs.push_back(Walk(x, weights[place], d == 1, s));
        all.h.push_back(s.h);
        if (p_.lstm()) all.cell.push_back(s.cell);
      }
      if (at_.steps == 0) continue;
      x = outputs.size() == 1 ? outputs[0] : t_.Join("Concat", "dim", 2, outputs);
      if (layer + 1 < p_.num_layers && !masks.empty()) {
        x = t_.Multiply(x, t_.Constant(masks[static_cast<size_t>(layer)]));
      }
    }
    all.y = x;
    return all;
  }

 private:
  struct State {
    Dual h, cell;
  };

  // All steps of a direction: the states as (steps, batch, state).
  Dual Walk(const Dual& x, const Weights& w, bool reverse, State& s) {
    if (at_.steps == 0) return {};
    const int64_t rows = at_.gates * at_.hidden;
    const Dual flat = t_.Reshape(x, {at_.steps * at_.batch, t_.shape(x)[2]});
    const Dual gates = t_.Add(t_.Product(flat, w.input), w.input_bias);
    const Duals parts =
        t_.Split(t_.Reshape(gates, {at_.steps, at_.batch, rows}), 0, at_.steps, true);
    Duals hs(parts.size());
    for (int64_t step = 0; step < at_.steps; ++step) {
      const int64_t time = reverse ? at_.steps - 1 - step : step;
      const auto i = static_cast<size_t>(time);
      const State before = s;
      Step(parts[i], w, s);
      hs[i] = s.h;
      if (!lengths_) continue;
      const Value active = lengths_ > static_cast<double>(time);
      hs[i] = Select(active, s.h, t_.ZeroDual(s.h));
      s.h = Select(active, s.h, before.h);
      if (p_.lstm()) s.cell = Select(active, s.cell, before.cell);
    }
    return t_.Join("stack", "axis", 0, hs);
  }
  Dual Select(const Value& active, const Dual& a, const Dual& b) {
    const Value column = reshape(active, {at_.batch, 1});
    const Value all = broadcast_to(column, t_.shape(a));
    return t_.Where(t_.Constant(all).x, a, b);
  }
  void Step(const Dual& gates, const Weights& w, State& s) {
    const Dual hidden = t_.Add(t_.Product(s.h, w.hidden), w.hidden_bias);
    switch (p_.mode) {
      case RnnMode::kLstm:
        s = Lstm(t_.Split(t_.Add(gates, hidden), 1, 4, false), s);
        break;
      case RnnMode::kGru:
        s.h = Gru(t_.Split(gates, 1, 3, false), t_.Split(hidden, 1, 3, false), s.h);
        break;
      default:
        s.h = Plain(t_.Add(gates, hidden));
    }
    if (p_.projection_size) s.h = t_.Product(s.h, w.projection);
  }
  State Lstm(const Duals& k, const State& s) {
    const Dual in = t_.Sigmoid(k[0]), forget = t_.Sigmoid(k[1]);
    const Dual candidate = t_.Tanh(k[2]), out = t_.Sigmoid(k[3]);
    Dual cell = t_.Add(t_.Multiply(forget, s.cell), t_.Multiply(in, candidate));
    if (p_.lstm_state_clip_min) cell = Clip(cell);
    return {t_.Multiply(out, t_.Tanh(cell)), cell};
  }
  Dual Clip(Dual cell) {
    const double low = *p_.lstm_state_clip_min, high = *p_.lstm_state_clip_max;
    const auto bound = [&](double at) {
      return t_.Constant(full({t_.shape(cell), DTypeOf(cell)}, at));
    };
    if (p_.lstm_state_clip_nan) {
      const Var number =
          t_.ConstantOf(cell, [](const Value& v) { return equal(v, v); });
      cell = t_.Where(number, cell, bound(low));
    }
    const Var above = t_.ConstantOf(cell, [&](const Value& v) { return v <= low; });
    cell = t_.Where(above, bound(low), cell);
    const Var below = t_.ConstantOf(cell, [&](const Value& v) { return v >= high; });
    return t_.Where(below, bound(high), cell);
  }
  DType DTypeOf(const Dual&) const { return dtype; }
  Dual Gru(const Duals& x, const Duals& hidden, const Dual& h) {
    const Dual reset = t_.Sigmoid(t_.Add(x[0], hidden[0]));
    const Dual update = t_.Sigmoid(t_.Add(x[1], hidden[1]));
    const Dual candidate = t_.Tanh(t_.Add(x[2], t_.Multiply(reset, hidden[2])));
    return t_.Add(candidate, t_.Multiply(update, t_.Subtract(h, candidate)));
  }
  Dual Plain(const Dual& x) {
    if (p_.mode == RnnMode::kTanh) return t_.Tanh(x);
    const Var below = t_.ConstantOf(x, [](const Value& v) { return v <= 0; });
    return t_.Where(below, t_.ZeroDual(x), x);
  }

  const P& p_;
  const RnnLayout& at_;
  Tangents& t_;
  const Value lengths_;

 public:
  DType dtype = DType::kFloat32;
};

// The parts of an input that the layers read apart, in order.
class Parts {
 public:
  Parts(Composition& c, const Value& all, const Value& tangent)
      : c_(c), all_(all), tangent_(tangent) {}

  // The next `shape.size()` numbers along axis 0 of a vector.
  Dual Take(const Shape& shape) {
    const int64_t begin = end_;
    end_ += shape.size();
    const auto part = [&](const Value& v) {
      return reshape(Make("slice_axis", {v},
                          {{"axis", Attr(0)},
                           {"begin", Attr(begin)},
                           {"end", Attr(begin + shape.size())}}),
                     shape);
    };
    inputs_.push_back(c_.Input(part(all_)));
    Dual d{inputs_.back()};
    if (tangent_) d.t = c_.Constant(part(tangent_));
    return d;
  }
  // The gradient, as the vector.
  Value Gradient() const {
    std::vector<Value> parts;
    for (Var v : inputs_) {
      const Value& d = c_.GradientOf(v);
      const Shape flat{c_.shape(v).size()};
      parts.push_back(d ? reshape(d, flat) : zeros({flat, c_.value(v).dtype()}));
    }
    if (parts.size() == 1) return parts[0];
    static const OpDef& concat = GetOp("Concat");
    const NamedAttr attrs[] = {{"dim", Attr(0)},
                               {"num_args", Attr(static_cast<int64_t>(parts.size()))}};
    return ApplyOne(concat, MakeParams(concat, attrs), parts);
  }

 private:
  Composition& c_;
  const Value all_, tangent_;
  std::vector<Var> inputs_;
  int64_t end_ = 0;
};

std::vector<Weights> TakeWeights(const RnnLayout& at, const P& p, Parts& parts) {
  std::vector<Weights> weights(at.places.size());
  const int64_t rows = at.gates * at.hidden;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t layer = static_cast<int64_t>(i) / at.directions;
    weights[i].input = parts.Take({rows, at.Input(layer)});
    weights[i].hidden = parts.Take({rows, at.state});
    if (p.projection_size) weights[i].projection = parts.Take({at.state, at.hidden});
  }
  for (Weights& w : weights) {
    w.input_bias = parts.Take({rows});
    w.hidden_bias = parts.Take({rows});
  }
  return weights;
}

// What stands in the arrays of the gradient's operator.
struct Arrays {
  explicit Arrays(const P& p)
      : cell(p.lstm() ? 3 : -1),
        lengths(p.use_sequence_length ? 3 + p.lstm() : -1),
        y(3 + p.lstm() + p.use_sequence_length),
        kept(y + 1),
        dy(y + 2),
        dstate(p.heads & 1 ? dy + 1 : -1),
        dcell(p.heads & 2 ? dy + 1 + ((p.heads & 1) != 0) : -1) {}
  int cell, lengths, y, kept, dy, dstate, dcell;
};

class SecondGradient {
 public:
  SecondGradient(const P& p, const GradArgs& g)
      : p_(p),
        g_(g),
        where_(p),
        wide_(g.in_spec(0).dtype == DType::kFloat64 ? DType::kFloat64
                                                    : DType::kFloat32),
        at_(p, g.in_spec(0).shape[0], g.in_spec(0).shape[1], g.in_spec(0).shape[2],
            p.p > 0) {}

  Values Run() {
    const Value x = In(0);
    Dual data{c_.Input(x)};
    if (g_.has_dout(0)) data.t = c_.Constant(Head(0));
    Parts weights = PartsOf(1), states = PartsOf(2);
    std::optional<Parts> cells;
    if (p_.lstm()) cells.emplace(PartsOf(3));
    const std::vector<Weights> w = TakeWeights(at_, p_, weights);
    Duals h0, c0;
    for (size_t i = 0; i < at_.places.size(); ++i) {
      h0.push_back(states.Take({at_.batch, at_.state}));
      if (cells) c0.push_back(cells->Take({at_.batch, at_.hidden}));
    }
    Tangents t(c_);
    Unroller unroller(p_, at_, t, where_.lengths < 0 ? Value() : g_.in(where_.lengths));
    unroller.dtype = wide_;
    if (p_.dropped) unroller.masks = Masks();
    const Unrolled out = unroller.Run(data, w, h0, c0);

    Values dx(static_cast<size_t>(g_.num_inputs()));
    if (at_.steps > 0) Pass({out.y}, where_.dy, dx);
    Pass(out.h, where_.dstate, dx);
    if (cells) Pass(out.cell, where_.dcell, dx);
    c_.GoBack();
    Set(0, c_.GradientOf(data.x), dx);
    Set(1, weights.Gradient(), dx);
    Set(2, states.Gradient(), dx);
    if (cells) Set(3, cells->Gradient(), dx);
    return dx;
  }

 private:
  Value In(int i) const { return cast(g_.in(i), wide_); }
  Value Head(int i) const { return cast(g_.dout(i), wide_); }
  static Value Flat(const Value& v) { return reshape(v, {v.shape().size()}); }
  Parts PartsOf(int i) {
    return {c_, Flat(In(i)), g_.has_dout(i) ? Flat(Head(i)) : Value()};
  }
  std::vector<Value> Masks() const {
    std::vector<Value> masks;
    const int64_t row = at_.directions * at_.state, n = at_.steps * at_.batch * row;
    for (const RnnLayout::Output& o : at_.outputs) {
      const Value mask =
          Make("slice_axis", {g_.in(where_.kept)},
               {{"axis", Attr(0)}, {"begin", Attr(o.mask)}, {"end", Attr(o.mask + n)}});
      masks.push_back(reshape(mask, {at_.steps, at_.batch, row}));
    }
    return masks;
  }
  // The tangents of an output are the gradient by its head gradient, and have that as
  // theirs. `parts`: along axis 0, if there are several.
  void Pass(const Duals& parts, int head, Values& dx) {
    if (head < 0) return;
    const Spec& spec = g_.in_spec(head);
    const Value u = reshape(In(head), {static_cast<int64_t>(parts.size()),
                                       spec.shape.size() / Count(parts)});
    std::vector<Value> tangents;
    bool any = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Dual& d = parts[i];
      any |= d.t != kNone;
      const Shape& shape = c_.shape(d.x);
      if (d.t != kNone) {
        const auto k = static_cast<int64_t>(i);
        c_.Seed(
            d.t,
            reshape(Make("slice_axis", {u},
                         {{"axis", Attr(0)}, {"begin", Attr(k)}, {"end", Attr(k + 1)}}),
                    shape));
      }
      const Value t = d.t == kNone ? zeros({shape, wide_}) : c_.value(d.t);
      tangents.push_back(Flat(t));
    }
    if (!any) return;
    static const OpDef& concat = GetOp("Concat");
    const NamedAttr attrs[] = {{"dim", Attr(0)}, {"num_args", Attr(Count(parts))}};
    const Value all = tangents.size() == 1
                          ? tangents[0]
                          : ApplyOne(concat, MakeParams(concat, attrs), tangents);
    dx[static_cast<size_t>(head)] = FitDType(reshape(all, spec.shape), spec);
  }
  static int64_t Count(const Duals& parts) {
    return static_cast<int64_t>(parts.size());
  }
  void Set(int i, const Value& d, Values& dx) const {
    const Spec& spec = g_.in_spec(i);
    if (d && g_.wants(i))
      dx[static_cast<size_t>(i)] = FitDType(reshape(d, spec.shape), spec);
  }

  const P& p_;
  const GradArgs& g_;
  const Arrays where_;
  const DType wide_;
  const RnnLayout at_;
  Composition c_;
};

}  // namespace

Values RnnSecondGradient(const P& p, const GradArgs& g) {
  return SecondGradient(p, g).Run();
}

Uses RnnSecondUses(const P& p) {
  const Arrays at(p);
  const uint32_t not_read = (1u << at.y) | (p.dropped ? 0 : 1u << at.kept);
  return {.in = ~not_read};
}

}  // namespace plait
