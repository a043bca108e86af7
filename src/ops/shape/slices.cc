// Slices: evaluation and copies.

#include "ops/shape/slices.h"

#include <algorithm>

#include "ops/shape/copy.h"

namespace plait {
namespace {

AttrValue AttrOf(const OptionalInts& numbers) {
  return AttrCodec<OptionalInts>::Encode(numbers);
}

// Where the slice starts in x, and its strides there.
struct Place {
  int64_t offset = 0;
  cpu::Strides strides;
};
Place PlaceOf(const Shape& x, const Slice& s) {
  Place place{0, cpu::RowMajor(x)};
  for (int i = 0; i < x.rank(); ++i) {
    place.offset += s.first[i] * place.strides[i];
    place.strides[i] *= s.step[i];
  }
  return place;
}

}  // namespace

Slice ResolveSlice(const Shape& x, const SliceParams& p, const char* op) {
  const auto fits = [&](const OptionalInts& numbers) {
    return static_cast<int>(numbers.size()) <= x.rank();
  };
  Check(fits(p.begin) && fits(p.end) && fits(p.step), op,
        ": begin, end or step has more "
        "entries than x of shape ",
        x, " has axes");
  const auto get = [](const OptionalInts& numbers, int i) {
    return i < static_cast<int>(numbers.size()) ? numbers[i] : std::nullopt;
  };
  Slice s{x, Shape::Filled(x.rank(), 0), Shape::Filled(x.rank(), 1)};
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t n = x[i], step = get(p.step, i).value_or(1);
    Check(step != 0, op, ": step along axis ", i, " is 0; another number was expected");
    s.step[i] = step;
    const auto begin = get(p.begin, i), end = get(p.end, i);
    if (n == kUnknownSize) {
      if (begin || end || step != 1) s.sizes[i] = kUnknownSize;
      continue;
    }
    // With a negative step places run from n - 1 down to -1, one before the first.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto place = [&](int64_t at) {
      return std::clamp(at < 0 ? at + n : at, low, high);
    };
    const int64_t first = begin ? place(*begin) : step > 0 ? low : high;
    const int64_t last = end ? place(*end) : step > 0 ? high : low;
    const int64_t distance = step > 0 ? last - first : first - last;
    const int64_t stride = std::abs(step);
    s.first[i] = first;
    s.sizes[i] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  }
  return s;
}

SliceParams SliceOfAxis(int rank, int axis, std::optional<int64_t> begin,
                        std::optional<int64_t> end) {
  SliceParams p{OptionalInts(rank), OptionalInts(rank), {}};
  p.begin[axis] = begin;
  p.end[axis] = end;
  return p;
}

Value slice(const Value& x, const SliceParams& p) {
  return Make(
      "slice", {x},
      {{"begin", AttrOf(p.begin)}, {"end", AttrOf(p.end)}, {"step", AttrOf(p.step)}});
}
Value slice_backward(const Value& dy, const SliceParams& p, const Shape& shape) {
  return Make("_slice_backward", {dy},
              {{"begin", AttrOf(p.begin)},
               {"end", AttrOf(p.end)},
               {"step", AttrOf(p.step)},
               {"shape", Attr(shape)}});
}

void CopyFromSlice(const View& x, const Slice& s, const View& y) {
  const Place place = PlaceOf(x.shape(), s);
  cpu::CopyStrided(s.sizes, y.ptr, cpu::RowMajor(s.sizes), At(x, place.offset),
                   place.strides, SizeOf(x.dtype));
}
void CopyToSlice(const View& y, const Slice& s, const View& x) {
  const Place place = PlaceOf(x.shape(), s);
  cpu::CopyStrided(s.sizes, At(x, place.offset), place.strides, y.ptr,
                   cpu::RowMajor(s.sizes), SizeOf(x.dtype));
}
void FillSlice(const View& y, const Slice& s, const View& x) {
  const Place place = PlaceOf(x.shape(), s);
  cpu::CopyStrided(s.sizes, At(x, place.offset), place.strides, y.ptr,
                   Shape::Filled(s.sizes.rank(), 0), SizeOf(x.dtype));
}

}  // namespace plait
