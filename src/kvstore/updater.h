// StoreUpdater: what a store does with what was pushed. Implemented by train/ and by
// the host languages.

#ifndef PLAIT_KVSTORE_UPDATER_H_
#define PLAIT_KVSTORE_UPDATER_H_

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <variant>

#include "ndarray/ndarray.h"

namespace plait {

// What a parameter is called: a number, or a text where the caller has no numbers.
using Key = std::variant<int64_t, std::string>;

inline std::string Printed(const Key& key) {
  if (const auto* text = std::get_if<std::string>(&key)) return "'" + *text + "'";
  return std::to_string(std::get<int64_t>(key));
}

class StoreUpdater {
 public:
  virtual ~StoreUpdater() = default;

  // Merges what was pushed into the stored arrays; asynchronous, as all work on arrays.
  // Where Elementwise is true they may be pieces of arrays, flat. Called by one thread
  // at a time.
  virtual void Update(std::span<const Key> keys, std::span<const NDArray> pushed,
                      std::span<const NDArray> stored) = 0;

  // Whether an element of the result depends on the same element of its inputs only, so
  // that every rank can update its own piece of an array.
  virtual bool Elementwise() const { return false; }
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_UPDATER_H_
