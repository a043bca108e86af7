// Callback lanes: one for each device, so that code of the host language for one device
// does not wait for that for another.

#ifndef PLAIT_ENGINE_CALLBACK_LANE_H_
#define PLAIT_ENGINE_CALLBACK_LANE_H_

#include "engine/engine.h"

namespace plait {

// Devices whose numbers differ by a multiple of this share a lane.
inline constexpr int kCallbackLanes = 8;
// Lane::kCallback is that of device 0; the others are behind the last named lane.
inline constexpr size_t kNumLanes =
    static_cast<size_t>(Lane::kCount) + kCallbackLanes - 1;

// The lane of callbacks for device `id`, which run one at a time.
constexpr Lane CallbackLane(int id) {
  const int i = id < 0 ? 0 : id % kCallbackLanes;
  return i == 0 ? Lane::kCallback
                : static_cast<Lane>(static_cast<int>(Lane::kCount) + i - 1);
}
constexpr bool IsCallback(Lane lane) {
  return lane == Lane::kCallback || lane >= Lane::kCount;
}

}  // namespace plait

#endif  // PLAIT_ENGINE_CALLBACK_LANE_H_
