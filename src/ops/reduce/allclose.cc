// _contrib_allclose: whether two arrays are equal up to tolerances.

#include <cmath>

#include "graph/op.h"

namespace plait {
namespace {

struct CloseParams {
  float rtol = 1e-5f, atol = 1e-8f;
  bool equal_nan = true;
};

bool Close(const CloseParams& p, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return p.equal_nan && std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= p.atol + p.rtol * std::abs(b);
}

void RunClose(const CloseParams& p, const KernelArgs& args) {
  bool all = true;
  VisitDType(args.in[0].dtype, [&]<typename T>() {
    const T* a = args.in[0].data<T>();
    const T* b = args.in[1].data<T>();
    for (int64_t i = 0; all && i < args.in[0].size(); ++i)
      all = Close(p, static_cast<double>(a[i]), static_cast<double>(b[i]));
  });
  *args.out[0].data<uint8_t>() = all;
}

[[maybe_unused]] const OpDef& allclose = Register<CloseParams>({
    .name = "_contrib_allclose",
    .doc = "1 if |a - b| <= atol + rtol |b| for all elements, else 0, as uint8.",
    .inputs = {{"a", Types::kAny, "Numbers, of any shape."},
               {"b", Types::kAny, "Numbers, of the same shape and dtype."}},
    .params = {{"rtol", &CloseParams::rtol, "The relative tolerance."},
               {"atol", &CloseParams::atol, "The absolute tolerance."},
               {"equal_nan", &CloseParams::equal_nan, "Whether NaN equals NaN."}},
    .types =
        [](const CloseParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = in[1].dtype;
          if (in[1].dtype == DType::kUnknown) in[1].dtype = in[0].dtype;
          Check(in[0].dtype == in[1].dtype, ErrorKind::kType,
                "_contrib_allclose: a is ", in[0].dtype, " and b is ", in[1].dtype,
                "; one dtype was expected");
          out[0].dtype = DType::kUint8;
        },
    .infer =
        [](const CloseParams&, Specs& in, Specs& out) {
          Shape y{1};
          return Unify(in[0].shape, in[1].shape) && Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain", RunClose}},
    .samples = {{{Normal({2, 3}), Normal({2, 3})}},
                {{Normal({2, 3}), Normal({2, 3})}, {.rtol = 10, .atol = 10}},
                {{Normal({0}), Normal({0})}}},
});

}  // namespace
}  // namespace plait
