// Shape: the parts that are not on the hot path.

#include "base/shape.h"

#include <algorithm>

namespace plait {

void Shape::ReserveHeap(int rank) {
  Check(rank <= kMaxRank, "shape: ", rank, " axes; at most ", kMaxRank,
        " were expected");
  if (on_heap()) delete[] sizes_.heap;
  rank_ = rank;
  if (rank > kInline) sizes_.heap = new int64_t[rank];
}

void Shape::Insert(int axis, int64_t size) {
  Shape longer;
  longer.Reserve(rank_ + 1);
  std::copy(begin(), begin() + axis, longer.begin());
  longer[axis] = size;
  std::copy(begin() + axis, end(), longer.begin() + axis + 1);
  *this = std::move(longer);
}

void Shape::Erase(int axis) {
  Shape shorter;
  shorter.Reserve(rank_ - 1);
  std::copy(begin(), begin() + axis, shorter.begin());
  std::copy(begin() + axis + 1, end(), shorter.begin() + axis);
  *this = std::move(shorter);
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  if (!shape.rank_known()) return out << "(unknown)";
  out << '(';
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) out << ", ";
    if (shape[i] == kUnknownSize) {
      out << '?';
    } else {
      out << shape[i];
    }
  }
  return out << (shape.rank() == 1 ? ",)" : ")");
}

bool Unify(Shape& a, Shape& b) {
  if (!a.rank_known()) {
    a = b;
    return true;
  }
  if (!b.rank_known()) {
    b = a;
    return true;
  }
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a[i] == kUnknownSize) {
      a[i] = b[i];
    } else if (b[i] == kUnknownSize) {
      b[i] = a[i];
    } else if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

int NormalizeAxis(int64_t axis, int rank, const char* op) {
  Check(axis >= -rank && axis < rank, ErrorKind::kIndex, op, ": axis ", axis,
        " is out of range for an array of ", rank, " axes");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape Broadcast(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::Filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    Check(x == y || x == 1 || y == 1, op, ": shapes ", a, " and ", b,
          " do not broadcast together; equal sizes or 1 were expected at axis -", i);
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace plait
