// Meet with strangers about, with lost connections, and with many ranks.

#include "kvstore/heartbeat/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <thread>

#include "base/error.h"

namespace plait {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPatient{60000};
using Links = std::vector<std::unique_ptr<Link>>;

struct TwoRanks {
  Listener listeners[2];
  const std::vector<Contact> contacts{MakeContact(listeners[0].port),
                                      MakeContact(listeners[1].port)};
  const SocketAddress address = AddressesOf(contacts[0], contacts[1])[0];

  std::future<Links> Start(int rank) {
    return std::async(std::launch::async, [this, rank] {
      return Meet(rank, contacts, listeners[rank], kPatient);
    });
  }
};

bool Await(const Link& link, short events) {
  pollfd one{link.fd(), events, 0};
  return poll(&one, 1, static_cast<int>(kPatient.count())) == 1;
}

template <typename Plain>
Plain Hear(Link& link) {
  for (;;) {
    EXPECT_TRUE(Await(link, POLLIN));
    const bool open = link.Read();
    if (const auto value = link.TakePlain<Plain>()) return *value;
    Check(open, "a test: the connection is over: ", link.why());
  }
}

template <typename Plain>
void Say(Link& link, const Plain& value) {
  EXPECT_TRUE(Await(link, POLLOUT));
  link.SendPlain(value);
  EXPECT_TRUE(link.Write());
}

// Whether what one end says is heard at the other.
void ExpectOneConnection(Link& a, Link& b) {
  for (Link* from : {&a, &b}) {
    Link& to = from == &a ? b : a;
    from->Send({Frame::kNews, 7, "hear me"});
    ASSERT_TRUE(from->Write());
    std::optional<Frame> frame;
    while (!frame) {
      ASSERT_TRUE(Await(to, POLLIN));
      ASSERT_TRUE(to.Read()) << to.why();
      frame = to.TakeFrame();
    }
    EXPECT_EQ(frame->text, "hear me");
  }
}

// Calls without a word, and hangs up on so many at a time; at most 20000 times.
class Flooder {
 public:
  Flooder(const SocketAddress& address, size_t at_once)
      : thread_([this, address, at_once] {
          std::vector<std::unique_ptr<Link>> held;
          for (int i = 0; i < 20000 && !over_; ++i) {
            if (auto link = Link::To(address)) held.push_back(std::move(link));
            if (held.size() == at_once) {
              full_ = true;
              held.clear();
            }
          }
          full_ = true;
        }) {}
  ~Flooder() {
    over_ = true;
    thread_.join();
  }
  void AwaitFirst() const {
    while (!full_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> over_{false}, full_{false};
  std::thread thread_;
};

TEST(Meeting, StrangersWhoCallWithoutEndKeepNobodyApart) {
  MakeRoomForFiles(900);
  for (const size_t at_once : {1, 50, 300, 300, 300}) {
    TwoRanks job;
    const Flooder flooder(job.address, at_once);
    std::future<Links> low = job.Start(0);
    flooder.AwaitFirst();
    std::future<Links> high = job.Start(1);
    const Links a = low.get(), b = high.get();
    ExpectOneConnection(*a[0], *b[0]);
  }
}

// One that was answered keeps its place while others come and say nothing.
TEST(Meeting, SilentStrangersMakeRoomBeforeACallerThatWasAnswered) {
  MakeRoomForFiles(900);
  TwoRanks job;
  std::future<Links> low = job.Start(0);
  const std::unique_ptr<Link> caller = Link::To(job.address);
  ASSERT_NE(caller, nullptr);
  Hello hello;
  hello.from = 1;
  hello.nonce = RandomBytes();
  Say(*caller, hello);
  const auto answer = Hear<Answer>(*caller);
  std::deque<std::unique_ptr<Link>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(Link::To(job.address));
    ASSERT_NE(silent.back(), nullptr);
  }
  // So there was no room, twice.
  for (const int sent_away : {0, 100}) {
    ASSERT_TRUE(Await(*silent[sent_away], POLLIN));
    EXPECT_FALSE(silent[sent_away]->Read());
  }
  const Parties parties{1, 0, {hello.nonce, answer.nonce}};
  Say(*caller, Proof{ProofOf(job.contacts[0].token, true, parties)});
  EXPECT_EQ(Hear<Welcome>(*caller).magic, Hello::kMagic);
  ExpectOneConnection(*low.get()[0], *caller);
}

// The first connection of a caller, taken by `first` instead of by rank 0; then the
// ranks meet.
void MeetAfter(const std::function<void(TwoRanks&, Link&)>& first) {
  TwoRanks job;
  std::future<Links> high = job.Start(1);
  {
    pollfd called{job.listeners[0].fd, POLLIN, 0};
    ASSERT_EQ(poll(&called, 1, static_cast<int>(kPatient.count())), 1);
    Link link(
        accept4(job.listeners[0].fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ASSERT_TRUE(link.open());
    first(job, link);
  }
  const Links a = job.Start(0).get(), b = high.get();
  ExpectOneConnection(*a[0], *b[0]);
}

TEST(Meeting, ACallThatIsResetIsMadeAgain) {
  MeetAfter([](TwoRanks&, Link&) {});
  MeetAfter([](TwoRanks&, Link& link) { Hear<Hello>(link); });
}

// A caller counts no connection that the other end may not have.
TEST(Meeting, ACallThatIsResetAfterTheProofIsMadeAgain) {
  MeetAfter([](TwoRanks& job, Link& link) {
    const auto hello = Hear<Hello>(link);
    Answer answer{RandomBytes(), {}};
    const Parties parties{1, 0, {hello.nonce, answer.nonce}};
    answer.proof = ProofOf(job.contacts[0].token, false, parties);
    Say(link, answer);
    const auto proof = Hear<Proof>(link).proof;
    EXPECT_EQ(proof, ProofOf(job.contacts[0].token, true, parties));
  });
}

TEST(Meeting, NobodyWaitsForOthersInVain) {
  TwoRanks job;
  std::string error;
  try {
    Meet(0, job.contacts, job.listeners[0], std::chrono::hours(1), {1},
         [] { return true; });
  } catch (const Error& failure) {
    error = failure.what();
  }
  EXPECT_THAT(error, HasSubstr("another rank is lost"));
}

// All call one at the same time, by several addresses that all lead there.
TEST(Meeting, ManyRanksWithManyAddressesKeepNobodyApart) {
  constexpr int kRanks = 256;
  MakeRoomForFiles(6 * kRanks + 200);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 6 * kRanks + 200) GTEST_SKIP() << "too few files may be open";
  const Listener listener, unused;
  std::vector<Contact> contacts(kRanks, MakeContact(unused.port));
  contacts[0].port = listener.port;
  contacts[0].machine = {};  // so that its addresses are tried
  contacts[0].count = 4;
  for (uint8_t i = 0; i < 4; ++i) {
    contacts[0].addresses[i] = {0, {127, 0, 0, static_cast<uint8_t>(1 + i)}};
  }
  std::vector<int> others;
  std::vector<std::future<Links>> callers;
  for (int rank = 1; rank < kRanks; ++rank) {
    others.push_back(rank);
    callers.push_back(std::async(std::launch::async, [&, rank] {
      return Meet(rank, contacts, unused, kPatient, {0});
    }));
  }
  const Links links = Meet(0, contacts, listener, kPatient, others);
  for (size_t i = 0; i < callers.size(); ++i) {
    ExpectOneConnection(*links[i], *callers[i].get()[0]);
  }
}

}  // namespace
}  // namespace plait
