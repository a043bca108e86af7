// one_hot, _onehot_encode, fill_element_0index: single places of rows set by an index.

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/strided.h"
#include "ops/index/indices.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct OneHotParams {
  int64_t depth = 0;
  double on_value = 1, off_value = 0;
  DType dtype = DType::kFloat32;
};

// An index out of range leaves its row off.
void RunOneHot(const OneHotParams& p, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  FillValue(y, p.off_value);
  cpu::Scratch memory(x.size() * sizeof(double));
  double* at = memory.As<double>();
  cpu::Convert(x.ptr, x.dtype, at, DType::kFloat64, x.size());
  VisitDType(y.dtype, [&]<typename T>() {
    T on;
    cpu::Convert(&p.on_value, DType::kFloat64, &on, y.dtype, 1);
    for (int64_t i = 0; i < x.size(); ++i) {
      if (at[i] > -1 && at[i] < static_cast<double>(p.depth)) {
        y.data<T>()[i * p.depth + static_cast<int64_t>(at[i])] = on;
      }
    }
  });
}

[[maybe_unused]] const OpDef& one_hot = Register<OneHotParams>({
    .name = "one_hot",
    .aliases = {"_npx_one_hot"},
    .doc = "For each index a row that is on at its place and off elsewhere.",
    .inputs = {{"indices", Types::kAny, "Whole numbers, of any shape and dtype."}},
    .params = {Required<OneHotParams>("depth", &OneHotParams::depth,
                                      "The length of a row."),
               {"on_value", &OneHotParams::on_value, "The number at the index."},
               {"off_value", &OneHotParams::off_value, "The number elsewhere."},
               {"dtype", &OneHotParams::dtype, "The dtype of the result."}},
    .types =
        [](const OneHotParams& p, Specs&, Specs& out) {
          out[0].dtype = p.dtype == DType::kUnknown ? DType::kFloat32 : p.dtype;
        },
    .infer =
        [](const OneHotParams& p, Specs& in, Specs& out) {
          Check(p.depth >= 0, "one_hot: depth is ", p.depth,
                "; at least 0 was expected");
          if (!in[0].shape.rank_known()) return true;
          Shape y = in[0].shape;
          y.Append(p.depth);
          return Unify(y, out[0].shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain", RunOneHot}},
    .samples = {{{Integers({3}, 0, 4)}, {.depth = 4}},
                {{Integers({2, 2}, -2, 6, DType::kInt32)},
                 {.depth = 3, .on_value = 8, .off_value = 1, .dtype = DType::kInt32}},
                {{Integers({0}, 0, 4)}, {.depth = 4}}},
});

// Rows and columns of a matrix with one index (and number) a row.
void CheckRows(const Shape& matrix, const Shape& indices, const char* op) {
  if (!matrix.known() || !indices.known()) return;
  Check(matrix.rank() == 2 && indices.rank() == 1 && indices[0] == matrix[0], op,
        ": indices of shape ", indices, " do not fit shape ", matrix,
        "; one index for each row of a matrix was expected");
}

[[maybe_unused]] const OpDef& onehot_encode = Register<NoParams>({
    .name = "_onehot_encode",
    .doc =
        "A matrix of the shape of rhs with a 1 in each row at the place of an index.",
    .inputs = {{"lhs", Types::kAny, "An index for each row."},
               {"rhs", Types::kAny, "A matrix; only its shape and dtype count."}},
    .types =
        [](const NoParams&, Specs& in, Specs& out) {
          if (in[1].dtype == DType::kUnknown) in[1].dtype = out[0].dtype;
          out[0].dtype = in[1].dtype;
        },
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          if (!Unify(in[1].shape, out[0].shape)) return false;
          CheckRows(in[1].shape, in[0].shape, "_onehot_encode");
          return true;
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const int64_t depth = args.out[0].shape()[1];
               const OneHotParams p{.depth = depth, .dtype = args.out[0].dtype};
               RunOneHot(p, args);
             }}},
    .samples = {{{Integers({3}, 0, 4), Normal({3, 4})}},
                {{Integers({0}, 0, 4), Normal({0, 4})}}},
});

[[maybe_unused]] const OpDef& fill_element = Register<NoParams>({
    .name = "fill_element_0index",
    .doc = "A matrix with one element of each row replaced: lhs[i, rhs[i]] = mhs[i].",
    .inputs = {{"lhs", Types::kAny, "The matrix."},
               {"mhs", Types::kAny, "The new element of each row."},
               {"rhs", Types::kAny, "The column of each row."}},
    .types =
        [](const NoParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = out[0].dtype;
          out[0].dtype = in[0].dtype;
          if (in[1].dtype == DType::kUnknown) in[1].dtype = in[0].dtype;
          Check(in[1].dtype == in[0].dtype, ErrorKind::kType,
                "fill_element_0index: lhs is ", in[0].dtype, " and mhs is ",
                in[1].dtype, "; one dtype was expected");
        },
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          if (!Unify(in[0].shape, out[0].shape) || !Unify(in[1].shape, in[2].shape)) {
            return false;
          }
          CheckRows(in[0].shape, in[1].shape, "fill_element_0index");
          return true;
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const NoParams& p, const KernelArgs& args) {
               const View& y = args.out[0];
               CopyKernel(p, args);
               if (args.in[1].size() == 0) return;
               const int64_t columns = y.shape()[1];
               const Indices at(args.in[2], columns, IndexMode::kRaise,
                                "fill_element_0index");
               VisitSize(y.dtype, [&]<typename T>() {
                 for (int64_t i = 0; i < y.shape()[0]; ++i)
                   y.data<T>()[i * columns + at[i]] = args.in[1].data<T>()[i];
               });
             }}},
    .may_fail = true,
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4}), Normal({3}), Integers({3}, 0, 4)}}},
});

}  // namespace
}  // namespace plait
