// What all calls of oneDNN share; for the .cc files of this folder only.

#ifndef PLAIT_CPU_ONEDNN_PRIMITIVE_H_
#define PLAIT_CPU_ONEDNN_PRIMITIVE_H_

#include <initializer_list>
#include <span>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "cpu/onednn/layout.h"
#include "cpu/onednn/team.h"
#include "cpu/scratch.h"
#include "dnnl.hpp"

namespace plait::cpu::onednn {

// Primitives that each cache keeps; one holds about 100 KB of code.
inline constexpr size_t kCacheCapacity = 256;

const dnnl::engine& Engine();

// oneDNN's own kinds of failure as ours. `what` names the operator.
[[noreturn]] void Rethrow(const dnnl::error& e, const char* what);

dnnl::memory::data_type TypeOf(DType dtype);  // float32 or bfloat16

using Dims = dnnl::memory::dims;
using Md = dnnl::memory::desc;

// The descriptor of an array in a layout, and the layout of a descriptor.
Md DescOf(LayoutDesc layout, std::span<const int64_t> dims, DType dtype);
LayoutDesc LayoutOf(const Md& md, std::span<const int64_t> dims, DType dtype);

// An argument of a primitive.
struct Arg {
  int index;
  const Md* md;
  const void* data;
};

// Runs a primitive that was made with a user's scratchpad, on the calling thread's
// team; must be inside a ScopedTeam of the size that it was made for. `what`: as above.
void Execute(const dnnl::primitive& primitive, const Md& scratchpad,
             std::initializer_list<Arg> args, const char* what);

// An array that a primitive wants in its own layout while the caller has another one.
class InLayout {
 public:
  // For reading: reordered at once. `md`: the descriptor of layout `want`.
  InLayout(std::span<const int64_t> dims, DType dtype, LayoutDesc have,
           const void* data, LayoutDesc want, const Md& md)
      : InLayout(dims, dtype, have, const_cast<void*>(data), want, md) {
    if (!same_) {
      Reorder(dims, have, dtype, data, want, dtype, scratch_.As<void>());
    }
  }
  // For writing: reordered by Done().
  InLayout(std::span<const int64_t> dims, DType dtype, LayoutDesc have, void* data,
           LayoutDesc want, const Md& md)
      : dims_(dims),
        dtype_(dtype),
        have_(have),
        want_(want),
        data_(data),
        same_(have == want),
        scratch_(same_ ? 0 : md.get_size()) {}
  void* data() const { return same_ ? data_ : scratch_.As<void>(); }
  void Done() const {
    if (!same_)
      Reorder(dims_, want_, dtype_, scratch_.As<void>(), have_, dtype_, data_);
  }

 private:
  std::span<const int64_t> dims_;
  DType dtype_;
  LayoutDesc have_, want_;
  void* data_;
  bool same_;
  Scratch scratch_;
};

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_PRIMITIVE_H_
