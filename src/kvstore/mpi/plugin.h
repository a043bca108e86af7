// What a library of MPI calls offers: plain C, so that it fits whatever loads it.
//
// MPI fixes names and no binary form: Open MPI and MPICH differ in the types of their
// handles. So plugin.cc is compiled once for each that is found, into a library of its
// own (libplait_openmpi.so, libplait_mpich.so), and loaded only by a process that a
// launcher of that MPI started.
//
// Functions that can fail return 0, or put a text into `error` (kPlaitMpiError bytes)
// and return another number. None waits for another rank unless it says so. Calls from
// several threads must be made one at a time.

#ifndef PLAIT_KVSTORE_MPI_PLUGIN_H_
#define PLAIT_KVSTORE_MPI_PLUGIN_H_

#include <cstddef>
#include <cstdint>

extern "C" {

inline constexpr uint32_t kPlaitMpiVersion = 4;
inline constexpr size_t kPlaitMpiError = 256;
// What `test` returns for a message that is longer than the memory it was to fill.
inline constexpr int kPlaitMpiTooLong = 2;

// A request of either MPI: a pointer or a number.
struct PlaitMpiRequest {
  uint64_t bits;
};

// A request that is done: which, the bytes of its message, and how it failed (as what
// `test` returns).
struct PlaitMpiDone {
  size_t index;
  size_t received;
  int failed;
};

struct PlaitMpi {
  uint32_t version;
  const char* name;

  // Starts MPI, unless somebody has. Waits for the other ranks.
  int (*start)(int* rank, int* size, char* error);
  // Begins to put `bytes` bytes of every rank, in order, into `all`; `test` sees to the
  // end of it.
  int (*gather)(const void* mine, size_t bytes, void* all, PlaitMpiRequest* request,
                char* error);
  int (*send)(int to, int tag, const void* data, size_t bytes, PlaitMpiRequest* request,
              char* error);
  int (*receive)(int from, int tag, void* data, size_t bytes, PlaitMpiRequest* request,
                 char* error);
  // A message of this tag that has come; `found` is 1 when there is one.
  int (*probe)(int tag, int* found, int* from, size_t* bytes, char* error);
  // A done request is gone, also one that failed.
  int (*test)(PlaitMpiRequest* request, int* done, size_t* received, char* error);
  // The same for `count` of them at the price of one: puts a PlaitMpiDone for each that
  // is done into `done`, and their number into `found`.
  int (*test_some)(PlaitMpiRequest* const* requests, size_t count, PlaitMpiDone* done,
                   size_t* found, char* error);
  // Begins a barrier, which `test` sees to its end.
  int (*barrier)(PlaitMpiRequest* request, char* error);
  // Whether ranks that live can go on when others have ended (ULFM), known once MPI has
  // started: this MPI has it, and its launcher was told so.
  int (*can_shrink)();
  // A rank that MPI knows to have ended; -1: none.
  int (*lost)();
  // The ranks that live become all ranks, in their order, with new numbers. Waits for
  // all of them to call it, spinning. What was under way never ends, and may still
  // write to its memory.
  int (*shrink)(int* rank, int* size, char* error);
  // `well` becomes 0 on all ranks that live when it is 0 on one of them. Waits for
  // them.
  int (*agree)(int* well, char* error);
  // Ends MPI, if `start` started it and nobody has ended it. Waits for the other ranks.
  void (*finish)();
};

// The one symbol that a plug-in has.
const PlaitMpi* plait_mpi();
}

#endif  // PLAIT_KVSTORE_MPI_PLUGIN_H_
