// Chooses the table of inner loops for this processor.

#include "cpu/simd/kernels.h"

#include <atomic>

#include "cpu/simd/targets.h"
#include "hwy/highway.h"

namespace plait::cpu {
namespace internal {
namespace {

std::atomic<const Kernels*> g_test_table{nullptr};

}  // namespace

void BuildKernels(Kernels& k) {
  FillPlain(k);
  FillPlainRows(k);
  FillArithmetic(k);
  FillPairs(k);
  FillIntegers(k);
  FillConversions(k);
  FillReductions(k);
  FillExponentials(k);
  FillLogarithms(k);
  FillTrigonometry(k);
  FillSpecial(k);
  FillRows(k);
  FillArgs(k);
}

void UseTargetForTest(int64_t target) {
  if (target < 0) {
    g_test_table = nullptr;
    return;
  }
  static Kernels tables[8];
  static std::atomic<int> used{0};
  Kernels& k = tables[used++ % 8];
  if (target == 0) {
    FillPlain(k);
    FillPlainRows(k);
  } else {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    BuildKernels(k);
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  g_test_table = &k;
}

std::vector<int64_t> TargetsForTest() {
  std::vector<int64_t> targets = {0};
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = all; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
  return targets;
}

}  // namespace internal

const Kernels& GetKernels() {
  static const Kernels* const table = [] {
    static Kernels k;
    internal::BuildKernels(k);
    return &k;
  }();
  const Kernels* test = internal::g_test_table.load(std::memory_order_relaxed);
  return test ? *test : *table;
}

}  // namespace plait::cpu
