// SerialEngine: the core alone.

#include "engine/serial_engine.h"

namespace plait {

SerialEngine::SerialEngine() : EngineCore(0) {
  RegisterForFork(this);
}

SerialEngine::~SerialEngine() {
  Shutdown();
  UnregisterForFork(this);
}

void SerialEngine::Shutdown() {
  if (CurrentOperation() == nullptr) Drain();
}

}  // namespace plait
