// Transfer: an operation of the engine that an exchange's thread carries out.

#ifndef PLAIT_KVSTORE_TRANSFER_H_
#define PLAIT_KVSTORE_TRANSFER_H_

#include <string>
#include <utility>

#include "base/error.h"
#include "engine/async_operation.h"

namespace plait {

class ExchangeThread;

class Transfer : public AsyncOperation {
 public:
  explicit Transfer(std::string label) : label_(std::move(label)) {
    lane = Lane::kComm;
  }
  const char* layer() const override { return label_.c_str(); }
  // Ends it with "kvstore: LABEL: WHY".
  void FailWith(const std::string& why, ErrorKind kind) {
    Finish(std::make_exception_ptr(Error(kind, "kvstore: " + label_ + ": " + why)));
  }

 private:
  std::string label_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_TRANSFER_H_
