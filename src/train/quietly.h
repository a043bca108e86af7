// Quietly: a scope whose calls are not recorded, and make their arrays on one device.

#ifndef PLAIT_TRAIN_QUIETLY_H_
#define PLAIT_TRAIN_QUIETLY_H_

#include <utility>

#include "run/invoke.h"
#include "run/tape.h"

namespace plait {

class Quietly {
 public:
  explicit Quietly(Device device)
      : recording_(std::exchange(Recording(), false)),
        device_(std::exchange(CreationDevice(), device)) {}
  ~Quietly() {
    Recording() = recording_;
    CreationDevice() = device_;
  }
  Quietly(const Quietly&) = delete;
  Quietly& operator=(const Quietly&) = delete;

 private:
  bool recording_;
  Device device_;
};

}  // namespace plait

#endif  // PLAIT_TRAIN_QUIETLY_H_
