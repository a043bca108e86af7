// Device: where an array lives.

#ifndef PLAIT_BASE_DEVICE_H_
#define PLAIT_BASE_DEVICE_H_

#include <cstdint>
#include <ostream>

namespace plait {

// The numbers are those of MXNet's files.
enum class DeviceType : int8_t { kCpu = 1, kGpu = 2, kCpuPinned = 3, kCpuShared = 5 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t id = 0;

  bool operator==(const Device&) const = default;
  bool is_cpu() const { return type != DeviceType::kGpu; }
};

inline const char* Name(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kGpu:
      return "gpu";
    case DeviceType::kCpuPinned:
      return "cpu_pinned";
    case DeviceType::kCpuShared:
      return "cpu_shared";
  }
  return "unknown";
}

inline std::ostream& operator<<(std::ostream& out, const Device& d) {
  return out << Name(d.type) << '(' << d.id << ')';
}

}  // namespace plait

#endif  // PLAIT_BASE_DEVICE_H_
