// _cvcopyMakeBorder: an image with pixels added at its edges.

#include <cstring>
#include <memory>

#include "ops/image/image.h"

namespace plait {
namespace {

struct BorderParams {
  int64_t top = 0, bot = 0, left = 0, right = 0;
  int type = 0;
  double value = 0;
  std::vector<double> values;
};

// OpenCV's numbers, and its flag that the image is no part of a larger one, which it
// never is here.
enum BorderType { kConstant, kReplicate, kReflect, kWrap, kReflect101 };
constexpr int kIsolated = 16;
int TypeOf(const BorderParams& p) {
  return p.type & ~kIsolated;
}

bool Infer(const BorderParams& p, Specs& in, Specs& out) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t n : {p.top, p.bot, p.left, p.right}) {
    Check(n >= 0 && n < kMost, "_cvcopyMakeBorder: top ", p.top, ", bot ", p.bot,
          ", left ", p.left, ", right ", p.right,
          "; numbers of pixels, not negative, were expected");
  }
  Check(TypeOf(p) >= kConstant && TypeOf(p) <= kReflect101, "_cvcopyMakeBorder: type ",
        p.type,
        "; 0 to 4 (constant, replicate, reflect, wrap, reflect without the edge) was "
        "expected");
  Check(p.values.size() <= 4, "_cvcopyMakeBorder: ", p.values.size(),
        " values; at most 4 were expected");
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() == 3, "_cvcopyMakeBorder: src ", x,
        "; (height, width, channels) was expected");
  Check(TypeOf(p) == kConstant || x.size() > 0, "_cvcopyMakeBorder: src ", x,
        " has no pixels to repeat");
  return Assign(out[0].shape, {x[0] + p.top + p.bot, x[1] + p.left + p.right, x[2]});
}

// The place in [0, n) whose pixel stands at place i; -1: the constant.
int64_t Source(int64_t i, int64_t n, int type) {
  if (i >= 0 && i < n) return i;
  const auto modulo = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  switch (type) {
    case kReplicate:
      return i < 0 ? 0 : n - 1;
    case kReflect: {
      const int64_t at = modulo(i, 2 * n);
      return at < n ? at : 2 * n - 1 - at;
    }
    case kWrap:
      return modulo(i, n);
    case kReflect101: {
      if (n == 1) return 0;
      const int64_t at = modulo(i, 2 * n - 2);
      return at < n ? at : 2 * n - 2 - at;
    }
    default:
      return -1;
  }
}

void Forward(const BorderParams& p, const KernelArgs& args) {
  const Shape &x = args.in[0].shape(), &y = args.out[0].shape();
  const int64_t channels = x[2];
  VisitDType(args.in[0].dtype, [&]<typename T>() {
    // One value is for all channels; of several, those that are missing are zero.
    const auto constant = std::make_unique<T[]>(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      double v = p.value;
      const auto at = static_cast<size_t>(c % 4);
      if (!p.values.empty()) v = at < p.values.size() ? p.values[at] : 0;
      constant[c] = static_cast<T>(static_cast<Accumulate<T>>(v));
    }
    const T* from = args.in[0].data<const T>();
    T* to = args.out[0].data<T>();
    const size_t pixel = static_cast<size_t>(channels) * sizeof(T);
    for (int64_t i = 0; i < y[0]; ++i) {
      const int64_t row = Source(i - p.top, x[0], TypeOf(p));
      for (int64_t j = 0; j < y[1]; ++j, to += channels) {
        const int64_t column = Source(j - p.left, x[1], TypeOf(p));
        const bool inside = row >= 0 && column >= 0;
        std::memcpy(to,
                    inside ? from + (row * x[1] + column) * channels : constant.get(),
                    pixel);
      }
    }
  });
}

[[maybe_unused]] const OpDef& border = Register<BorderParams>({
    .name = "_cvcopyMakeBorder",
    .aliases = {"_npi_cvcopyMakeBorder"},
    .doc = "An image with pixels added at its edges.",
    .inputs = {{"src", Types::kAny, "(height, width, channels)."}},
    .params = {Required<BorderParams>("top", &BorderParams::top, "Rows above."),
               Required<BorderParams>("bot", &BorderParams::bot, "Rows below."),
               Required<BorderParams>("left", &BorderParams::left, "Columns before."),
               Required<BorderParams>("right", &BorderParams::right, "Columns behind."),
               {"type", &BorderParams::type,
                "0 constant, 1 the edge's pixel, 2 mirrored, 3 from the other side, 4 "
                "mirrored without the edge."},
               {"value", &BorderParams::value, "The constant."},
               {"values", &BorderParams::values, "A constant for each channel."}},
    .infer = Infer,
    .cpu = {{"plain", Forward}},
    .samples = {{{Integers({3, 4, 3}, 0, 256, DType::kUint8)},
                 {.top = 1, .bot = 2, .left = 3, .right = 4, .values = {1, 2, 3}}},
                {{Normal({3, 4, 1})}, {.top = 7, .left = 9, .type = 1}},
                {{Normal({3, 4, 2})},
                 {.top = 7, .bot = 8, .left = 9, .right = 1, .type = 2}},
                {{Normal({3, 4, 1})}, {.top = 7, .bot = 8, .right = 10, .type = 3}},
                {{Normal({3, 4, 1})}, {.top = 7, .bot = 8, .right = 9, .type = 4}},
                {{Normal({2, 2, 1})}, {.top = 1, .value = 0.5}}},
});

}  // namespace
}  // namespace plait
