// Running a plan: buffers and constants of one thread, and the calls for a tile.

#include <algorithm>

#include "cpu/pointwise_plan.h"

namespace plait::cpu {
namespace {

// A constant in its compute type, repeated.
void FillConstant(void* slot, Compute compute, PointwiseConstant value) {
  switch (compute) {
    case Compute::kF32:
      return FillSplat(slot, static_cast<float>(value.f));
    case Compute::kF64:
      return FillSplat(slot, value.f);
    case Compute::kI32:
      return FillSplat(slot, static_cast<int32_t>(value.i));
    default:
      return FillSplat(slot, value.i);
  }
}

void FillScalar(void* slot, DType dtype, const void* data) {
  VisitDType(dtype, [&]<typename S>() {
    using T = std::conditional_t<
        sizeof(S) == 8, S,
        std::conditional_t<
            IsFloat(kDTypeOf<S>), float,
            std::conditional_t<std::is_same_v<S, uint32_t>, int64_t, int32_t>>>;
    FillSplat(slot, static_cast<T>(*static_cast<const S*>(data)));
  });
}

}  // namespace

PointwiseRunner::PointwiseRunner(const PointwisePlan& plan) : plan_(plan) {
  using Plan = PointwisePlan;
  for (int i = 0; i < plan.num_splats_; ++i) {
    cells_[Plan::kFirstSplat + i] = splats_ + i * kVectorBytes;
  }
  const int64_t stride = plan.tile_ * (plan.wide_ ? 8 : 4) + kPad;
  char* buffer = scratch_;
  for (int i = 0; i < plan.num_buffers_; ++i, buffer += stride) {
    cells_[Plan::kFirstBuffer + i] = buffer;
  }
  if (plan.broadcasts_) {
    for (int i = 0; i < plan.program_.num_inputs; ++i) {
      if (plan.extents_[i] != Extent::kBroadcast) continue;
      expand_buffers_[i] = buffer;
      expanded_[i] = -1;
      buffer += stride;
    }
  }
  for (int i = 0; i < plan.num_constants_; ++i) {
    const Plan::Splat& splat = plan.splats_[i];
    if (splat.data == nullptr) {
      FillConstant(cells_[splat.cell], splat.compute, splat.constant);
    } else {
      FillScalar(cells_[splat.cell], splat.dtype, splat.data);
    }
  }
  for (int i = 0; i < plan.num_splat_calls_; ++i) {
    const Plan::Call& call = plan.splat_calls_[i];
    call.loop(cells_[call.x], cells_[call.y], cells_[call.z], cells_[call.out],
              call.elements, call.splat);
  }
}

// Points the input's cell at its elements, copied to a buffer where they do not lie
// together. A buffer that still holds them is used again.
void PointwiseRunner::PlaceBroadcast(int input, int64_t first, int64_t n) {
  const Broadcaster& b = plan_.broadcaster_;
  const void* data = plan_.inputs_[input].data;
  const size_t size = plait::SizeOf(plan_.program_.inputs[input]);
  void*& cell = cells_[PointwisePlan::kFirstInput + input];
  int64_t offset;
  if (b.Contiguous(input, first, n, &offset)) {
    cell = const_cast<char*>(static_cast<const char*>(data)) + offset * size;
    return;
  }
  cell = expand_buffers_[input];
  const int64_t key = b.Key(input, first, n);
  if (key >= 0 && key == expanded_[input] && n <= expanded_n_[input]) return;
  b.Expand(input, data, size, first, n, cell);
  expanded_[input] = key;
  expanded_n_[input] = n;
}

void PointwiseRunner::Place(int64_t first, int64_t n) {
  using Plan = PointwisePlan;
  const PointwiseProgram& program = plan_.program_;
  for (int i = 0; i < program.num_inputs; ++i) {
    if (plan_.extents_[i] == Extent::kFull) {
      const char* data = static_cast<const char*>(plan_.inputs_[i].data);
      cells_[Plan::kFirstInput + i] =
          const_cast<char*>(data) + first * plait::SizeOf(program.inputs[i]);
    } else if (plan_.extents_[i] == Extent::kBroadcast) {
      PlaceBroadcast(i, first, n);
    }
  }
  for (size_t o = 0; o < plan_.outputs_.size(); ++o) {
    const size_t size = plait::SizeOf(program.DTypeOfArg(program.outputs[o]));
    cells_[Plan::kFirstOutput + o] =
        static_cast<char*>(plan_.outputs_[o]) + first * size;
  }
}

void PointwiseRunner::Run(int64_t first, int64_t n) {
  Place(first, n);
  for (int i = 0; i < plan_.num_calls_; ++i) Step(plan_.calls_[i], n);
}

// Each call is given a share of the lines to ask for: many at once would have to wait
// for each other, and the arithmetic with them.
void PointwiseRunner::Run(int64_t first, int64_t n, int64_t next, int64_t next_n) {
  Place(first, n);
  const int64_t share = (next_n / (plan_.num_calls_ + 1) + 64) & -64;
  for (int i = 0; i < plan_.num_calls_; ++i) {
    if (next_n > 0) {
      const int64_t now = i + 1 < plan_.num_calls_ ? std::min(share, next_n) : next_n;
      Prefetch(next, now);
      next += now;
      next_n -= now;
    }
    Step(plan_.calls_[i], n);
  }
}

}  // namespace plait::cpu
