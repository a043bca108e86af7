// Options: the table and the one getenv.

#include "base/options.h"

#include <array>
#include <cstdlib>

#include "base/error.h"

namespace plait {
namespace {

constexpr int kCount = static_cast<int>(Option::kCount);

constexpr std::array<OptionInfo, kCount> kTable = {{
    {"PLAIT_ENGINE", "MXNET_ENGINE_TYPE", "threaded",
     "threaded, or serial: every operation runs at once on the calling thread. "
     "MXNet's NaiveEngine means serial, its other names threaded."},
    {"PLAIT_THREADS", "OMP_NUM_THREADS", "0",
     "Threads that one operator may use; 0 means all cores this process may use."},
    {"PLAIT_WORKERS", "MXNET_CPU_WORKER_NTHREADS", "1",
     "Compute workers of the CPU; they share PLAIT_THREADS among them."},
    {"PLAIT_LAZY", nullptr, "1",
     "1: imperative pointwise operations wait and run fused; 0: each runs at once."},
    {"PLAIT_MEMORY_LIMIT", nullptr, "0",
     "Bytes of array memory a device may use; beyond it an allocation raises. 0: "
     "none."},
    {"PLAIT_RUN_AHEAD", nullptr, "268435456",
     "Bytes of results still to be computed before a push waits for some of them."},
    {"PLAIT_VERBOSE", nullptr, "0",
     "1: print which kernel each operator call chose, and why not the faster ones."},
    {"PLAIT_SEED", nullptr, "0", "The seed of the random generators at start."},
    {"PLAIT_PROFILE", nullptr, "", "A file: profile from the start, write it at exit."},
    {"PLAIT_DUMP", nullptr, "", "passes: print every graph after each pass."},
    {"PLAIT_DISABLE", nullptr, "",
     "Passes over graphs that are left out, separated by commas: attention, "
     "channels, identity, casts, cse, fold_bn, pool_index, recompute, epilogue, "
     "blocked, join, hoist, fuse, order, pieces."},
    {"PLAIT_RECOMPUTE", "MXNET_BACKWARD_DO_MIRROR", "0",
     "Bytes of values that a graph may hold in training; cheap ones beyond are "
     "computed "
     "again in the backward part. 1: as many as possible, 0: none."},
    {"PLAIT_CONV", nullptr, "auto",
     "How convolutions of float32 are computed: auto (the fastest, by a table that was "
     "measured), direct, winograd (3 x 3 windows at stride 1; a little less exact), or "
     "gemm. Where the way asked for is not there, gemm. measure: the fastest here, "
     "timed "
     "when a problem comes for the first time; measure:FILE also reads earlier choices "
     "from FILE and adds the new ones."},
    {"PLAIT_MPI", nullptr, "auto",
     "The MPI between the processes of a job: openmpi, mpich, or the path of a "
     "plug-in; "
     "auto: that whose launcher started the process; off: each process is alone."},
    {"PLAIT_TRANSPORT", nullptr, "auto",
     "How the arrays of a job travel: mpi; tcp: over connections of its own; auto: so "
     "between machines, and inside one by reads of the other process's memory, or by "
     "MPI where there is InfiniBand or the system forbids such reads."},
    {"PLAIT_HEARTBEAT", nullptr, "30",
     "Seconds without a sign of life after which a process of a job is held to be "
     "lost; "
     "0: that is not watched."},
    {"OMPI_COMM_WORLD_SIZE", nullptr, "",
     "Processes of the job; set by mpirun of Open MPI."},
    {"PMI_SIZE", nullptr, "",
     "Processes of the job; set by mpiexec of MPICH and by srun --mpi=pmi2."},
    {"PMIX_RANK", nullptr, "", "This process's number; set by srun --mpi=pmix."},
    {"SLURM_STEP_NUM_TASKS", nullptr, "", "Processes of the job; set by srun."},
    {"PLAIT_RUN_PIPE", nullptr, "",
     "Where a process tells plait-run that another is lost; set by plait-run."},
}};

std::string Read(const OptionInfo& info) {
  if (const char* value = std::getenv(info.name)) return value;
  if (info.legacy != nullptr) {
    if (const char* value = std::getenv(info.legacy)) return value;
  }
  return info.fallback;
}

}  // namespace

std::span<const OptionInfo> OptionTable() {
  return kTable;
}

const std::string& GetOption(Option option) {
  static const std::array<std::string, kCount>* values = [] {
    auto* all = new std::array<std::string, kCount>;
    for (int i = 0; i < kCount; ++i) (*all)[i] = Read(kTable[i]);
    return all;
  }();
  return (*values)[static_cast<int>(option)];
}

int64_t GetOptionInt(Option option) {
  const std::string& text = GetOption(option);
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  Check(end != text.c_str() && (*end == '\0' || *end == ','),
        kTable[static_cast<int>(option)].name, ": '", text,
        "' is not a number; a whole number was expected");
  return value;
}

}  // namespace plait
