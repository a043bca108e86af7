// Ref: an intrusive, atomically counted pointer; half the size and cost of shared_ptr.

#ifndef PLAIT_BASE_REF_H_
#define PLAIT_BASE_REF_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace plait {

// T derives from RefCounted<T>. An object starts with no reference; MakeRef gives one.
template <typename T>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void AddRef() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    // The last owner need not pay for an atomic subtraction.
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete static_cast<const T*>(this);
    }
  }
  // True when the caller holds the only reference.
  bool unique() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<int32_t> count_{0};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* pointer) : pointer_(pointer) {
    if (pointer_) pointer_->AddRef();
  }
  Ref(const Ref& other) : Ref(other.pointer_) {}
  Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Ref() {
    if (pointer_) pointer_->Release();
  }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(const Ref&) const = default;

 private:
  T* pointer_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace plait

#endif  // PLAIT_BASE_REF_H_
