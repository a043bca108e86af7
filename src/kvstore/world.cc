// World: finds and loads the plug-in of the MPI whose launcher started this process.

#include "kvstore/world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/blocking.h"
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
  // mpirun of Open MPI 5 tells the others of a process that a signal has ended, and not
  // of one that has failed; plait-run's supervisors see to that themselves. Who fails
  // because of another keeps its status.
  const std::string own = "rank " + std::to_string(opened->rank()) + ": ";
  const bool by_signal = status != 0 && before.starts_with(own) &&
                         opened->can_shrink() && !Is(Option::kRunPipe);
  MpiCommunicator* const world = std::exchange(opened, nullptr);
  if (world->Close()) return;
  if (before.empty() && !world->fault().empty()) {
    std::fprintf(stderr, "plait: rank %d had ended its work, then: %s\n", world->rank(),
                 world->fault().c_str());
  }
  if (by_signal) {
    std::fflush(nullptr);
    kill(getpid(), SIGKILL);
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

// MPI waits for the other ranks without end, so it does on a thread of its own.
struct Shrinking {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::unique_ptr<MpiCommunicator> next;
  std::exception_ptr error;

  void Run(MpiCommunicator& old) {
    std::unique_ptr<MpiCommunicator> made;
    std::exception_ptr failure;
    try {
      made = MpiCommunicator::Shrink(old);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    next = std::move(made);
    error = failure;
    over = true;
    changed.notify_all();
  }
};

std::shared_ptr<Shrinking> StartShrinking() {
  auto shrinking = std::make_shared<Shrinking>();
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  // But for its own faults: blocked ones end the process without a word.
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([shrinking, old = opened] { shrinking->Run(*old); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return shrinking;
}

}  // namespace

Communicator& World() {
  static Communicator& world = OpenWorld();
  return world;
}

bool StartedAsRank() {
  return FindLaunch().size > 1;
}

std::string WhyNotShrink() {
  if (opened == nullptr) return "this process is no rank of a job";
  if (opened->can_shrink()) return "";
  return "the MPI of this job, or its launcher, cannot lose a rank and go on; "
         "plait-run and `mpirun --with-ft ulfm` of Open MPI 5 can, and plait-run "
         "--restarts starts the job again";
}

Communicator& ShrinkWorld(std::chrono::milliseconds most) {
  static std::shared_ptr<Shrinking> shrinking;  // one thread at a time calls this
  if (!shrinking) shrinking = StartShrinking();
  const ScopedBlocking blocking;
  std::unique_lock lock(shrinking->mutex);
  Check(shrinking->changed.wait_for(lock, most, [] { return shrinking->over; }),
        ErrorKind::kIo, "shrink: not all other ranks have called it in ",
        static_cast<double>(most.count()) / 1000,
        " s: they still compute, or are stopped");
  lock.unlock();
  const std::shared_ptr<Shrinking> done = std::exchange(shrinking, nullptr);
  if (done->error) std::rethrow_exception(done->error);
  MpiCommunicator* const old = std::exchange(opened, done->next.release());
  old->Leave();
  return *opened;
}

void CloseWorld() {
  if (opened == nullptr || getpid() != owner) return;
  MpiCommunicator* const world = opened;
  if (!world->fault().empty()) return;  // AtExit leaves
  if (world->Close()) opened = nullptr;
}

}  // namespace plait
