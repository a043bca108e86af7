// _eye: ones on a diagonal, zeros elsewhere.

#include <algorithm>

#include "cpu/strided.h"
#include "ops/create/given_shape.h"

namespace plait {
namespace {

struct EyeParams {
  int64_t N = 0, M = 0, k = 0;
  std::string ctx;
  DType dtype = DType::kFloat32;
};

int64_t Columns(const EyeParams& p) {
  return p.M > 0 ? p.M : p.N;
}

void RunEye(const EyeParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  const int64_t columns = Columns(p);
  cpu::FillZero(y.ptr, y.bytes());
  VisitDType(y.dtype, [&]<typename T>() {
    T* out = y.data<T>();
    const int64_t first = std::max<int64_t>(0, -p.k);
    const int64_t last = std::min(p.N, columns - p.k);
    for (int64_t i = first; i < last; ++i) out[i * columns + i + p.k] = T(1);
  });
}

[[maybe_unused]] const OpDef& eye = Register<EyeParams>({
    .name = "_eye",
    .doc = "A matrix with ones on a diagonal and zeros elsewhere.",
    .params = {Required<EyeParams>("N", &EyeParams::N, "Rows."),
               {"M", &EyeParams::M, "Columns; 0: as many as rows."},
               {"k", &EyeParams::k, "Which diagonal; positive ones lie above."},
               {"ctx", &EyeParams::ctx, "The device, as text."},
               {"dtype", &EyeParams::dtype, "The dtype of the matrix."}},
    .types =
        [](const EyeParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
        },
    .infer =
        [](const EyeParams& p, Specs&, Specs& out) {
          return InferGiven({p.N, Columns(p)}, out[0], "_eye");
        },
    .zero_gradient = true,
    .cpu = {{"plain", RunEye}},
    .samples = {{{}, {.N = 3}},
                {{}, {.N = 2, .M = 4, .k = 1}},
                {{}, {.N = 4, .M = 2, .k = -1, .dtype = DType::kInt32}},
                {{}, {.N = 2, .k = 9}},
                {{}, {.N = 0}}},
});

}  // namespace
}  // namespace plait
