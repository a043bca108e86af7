// _image_to_tensor and _image_normalize: from pixels to what networks take.

#include "graph/math.h"
#include "ops/image/image.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- to_tensor

// The axes of the result: channels come first.
Shape ChannelsFirst(int rank) {
  return rank == 3 ? Shape{2, 0, 1} : Shape{0, 3, 1, 2};
}
Shape ChannelsLast(int rank) {
  return rank == 3 ? Shape{1, 2, 0} : Shape{0, 2, 3, 1};
}

bool InferTensor(const NoParams&, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  CheckImages("_image_to_tensor", x);
  Shape y;
  for (int64_t axis : ChannelsFirst(x.rank())) y.Append(x[static_cast<int>(axis)]);
  return Assign(out[0].shape, y);
}

void ToTensor(const NoParams&, const KernelArgs& args) {
  const ImageSizes s(args.in[0].shape());
  const int64_t pixels = s.height * s.width;
  VisitDType(args.in[0].dtype, [&]<typename T>() {
    const T* x = args.in[0].data<const T>();
    float* y = args.out[0].data<float>();
    for (int64_t i = 0; i < s.batch; ++i, x += s.size(), y += s.size()) {
      for (int64_t c = 0; c < s.channels; ++c) {
        for (int64_t p = 0; p < pixels; ++p) {
          const auto v = static_cast<Accumulate<T>>(x[p * s.channels + c]);
          y[c * pixels + p] = static_cast<float>(v) / 255.0f;
        }
      }
    }
  });
}

[[maybe_unused]] const OpDef& to_tensor = Register<NoParams>({
    .name = "_image_to_tensor",
    .aliases = {"_npx__image_to_tensor"},
    .doc = "Images of 0 to 255, channels last, as float32 of 0 to 1, channels first.",
    .inputs = {{"data", Types::kAny, "(height, width, channels), or a batch."}},
    .types = [](const NoParams&, Specs&,
                Specs& out) { out[0].dtype = DType::kFloat32; },
    .infer = InferTensor,
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      const Spec& x = g.in_spec(0);
      const Value dx = transpose(g.dout(0), ChannelsLast(x.shape.rank())) / 255.0;
      return {x.dtype == DType::kFloat32 ? dx : cast(dx, x.dtype)};
    },
    .cpu = {{"plain", ToTensor}},
    .samples = {{{Uniform({3, 4, 3}, 0, 1)}, {}, false, 1e-3},
                {{Uniform({2, 2, 3, 1}, 0, 1)}, {}, false, 1e-3},
                {{Integers({3, 2, 3}, 0, 256, DType::kUint8)}}},
});

// ---------------------------------------------------------------- normalize

struct NormalizeParams {
  std::vector<double> mean{0, 0, 0, 0}, std{1, 1, 1, 1};
};

// The number of a channel; a single one is for all.
double Of(const std::vector<double>& values, int64_t channel) {
  return values[values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

bool InferNormalize(const NormalizeParams& p, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() == 3 || x.rank() == 4, "_image_normalize: data ", x,
        "; (channels, height, width), or a batch of such, was expected");
  const int64_t channels = x[x.rank() - 3];
  for (const auto* values : {&p.mean, &p.std}) {
    const auto n = static_cast<int64_t>(values->size());
    Check(n == 1 || channels == kUnknownSize || n >= channels,
          "_image_normalize: data ", x, " and ", n,
          " numbers; one, or one a channel, was expected");
  }
  return true;
}

// y = (x - mean) / std for each channel.
void Normalize(const NormalizeParams& p, const KernelArgs& args) {
  const Shape& x = args.in[0].shape();
  const int rank = x.rank();
  const int64_t channels = x[rank - 3], pixels = x[rank - 2] * x[rank - 1];
  VisitFloat(args.in[0].dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* from = args.in[0].data<const T>();
    T* to = args.out[0].data<T>();
    for (int64_t i = 0; i < x.size() / std::max<int64_t>(pixels, 1); ++i) {
      const A mean = static_cast<A>(Of(p.mean, i % channels));
      const A std = static_cast<A>(Of(p.std, i % channels));
      for (int64_t k = 0; k < pixels; ++k, ++from, ++to) {
        *to = static_cast<T>((static_cast<A>(*from) - mean) / std);
      }
    }
  });
}

[[maybe_unused]] const OpDef& normalize = Register<NormalizeParams>({
    .name = "_image_normalize",
    .aliases = {"_npx__image_normalize"},
    .doc = "(x - mean) / std for every channel.",
    .inputs = {{"data", Types::kFloats, "(channels, height, width), or a batch."}},
    .params = {{"mean", &NormalizeParams::mean, "A number for each channel, or one."},
               {"std", &NormalizeParams::std, "A number for each channel, or one."}},
    .infer = InferNormalize,
    .gradient = [](const NormalizeParams& p, const GradArgs& g) -> Values {
      NormalizeParams q;
      q.mean = {0};
      q.std = p.std;
      const Value dy = g.dout(0);
      return {ApplyOne(GetOp("_image_normalize"), MakeParams(std::move(q)), {&dy, 1})};
    },
    .cpu = {{"plain", Normalize}},
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 2, 4})}, {.mean = {0.1, 0.2, 0.3}, .std = {2, 0.5, 1}}},
                {{Normal({2, 1, 3, 3})}, {.mean = {0.5}, .std = {0.25}}},
                {{Normal({3, 2, 2})}}},
});

}  // namespace
}  // namespace plait
