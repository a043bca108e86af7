// DeviceSums: sums over the devices of a process, several keys in one operation.

#ifndef PLAIT_KVSTORE_DEVICE_SUMS_H_
#define PLAIT_KVSTORE_DEVICE_SUMS_H_

#include <span>
#include <vector>

#include "ndarray/ndarray.h"

namespace plait {

// One pass over memory: n reads and a write. Long sums go past the caches, as their
// inputs have filled them.
class DeviceSums {
 public:
  // y = the sum of the arrays, which are two or more of y's shape and of one dtype. Not
  // begun before Flush, or Adds that fill an operation.
  void Add(std::span<const NDArray> arrays, const NDArray& y);
  void Flush();

 private:
  struct Sum {
    std::vector<const float*> from;
    float* to;
    int64_t size;
  };
  std::vector<Sum> sums_;
  std::vector<NDArray> reads_, writes_;
  int64_t elements_ = 0;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_DEVICE_SUMS_H_
