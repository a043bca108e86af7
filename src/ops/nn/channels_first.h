// Arrays as kernels want them, with channels first.

#ifndef PLAIT_OPS_NN_CHANNELS_FIRST_H_
#define PLAIT_OPS_NN_CHANNELS_FIRST_H_

#include <optional>

#include "cpu/scratch.h"
#include "graph/op.h"

namespace plait {

// An array with channels first: itself, or a copy where it has them last. What a kernel
// wrote into a copy is stored by Store. REQUIRES: the array outlives it.
class ChannelsFirst {
 public:
  ChannelsFirst(bool last, const View& array, bool read);
  ChannelsFirst(const ChannelsFirst&) = delete;
  ChannelsFirst& operator=(const ChannelsFirst&) = delete;

  const View& view() const { return view_; }
  void Store() const;

 private:
  Shape shape_;
  View array_, view_;
  std::optional<cpu::Scratch> copy_;
};

}  // namespace plait

#endif  // PLAIT_OPS_NN_CHANNELS_FIRST_H_
