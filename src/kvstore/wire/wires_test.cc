// Tests of wires between threads of this process, and of what strangers say on them.

#include "kvstore/wire/wires.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plait {
namespace {

using RequestPtr = Communicator::RequestPtr;

// Two ends of one connection; `lends`: they may read each other's memory.
struct Pair {
  explicit Pair(bool lends, bool watched = false) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    std::unique_ptr<Wires::Word> taken[2];
    Wires::Word* words[2];
    for (int r = 0; r < 2; ++r) {
      taken[r] = std::make_unique<Wires::Word>(7);
      words[r] = taken[r].get();
    }
    for (int r = 0; r < 2; ++r) {
      std::vector<Wires::Other> others(2);
      others[1 - r].link = std::make_unique<Link>(fds[r]);
      others[1 - r].pid = lends ? getpid() : 0;
      others[1 - r].pledge = {reinterpret_cast<uint64_t>(words[1 - r]), 7};
      ends[r] =
          std::make_unique<Wires>(std::move(others), watched, std::move(taken[r]));
    }
  }
  // Drives both ends until the request of one is done.
  size_t Finish(int end, const RequestPtr& request) {
    size_t received = 0;
    while (!ends[end]->Test(*request, &received)) {
      ends[1 - end]->Probe(99);
      ends[end]->Probe(99);
    }
    return received;
  }

  std::unique_ptr<Wires> ends[2];
};

std::string Text(size_t length, int seed) {
  std::string text(length, '\0');
  for (size_t i = 0; i < length; ++i)
    text[i] = static_cast<char>(i * 7 + i / 251 + static_cast<size_t>(seed));
  return text;
}

class WiresOfBothKinds : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Lends, WiresOfBothKinds, testing::Bool());

TEST_P(WiresOfBothKinds, CarryMessagesOfAllLengthsAskedForBeforeOrAfter) {
  Pair pair(GetParam());
  for (const size_t length : {0, 1, 31, 4096, 8193, 20000, 70000, 3 << 20}) {
    for (const bool before : {true, false}) {
      const std::string sent = Text(length, 3);
      std::string got(length + 1, 'x');
      RequestPtr receive;
      if (before) receive = pair.ends[1]->Receive(0, 5, got.data(), got.size());
      const RequestPtr send = pair.ends[0]->Send(1, 5, sent.data(), length);
      if (!before) {
        for (int look = 0; look < 5; ++look) {
          pair.ends[0]->Probe(99);
          pair.ends[1]->Probe(99);
        }
        receive = pair.ends[1]->Receive(0, 5, got.data(), got.size());
      }
      EXPECT_EQ(pair.Finish(1, receive), length);
      pair.Finish(0, send);
      got.pop_back();
      EXPECT_EQ(got, sent) << length;
    }
  }
}

TEST_P(WiresOfBothKinds, KeepTheOrderOfATagAndLetTagsPassEachOther) {
  Pair pair(GetParam());
  std::vector<std::string> sent;
  std::vector<RequestPtr> sends;
  for (int i = 0; i < 6; ++i) sent.push_back(Text(i % 2 == 0 ? 10 : 40000, i));
  for (int i = 0; i < 6; ++i)
    sends.push_back(pair.ends[0]->Send(1, i / 3, sent[i].data(), sent[i].size()));
  for (const int i : {3, 4, 5, 0, 1, 2}) {
    std::string got(sent[i].size(), ' ');
    EXPECT_EQ(pair.Finish(1, pair.ends[1]->Receive(0, i / 3, got.data(), got.size())),
              got.size());
    EXPECT_EQ(got, sent[i]);
  }
  for (const RequestPtr& send : sends) pair.Finish(0, send);
}

TEST(Wires, APauseAfterHoursOfSleepIsOneThatIsLongEnough) {
  using std::chrono::microseconds;
  constexpr int64_t kFair = 192 << 10;
  EXPECT_EQ(Wires::FairPause(microseconds(500), kFair), microseconds(500));
  EXPECT_EQ(Wires::FairPause(microseconds(500), 2 * kFair), microseconds(250));
  for (const int hours : {1, 14, 100000}) {
    EXPECT_EQ(Wires::FairPause(std::chrono::hours(hours), kFair),
              std::chrono::seconds(1));
    EXPECT_GT(Wires::FairPause(std::chrono::hours(hours), 1), std::chrono::hours(1));
  }
}

TEST_P(WiresOfBothKinds, RefuseWhatIsTooLongAndGoOn) {
  Pair pair(GetParam());
  const std::string large = Text(50000, 1), small = Text(9, 2);
  char got[16];
  const RequestPtr receive = pair.ends[1]->Receive(0, 1, got, sizeof(got));
  const RequestPtr send = pair.ends[0]->Send(1, 1, large.data(), large.size());
  EXPECT_THROW(pair.Finish(1, receive), Error);
  pair.Finish(0, send);
  const RequestPtr again = pair.ends[0]->Send(1, 1, small.data(), small.size());
  EXPECT_EQ(pair.Finish(1, pair.ends[1]->Receive(0, 1, got, sizeof(got))), 9U);
  EXPECT_EQ(std::memcmp(got, small.data(), 9), 0);
  pair.Finish(0, again);
}

// The error of a receive of rank 0 that never ends well.
std::string LastWord(Wires& wires, const RequestPtr& receive) {
  try {
    while (!wires.Test(*receive, nullptr)) wires.Idle(std::chrono::milliseconds(50));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Wires, MemoryThatWasTakenBackIsNotRead) {
  Pair pair(true, true);
  const std::string sent = Text(100000, 1);
  std::string got(sent.size(), ' ');
  const RequestPtr send = pair.ends[0]->Send(1, 1, sent.data(), sent.size());
  pair.ends[0]->Flush();
  pair.ends[0]->TakeBack();
  const RequestPtr receive = pair.ends[1]->Receive(0, 1, got.data(), got.size());
  const std::string error = LastWord(*pair.ends[1], receive);
  EXPECT_NE(error.find("rank 0: lost: it has taken back"), std::string::npos) << error;
  EXPECT_FALSE(pair.ends[0]->Test(*send, nullptr));
}

TEST(Wires, AConnectionThatEndsAloneIsAnErrorForWhoAwaitsSomething) {
  Pair pair(false, true);
  pair.ends[1].reset();
  pair.ends[0]->Probe(1);
  char place[8];
  const RequestPtr receive = pair.ends[0]->Receive(1, 1, place, sizeof(place));
  const std::string error = LastWord(*pair.ends[0], receive);
  EXPECT_NE(error.find("rank 1: lost: the connection was closed"), std::string::npos)
      << error;
}

TEST(Wires, ARestEndsWhenWhatWasLentHasBeenTaken) {
  Pair pair(true);
  const std::string sent = Text(100000, 1);
  std::string got(sent.size(), ' ');
  const RequestPtr receive = pair.ends[1]->Receive(0, 1, got.data(), got.size());
  const RequestPtr send = pair.ends[0]->Send(1, 1, sent.data(), sent.size());
  EXPECT_FALSE(pair.ends[0]->Test(*send, nullptr));
  pair.Finish(1, receive);
  pair.ends[1]->Flush();
  pair.ends[0]->Probe(9);  // takes in that it is done, after the test
  pair.ends[0]->Idle(std::chrono::hours(1));
  EXPECT_TRUE(pair.ends[0]->Test(*send, nullptr));
}

TEST(Wires, AProbeFindsWhatHasComeWhole) {
  Pair pair(false);
  EXPECT_FALSE(pair.ends[1]->Probe(7));
  const RequestPtr send = pair.ends[0]->Send(1, 7, "hello", 5);
  pair.Finish(0, send);
  std::optional<Communicator::Arrival> found;
  while (!found) found = pair.ends[1]->Probe(7);
  EXPECT_EQ(found->from, 0);
  EXPECT_EQ(found->bytes, 5U);
}

TEST(Wires, ARestEndsWhenSomethingComesOrSomebodyWakes) {
  Pair pair(false);
  const RequestPtr send = pair.ends[0]->Send(1, 7, "hello", 5);
  pair.ends[0]->Flush();
  pair.ends[1]->Idle(std::chrono::hours(1));
  pair.ends[0]->Wake();
  pair.ends[0]->Idle(std::chrono::hours(1));
  pair.Finish(0, send);
}

// One end of a connection whose other end says anything.
struct Victim {
  explicit Victim(bool lends, bool watched = false) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    std::vector<Wires::Other> others(2);
    others[1].link = std::make_unique<Link>(fds[0]);
    others[1].pid = lends ? getpid() : 0;
    wires = std::make_unique<Wires>(std::move(others), watched);
    stranger = fds[1];
  }
  ~Victim() {
    if (stranger >= 0) close(stranger);
  }
  void Say(uint32_t kind, uint32_t tag, uint64_t bytes, uint64_t address,
           uint32_t magic = 0x77697265) {
    const struct {
      uint32_t magic, kind, tag, number;
      uint64_t bytes, address;
    } said{magic, kind, tag, 0, bytes, address};
    EXPECT_EQ(write(stranger, &said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
  }
  std::string Error_() {
    char place[64];
    try {
      const RequestPtr wanted = wires->Receive(1, 4, place, sizeof(place));
      for (int look = 0; look < 4; ++look) wires->Probe(99);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<Wires> wires;
  int stranger = -1;
};

TEST(Wires, NonsenseNamesTheRank) {
  const std::string no_message = "rank 1 sent what is no message";
  {
    Victim victim(true);
    victim.Say(1, 4, 8, 0, 7);
    EXPECT_NE(victim.Error_().find(no_message), std::string::npos);
  }
  {
    Victim victim(true);
    victim.Say(9, 4, 8, 0);
    EXPECT_NE(victim.Error_().find(no_message), std::string::npos);
  }
  {
    Victim victim(true);
    victim.Say(1, 4, uint64_t{1} << 60, 0);
    EXPECT_NE(victim.Error_().find(no_message), std::string::npos);
  }
  {
    Victim victim(false);  // whose memory nobody may read
    victim.Say(2, 4, 8, 4096);
    EXPECT_NE(victim.Error_().find(no_message), std::string::npos);
  }
  {
    Victim victim(true);
    victim.Say(3, 12, 0, 0);
    EXPECT_NE(victim.Error_().find("gave back what it had not got"), std::string::npos);
  }
  {
    Victim victim(true);
    victim.Say(2, 4, 8, 16);  // no memory is there
    EXPECT_NE(victim.Error_().find("lent memory that cannot be read"),
              std::string::npos);
  }
}

TEST(Wires, AConnectionThatEndsIsAnErrorWhereNobodyElseWatches) {
  Victim alone(false), watched(false, true);
  for (Victim* victim : {&alone, &watched}) {
    close(victim->stranger);
    victim->stranger = -1;
  }
  EXPECT_NE(alone.Error_().find("rank 1: lost"), std::string::npos);
  EXPECT_EQ(watched.Error_(), "");
}

}  // namespace
}  // namespace plait
