// The calls of one MPI, behind the table of plugin.h. Only calls that do not wait are
// used once MPI has started: ranks may share cores, and MPI spins where it waits.

#include "kvstore/mpi/plugin.h"

#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

static_assert(sizeof(MPI_Request) <= sizeof(PlaitMpiRequest));

// A communicator of our own: tags of other users of MPI cannot meet ours.
MPI_Comm world = MPI_COMM_NULL;
bool started_here = false;

// What an MPI with ULFM has beyond others. Looked for when MPI starts: this library may
// have been built with the headers of one that has not.
struct Survival {
  int (*revoke)(MPI_Comm);
  int (*shrink)(MPI_Comm, MPI_Comm*);
  int (*agree)(MPI_Comm, int*);
  int (*failure_ack)(MPI_Comm);
  int (*failure_get_acked)(MPI_Comm, MPI_Group*);
};
Survival survival{};
bool survives = false;

template <typename Function>
bool Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

// ULFM's calls are there also where the launcher was not told `--with-ft ulfm`, and
// then ends all ranks with the first.
bool IsOn() {
  int level = 0, index = 0, count = 0;
  int64_t value = 0;  // MPI writes an int, or less
  MPI_T_cvar_handle handle;
  if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) return false;
  if (MPI_T_cvar_get_index("mpi_ft_enable", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value != 0;
}

void FindSurvival() {
  survives = IsOn() && Find("MPIX_Comm_revoke", survival.revoke) &&
             Find("MPIX_Comm_shrink", survival.shrink) &&
             Find("MPIX_Comm_agree", survival.agree) &&
             Find("MPIX_Comm_failure_ack", survival.failure_ack) &&
             Find("MPIX_Comm_failure_get_acked", survival.failure_get_acked);
}

void Say(char* error, const char* text) {
  std::strncpy(error, text, kPlaitMpiError - 1);
  error[kPlaitMpiError - 1] = '\0';
}

int Report(int code, char* error) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  Say(error, text);
  return 1;
}

PlaitMpiRequest Pack(MPI_Request request) {
  PlaitMpiRequest packed{};
  std::memcpy(&packed.bits, &request, sizeof(request));
  return packed;
}

MPI_Request Unpack(const PlaitMpiRequest& packed) {
  MPI_Request request;
  std::memcpy(&request, &packed.bits, sizeof(request));
  return request;
}

// Settings of Open MPI that the user has not made. MPI_Finalize waits inside MPI and
// must leave the core to others; a fork by a data loader is no reason for a warning.
// Chunks of 256 KiB go over TCP at once: asking the receiver first costs a round trip
// through a queue that the other chunks have filled. What is more urgent cannot pass
// what the kernel has taken, which is several megabytes if it is left to choose.
void Prepare() {
  setenv("OMPI_MCA_btl_tcp_eager_limit", "300000", 0);
  setenv("OMPI_MCA_btl_tcp_sndbuf", "262144", 0);
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  setenv("OMPI_MCA_mpi_warn_on_fork", "0", 0);
}

int CheckTags(char* error) {
  int* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(world, MPI_TAG_UB, &most, &known);
  if (known && *most >= (1 << 20) - 1) return 0;
  Say(error, "this MPI has too few tags; at least 2^20 are needed");
  return 1;
}

int Start(int* rank, int* size, char* error) {
  int running = 0, over = 0, level = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&over);
  if (over) {
    Say(error, "MPI has already ended in this process");
    return 1;
  }
  if (running) {
    MPI_Query_thread(&level);
  } else {
    Prepare();
    if (int failed = Report(
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), error)) {
      return failed;
    }
    started_here = true;
  }
  if (level < MPI_THREAD_SERIALIZED) {
    Say(error, "MPI was started for one thread only; MPI_THREAD_SERIALIZED is needed");
    return 1;
  }
  if (int failed = Report(MPI_Comm_dup(MPI_COMM_WORLD, &world), error)) return failed;
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  if (started_here) {  // which MPICH asks for requests of no communicator
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(world, rank);
  MPI_Comm_size(world, size);
  FindSurvival();
  return CheckTags(error);
}

int Gather(const void* mine, size_t bytes, void* all, PlaitMpiRequest* packed,
           char* error) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes);
  const int code =
      MPI_Iallgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, world, &request);
  *packed = Pack(request);
  return Report(code, error);
}

// Open MPI 5 ends the process when a request that has failed is freed too early, and
// frees those that fail, but not persistent ones.
int Begin(int failed, MPI_Request* request, PlaitMpiRequest* packed, char* error) {
  if (failed == MPI_SUCCESS && survives) failed = MPI_Start(request);
  *packed = Pack(*request);
  return Report(failed, error);
}

int Send(int to, int tag, const void* data, size_t bytes, PlaitMpiRequest* packed,
         char* error) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto send = survives ? MPI_Send_init : MPI_Isend;
  return Begin(send(data, static_cast<int>(bytes), MPI_BYTE, to, tag, world, &request),
               &request, packed, error);
}

int Receive(int from, int tag, void* data, size_t bytes, PlaitMpiRequest* packed,
            char* error) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto receive = survives ? MPI_Recv_init : MPI_Irecv;
  return Begin(
      receive(data, static_cast<int>(bytes), MPI_BYTE, from, tag, world, &request),
      &request, packed, error);
}

int Probe(int tag, int* found, int* from, size_t* bytes, char* error) {
  MPI_Status status;
  if (int failed =
          Report(MPI_Iprobe(MPI_ANY_SOURCE, tag, world, found, &status), error)) {
    return failed;
  }
  if (*found) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    *from = status.MPI_SOURCE;
    *bytes = static_cast<size_t>(count);
  }
  return 0;
}

int Test(PlaitMpiRequest* packed, int* done, size_t* received, char* error) {
  MPI_Request request = Unpack(*packed);
  MPI_Status status;
  const int code = MPI_Test(&request, done, &status);
  *packed = Pack(request);
  if (code != MPI_SUCCESS) {
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    Report(code, error);
    return kind == MPI_ERR_TRUNCATE ? kPlaitMpiTooLong : 1;
  }
  if (*done) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    *received = count == MPI_UNDEFINED ? 0 : static_cast<size_t>(count);
  }
  return 0;
}

int TestSome(PlaitMpiRequest* const* packed, size_t count, PlaitMpiDone* done,
             size_t* found, char* error) {
  static std::vector<MPI_Request> requests;
  static std::vector<int> indices;
  static std::vector<MPI_Status> statuses;
  requests.resize(count);
  indices.resize(count);
  statuses.resize(count);
  for (size_t i = 0; i < count; ++i) requests[i] = Unpack(*packed[i]);
  int number = 0;
  const int code = MPI_Testsome(static_cast<int>(count), requests.data(), &number,
                                indices.data(), statuses.data());
  for (size_t i = 0; i < count; ++i) *packed[i] = Pack(requests[i]);
  int kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  if (code != MPI_SUCCESS && kind != MPI_ERR_IN_STATUS) return Report(code, error);
  *found = number == MPI_UNDEFINED ? 0 : static_cast<size_t>(number);
  for (size_t i = 0; i < *found; ++i) {
    PlaitMpiDone& one = done[i];
    one = {static_cast<size_t>(indices[i]), 0, 0};
    const int own = code == MPI_SUCCESS ? MPI_SUCCESS : statuses[i].MPI_ERROR;
    if (own != MPI_SUCCESS) {
      MPI_Error_class(own, &kind);
      Report(own, error);
      one.failed = kind == MPI_ERR_TRUNCATE ? kPlaitMpiTooLong : 1;
      continue;
    }
    if (survives) MPI_Request_free(&requests[one.index]);
    int bytes = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
    one.received = bytes == MPI_UNDEFINED ? 0 : static_cast<size_t>(bytes);
  }
  return 0;
}

int Barrier(PlaitMpiRequest* packed, char* error) {
  MPI_Request request;
  const int code = MPI_Ibarrier(world, &request);
  *packed = Pack(request);
  return Report(code, error);
}

int CanShrink() {
  return survives;
}

int Lost() {
  MPI_Group lost, all;
  int count = 0, first = 0, rank = -1;
  if (!survives || survival.failure_ack(world) != MPI_SUCCESS ||
      survival.failure_get_acked(world, &lost) != MPI_SUCCESS) {
    return -1;
  }
  MPI_Group_size(lost, &count);
  MPI_Comm_group(world, &all);
  if (count > 0) MPI_Group_translate_ranks(lost, 1, &first, all, &rank);
  MPI_Group_free(&all);
  MPI_Group_free(&lost);
  return rank;
}

int Shrink(int* rank, int* size, char* error) {
  MPI_Comm next = MPI_COMM_NULL;
  survival.revoke(world);
  if (int failed = Report(survival.shrink(world, &next), error)) return failed;
  world = next;  // requests of the old one may be under way, so it stays
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, rank);
  MPI_Comm_size(world, size);
  return 0;
}

int Agree(int* well, char* error) {
  if (!*well) survival.revoke(world);  // nobody waits in vain for this rank
  return Report(survival.agree(world, well), error);
}

void Finish() {
  int over = 0;
  MPI_Finalized(&over);
  if (over || !started_here) return;
  MPI_Comm_free(&world);
  MPI_Finalize();
}

}  // namespace

const PlaitMpi* plait_mpi() {
  static const PlaitMpi table = {
      .version = kPlaitMpiVersion,
#ifdef OPEN_MPI
      .name = "Open MPI",
#else
      .name = "MPICH",
#endif
      .start = Start,
      .gather = Gather,
      .send = Send,
      .receive = Receive,
      .probe = Probe,
      .test = Test,
      .test_some = TestSome,
      .barrier = Barrier,
      .can_shrink = CanShrink,
      .lost = Lost,
      .shrink = Shrink,
      .agree = Agree,
      .finish = Finish,
  };
  return &table;
}
