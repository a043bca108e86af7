// The hooks of blocking.h.

#include "base/blocking.h"

namespace plait {

BlockingHooks& GlobalBlockingHooks() {
  static BlockingHooks hooks;
  return hooks;
}

}  // namespace plait
