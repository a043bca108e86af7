// InvokeEach: the arrays of all groups become one call of an operator of this file.

#include "run/invoke_each.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "run/push.h"

namespace plait {
namespace {

// What a group costs besides its elements, as elements; and elements that are worth
// another thread.
constexpr int64_t kGroupCost = 2048, kGrain = 4 * kGroupCost;
// Groups are cut at multiples of this, so that vectors do not straddle lines of memory.
constexpr int64_t kCut = 1024;

// Where an array of a group stands in the call: outputs are those that are written.
struct Place {
  bool written = false;
  int at = 0;
};
struct Group {
  ParamsRef params;
  SmallVector<Place, 6> arrays;
  int copy = -1;  // an output, or none
};
struct EachParams {
  const OpDef* op = nullptr;
  std::vector<Group> groups;
  bool ordered = false;  // groups share memory: one after the other
};

// The program of a group; groups that differ in nothing but their memory share it.
class GroupProgram {
 public:
  void Prepare(const OpDef& op, const Group& group, std::span<const View> views,
               DType copy) {
    if (Fits(group, views, copy)) return;
    program_ = {};
    updates_.clear();
    dtypes_.clear();
    SmallVector<Pw, 8> values;
    for (const View& v : views) {
      const auto index = program_.num_inputs++;
      program_.inputs[index] = v.dtype;
      values.push_back(Pw(&program_, {PointwiseArg::kInput, index}, v.dtype));
      dtypes_.push_back(v.dtype);
    }
    PwCall call(values);
    op.pointwise(group.params->get(), call);
    const Pw result = Cast(call.outputs[0], views[0].dtype);
    program_.outputs[program_.num_outputs++] = result.arg();
    for (const PwCall::InputUpdate& u : call.updates) {
      program_.outputs[program_.num_outputs++] = u.value.arg();
      updates_.push_back(u.input);
    }
    if (copy != DType::kUnknown) {
      program_.outputs[program_.num_outputs++] = Cast(result, copy).arg();
    }
    params_ = group.params.get();
    copy_ = copy;
  }

  // The elements [first, last) on this thread, or all on all threads.
  void Run(std::span<const View> views, void* copy, int64_t first, int64_t last) const {
    const Shape space{views[0].size()}, one{1};
    SmallVector<cpu::PointwiseInput, 8> inputs;
    for (const View& v : views) {
      inputs.push_back({v.ptr, v.size() == space[0] ? &space : &one});
    }
    SmallVector<void*, 8> outputs{views[0].ptr};
    for (int i : updates_) outputs.push_back(views[i].ptr);
    if (copy_ != DType::kUnknown) outputs.push_back(copy);
    if (first == 0 && last == space[0]) {
      cpu::RunPointwise(program_, space, inputs, outputs);
    } else {
      cpu::RunPointwisePart(program_, space[0], inputs, outputs, first, last);
    }
  }

 private:
  bool Fits(const Group& group, std::span<const View> views, DType copy) const {
    if (params_ != group.params.get() || copy_ != copy) return false;
    return std::equal(views.begin(), views.end(), dtypes_.begin(), dtypes_.end(),
                      [](const View& v, DType dtype) { return v.dtype == dtype; });
  }

  PointwiseProgram program_;
  SmallVector<DType, 8> dtypes_;
  SmallVector<int, 4> updates_;
  const Params* params_ = nullptr;
  DType copy_ = DType::kUnknown;
};

int64_t SizeOf(const Group& group, const KernelArgs& args) {
  return args.out[group.arrays[0].at].size();  // the first array is always written
}

void RunGroup(const OpDef& op, const Group& group, const KernelArgs& args,
              GroupProgram& program, int64_t first, int64_t last) {
  if (first >= last) return;
  SmallVector<View, 8> views;
  for (const Place& p : group.arrays) {
    views.push_back(p.written ? args.out[p.at] : args.in[p.at]);
  }
  const View* copy = group.copy < 0 ? nullptr : &args.out[group.copy];
  program.Prepare(op, group, views, copy ? copy->dtype : DType::kUnknown);
  program.Run(views, copy ? copy->ptr : nullptr, first, last);
}

// Where a group is cut that a thread's share ends in, `at` behind the group's start.
int64_t CutOf(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at / kCut * kCut, 0, size);
}

// All groups lie one behind the other, each as long as it costs, and every thread takes
// one stretch: so no thread waits for others until the end, and small groups need no
// threads of their own.
void Forward(const void* params, const KernelArgs& args) {
  const EachParams& p = *static_cast<const EachParams*>(params);
  if (p.ordered || ComputeThreads() == 1) {
    GroupProgram program;
    for (const Group& group : p.groups) {
      RunGroup(*p.op, group, args, program, 0, SizeOf(group, args));
    }
    return;
  }
  std::vector<int64_t> ends;
  ends.reserve(p.groups.size());
  int64_t total = 0;
  for (const Group& group : p.groups) {
    ends.push_back(total += SizeOf(group, args) + kGroupCost);
  }
  ParallelFor(total, kGrain, [&](int64_t first, int64_t last) {
    const ScopedComputeThreads alone(1);
    GroupProgram program;
    auto i = std::upper_bound(ends.begin(), ends.end(), first) - ends.begin();
    for (int64_t start = i ? ends[i - 1] : 0; start < last; start = ends[i++]) {
      const Group& group = p.groups[i];
      const int64_t size = SizeOf(group, args);
      RunGroup(*p.op, group, args, program, CutOf(first - start, size),
               last < ends[i] ? CutOf(last - start, size) : size);
    }
  });
}

// Whether some memory is written by one array of the call and used by another.
bool Overlap(std::span<const NDArray> in, std::span<const NDArray> out) {
  std::vector<const Chunk*> written;
  for (const NDArray& x : out) written.push_back(x.body()->chunk.get());
  std::sort(written.begin(), written.end());
  if (std::adjacent_find(written.begin(), written.end()) != written.end()) return true;
  return std::any_of(in.begin(), in.end(), [&](const NDArray& x) {
    return std::binary_search(written.begin(), written.end(),
                              static_cast<const Chunk*>(x.body()->chunk.get()));
  });
}

// The call as an operator: no entry of the registry, since nobody calls it by name.
const OpDef& EachOp(const std::string& name) {
  static std::mutex mutex;
  static auto& ops = *new std::map<std::string, OpDef>;
  const std::lock_guard lock(mutex);
  const auto [found, added] = ops.try_emplace(name);
  if (added) {
    found->second.name = name;
    found->second.cpu = {{"plain", Forward, nullptr}};
  }
  return found->second;
}

bool IsWritten(const OpDef& op, size_t input) {
  return input == 0 || op.Mutates(static_cast<int>(input));
}

void CheckCall(const OpDef& op, const EachCall& call) {
  const size_t count = op.inputs.size();
  Check(call.arrays.size() == count, ErrorKind::kType, op.name, ": got ",
        call.arrays.size(), " arrays; ", count, " were expected");
  const Shape& shape = call.arrays[0].shape();
  for (size_t i = 0; i < count; ++i) {
    const NDArray& x = call.arrays[i];
    const bool written = IsWritten(op, i);
    Check(x.shape() == shape || (!written && x.size() == 1), op.name, ": ",
          op.inputs[i].name, " has shape ", x.shape(), " and ", op.inputs[0].name,
          " has shape ", shape, "; equal shapes were expected");
    Check(IsFloat(x.dtype()), ErrorKind::kType, op.name, ": ", op.inputs[i].name,
          " is ", x.dtype(), "; a float was expected");
  }
  Check(!call.copy || call.copy.shape() == shape, op.name, ": the copy has shape ",
        call.copy ? call.copy.shape() : shape, "; shape ", shape, " was expected");
}

}  // namespace

void InvokeEach(const OpDef& op, std::span<const EachCall> calls) {
  Check(op.pointwise && !op.num_outputs && op.outputs.size() == 1,
        ErrorKind::kNotImplemented, op.name, ": is not pointwise with one output");
  if (calls.empty()) return;
  for (const EachCall& call : calls) CheckCall(op, call);
  EachParams params{&op, {}};
  std::vector<NDArray> in, out;
  const auto add = [](std::vector<NDArray>& list, const NDArray& x) {
    x.body()->Materialize();
    list.push_back(x);
    return static_cast<int>(list.size()) - 1;
  };
  params.groups.reserve(calls.size());
  for (const EachCall& call : calls) {
    Group group{call.params, {}, -1};
    for (size_t i = 0; i < call.arrays.size(); ++i) {
      const bool written = IsWritten(op, i);
      group.arrays.push_back({written, add(written ? out : in, call.arrays[i])});
    }
    if (call.copy) group.copy = add(out, call.copy);
    params.groups.push_back(std::move(group));
  }
  params.ordered = Overlap(in, out);
  Specs in_specs, out_specs;
  for (const NDArray& x : in) in_specs.push_back({x.shape(), x.dtype()});
  for (const NDArray& x : out) out_specs.push_back({x.shape(), x.dtype()});
  PushNode(EachOp(op.name), MakeParams(std::move(params)), in, out, in_specs, out_specs,
           false, {});
}

}  // namespace plait
