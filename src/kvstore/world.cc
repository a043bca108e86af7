// World: finds and loads the plug-in of the MPI whose launcher started this process.

#include "kvstore/world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/options.h"
#include "kvstore/mpi/mpi_communicator.h"
#include "kvstore/transport.h"

namespace plait {
namespace {

struct Launch {
  int size = 1;
  std::string plugin;  // "openmpi", "mpich", or a path; empty: srun without MPI
};

int Count(Option option) {
  const std::string& text = GetOption(option);
  return text.empty() ? 0 : static_cast<int>(GetOptionInt(option));
}

bool Is(Option option) {
  return !GetOption(option).empty();
}

// mpirun of either MPI says how many processes there are; srun does, by its own
// variable, which is also that of an srun that has started an mpirun. A batch script is
// not in a step of srun, and so one process.
Launch FindLaunch() {
  Launch launch;
  const int tasks = Count(Option::kSlurmTasks);
  if (Is(Option::kOpenMpiSize)) {
    launch = {Count(Option::kOpenMpiSize), "openmpi"};
  } else if (Is(Option::kPmixRank) && tasks > 0) {
    launch = {tasks, "openmpi"};
  } else if (Is(Option::kPmiSize)) {
    launch = {Count(Option::kPmiSize), "mpich"};
  } else if (tasks > 1) {
    launch = {tasks, ""};  // which do not know of one another
  }
  const std::string& wanted = GetOption(Option::kMpi);
  if (wanted == "off") return {};
  if (wanted != "auto" && launch.size > 1) launch.plugin = wanted;
  return launch;
}

// The plug-ins lie beside this library.
std::string PluginPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  Check(name == "openmpi" || name == "mpich", ErrorKind::kValue, "PLAIT_MPI: got '",
        name, "'; auto, openmpi, mpich, off or a path was expected");
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&StartedAsRank), &self);
  std::string folder = self.dli_fname != nullptr ? self.dli_fname : "";
  const size_t end = folder.rfind('/');
  folder = end == std::string::npos ? "" : folder.substr(0, end + 1);
  return folder + "libplait_" + name + ".so";
}

const PlaitMpi& LoadPlugin(const Launch& launch) {
  Check(!launch.plugin.empty(), ErrorKind::kRuntime, "kvstore: srun has started ",
        launch.size,
        " processes and told them nothing of one another; `srun --mpi=pmix` was "
        "expected for Open MPI, or --mpi=pmi2 for MPICH (PLAIT_MPI=off runs each "
        "process for itself)");
  const std::string path = PluginPath(launch.plugin);
  // Global: parts of Open MPI that it loads itself look for its symbols there.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  Check(library != nullptr, ErrorKind::kRuntime, "kvstore: ", launch.size,
        " processes were started, but the MPI plug-in cannot be loaded: ", dlerror(),
        "; it is built where MPI's headers are (Debian: libopenmpi-dev), and needs its "
        "library (openmpi-bin); PLAIT_MPI=off runs each process for itself");
  void* symbol = dlsym(library, "plait_mpi");
  Check(symbol != nullptr, ErrorKind::kRuntime, "kvstore: ", path,
        " is no MPI plug-in of Plait");
  const PlaitMpi* table = reinterpret_cast<const PlaitMpi* (*)()>(symbol)();
  Check(table->version == kPlaitMpiVersion, ErrorKind::kRuntime, "kvstore: ", path,
        " has version ", table->version, "; ", kPlaitMpiVersion, " was expected");
  return *table;
}

// The job's transport, from World() until the end of the process.
MpiCommunicator* opened = nullptr;
pid_t owner = 0;

void CloseInChild() {
  if (opened != nullptr) opened->CloseInChild();
}

[[noreturn]] void LeaveNow(int status) {
  std::fflush(nullptr);
  _exit(status);
}

void AtExit(int status, void*) {
  if (opened == nullptr || getpid() != owner) return;
  if (status != 0) opened->Abort("ended with status " + std::to_string(status));
  const std::string before = opened->fault();
  MpiCommunicator* const world = std::exchange(opened, nullptr);
  if (world->Close()) return;
  if (before.empty()) {
    std::fprintf(stderr, "plait: rank %d had ended its work, then: %s\n", world->rank(),
                 world->fault().c_str());
  }
  LeaveNow(status);
}

Communicator& OpenWorld() {
  const Launch launch = FindLaunch();
  if (launch.size <= 1) return *MakeLocalWorld(1)[0].release();
  const double seconds = std::strtod(GetOption(Option::kHeartbeat).c_str(), nullptr);
  Check(seconds >= 0 && seconds < 1e6, "PLAIT_HEARTBEAT: got '",
        GetOption(Option::kHeartbeat), "'; seconds, or 0 for none, were expected");
  opened = new MpiCommunicator(
      LoadPlugin(launch), launch.size,
      std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  owner = getpid();
  pthread_atfork(nullptr, nullptr, CloseInChild);
  // Not atexit: the status is needed.
  on_exit(AtExit, nullptr);
  return *opened;
}

}  // namespace

Communicator& World() {
  static Communicator& world = OpenWorld();
  return world;
}

bool StartedAsRank() {
  return FindLaunch().size > 1;
}

void CloseWorld() {
  if (opened == nullptr || getpid() != owner) return;
  MpiCommunicator* const world = opened;
  if (!world->fault().empty()) return;  // AtExit leaves
  if (world->Close()) opened = nullptr;
}

}  // namespace plait
