// Blocks of channels: copies from and to plain arrays.

#include "cpu/blocked.h"
#include "graph/blocked_form.h"
#include "ops/blocked/types.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct LayoutParams {
  int64_t block = 16;
  int64_t channels = 0;  // of the plain array
};
using P = LayoutParams;

void CheckParams(const P& p, const char* op) {
  Check(p.block == 8 || p.block == 16, op, ": block is ", p.block,
        "; 8 or 16 was expected");
  Check(p.channels > 0, op, ": channels is ", p.channels,
        "; a positive number was expected");
}

// Makes the two shapes agree as far as they are known.
bool Relate(const P& p, Shape& plain, Shape& blocked, const char* op) {
  CheckParams(p, op);
  Shape fact = Shape::Filled(4, kUnknownSize);
  fact[1] = p.channels;
  Check(Assign(plain, fact), op, ": the plain array is ", plain, "; ", fact,
        " was expected");
  fact = Shape::Filled(5, kUnknownSize);
  fact[1] = (p.channels + p.block - 1) / p.block;
  fact[4] = p.block;
  Check(Assign(blocked, fact), op, ": the blocked array is ", blocked, "; ", fact,
        " was expected");
  return UnifySize(plain[0], blocked[0]) && UnifySize(plain[2], blocked[2]) &&
         UnifySize(plain[3], blocked[3]);
}

cpu::BlockedArray ArrayOf(const P& p, const Shape& plain) {
  return {plain[0], p.channels, plain[2] * plain[3], p.block};
}

const char* Declines(const P&, const Specs& in, const Specs&) {
  return IsBlockedType(in[0].dtype) ? nullptr : "not float32 or a half type";
}

std::vector<Param<P>> ParamList() {
  return {{"block", &P::block, "Channels of a block: 8 or 16."},
          Required<P>("channels", &P::channels, "Channels of the plain array.")};
}

[[maybe_unused]] const bool kAdded = [] {
  Register<P>({
      .name = "_block",
      .doc = "(batch, channels, h, w) as (batch, blocks, h, w, block); the last block "
             "is filled up with zeros.",
      .inputs = {{"data", Types::kFloats}},
      .params = ParamList(),
      .infer =
          [](const P& p, Specs& in, Specs& out) {
            return Relate(p, in[0].shape, out[0].shape, "_block");
          },
      .cpu = {{"copy",
               [](const P& p, const KernelArgs& args) {
                 VisitBlocked(args.in[0].dtype, [&]<typename T>() {
                   cpu::BlockChannels(ArrayOf(p, args.in[0].shape()),
                                      args.in[0].data<const T>(),
                                      args.out[0].data<T>());
                 });
               },
               Declines}},
      .samples = {{{Normal({2, 5, 3, 2})}, {.block = 8, .channels = 5}},
                  {{Normal({1, 32, 2, 2})}, {.channels = 32}}},
  });
  Register<P>({
      .name = "_unblock",
      .doc = "The inverse of _block.",
      .inputs = {{"data", Types::kFloats}},
      .params = ParamList(),
      .infer =
          [](const P& p, Specs& in, Specs& out) {
            return Relate(p, out[0].shape, in[0].shape, "_unblock");
          },
      .cpu = {{"copy",
               [](const P& p, const KernelArgs& args) {
                 VisitBlocked(args.in[0].dtype, [&]<typename T>() {
                   cpu::UnblockChannels(ArrayOf(p, args.out[0].shape()),
                                        args.in[0].data<const T>(),
                                        args.out[0].data<T>());
                 });
               },
               Declines}},
      .samples = {{{Normal({2, 1, 3, 2, 8})}, {.block = 8, .channels = 5}}},
  });
  return true;
}();

}  // namespace
}  // namespace plait
