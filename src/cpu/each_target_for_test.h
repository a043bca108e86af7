// ForEachTarget: runs a test on every instruction set of this machine that was built.

#ifndef PLAIT_CPU_EACH_TARGET_FOR_TEST_H_
#define PLAIT_CPU_EACH_TARGET_FOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "cpu/simd/targets.h"
#include "hwy/highway.h"

namespace plait::cpu {

template <typename F>
void ForEachTarget(F&& f) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_EACH_TARGET_FOR_TEST_H_
