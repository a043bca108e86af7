// Heartbeats between the threads of one process: faults are seen, strangers are not.

#include "kvstore/heartbeat/heartbeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "engine/testing.h"

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
  Hello guess;  // of a rank that is expected, by one who cannot prove it
  guess.from = 1;
  std::string hello(sizeof(guess), '\0');
  std::memcpy(hello.data(), &guess, sizeof(guess));
  std::vector<std::unique_ptr<Link>> strangers;
  for (int i = 0; i < 90; ++i) {
    strangers.push_back(Stranger(contacts[0]));
    ASSERT_NE(strangers.back(), nullptr);
    if (i % 3 == 0) Shout(*strangers.back(), hello + std::string(16, 'p'));
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

TEST(Heartbeats, RanksOfOneMachineListenToNoOther) {
  for (const bool one_machine : {true, false}) {
    const Listener listener(one_machine);
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    getsockname(listener.fd, reinterpret_cast<sockaddr*>(&bound), &length);
    sockaddr_in v4{};
    std::memcpy(&v4, &bound, sizeof(v4));
    const bool local =
        v4.sin_family == AF_INET && v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    EXPECT_EQ(local, one_machine);
  }
  const Bytes16 here = MachineName(), unknown{}, other{1};
  EXPECT_TRUE(OneMachine(std::vector{other, other, other}));
  EXPECT_FALSE(OneMachine(std::vector{other, other, unknown}));
  EXPECT_FALSE(OneMachine(std::vector{unknown, unknown}));
  EXPECT_FALSE(OneMachine(std::vector{here, other}));
}

// Those of SipHash's authors, for the key and the text 0, 1, 2, ...
TEST(Heartbeats, ProofsAreSipHash) {
  Bytes16 key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(i);
  const Bytes16 nothing{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                        0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
  const Bytes16 one{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                    0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
  EXPECT_EQ(SipHash(key, {}), nothing);
  EXPECT_EQ(SipHash(key, {key.data(), 1}), one);
  // Who calls, who listens and the numbers of both change it.
  const Parties parties{1, 0, {key, nothing}};
  const Bytes16 proof = ProofOf(key, true, parties);
  EXPECT_TRUE(Equal(proof, ProofOf(key, true, parties)));
  EXPECT_FALSE(Equal(proof, ProofOf(one, true, parties)));
  EXPECT_FALSE(Equal(proof, ProofOf(key, false, parties)));
  EXPECT_FALSE(Equal(proof, ProofOf(key, true, {2, 0, {key, nothing}})));
  EXPECT_FALSE(Equal(proof, ProofOf(key, true, {1, 2, {key, nothing}})));
  EXPECT_FALSE(Equal(proof, ProofOf(key, true, {1, 0, {one, nothing}})));
  EXPECT_FALSE(Equal(proof, ProofOf(key, true, {1, 0, {key, one}})));
}

// Who only answers at the address of a rank learns nothing, and is no rank.
TEST(Heartbeats, AnImpostorLearnsNothing) {
  const Listener impostor;
  const std::vector<Contact> contacts{MakeContact(impostor.port), MakeContact(1)};
  std::string error;
  std::thread caller([&] {
    const Listener listener;
    try {
      Meet(1, contacts, listener, kPatient);
    } catch (const Error& failure) {
      error = failure.what();
    }
  });
  pollfd called{impostor.fd, POLLIN, 0};
  ASSERT_EQ(poll(&called, 1, 60000), 1);
  const int fd = accept(impostor.fd, nullptr, nullptr);
  ASSERT_GE(fd, 0);
  char heard[256];
  ssize_t bytes = recv(fd, heard, sizeof(Hello), MSG_WAITALL);
  ASSERT_EQ(bytes, static_cast<ssize_t>(sizeof(Hello)));
  const Answer guess{contacts[1].token, contacts[1].token};
  ASSERT_EQ(send(fd, &guess, sizeof(guess), MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof(guess)));
  for (ssize_t more = 1; more > 0; bytes += std::max<ssize_t>(more, 0)) {
    more = recv(fd, heard + bytes, sizeof(heard) - static_cast<size_t>(bytes), 0);
  }
  caller.join();
  close(fd);
  EXPECT_EQ(bytes, static_cast<ssize_t>(sizeof(Hello)));  // no proof
  const std::string all(heard, static_cast<size_t>(bytes));
  const auto& token = contacts[0].token;
  EXPECT_EQ(all.find(std::string(token.begin(), token.end())), std::string::npos);
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1 has no connection to rank 0 (host "),
                           HasSubstr("who answers there does not know the job's")));
}

// A rank with `count` lower neighbours, in its own words if it fails.
std::string ManyMeet(int count) {
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<Contact> contacts;
  std::vector<int> all;
  for (int rank = 0; rank <= count; ++rank) {
    listeners.push_back(std::make_unique<Listener>());
    contacts.push_back(MakeContact(listeners.back()->port));
    if (rank < count) all.push_back(rank);
  }
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      while (!over) {
        try {
          const auto links =
              Meet(rank, contacts, *listeners[rank], milliseconds(500), {count});
          if (links[0] != nullptr) return;
        } catch (const Error&) {  // not called yet
        }
      }
    });
  }
  std::string error;
  try {
    const auto links = Meet(count, contacts, *listeners.back(), kPatient, all);
    EXPECT_EQ(links.size(), all.size());
    for (const auto& link : links) EXPECT_NE(link, nullptr);
  } catch (const Error& failure) {
    error = failure.what();
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  return error;
}

// The limit of open files, put back at the end.
struct FileLimit {
  // `more` than are open now.
  explicit FileLimit(rlim_t more) {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    const auto limit =
        more + static_cast<rlim_t>(std::distance(begin(open), end(open)));
    now = limit;
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit lower{limit, before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before); }
  rlimit before;
  rlim_t now;
};

TEST(Heartbeats, ManyRanksAreCalledInTurn) {
  EXPECT_EQ(ManyMeet(130), "");
}

TEST(Heartbeats, TooFewFileHandlesAreAnErrorThatNamesTheLimit) {
#ifdef PLAIT_ASAN
  GTEST_SKIP() << "the sanitizer itself needs files, to look at pointers";
#endif
  const FileLimit limit(80);
  EXPECT_THAT(ManyMeet(60),
              AllOf(HasSubstr("to 60 ranks"),
                    HasSubstr("its limit is " + std::to_string(limit.now)),
                    HasSubstr("ulimit -n")));
}

TEST(Heartbeats, TheLimitOfFilesIsRaisedWhereItIsTooLow) {
  const FileLimit limit(80);
  if (limit.before.rlim_max < limit.now + 400) GTEST_SKIP() << "the hard limit is low";
  MakeRoomForFiles(400);
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_GE(now.rlim_cur, 400u);
  EXPECT_LE(now.rlim_cur, limit.now + 400);
  EXPECT_EQ(ManyMeet(60), "");
}

}  // namespace
}  // namespace plait
