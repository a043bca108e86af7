// Heartbeats between the threads of one process: faults are seen, strangers are not.

#include "kvstore/heartbeat/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr milliseconds kPatient{60000};

struct Job {
  // `odd` is the rank whose times differ.
  explicit Job(int size, milliseconds timeout = kPatient, int odd = -1,
               Heartbeats::Times odd_times = {}) {
    std::vector<Contact> contacts;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<Heartbeats>(
          rank, rank == odd ? odd_times : Heartbeats::Times{timeout}));
      contacts.push_back(ranks.back()->Open());
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] { ranks[rank]->Start(contacts, [] {}); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Bounded by the time limit of the test.
  std::string AwaitFault(int rank) {
    while (!ranks[rank]->faulty()) std::this_thread::sleep_for(milliseconds(2));
    return ranks[rank]->fault();
  }

  std::vector<std::unique_ptr<Heartbeats>> ranks;
};

TEST(Heartbeats, NeighboursAreMutualAndFew) {
  EXPECT_TRUE(Neighbours(0, 1).empty());
  EXPECT_EQ(Neighbours(0, 2), std::vector<int>{1});
  for (const int size : {2, 3, 4, 5, 8, 64, 1000}) {
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<int> mine = Neighbours(rank, size);
      EXPECT_LE(mine.size(), 20u);
      for (const int other : mine) {
        EXPECT_NE(other, rank);
        EXPECT_THAT(Neighbours(other, size), testing::Contains(rank));
      }
    }
  }
}

TEST(Heartbeats, AClosedConnectionIsALostRankForAll) {
  Job job(11);
  job.ranks[4].reset();
  for (int rank = 0; rank < 11; ++rank) {
    if (rank == 4) continue;
    EXPECT_THAT(job.AwaitFault(rank),
                AllOf(StartsWith("rank 4 (host "), HasSubstr("lost: ")));
  }
}

TEST(Heartbeats, ASilentRankIsLost) {
  Heartbeats::Times silent{kPatient, kPatient};
  Job job(3, milliseconds(200), 1, silent);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(job.AwaitFault(rank), HasSubstr("no sign of life for 0.2 s"));
  }
  // It is told, when it listens again.
  EXPECT_THAT(job.AwaitFault(1), HasSubstr("no sign of life"));
}

TEST(Heartbeats, NewsReachAllRanksAndTheFirstCounts) {
  Job job(6);
  job.ranks[2]->Tell(2, "rank 2: key 'w' is broken");
  job.ranks[2]->Tell(2, "rank 2: something later");
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(job.AwaitFault(rank), "rank 2: key 'w' is broken");
  }
}

TEST(Heartbeats, NewsThatAreToldBeforeLeavingArrive) {
  Job job(2);
  job.ranks[1]->Tell(1, std::string(5000, 'x'));
  job.ranks[1]->Leave();
  EXPECT_EQ(job.AwaitFault(0), std::string(Frame::kMostText, 'x'));
}

TEST(Heartbeats, GoodbyeIsNoFault) {
  Job job(3);
  for (auto& rank : job.ranks) rank->Leave();
  for (auto& rank : job.ranks) EXPECT_EQ(rank->fault(), "");
}

TEST(Heartbeats, WithoutATimeoutOnlyOwnFaultsAreKnown) {
  Heartbeats alone(0, {milliseconds(0)});
  const Contact contact = alone.Open();
  EXPECT_EQ(contact.port, 0);
  alone.Start({contact, contact}, [] {});
  alone.Tell(0, "rank 0: stuck");
  EXPECT_EQ(alone.fault(), "rank 0: stuck");
  alone.Leave();
}

// One who knows an address, and says what he likes.
std::unique_ptr<Link> Stranger(const Contact& to) {
  return Link::To(AddressesOf(to, to)[0]);
}

void Shout(Link& link, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t done =
        send(link.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (done >= 0) sent += done;
    if (done < 0 && errno != EAGAIN && errno != ENOTCONN) return;
  }
}

TEST(Heartbeats, StrangersAtTheStartDoNothing) {
  Heartbeats low(0, {kPatient}), high(1, {kPatient});
  const std::vector<Contact> contacts{low.Open(), high.Open()};
  Hello guess;  // of a rank that is expected, with another token
  guess.from = 1;
  std::string hello(sizeof(guess), '\0');
  std::memcpy(hello.data(), &guess, sizeof(guess));
  std::vector<std::unique_ptr<Link>> strangers;
  for (int i = 0; i < 90; ++i) {
    strangers.push_back(Stranger(contacts[0]));
    ASSERT_NE(strangers.back(), nullptr);
    if (i % 3 == 0) Shout(*strangers.back(), hello);
    if (i % 3 == 1) Shout(*strangers.back(), "GET / HTTP/1.1\r\n\r\n");
  }
  std::thread other([&] { high.Start(contacts, [] {}); });
  low.Start(contacts, [] {});
  other.join();
  low.Tell(0, "rank 0: hears rank 1");
  while (!high.faulty()) std::this_thread::sleep_for(milliseconds(2));
  EXPECT_EQ(high.fault(), "rank 0: hears rank 1");
  // Nobody listens any more.
  if (const std::unique_ptr<Link> late = Stranger(contacts[0])) {
    pollfd refused{late->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&refused, 1, 60000), 1);
    EXPECT_FALSE(late->Read());
  }
}

TEST(Heartbeats, BytesThatAreNoFrameMakeALostRank) {
  Heartbeats low(0, {kPatient});
  Listener listener;
  const std::vector<Contact> contacts{low.Open(), MakeContact(listener.port)};
  std::thread starts([&] { low.Start(contacts, [] {}); });
  auto link = std::move(Meet(1, contacts, listener, kPatient)[0]);
  starts.join();
  Shout(*link, std::string(40, '\x7f'));
  while (!low.faulty()) std::this_thread::sleep_for(milliseconds(2));
  EXPECT_THAT(low.fault(), HasSubstr("it sent what is no heartbeat"));
}

TEST(Heartbeats, AnUnreachableRankIsNamed) {
  Heartbeats high(1, {kPatient, milliseconds(0), milliseconds(200)});
  Contact closed;
  {
    Listener listener;
    closed = MakeContact(listener.port);
  }
  const std::vector<Contact> contacts{closed, high.Open()};
  try {
    high.Start(contacts, [] {});
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 has no connection to rank 0 (host "));
  }
}

}  // namespace
}  // namespace plait
