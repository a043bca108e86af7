// What all calls of oneDNN share.

#include "cpu/onednn/primitive.h"

#include <array>

namespace plait::cpu::onednn {
namespace {

// A stream of the CPU has no state of its own, but is not to be shared among threads.
const dnnl::stream& Stream() {
  thread_local const dnnl::stream stream(Engine());
  return stream;
}

}  // namespace

const dnnl::engine& Engine() {
  // Never destroyed: primitives in caches of other files need it to the end.
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

void Rethrow(const dnnl::error& e, const char* what) {
  const ErrorKind kind =
      e.status == dnnl_out_of_memory ? ErrorKind::kMemory : ErrorKind::kRuntime;
  Fail(kind, what, ": oneDNN: ", e.message);
}

dnnl::memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kBfloat16 ? dnnl::memory::data_type::bf16
                                   : dnnl::memory::data_type::f32;
}

void Execute(const dnnl::primitive& primitive, const Md& scratchpad,
             std::initializer_list<Arg> args, const char* what) {
  constexpr size_t kMost = 8;
  PLAIT_DCHECK(args.size() < kMost);
  try {
    std::array<dnnl::memory, kMost> memories;
    std::array<dnnl_exec_arg_t, kMost> list;
    int n = 0;
    for (const Arg& arg : args) {
      memories[n] = dnnl::memory(*arg.md, Engine(), const_cast<void*>(arg.data));
      list[n] = {arg.index, memories[n].get()};
      ++n;
    }
    const Scratch scratch(scratchpad.get_size());
    if (scratchpad.get_size() > 0) {
      memories[n] = dnnl::memory(scratchpad, Engine(), scratch.As<void>());
      list[n] = {DNNL_ARG_SCRATCHPAD, memories[n].get()};
      ++n;
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), Stream().get(), n, list.data()),
        "could not execute a primitive");
  } catch (const dnnl::error& e) {
    Rethrow(e, what);
  }
}

}  // namespace plait::cpu::onednn
