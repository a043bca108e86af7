// depth_to_space, space_to_depth: blocks of pixels against channels.

#include "ops/gradients.h"
#include "ops/shape/copy.h"

namespace plait {
namespace {

struct BlockParams {
  int block_size = 1;
};

void CheckImages(const BlockParams& p, const Shape& x, const char* op) {
  Check(p.block_size >= 1, op, ": block_size is ", p.block_size,
        "; at least 1 was expected");
  Check(x.rank() == 4, op, ": x has shape ", x, "; 4 axes (images) were expected");
}

// Channels (i, j, c) become blocks of b x b pixels of channel c.
Shape ToSpace(const BlockParams& p, const Shape& x) {
  CheckImages(p, x, "depth_to_space");
  const int64_t b = p.block_size;
  Check(x[1] % (b * b) == 0, "depth_to_space: x of shape ", x, " has ", x[1],
        " channels; a multiple of ", b * b, " was expected");
  return {x[0], x[1] / (b * b), x[2] * b, x[3] * b};
}
Shape ToDepth(const BlockParams& p, const Shape& x) {
  CheckImages(p, x, "space_to_depth");
  const int64_t b = p.block_size;
  Check(x[2] % b == 0 && x[3] % b == 0, "space_to_depth: x of shape ", x,
        " cannot be cut into blocks of ", b, " x ", b);
  return {x[0], x[1] * b * b, x[2] / b, x[3] / b};
}

// Both are one permutation of axes: (n, i, j, c, h, w) of the deep array and
// (n, c, h, i, w, j) of the wide one.
void Copy(const View& deep, const View& wide, int64_t b, bool to_wide) {
  const Shape& d = deep.shape();
  const int64_t n = d[0], c = d[1] / (b * b), h = d[2], w = d[3];
  const Shape sizes{n, c, h, b, w, b};
  const cpu::Strides in_wide = cpu::RowMajor(sizes);
  const int64_t plane = h * w;
  const cpu::Strides in_deep{c * b * b * plane, plane, w, b * c * plane, 1, c * plane};
  if (to_wide) {
    cpu::CopyStrided(sizes, wide.ptr, in_wide, deep.ptr, in_deep, SizeOf(deep.dtype));
  } else {
    cpu::CopyStrided(sizes, deep.ptr, in_deep, wide.ptr, in_wide, SizeOf(deep.dtype));
  }
}

OpSpec<BlockParams> Spec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny,
                  "Images, of shape (n, channels, height, width)."}},
      .params = {Required<BlockParams>("block_size", &BlockParams::block_size,
                                       "The edge of a block in pixels.")},
  };
}

[[maybe_unused]] const bool kAdded = [] {
  OpSpec<BlockParams> space =
      Spec("depth_to_space", "Makes blocks of pixels out of groups of channels.");
  space.infer = [](const BlockParams& p, Specs& in, Specs& out) {
    if (!in[0].shape.known()) return true;
    Shape y = ToSpace(p, in[0].shape);
    return Unify(y, out[0].shape);
  };
  space.gradient = [](const BlockParams& p, const GradArgs& g) -> Values {
    return {Make("space_to_depth", {g.dout(0)}, {{"block_size", Attr(p.block_size)}})};
  };
  space.cpu = {{"plain", [](const BlockParams& p, const KernelArgs& args) {
                  Copy(args.in[0], args.out[0], p.block_size, true);
                }}};
  space.samples = {{{Normal({2, 8, 2, 3})}, {2}},
                   {{Normal({1, 9, 1, 2})}, {3}},
                   {{Normal({0, 4, 1, 2})}, {2}}};
  Register(space);

  OpSpec<BlockParams> depth =
      Spec("space_to_depth", "Makes groups of channels out of blocks of pixels.");
  depth.infer = [](const BlockParams& p, Specs& in, Specs& out) {
    if (!in[0].shape.known()) return true;
    Shape y = ToDepth(p, in[0].shape);
    return Unify(y, out[0].shape);
  };
  depth.gradient = [](const BlockParams& p, const GradArgs& g) -> Values {
    return {Make("depth_to_space", {g.dout(0)}, {{"block_size", Attr(p.block_size)}})};
  };
  depth.cpu = {{"plain", [](const BlockParams& p, const KernelArgs& args) {
                  Copy(args.out[0], args.in[0], p.block_size, false);
                }}};
  depth.samples = {{{Normal({2, 2, 4, 6})}, {2}}, {{Normal({1, 1, 3, 6})}, {3}}};
  Register(depth);
  return true;
}();

}  // namespace
}  // namespace plait
