// Shape: the sizes of an array's axes, always 64 bits; may be partly unknown.
//
// Invariants: (1) rank() is -1 for an unknown rank, and then there are no sizes.
// (2) A size is >= 0, or kUnknownSize. 0 is a real size: an array without elements.
// (3) Up to kInline sizes are kept inside the object; more go to the heap.

#ifndef PLAIT_BASE_SHAPE_H_
#define PLAIT_BASE_SHAPE_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <span>
#include <utility>

#include "base/error.h"

namespace plait {

inline constexpr int64_t kUnknownSize = -1;
inline constexpr int kMaxRank = 64;

class Shape {
 public:
  Shape() = default;  // rank 0, a scalar
  Shape(std::initializer_list<int64_t> sizes)
      : Shape(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes) {
    Reserve(static_cast<int>(sizes.size()));
    if (!sizes.empty()) std::memcpy(data(), sizes.data(), sizes.size_bytes());
  }
  template <typename It>
  Shape(It first, It last) {
    Reserve(static_cast<int>(last - first));
    for (int64_t* p = data(); first != last; ++first) *p++ = *first;
  }
  Shape(const Shape& other) : Shape() { *this = other; }
  Shape(Shape&& other) noexcept : rank_(other.rank_) { Take(other); }
  Shape& operator=(const Shape& other) {
    if (this == &other) return *this;
    Reserve(other.rank_);
    if (rank_ > 0) std::memcpy(data(), other.data(), rank_ * sizeof(int64_t));
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this == &other) return *this;
    if (on_heap()) delete[] sizes_.heap;
    rank_ = other.rank_;
    Take(other);
    return *this;
  }
  ~Shape() {
    if (on_heap()) delete[] sizes_.heap;
  }

  static Shape Unknown() {
    Shape s;
    s.rank_ = -1;
    return s;
  }
  static Shape Filled(int rank, int64_t size) {
    Shape s;
    s.Reserve(rank);
    for (int i = 0; i < rank; ++i) s.data()[i] = size;
    return s;
  }

  int rank() const { return rank_; }
  bool rank_known() const { return rank_ >= 0; }
  bool known() const {
    if (rank_ < 0) return false;
    for (int64_t size : *this)
      if (size == kUnknownSize) return false;
    return true;
  }

  // Number of elements. REQUIRES: known().
  int64_t size() const {
    int64_t n = 1;
    for (int64_t size : *this) n *= size;
    return n;
  }
  // Product of the sizes of the axes in [first, last).
  int64_t size(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= data()[i];
    return n;
  }

  int64_t operator[](int axis) const { return data()[axis]; }
  int64_t& operator[](int axis) { return data()[axis]; }
  int64_t back() const { return data()[rank_ - 1]; }
  int64_t& back() { return data()[rank_ - 1]; }
  const int64_t* data() const { return on_heap() ? sizes_.heap : sizes_.local; }
  int64_t* data() { return on_heap() ? sizes_.heap : sizes_.local; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + (rank_ > 0 ? rank_ : 0); }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + (rank_ > 0 ? rank_ : 0); }

  void Append(int64_t size) { Insert(rank_, size); }
  void Insert(int axis, int64_t size);
  void Erase(int axis);

  bool operator==(const Shape& other) const {
    if (rank_ != other.rank_) return false;
    const int64_t *a = data(), *b = other.data();
    for (int i = 0; i < rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  static constexpr int kInline = 5;

  bool on_heap() const { return rank_ > kInline; }
  void Reserve(int rank) {  // sets the rank, keeps no sizes
    if (rank > kInline || on_heap()) {
      ReserveHeap(rank);
    } else {
      rank_ = rank;
    }
  }
  void ReserveHeap(int rank);
  void Take(Shape& other) {
    sizes_ = other.sizes_;
    if (other.on_heap()) other.rank_ = 0;
  }

  int32_t rank_ = 0;
  union {
    int64_t local[kInline];
    int64_t* heap;
  } sizes_;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);  // (2, 3)

// Makes a and b equal where one knows what the other does not; false if they differ.
bool Unify(Shape& a, Shape& b);

// The axis as a number in [0, rank); negative ones count from the end. Throws kIndex
// (`<op>: axis 3 is out of range ...`).
int NormalizeAxis(int64_t axis, int rank, const char* op);

// NumPy's broadcasting of two known shapes; throws `<op>: ...` if they do not fit.
Shape Broadcast(const Shape& a, const Shape& b, const char* op);

}  // namespace plait

#endif  // PLAIT_BASE_SHAPE_H_
