// _zeros, _ones, _full, _set_value: arrays of one number.

#include "ops/create/given_shape.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct FillParams {
  Shape shape;
  std::string ctx;
  DType dtype = DType::kFloat32;
};

struct FullParams {
  Shape shape = Shape::Unknown();
  std::string ctx;
  DType dtype = DType::kFloat32;
  double value = 0;
};

void GivenDType(DType dtype, Spec& out) {
  out.dtype = dtype == DType::kUnknown ? DType::kFloat32 : dtype;
}

OpSpec<FillParams> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .params = {{"shape", &FillParams::shape, "The shape of the array."},
                 {"ctx", &FillParams::ctx, "The device, as text."},
                 {"dtype", &FillParams::dtype, "The dtype of the array."}},
      .types = [](const FillParams& p, Specs&,
                  Specs& out) { GivenDType(p.dtype, out[0]); },
      .infer = [](const FillParams& p, Specs&,
                  Specs& out) { return InferGiven(p.shape, out[0], "_zeros"); },
      .zero_gradient = true,
      .samples = {{{}, {.shape = {2, 3}}},
                  {{}, {.shape = {4}, .dtype = DType::kInt32}},
                  {{}, {.shape = {0, 2}}}},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<FillParams> zeros = Spec("_zeros", "Zeros.");
  zeros.cpu = {{"plain", [](const FillParams&, const KernelArgs& args) {
                  FillValue(args.out[0], 0);
                }}};
  Register(zeros);
  OpSpec<FillParams> ones = Spec("_ones", "Ones.");
  ones.cpu = {{"plain", [](const FillParams&, const KernelArgs& args) {
                 FillValue(args.out[0], 1);
               }}};
  Register(ones);
  return true;
}();

// An old file says the dtype as a number, -1 for float32.
[[maybe_unused]] const OpDef& zeros_without_dtype = Register<FillParams>({
    .name = "_zeros_without_dtype",
    .doc = "Zeros, of float32 where no dtype is given.",
    .params = {{"shape", &FillParams::shape, "The shape of the array."},
               {"ctx", &FillParams::ctx, "The device, as text."},
               {"dtype", &FillParams::dtype, "The dtype of the array."}},
    .types = [](const FillParams& p, Specs&,
                Specs& out) { GivenDType(p.dtype, out[0]); },
    .infer =
        [](const FillParams& p, Specs&, Specs& out) {
          return InferGiven(p.shape, out[0], "_zeros_without_dtype");
        },
    .zero_gradient = true,
    .cpu = {{"plain", [](const FillParams&,
                         const KernelArgs& args) { FillValue(args.out[0], 0); }}},
    .samples = {{{}, {.shape = {2, 3}}}},
});

[[maybe_unused]] const OpDef& full_op = Register<FullParams>({
    .name = "_full",
    .aliases = {"_npi_full"},
    .doc = "An array filled with one number.",
    .params = {{"shape", &FullParams::shape, "The shape of the array."},
               {"ctx", &FullParams::ctx, "The device, as text."},
               {"dtype", &FullParams::dtype, "The dtype of the array."},
               Required<FullParams>("value", &FullParams::value, "The number.")},
    .types = [](const FullParams& p, Specs&,
                Specs& out) { GivenDType(p.dtype, out[0]); },
    .infer = [](const FullParams& p, Specs&,
                Specs& out) { return InferGiven(p.shape, out[0], "_full"); },
    .zero_gradient = true,
    .cpu = {{"plain", [](const FullParams& p,
                         const KernelArgs& args) { FillValue(args.out[0], p.value); }}},
    .samples = {{{}, {.shape = {2, 3}, .value = 1.5}},
                {{}, {.shape = {3}, .dtype = DType::kInt64, .value = -7}},
                {{}, {.shape = {0}, .value = 2}}},
});

struct SetParams {
  double src = 0;
};

[[maybe_unused]] const OpDef& set_value = Register<SetParams>({
    .name = "_set_value",
    .doc = "Fills `out` with a number.",
    .params = {Required<SetParams>("src", &SetParams::src, "The number.")},
    .types = [](const SetParams&, Specs&,
                Specs& out) { GivenDType(out[0].dtype, out[0]); },
    .infer =
        [](const SetParams&, Specs&, Specs& out) {
          if (!out[0].shape.rank_known()) out[0].shape = Shape{1};
          return true;
        },
    .zero_gradient = true,
    .cpu = {{"plain", [](const SetParams& p,
                         const KernelArgs& args) { FillValue(args.out[0], p.src); }}},
    .samples = {{{}, {.src = 2.5}}},
});

}  // namespace
}  // namespace plait
