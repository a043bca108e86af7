// Copies of arrays with channels last, in the order of channels first.

#include "ops/nn/channels_first.h"

#include "cpu/strided.h"

namespace plait {
namespace {

Shape Reordered(const Shape& s) {
  Shape first = s;
  for (int i = 2; i < s.rank(); ++i) first[i] = s[i - 1];
  first[1] = s.back();
  return first;
}

}  // namespace

ChannelsFirst::ChannelsFirst(bool last, const View& array, bool read)
    : shape_(last ? Reordered(array.shape()) : Shape()), array_(array), view_(array) {
  if (!last) return;
  copy_.emplace(static_cast<size_t>(array.bytes()));
  view_ = {copy_->As<void>(), &shape_, array.dtype};
  if (!read) return;
  cpu::CopyStrided(shape_, view_.ptr, cpu::RowMajor(shape_), array.ptr,
                   Reordered(cpu::RowMajor(array.shape())), SizeOf(array.dtype));
}

void ChannelsFirst::Store() const {
  if (view_.sizes == array_.sizes) return;
  cpu::CopyStrided(shape_, array_.ptr, Reordered(cpu::RowMajor(array_.shape())),
                   view_.ptr, cpu::RowMajor(shape_), SizeOf(array_.dtype));
}

}  // namespace plait
