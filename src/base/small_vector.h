// SmallVector: a vector that keeps its first N elements inside itself.

#ifndef PLAIT_BASE_SMALL_VECTOR_H_
#define PLAIT_BASE_SMALL_VECTOR_H_

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace plait {

template <typename T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t n) { resize(n); }
  SmallVector(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  SmallVector(const SmallVector& other) {
    reserve(other.size_);
    for (const T& item : other) push_back(item);
  }
  SmallVector(SmallVector&& other) noexcept { Take(other); }
  SmallVector& operator=(SmallVector other) noexcept {
    Destroy();
    Take(other);
    return *this;
  }
  ~SmallVector() { Destroy(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_ : local(); }
  const T* data() const { return heap_ ? heap_ : local(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  operator std::span<T>() { return {data(), size_}; }
  operator std::span<const T>() const { return {data(), size_}; }

  void push_back(T item) {
    if (size_ == capacity_) reserve(capacity_ * 2);
    ::new (data() + size_) T(std::move(item));
    ++size_;
  }
  void pop_back() { std::destroy_at(data() + --size_); }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }
  void resize(size_t n) {
    while (size_ > n) pop_back();
    reserve(n);
    while (size_ < n) {
      ::new (data() + size_) T();
      ++size_;
    }
  }
  void reserve(size_t n) {
    if (n <= capacity_) return;
    T* bigger = std::allocator<T>().allocate(n);
    std::uninitialized_move(begin(), end(), bigger);
    std::destroy(begin(), end());
    if (heap_) std::allocator<T>().deallocate(heap_, capacity_);
    heap_ = bigger;
    capacity_ = n;
  }

 private:
  T* local() { return reinterpret_cast<T*>(storage_); }
  const T* local() const { return reinterpret_cast<const T*>(storage_); }
  void Destroy() {
    clear();
    if (heap_) std::allocator<T>().deallocate(heap_, capacity_);
    heap_ = nullptr;
    capacity_ = N;
  }
  void Take(SmallVector& other) {
    if (other.heap_) {
      heap_ = std::exchange(other.heap_, nullptr);
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
    } else {
      std::uninitialized_move(other.begin(), other.end(), local());
      size_ = other.size_;
      other.clear();
    }
  }

  size_t size_ = 0, capacity_ = N;
  T* heap_ = nullptr;
  alignas(T) unsigned char storage_[N * sizeof(T)];
};

}  // namespace plait

#endif  // PLAIT_BASE_SMALL_VECTOR_H_
