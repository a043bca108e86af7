// Initializer: fills parameters with their first values.

#ifndef PLAIT_TRAIN_INITIALIZER_H_
#define PLAIT_TRAIN_INITIALIZER_H_

#include <memory>
#include <string>
#include <string_view>

#include "ndarray/ndarray.h"
#include "train/named.h"

namespace plait {

// What a name says about a parameter, by its ending.
enum class ParameterKind : uint8_t {
  kUnknown,
  kWeight,           // ..weight
  kBias,             // ..bias: zeros
  kGamma,            // ..gamma: ones
  kBeta,             // ..beta: zeros
  kZero,             // ..min, and moving averages: zeros
  kOne,              // ..max, and moving variances: ones
  kQuantizedWeight,  // ..weight_quantize: integers of -127 to 126
  kQuantizedBias,    // ..bias_quantize: zeros
};
struct ParameterName {
  ParameterKind kind = ParameterKind::kUnknown;
  std::string_view ending;  // what decided; "" where nothing did
};
// `moving`: knows moving_mean, moving_var, moving_inv_var and moving_avg too.
ParameterName KindOfParameter(std::string_view name, bool moving = true);

// Kinds: zero, one, constant, uniform, normal, orthogonal, xavier, msraprelu, bilinear,
// lstmbias, fusedrnn.
class Initializer : public Named {
 public:
  static KindTable& Kinds();

  // Fills a weight; asynchronous. `global` is the initializer of the whole model, which
  // one for a part may go back to; null: there is none. Throws kValue where the shape
  // does not suit.
  void FillWeight(std::string_view name, const NDArray& x,
                  const Initializer* global = nullptr) const;

 protected:
  virtual void Fill(std::string_view name, const NDArray& x,
                    const Initializer* global) const = 0;
};

// From a name, or from MXNet's JSON text: ["xavier", {"magnitude": 2}]. Throws kValue
// for bad text, and what CreateNamed throws.
std::unique_ptr<Initializer> MakeInitializer(std::string_view text);
// The JSON text of it.
std::string DumpInitializer(const Initializer& initializer);

// Fills a parameter: by `own` (a text as above, the parameter's attribute __init__)
// where it is not empty, else by what the name says; `global` is for weights. Throws
// kValue for a name that says nothing.
void InitializeParameter(std::string_view name, std::string_view own, const NDArray& x,
                         const Initializer& global);

// Fills x as the parameter of a kind that is not a weight.
void FillParameter(ParameterKind kind, const NDArray& x);

// The magnitude of Xavier's rule for layers followed by PReLU of this slope.
double MsraMagnitude(double slope);

// A piece of the one flat parameter of a recurrent operator.
struct RnnPiece {
  std::string name;  // l0_i2h_f_weight
  int64_t offset = 0;
  Shape shape;
};
// Of the gates' weights, then of their biases. mode: lstm, gru, rnn_relu or rnn_tanh.
// Throws kValue where `total` elements fit no width of the input.
std::vector<RnnPiece> RnnPieces(std::string_view mode, int64_t num_hidden,
                                int64_t num_layers, bool bidirectional, int64_t total);

}  // namespace plait

#endif  // PLAIT_TRAIN_INITIALIZER_H_
