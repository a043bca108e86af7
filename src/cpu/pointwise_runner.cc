// Running a plan: buffers and constants of one thread, and the calls for a tile.

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

void PointwiseRunner::Prefetch(int64_t first, int64_t n) const {
  for (int i = 0; i < plan_.program_.num_inputs; ++i) {
    if (plan_.extents_[i] != Extent::kFull) continue;
    const int64_t size = static_cast<int64_t>(plait::SizeOf(plan_.program_.inputs[i]));
    const char* data = static_cast<const char*>(plan_.inputs_[i].data) + first * size;
    for (int64_t b = 0; b < n * size; b += 64) __builtin_prefetch(data + b, 0, 2);
  }
}

void PointwiseRunner::Run(int64_t first, int64_t n) {
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
  for (int i = 0; i < plan_.num_calls_; ++i) {
    const Plan::Call& call = plan_.calls_[i];
    call.loop(cells_[call.x], cells_[call.y], cells_[call.z], cells_[call.out], n,
              call.splat);
  }
}

}  // namespace plait::cpu
