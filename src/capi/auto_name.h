// AutoName: names for nodes that nobody named.

#ifndef PLAIT_CAPI_AUTO_NAME_H_
#define PLAIT_CAPI_AUTO_NAME_H_

#include <string>

namespace plait::capi {

// "convolution0", "convolution1", ...: counted for each operator and thread.
std::string AutoName(const std::string& op);

}  // namespace plait::capi

#endif  // PLAIT_CAPI_AUTO_NAME_H_
