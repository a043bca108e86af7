// What a rank must never send: every kind of it is a fault that names the rank.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "kvstore/packet.h"
#include "kvstore/store.h"
#include "kvstore/testing.h"

namespace plait {
namespace {

class Ignorer final : public StoreUpdater {
 public:
  void Update(std::span<const Key>, std::span<const NDArray>,
              std::span<const NDArray>) override {}
  bool Elementwise() const override { return true; }
};

// Rank 0 of two, whose peer is the test itself; both stores of it have one key.
class Victim {
 public:
  Victim() : world_(MakeLocalWorld(2)), exchange_(*world_[0]) {
    exchange_.Serve(store_, server_);
  }
  ~Victim() {
    world_[1]->Abort("the test ends");  // nobody says goodbye for rank 1
  }

  void Say(const std::string& packet) {
    try {
      world_[1]->Send(0, kPacketTag, packet.data(), packet.size());
    } catch (const Error&) {  // it has noticed something already
    }
  }
  void SayAlone(uint32_t tag, const std::string& bytes) {
    world_[1]->Send(0, static_cast<int>(tag), bytes.data(), bytes.size());
  }
  // What rank 0 is left with; it takes part in a sum of 100000 elements meanwhile.
  std::string Outcome() {
    const std::vector<double> ones(100000, 1);
    const NDArray x = NDArray::FromHost(ones.data(), {100000}, DType::kFloat64);
    return ErrorOf([&] { exchange_.AllReduce(x, "the key 'w'"); });
  }
  uint32_t store() const { return store_; }

 private:
  struct Server final : RequestServer {
    void OnPush(int, uint32_t, NDArray) override {}
    void OnPull(int, uint32_t, uint32_t) override {}
    void OnRefused(uint32_t, const std::string&) override {}
  };
  std::vector<std::unique_ptr<Communicator>> world_;
  Exchange exchange_;
  const uint32_t store_ = exchange_.NewStore();
  std::shared_ptr<Server> server_ = std::make_shared<Server>();
};

std::string BytesOf(const Entry& entry, const std::string& payload = "") {
  return std::string(reinterpret_cast<const char*>(&entry), sizeof(entry)) + payload;
}

Entry EntryOf(Said said, uint32_t bytes, uint64_t total) {
  Entry entry;
  entry.said = said;
  entry.bytes = bytes;
  entry.total = total;
  return entry;
}

struct Hostile {
  const char* name;
  std::function<void(Victim&)> speak;
  const char* text;  // that the fault must have
};

std::vector<Hostile> Cases() {
  const std::string eight(8, 'x');
  const auto with = [](Entry entry, auto change) {
    change(entry);
    return entry;
  };
  const auto part = [](uint64_t offset) {
    Entry entry = EntryOf(Said::kPart, 8, 64);
    entry.form = 2;
    entry.offset = offset;
    return entry;
  };
  return {
      {"noise", [](Victim& v) { v.Say(std::string(500, '\x5a')); }, "no packet"},
      {"short", [](Victim& v) { v.Say("hello"); }, "cut off"},
      {"large", [](Victim& v) { v.Say(std::string(kPacketBytes + 1, 'x')); },
       "a packet of"},
      {"no such kind",
       [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kCount, 8, 8), eight)); },
       "no packet"},
      {"payload cut off",
       [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kPart, 9, 9), eight)); },
       "cut off"},
      {"outside of its array",
       [=](Victim& v) {
         v.Say(BytesOf(with(part(0), [](Entry& e) { e.offset = 60; }), eight));
       },
       "inside an array"},
      {"no bytes", [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kPart, 0, 64))); },
       "inside an array"},
      {"offset that overflows",
       [=](Victim& v) {
         v.Say(
             BytesOf(with(part(0), [](Entry& e) { e.offset = ~uint64_t{7}; }), eight));
       },
       "inside an array"},
      {"a huge array",
       [=](Victim& v) {
         v.Say(BytesOf(with(part(0), [](Entry& e) { e.total = uint64_t{1} << 39; }),
                       eight));
       },
       ""},
      {"more than huge",
       [=](Victim& v) {
         v.Say(BytesOf(with(part(0), [](Entry& e) { e.total = uint64_t{1} << 60; }),
                       eight));
       },
       "inside an array"},
      {"two lengths",
       [=](Victim& v) {
         v.Say(BytesOf(part(0), eight) +
               BytesOf(with(part(8), [](Entry& e) { e.total = 80; }), eight));
       },
       "pieces of 64 and of 80"},
      {"two dtypes",
       [=](Victim& v) {
         v.Say(BytesOf(part(0), eight) +
               BytesOf(with(part(8), [](Entry& e) { e.form = 3; }), eight));
       },
       "several dtypes"},
      {"a piece twice",
       [=](Victim& v) { v.Say(BytesOf(part(0), eight) + BytesOf(part(0), eight)); },
       "the piece at 0"},
      {"a whole piece too often",
       [=](Victim& v) {
         const Entry piece = with(EntryOf(Said::kWhole, 8, 8), [](Entry&) {});
         v.Say(BytesOf(piece, eight) + BytesOf(piece, eight));
       },
       "more than 8 bytes"},
      {"a tag that is none",
       [=](Victim& v) { v.Say(BytesOf(with(part(0), [](Entry& e) { e.tag = ~0u; }))); },
       "the tag"},
      {"another length than announced",
       [=](Victim& v) {
         v.SayAlone(7, "four");
         v.Say(BytesOf(with(part(0), [](Entry& e) { e.tag = 7; })));
       },
       "after it had announced"},
      {"longer than announced",
       [=](Victim& v) {
         v.SayAlone(7, std::string(900, 'x'));
         v.Say(BytesOf(with(part(0), [](Entry& e) { e.tag = 7; })));
       },
       "a message of 900 bytes"},
      {"a text that comes later",
       [=](Victim& v) {
         v.Say(BytesOf(
             with(EntryOf(Said::kFailPart, 8, 8), [](Entry& e) { e.tag = 7; })));
       },
       "no text"},
      {"an answer to nothing",
       [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kReply, 8, 8), eight)); },
       "nobody had asked"},
      {"a push to no store",
       [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kPush, 8, 8), eight)); },
       "which serves none"},
      {"a pull of no store",
       [=](Victim& v) { v.Say(BytesOf(EntryOf(Said::kPull, 0, 0))); },
       "which serves none"},
      {"a refusal of no store",
       [=](Victim& v) {
         v.Say(BytesOf(
             with(EntryOf(Said::kRefused, 8, 8), [](Entry& e) { e.round = ~0u; }),
             eight));
       },
       "which serves none"},
      {"a push out of order",
       [=](Victim& v) {
         v.Say(BytesOf(with(EntryOf(Said::kPush, 8, 64),
                            [&v](Entry& e) {
                              e.slot = v.store();
                              e.offset = 16;
                            }),
                       eight));
       },
       "the piece at 16"},
  };
}

TEST(HostileRanks, EveryKindOfNonsenseIsAFaultThatNamesTheRank) {
  for (const Hostile& hostile : Cases()) {
    Victim victim;
    hostile.speak(victim);
    const std::string outcome = victim.Outcome();
    EXPECT_NE(outcome.find("rank 1"), std::string::npos)
        << hostile.name << ": " << outcome;
    EXPECT_NE(outcome.find(hostile.text), std::string::npos)
        << hostile.name << ": " << outcome;
    EXPECT_NE(outcome.find("the key 'w'"), std::string::npos)
        << hostile.name << ": " << outcome;
  }
}

// Entries whose fields are of the right kind, and wrong by chance.
TEST(HostileRanks, RandomEntriesDoNoHarm) {
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    Victim victim;
    std::string packet;
    for (int i = 0; i < 12; ++i) {
      Entry entry;
      entry.said = static_cast<Said>(random() % static_cast<int>(Said::kCount));
      if (entry.said == Said::kBye) continue;
      entry.slot = random() % 3 == 0 ? victim.store() : random() % 2;
      entry.round = random() % 2;
      entry.form = static_cast<uint8_t>(random() % 4);
      entry.bytes = random() % 5 * 8;
      entry.offset = random() % 4 * 8;
      entry.total = random() % 8 * 8;
      packet += BytesOf(entry, std::string(entry.bytes, 'r'));
    }
    packet += BytesOf(EntryOf(Said::kReply, 8, 8), std::string(8, 'x'));
    victim.Say(packet);
    EXPECT_NE(victim.Outcome().find("rank 1"), std::string::npos);
  }
}

// A rank whose sum has the same length and another dtype.
TEST(HostileRanks, AnotherDtypeOfTheSameLengthIsAnErrorOnAllRanks) {
  InRanks(3, [&](Exchange& exchange) {
    const std::vector<float> ones(5000, 1);
    const DType dtype = exchange.rank() == 1 ? DType::kInt32 : DType::kFloat32;
    const NDArray x = NDArray::FromHost(ones.data(), {5000}, dtype);
    const std::string error = ErrorOf([&] { exchange.AllReduce(x, "the key 'w'"); });
    EXPECT_NE(error.find("equal dtypes and compressions"), std::string::npos) << error;
    EXPECT_NE(error.find("int32"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace plait
