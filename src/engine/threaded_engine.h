// ThreadedEngine: runs operations on the workers of lanes.

#ifndef PLAIT_ENGINE_THREADED_ENGINE_H_
#define PLAIT_ENGINE_THREADED_ENGINE_H_

#include <array>

#include "engine/callback_lane.h"
#include "engine/core.h"
#include "engine/lane.h"

namespace plait {

class ThreadedEngine final : public EngineCore {
 public:
  // Throws Error(kValue) unless workers >= 1 and run_ahead >= 0 (bytes). No thread is
  // started before a lane has work.
  ThreadedEngine(int64_t workers, int64_t run_ahead);
  ~ThreadedEngine() override;

  void Shutdown() override;
  void Pause() override;
  void Resume() override;

 private:
  bool Schedule(Node* node) override;
  bool Schedules() const override { return !stopped_; }
  void EnterWait() override;
  void LeaveWait(Lock& lock) override;
  bool paused() const override { return paused_ > 0; }
  void AfterForkInChild() override;
  void RestartInChild() override;

  LaneState* OwnLane() const;
  void Staff(LaneState& lane);
  void StaffAll();
  bool StartWorker(LaneState& lane);
  void Work(LaneState& lane);
  Node* RunOne(LaneState& lane, Node& node, Node* done, Lock& lock);
  void AwaitRest(Lock& lock);
  void NowIdle();

  std::array<LaneState, kNumLanes> lanes_;
  std::atomic<bool> stopped_{false};  // set with the mutex held
  std::atomic<int> paused_{0};        // changed with the mutex held
  // Guarded by mutex_: workers in an operation or destroying one, not blocked in a
  // wait.
  int busy_ = 0;
  std::condition_variable rest_, resumed_;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_THREADED_ENGINE_H_
