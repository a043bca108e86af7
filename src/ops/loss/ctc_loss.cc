// CTCLoss: connectionist temporal classification (Graves et al., ICML 2006).

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Blank { kFirst, kLast };

struct CtcLossParams {
  bool use_data_lengths = false;
  bool use_label_lengths = false;
  Blank blank_label = Blank::kFirst;
};
using P = CtcLossParams;

void InferTypes(const P&, Specs& in, Specs& out) {
  DType& x = in[0].dtype;
  if (x == DType::kUnknown) x = out[0].dtype;
  out[0].dtype = out[1].dtype = x;
  for (Spec& s : in) {
    if (s.dtype == DType::kUnknown) s.dtype = x;
  }
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &label = in[1].shape;
  Check(Assign(x, Shape::Filled(3, kUnknownSize)) &&
            Assign(label, Shape::Filled(2, kUnknownSize)) && UnifySize(x[1], label[0]),
        "CTCLoss: data ", x, " and label ", label,
        " do not match; (time, batch, classes) and (batch, labels) were expected");
  for (size_t i = 2; i < in.size(); ++i) {
    const bool data = i == 2 && p.use_data_lengths;
    Check(Assign(in[i].shape, {x[1]}), "CTCLoss: ", data ? "data" : "label",
          "_lengths ", in[i].shape, " does not fit data ", x,
          "; one number a sample was expected");
  }
  Check(!x.known() || !label.known() || (x[0] >= label[1] && x[2] >= 1),
        "CTCLoss: label ", label, " has more labels than data ", x,
        " has steps; at most as many were expected");
  return Assign(out[0].shape, {x[1]}) && Assign(out[1].shape, x);
}

constexpr double kNever = -std::numeric_limits<double>::infinity();

double LogAdd(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

std::vector<int64_t> Integers(const View& v, int64_t first, int64_t count) {
  std::vector<int64_t> result(static_cast<size_t>(count));
  VisitDType(v.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) {
      result[i] = static_cast<int64_t>(v.data<const T>()[first + i]);
    }
  });
  return result;
}

// One sequence: log probabilities of `steps` steps over `classes` classes.
struct Sequence {
  int64_t steps, classes, blank;
  std::vector<double> log_probs;  // steps * classes
  std::vector<int64_t> states;    // labels with blanks around: 2 n + 1

  double LogProb(int64_t t, int64_t s) const {
    return log_probs[t * classes + states[s]];
  }
  // May the path go from state s - 2 to s, past the blank between them?
  bool Skips(int64_t s) const {
    return s >= 2 && states[s] != blank && states[s] != states[s - 2];
  }
};

// Sums over all paths that reach a state; the log likelihood is in the last two states.
std::vector<double> Alphas(const Sequence& q) {
  const auto n = static_cast<int64_t>(q.states.size());
  std::vector<double> a(static_cast<size_t>(q.steps * n), kNever);
  for (int64_t s = 0; s < std::min<int64_t>(n, 2); ++s) a[s] = q.LogProb(0, s);
  for (int64_t t = 1; t < q.steps; ++t) {
    const double* before = &a[(t - 1) * n];
    for (int64_t s = 0; s < n; ++s) {
      double sum = before[s];
      if (s >= 1) sum = LogAdd(sum, before[s - 1]);
      if (q.Skips(s)) sum = LogAdd(sum, before[s - 2]);
      a[t * n + s] = sum == kNever ? kNever : sum + q.LogProb(t, s);
    }
  }
  return a;
}

// Returns the loss; grad (steps * classes) gets its gradient for the scores:
// softmax minus the share of each class in the likelihood.
double Solve(const Sequence& q, std::vector<double>& grad) {
  const auto n = static_cast<int64_t>(q.states.size());
  const std::vector<double> alphas = Alphas(q);
  const double* last = &alphas[(q.steps - 1) * n];
  const double total = n > 1 ? LogAdd(last[n - 1], last[n - 2]) : last[n - 1];
  grad.assign(q.log_probs.size(), 0);
  if (total == kNever) return 0;  // more labels than the steps can hold
  for (size_t i = 0; i < grad.size(); ++i) grad[i] = std::exp(q.log_probs[i]);
  std::vector<double> beta(static_cast<size_t>(n), kNever), next;
  for (int64_t s = std::max<int64_t>(n - 2, 0); s < n; ++s) beta[s] = 0;
  for (int64_t t = q.steps - 1; t >= 0; --t) {
    if (t < q.steps - 1) {
      next = beta;
      const auto ahead = [&](int64_t s) { return next[s] + q.LogProb(t + 1, s); };
      for (int64_t s = 0; s < n; ++s) {
        double sum = ahead(s);
        if (s + 1 < n) sum = LogAdd(sum, ahead(s + 1));
        if (s + 2 < n && q.Skips(s + 2)) sum = LogAdd(sum, ahead(s + 2));
        beta[s] = sum;
      }
    }
    for (int64_t s = 0; s < n; ++s) {
      const double share = alphas[t * n + s] + beta[s] - total;
      if (share > kNever) grad[t * q.classes + q.states[s]] -= std::exp(share);
    }
  }
  return -total;
}

// Labels of sample b: up to the padding (0 for a first blank, -1 for a last one).
std::vector<int64_t> LabelsOf(const P& p, const KernelArgs& args, int64_t b) {
  const int64_t most = args.in[1].shape()[1];
  std::vector<int64_t> labels = Integers(args.in[1], b * most, most);
  int64_t count = 0;
  if (p.use_label_lengths) {
    count = std::clamp<int64_t>(Integers(args.in.back(), b, 1)[0], 0, most);
  } else {
    const int64_t padding = p.blank_label == Blank::kFirst ? 0 : -1;
    while (count < most && labels[count] != padding) ++count;
  }
  labels.resize(static_cast<size_t>(count));
  return labels;
}

template <typename T>
void Sample1(const P& p, const KernelArgs& args, int64_t b) {
  using A = Accumulate<T>;
  const Shape& shape = args.in[0].shape();
  const int64_t time = shape[0], batch = shape[1], classes = shape[2];
  Sequence q{time, classes, p.blank_label == Blank::kFirst ? 0 : classes - 1, {}, {}};
  if (p.use_data_lengths) {
    q.steps = std::clamp<int64_t>(Integers(args.in[2], b, 1)[0], 0, time);
  }
  q.states.push_back(q.blank);
  for (const int64_t label : LabelsOf(p, args, b)) {
    Check(label >= 0 && label < classes, ErrorKind::kValue, "CTCLoss: label ", label,
          " of sample ", b, "; a number below ", classes, " was expected");
    q.states.push_back(label);
    q.states.push_back(q.blank);
  }
  q.log_probs.resize(static_cast<size_t>(q.steps * classes));
  for (int64_t t = 0; t < q.steps; ++t) {
    const T* x = args.in[0].data<const T>() + (t * batch + b) * classes;
    double* row = &q.log_probs[t * classes];
    double top = kNever, sum = 0;
    for (int64_t c = 0; c < classes; ++c)
      top = std::max(top, double(static_cast<A>(x[c])));
    for (int64_t c = 0; c < classes; ++c)
      sum += std::exp(double(static_cast<A>(x[c])) - top);
    for (int64_t c = 0; c < classes; ++c) {
      row[c] = double(static_cast<A>(x[c])) - top - std::log(sum);
    }
  }
  std::vector<double> grad;
  const double loss = q.steps > 0 ? Solve(q, grad) : 0;
  args.out[0].data<T>()[b] = static_cast<T>(static_cast<A>(loss));
  for (int64_t t = 0; t < time; ++t) {
    T* dx = args.out[1].data<T>() + (t * batch + b) * classes;
    for (int64_t c = 0; c < classes; ++c) {
      const double d = t < q.steps ? grad[t * classes + c] : 0;
      dx[c] = static_cast<T>(static_cast<A>(d));
    }
  }
}

void Forward(const P& p, const KernelArgs& args) {
  VisitFloat(args.in[0].dtype, [&]<typename T>() {
    ParallelFor(args.in[0].shape()[1], 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) Sample1<T>(p, args, b);
    });
  });
}

Values Gradient(const P&, const GradArgs& g) {
  Check(!g.has_dout(1), ErrorKind::kNotImplemented,
        "CTCLoss: a second derivative is not there; only the first was expected");
  Values result(g.num_inputs());
  result[0] = g.out(1) * reshape(g.dout(0), {1, g.in_spec(0).shape[1], 1});
  return result;
}

SampleInput Labels(Shape shape, std::vector<double> values) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.differentiable = false;
  return s;
}

const OpDef& ctc_loss = Register<P>({
    .name = "CTCLoss",
    .aliases = {"_contrib_CTCLoss", "_contrib_ctc_loss", "ctc_loss"},
    .doc = "Minus the log likelihood of label sequences, summed over all alignments.",
    .inputs = {{"data", Types::kFloats, "Scores of shape (time, batch, classes)."},
               {"label", Types::kAny, "Class numbers of shape (batch, labels)."},
               {"data_lengths", Types::kAny, "Steps of each sample that count."},
               {"label_lengths", Types::kAny, "Labels of each sample that count."}},
    .outputs = {{"output", Types::kFloats, "A loss for each sample."},
                {"grad", Types::kFloats, "Its gradient for data."}},
    .params = {{"use_data_lengths", &P::use_data_lengths, "Takes data_lengths."},
               {"use_label_lengths", &P::use_label_lengths,
                "Takes label_lengths; else labels end at 0 (first) or -1 (last)."},
               {"blank_label",
                &P::blank_label,
                {"first", "last"},
                "Which class is the blank."}},
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, p.use_data_lengths, p.use_label_lengths};
    },
    .visible_outputs = [](const P&) { return 1; },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.out = 0b10},
    .cpu = {{"plain", Forward}},
    .may_fail = true,
    .cost =
        [](const P&, const Specs& in, const Specs&) {
          return 40.0 * static_cast<double>(in[0].shape.size()) +
                 100.0 * static_cast<double>(in[0].shape[0] * in[1].shape.size());
        },
    .samples = {{{Normal({5, 2, 4}), Labels({2, 3}, {1, 2, 2, 3, 0, 0})}},
                {{Normal({4, 2, 3}), Labels({2, 2}, {0, 1, 1, -1})},
                 {.blank_label = Blank::kLast}},
                {{Normal({5, 2, 4}), Labels({2, 2}, {1, 2, 3, 3}), Labels({2}, {3, 5}),
                  Labels({2}, {1, 2})},
                 {.use_data_lengths = true, .use_label_lengths = true}}},
});

}  // namespace
}  // namespace plait
