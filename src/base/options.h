// Options: every environment variable that Plait reads, in one table.
//
// This is the only place that calls getenv. Values are read once, at the first use.
// The table also makes docs/options.md.

#ifndef PLAIT_BASE_OPTIONS_H_
#define PLAIT_BASE_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>

namespace plait {

enum class Option : uint8_t {
  kEngine,       // PLAIT_ENGINE: threaded | serial  (MXNET_ENGINE_TYPE)
  kThreads,      // PLAIT_THREADS: threads inside an operator  (OMP_NUM_THREADS)
  kWorkers,      // PLAIT_WORKERS: compute workers  (MXNET_CPU_WORKER_NTHREADS)
  kLazy,         // PLAIT_LAZY: 1 | 0, fuse imperative pointwise operations
  kMemoryLimit,  // PLAIT_MEMORY_LIMIT: bytes of array memory, 0 = none
  kRunAhead,     // PLAIT_RUN_AHEAD: bytes of pending results before a push waits
  kVerbose,      // PLAIT_VERBOSE: 1 prints which kernel was chosen and why
  kSeed,         // PLAIT_SEED: seed of the random generators at start
  kProfile,      // PLAIT_PROFILE: file to which a trace is written at exit
  kDump,         // PLAIT_DUMP: passes prints a graph after each pass
  kDisable,      // PLAIT_DISABLE: passes that are left out, by name
  kRecompute,    // PLAIT_RECOMPUTE: bytes that training may keep between the parts
  kConv,         // PLAIT_CONV: auto | direct | winograd | gemm | measure[:FILE]
  kMpi,          // PLAIT_MPI: auto | openmpi | mpich | off | a plug-in's path
  kTransport,    // PLAIT_TRANSPORT: auto | mpi | tcp
  kHeartbeat,    // PLAIT_HEARTBEAT: seconds after which a silent rank is lost
  kOpenMpiSize,  // set by Open MPI's mpirun
  kPmiSize,      // set by MPICH's mpiexec, and by srun --mpi=pmi2
  kPmixRank,     // set by srun --mpi=pmix
  kSlurmTasks,   // set by srun
  kRunPipe,      // set by plait-run: the file handle that a lost rank is told to
  kCount,
};

struct OptionInfo {
  const char* name;      // "PLAIT_ENGINE"
  const char* legacy;    // the MXNET_* (or other) variable honoured too, or nullptr
  const char* fallback;  // the value when neither is set
  const char* doc;
};

std::span<const OptionInfo> OptionTable();
const std::string& GetOption(Option option);
int64_t GetOptionInt(Option option);  // throws kValue when it is not a whole number

}  // namespace plait

#endif  // PLAIT_BASE_OPTIONS_H_
