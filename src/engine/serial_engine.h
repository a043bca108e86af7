// SerialEngine: runs every operation at once on the thread that pushed it.

#ifndef PLAIT_ENGINE_SERIAL_ENGINE_H_
#define PLAIT_ENGINE_SERIAL_ENGINE_H_

#include "engine/core.h"

namespace plait {

// For debugging. Several threads may push: one that meets a Var held by another waits.
// Only what an operation itself pushes may run later, when its Vars are let go of, on
// the thread that lets go.
class SerialEngine final : public EngineCore {
 public:
  SerialEngine();
  ~SerialEngine() override;

  void Shutdown() override;
  void Pause() override { PauseInline(); }
  void Resume() override { InlineSections::Go(); }

 private:
  bool Schedule(Node*) override { return false; }
  bool Schedules() const override { return false; }
};

}  // namespace plait

#endif  // PLAIT_ENGINE_SERIAL_ENGINE_H_
