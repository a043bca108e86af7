// The initializers: constants, random numbers scaled by the shape, special weights.

#include <cmath>

#include "graph/math.h"
#include "run/invoke.h"
#include "train/initializer.h"

namespace plait {
namespace {

// Draws numbers of a distribution into x.
void Draw(const char* op, const char* first, double a, const char* second, double b,
          const NDArray& x) {
  const OpDef& def = GetOp(op);
  const NamedAttr attrs[] = {{first, {a}}, {second, {b}}, {"shape", Attr(x.shape())}};
  Invoke(def, MakeParams(def, attrs), {}, {&x, 1});
}
void DrawUniform(double low, double high, const NDArray& x) {
  Draw("_random_uniform", "low", low, "high", high, x);
}
void DrawNormal(double sigma, const NDArray& x) {
  Draw("_random_normal", "loc", 0, "scale", sigma, x);
}

void FillNumber(const NDArray& x, double value) {
  CopyInto((zeros_like(x) + value).array(), x);
}
// Values that the host computed.
void FillValues(const NDArray& x, const std::vector<float>& values) {
  CopyInto(NDArray::FromHost(values.data(), x.shape(), DType::kFloat32, x.device()), x);
}

class Zero final : public Initializer {
 protected:
  void Fill(std::string_view, const NDArray& x, const Initializer*) const override {
    FillNumber(x, 0);
  }
};
[[maybe_unused]] const Kind& zero = AddKind<Initializer, Zero>(
    {.name = "zero", .aliases = {"zeros"}, .doc = "All zeros."});

class One final : public Initializer {
 protected:
  void Fill(std::string_view, const NDArray& x, const Initializer*) const override {
    FillNumber(x, 1);
  }
};
[[maybe_unused]] const Kind& one =
    AddKind<Initializer, One>({.name = "one", .aliases = {"ones"}, .doc = "All ones."});

class Constant final : public Initializer {
 public:
  std::vector<double> value;

 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer*) const override {
    if (value.size() == 1) return FillNumber(x, value[0]);
    Check(static_cast<int64_t>(value.size()) == x.size(), "constant: got ",
          value.size(), " numbers for ", name, " of shape ", x.shape(),
          "; one, or as many as there are elements, were expected");
    FillValues(x, {value.begin(), value.end()});
  }
};
[[maybe_unused]] const Kind& constant = AddKind<Initializer, Constant>({
    .name = "constant",
    .doc = "A number, or the numbers of all elements in order.",
    .attributes = {Required("value", &Constant::value, "The number or numbers.")},
});

class Uniform final : public Initializer {
 public:
  double scale = 0.07;

 protected:
  void Fill(std::string_view, const NDArray& x, const Initializer*) const override {
    DrawUniform(-scale, scale, x);
  }
};
[[maybe_unused]] const Kind& uniform = AddKind<Initializer, Uniform>({
    .name = "uniform",
    .doc = "Uniform in [-scale, scale).",
    .attributes = {{"scale", &Uniform::scale, "The bound."}},
});

class Normal final : public Initializer {
 public:
  double sigma = 0.01;

 protected:
  void Fill(std::string_view, const NDArray& x, const Initializer*) const override {
    DrawNormal(sigma, x);
  }
};
[[maybe_unused]] const Kind& normal = AddKind<Initializer, Normal>({
    .name = "normal",
    .doc = "Normal with mean 0.",
    .attributes = {{"sigma", &Normal::sigma, "The standard deviation."}},
});

class Orthogonal final : public Initializer {
 public:
  double scale = 1.414;
  std::string rand_type = "uniform";

 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer*) const override {
    Check(rand_type == "uniform" || rand_type == "normal", "orthogonal: rand_type is '",
          rand_type, "'; 'uniform' or 'normal' was expected");
    Check(x.shape().rank() >= 1, "orthogonal: ", name, " has shape ", x.shape(),
          "; at least one axis was expected");
    if (x.size() == 0) return;
    const int64_t rows = x.shape()[0], columns = x.size() / rows;
    const NDArray drawn = NDArray::Empty({rows, columns}, DType::kFloat32, x.device());
    if (rand_type == "uniform") {
      DrawUniform(-1, 1, drawn);
    } else {
      DrawNormal(1, drawn);
    }
    // A = L Q; rows get the sign that makes the diagonal of L positive, so that Q is
    // the one of its kind, and evenly distributed for normal numbers.
    const bool tall = rows > columns;
    const Value a = tall ? transpose(drawn, {1, 0}) : Value(drawn);
    const Values lq = MakeAll("_linalg_gelqf", {a});
    const Value diagonal = Make("_linalg_extractdiag", {lq[1]});
    const Value signs = greater_equal(diagonal, zeros_like(diagonal)) * 2.0 - 1.0;
    const Value q = lq[0] * reshape(signs, {std::min(rows, columns), 1}) * scale;
    CopyInto(reshape(tall ? transpose(q, {1, 0}) : q, x.shape()).array(), x);
  }
};
[[maybe_unused]] const Kind& orthogonal = AddKind<Initializer, Orthogonal>({
    .name = "orthogonal",
    .doc = "A random matrix with orthogonal rows or columns, times scale.",
    .attributes = {{"scale", &Orthogonal::scale, "The length of rows or columns."},
                   {"rand_type", &Orthogonal::rand_type, "uniform or normal."}},
});

class Xavier : public Initializer {
 public:
  std::string rnd_type = "uniform", factor_type = "avg";
  double magnitude = 3;

 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer*) const override {
    const Shape& shape = x.shape();
    Check(shape.rank() >= 2, "xavier: ", name, " has shape ", shape,
          "; at least 2D was expected, as a vector has no fan");
    const auto window = static_cast<double>(shape.size(2, shape.rank()));
    const double in = static_cast<double>(shape[1]) * window;
    const double out = static_cast<double>(shape[0]) * window;
    double factor = 0;
    if (factor_type == "avg") {
      factor = (in + out) / 2;
    } else if (factor_type == "in") {
      factor = in;
    } else {
      Check(factor_type == "out", "xavier: the factor type is '", factor_type,
            "'; 'avg', 'in' or 'out' was expected");
      factor = out;
    }
    const double scale = std::sqrt(magnitude / factor);
    if (rnd_type == "uniform") return DrawUniform(-scale, scale, x);
    Check(rnd_type == "gaussian", "xavier: the random type is '", rnd_type,
          "'; 'uniform' or 'gaussian' was expected");
    DrawNormal(scale, x);
  }
};
[[maybe_unused]] const Kind& xavier = AddKind<Initializer, Xavier>({
    .name = "xavier",
    .doc = "Scaled by fan: sqrt(magnitude / factor) bounds the numbers, or is their "
           "standard deviation.",
    .attributes = {{"rnd_type", &Xavier::rnd_type, "uniform or gaussian."},
                   {"factor_type", &Xavier::factor_type,
                    "in, out or avg: the fan that is the factor."},
                   {"magnitude", &Xavier::magnitude, "The scale squared, times fan."}},
});

class MsraPrelu final : public Xavier {
 public:
  MsraPrelu() {
    rnd_type = "gaussian";
    magnitude = MsraMagnitude(slope);
  }
  void Complete() override { magnitude = MsraMagnitude(slope); }

  double slope = 0.25;
};
[[maybe_unused]] const Kind& msra_prelu = AddKind<Initializer, MsraPrelu>({
    .name = "msraprelu",
    .doc = "He's rule for layers followed by PReLU with this slope.",
    .attributes = {Inherited<MsraPrelu>("factor_type", &Xavier::factor_type,
                                        "in, out or avg."),
                   {"slope", &MsraPrelu::slope, "The slope of PReLU."}},
});

class Bilinear final : public Initializer {
 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer*) const override {
    const Shape& shape = x.shape();
    Check(shape.rank() == 4, "bilinear: ", name, " has shape ", shape,
          "; four axes were expected");
    const int64_t height = shape[2], width = shape[3];
    const double f = std::ceil(static_cast<double>(width) / 2);
    const double c = (2 * f - 1 - std::fmod(f, 2)) / (2 * f);
    const auto tent = [&](int64_t i) {
      return 1 - std::abs(static_cast<double>(i) / f - c);
    };
    std::vector<float> values(static_cast<size_t>(x.size()));
    for (size_t k = 0; k < values.size(); ++k) {
      const auto i = static_cast<int64_t>(k);
      values[k] = static_cast<float>(tent(i / width % height) * tent(i % width));
    }
    FillValues(x, values);
  }
};
[[maybe_unused]] const Kind& bilinear = AddKind<Initializer, Bilinear>(
    {.name = "bilinear", .doc = "Weights of an upsampling that interpolates."});

class LstmBias final : public Initializer {
 public:
  double forget_bias = 1;

 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer*) const override {
    Check(x.shape().rank() >= 1, "lstmbias: ", name,
          " is a number; the biases of four gates were expected");
    const int64_t quarter = x.shape()[0] / 4;
    FillNumber(x, 0);
    FillNumber(x.Slice(quarter, 2 * quarter), forget_bias);
  }
};
[[maybe_unused]] const Kind& lstm_bias = AddKind<Initializer, LstmBias>({
    .name = "lstmbias",
    .doc = "Zero, but forget_bias for the forget gate, the second quarter.",
    .attributes = {{"forget_bias", &LstmBias::forget_bias, "Of the forget gate."}},
});

class FusedRnn final : public Initializer {
 public:
  std::optional<std::string> init;
  int64_t num_hidden = 0, num_layers = 0;
  std::string mode;
  bool bidirectional = false;
  double forget_bias = 1;

 protected:
  void Fill(std::string_view name, const NDArray& x,
            const Initializer* global) const override {
    const std::unique_ptr<Initializer> own = init ? MakeInitializer(*init) : nullptr;
    const Initializer* rule = own ? own.get() : global;
    Check(rule != nullptr, "fusedrnn: ", name,
          " has no initializer for its pieces, and there is none for the model");
    const NDArray flat = x.Reshape({x.size()});
    for (const RnnPiece& piece :
         RnnPieces(mode, num_hidden, num_layers, bidirectional, x.size())) {
      const NDArray part = flat.View(piece.shape, piece.offset);
      if (mode == "lstm" && piece.name.ends_with("_f_bias")) {
        FillNumber(part, forget_bias);
      } else {
        InitializeParameter(piece.name, "", part, *rule);
      }
    }
  }
};
[[maybe_unused]] const Kind& fused_rnn = AddKind<Initializer, FusedRnn>({
    .name = "fusedrnn",
    .doc = "For the one flat parameter of a recurrent operator: each piece by its own "
           "rule.",
    .attributes =
        {{"init", &FusedRnn::init, "Of the pieces, as a text; None: the model's."},
         Required("num_hidden", &FusedRnn::num_hidden, "Units of a layer."),
         Required("num_layers", &FusedRnn::num_layers, "Layers."),
         Required("mode", &FusedRnn::mode, "lstm, gru, rnn_relu or rnn_tanh."),
         {"bidirectional", &FusedRnn::bidirectional, "Both directions."},
         {"forget_bias", &FusedRnn::forget_bias, "Of an LSTM's forget gates."}},
});

}  // namespace

double MsraMagnitude(double slope) {
  return 2 / (1 + slope * slope);
}

std::vector<RnnPiece> RnnPieces(std::string_view mode, int64_t num_hidden,
                                int64_t num_layers, bool bidirectional, int64_t total) {
  std::vector<std::string> gates{""};
  if (mode == "lstm") gates = {"_i", "_f", "_c", "_o"};
  if (mode == "gru") gates = {"_r", "_z", "_o"};
  const int64_t h = num_hidden, dirs = bidirectional ? 2 : 1;
  const auto n = static_cast<int64_t>(gates.size());
  // total = dirs n h (width + h + 2) + (layers - 1) dirs n h (dirs h + h + 2)
  const int64_t rest = (num_layers - 1) * (dirs * h + h + 2);
  const int64_t each = dirs * n * h;
  const int64_t width = each > 0 ? total / each - rest - h - 2 : 0;
  Check(width > 0 && total == each * (width + h + 2 + rest), "fusedrnn: an array of ",
        total, " values does not fit ", num_layers, " layers of ", h, " hidden units");
  std::vector<RnnPiece> pieces;
  int64_t offset = 0;
  for (const char* group : {"weight", "bias"}) {
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      for (int64_t side = 0; side < dirs; ++side) {
        for (const char* part : {"i2h", "h2h"}) {
          const int64_t inputs = layer == 0 ? width : dirs * h;
          const int64_t columns = std::string_view(part) == "i2h" ? inputs : h;
          for (const std::string& gate : gates) {
            const Shape shape =
                std::string_view(group) == "weight" ? Shape{h, columns} : Shape{h};
            pieces.push_back({std::string(side == 0 ? "l" : "r") +
                                  std::to_string(layer) + "_" + part + gate + "_" +
                                  group,
                              offset, shape});
            offset += shape.size();
          }
        }
      }
    }
  }
  return pieces;
}

}  // namespace plait
