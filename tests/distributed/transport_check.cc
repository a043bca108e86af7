// transport_check MODE: one rank of a job that tries the transport, and how it fails.
//
// Started by tests/distributed/test_transport.py under mpirun. Prints "rank R: ok" or
// the error that it was left with.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "kvstore/transport.h"
#include "kvstore/world.h"

namespace plait {
namespace {

using RequestPtr = Communicator::RequestPtr;

size_t Finish(Communicator& world, const RequestPtr& request) {
  size_t received = 0;
  while (!world.Test(*request, &received)) {
    world.Idle(std::chrono::microseconds(50));
  }
  return received;
}

uint8_t ByteAt(int from, int to, size_t length, size_t i) {
  return static_cast<uint8_t>(from * 31 + to * 17 + length + i * 7);
}

std::vector<uint8_t> Message(int from, int to, size_t length) {
  std::vector<uint8_t> bytes(length);
  for (size_t i = 0; i < length; ++i) bytes[i] = ByteAt(from, to, length, i);
  return bytes;
}

// Every rank sends every other a message of `length` bytes; the arrived are compared.
void Exchange(Communicator& world, size_t length, int tag) {
  const int rank = world.rank(), size = world.size();
  std::vector<RequestPtr> requests;
  std::vector<std::vector<uint8_t>> sent(size), got(size);
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    got[other].resize(length + 1);  // one more than comes: the length is reported
    sent[other] = Message(rank, other, length);
    requests.push_back(world.Receive(other, tag, got[other].data(), length + 1));
    requests.push_back(world.Send(other, tag, sent[other].data(), length));
  }
  size_t next = 0;
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    const size_t received = Finish(world, requests[next++]);
    Finish(world, requests[next++]);
    Check(received == length, "received ", received, " bytes of rank ", other, ", not ",
          length);
    got[other].pop_back();
    Check(got[other] == Message(other, rank, length), "wrong bytes of rank ", other);
  }
}

void Probed(Communicator& world) {
  const int next = (world.rank() + 1) % world.size();
  const std::string text = "from " + std::to_string(world.rank());
  const RequestPtr sent = world.Send(next, 7, text.data(), text.size());
  std::optional<Communicator::Arrival> arrival;
  while (!(arrival = world.Probe(7))) world.Idle(std::chrono::microseconds(50));
  std::string got(arrival->bytes, ' ');
  Finish(world, world.Receive(arrival->from, 7, got.data(), got.size()));
  Check(got == "from " + std::to_string(arrival->from), "probed '", got, "'");
  Finish(world, sent);
}

void TooLong(Communicator& world) {
  const int other = world.rank() ^ 1;
  if (other >= world.size()) return;
  const char large[64] = {};
  char small[8];
  const RequestPtr sent = world.Send(other, 9, large, sizeof(large));
  const RequestPtr got = world.Receive(other, 9, small, sizeof(small));
  bool refused = false;
  try {
    Finish(world, got);
  } catch (const Error& error) {
    refused = std::strstr(error.what(), "longer than was expected") != nullptr;
    if (!refused) throw;
  }
  Check(refused, "a message that is too long was taken");
  Finish(world, sent);
}

void Messages(Communicator& world) {
  int tag = 1;
  for (const size_t length : {0, 1, 63, 4096, 70000, 1 << 20, 9 << 20}) {
    Exchange(world, length, tag++);
  }
  Exchange(world, 100, Communicator::kMostTag);
  Probed(world);
  TooLong(world);
}

// What the last rank does while the others wait for it.
void Misbehave(Communicator& world, const std::string& mode) {
  if (mode == "kill") raise(SIGKILL);
  if (mode == "stop") raise(SIGSTOP);
  // In a network namespace of its own: the link to the others is gone, silently.
  if (mode == "cut" && std::system("ip link set v0 down") != 0) std::exit(6);
  if (mode == "abort") world.Abort("key 'w3' is broken");
  if (mode == "status") std::exit(5);
  if (mode == "end") std::exit(0);
}

int Main(const std::string& mode) {
  Communicator& world = World();
  std::printf("rank %d of %d, pid %d\n", world.rank(), world.size(), getpid());
  std::fflush(stdout);
  try {
    Messages(world);
    if (mode != "messages") {
      const int last = world.size() - 1;
      if (world.rank() == last) Misbehave(world, mode);
      const int other = world.rank() == last ? 0 : last;
      char byte;
      if (mode != "end") Finish(world, world.Receive(other, 3, &byte, 1));
    }
  } catch (const Error& error) {
    std::printf("rank %d: %s\n", world.rank(), error.what());
    return error.kind() == ErrorKind::kIo ? 3 : 4;
  }
  std::printf("rank %d: ok\n", world.rank());
  return 0;
}

}  // namespace
}  // namespace plait

int main(int count, char** arguments) {
  return plait::Main(count > 1 ? arguments[1] : "messages");
}
