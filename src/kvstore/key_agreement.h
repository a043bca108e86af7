// AgreeOnKeys: whether all ranks start the same keys.

#ifndef PLAIT_KVSTORE_KEY_AGREEMENT_H_
#define PLAIT_KVSTORE_KEY_AGREEMENT_H_

#include <span>
#include <string>

#include "kvstore/exchange.h"
#include "kvstore/updater.h"

namespace plait {

// Of a key and its first value, as ranks compare it.
std::string KeyDescription(const Key& key, const NDArray& value);

// A number that differs from that of other keys, but for bad luck; equal on all ranks.
uint32_t HashOf(const Key& key);

// Collective. All ranks throw kRuntime when they do not start as many keys of the same
// descriptions, or when one is here only to say what is wrong (count -1).
void AgreeOnKeys(Exchange& exchange, int64_t count,
                 std::span<const std::string> descriptions,
                 const std::string& wrong = "");

}  // namespace plait

#endif  // PLAIT_KVSTORE_KEY_AGREEMENT_H_
