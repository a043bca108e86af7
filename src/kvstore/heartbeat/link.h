// Link: one TCP connection of the heartbeats, and the frames that go over it.
//
// A connection starts with a Hello, an Answer, a Proof and a Welcome; then frames
// follow. A frame is a header of 8 bytes and up to kMostText bytes of text. Anything
// else closes the connection. Sockets never block. Not thread safe.

#ifndef PLAIT_KVSTORE_HEARTBEAT_LINK_H_
#define PLAIT_KVSTORE_HEARTBEAT_LINK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kvstore/heartbeat/contact.h"
#include "kvstore/heartbeat/proof.h"

namespace plait {

// What who calls says first, what the other end answers, the caller's proof, and that
// the other end has it: only then the connection counts for the caller.
struct Hello {
  static constexpr uint32_t kMagic = 0x62746c70;  // "pltb"

  uint32_t magic = kMagic;
  uint32_t version = 3;
  int32_t from = 0;
  int32_t to = 0;
  Bytes16 nonce{};
};
struct Answer {
  Bytes16 nonce{}, proof{};
};
struct Proof {
  Bytes16 proof{};
};
struct Welcome {
  uint32_t magic = Hello::kMagic;
};
static_assert(sizeof(Hello) == 32 && std::is_trivially_copyable_v<Hello>);

struct Frame {
  enum Kind : uint8_t {
    kBeat = 1,  // I live
    kBye = 2,   // I leave, and all is well
    kNews = 3,  // the job cannot go on; `text` says why, `rank` whose fault it is
  };
  static constexpr size_t kMostText = 1000;

  uint8_t kind = kBeat;
  int32_t rank = 0;
  std::string text;
};

class Link {
 public:
  explicit Link(int fd) : fd_(fd) {}
  ~Link() { Close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Begins a connection; null where the system refuses at once (errno says why).
  static std::unique_ptr<Link> To(const SocketAddress& address);

  // -1 once closed. May be called by any thread, and after a fork.
  int fd() const { return fd_.load(std::memory_order_relaxed); }
  bool open() const { return fd() >= 0; }
  void Close();

  template <typename Plain>  // Hello, Answer, Proof, Welcome
  void SendPlain(const Plain& value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof(value));
  }
  // Dropped when the other end has not taken what waits (more than 64 KiB).
  void Send(const Frame& frame);
  bool wants_to_write() const { return open() && !out_.empty(); }
  // No more will be sent: the other end reads to the end of the stream.
  void EndOfStream();

  // What can be written or read now. False: the connection is over (`why`).
  bool Write();
  bool Read();
  const std::string& why() const { return why_; }
  int error() const { return error_; }  // the system's, if that is why

  template <typename Plain>
  std::optional<Plain> TakePlain() {
    Plain value;
    if (in_.size() < sizeof(value)) return std::nullopt;
    std::memcpy(&value, in_.data(), sizeof(value));
    in_.erase(in_.begin(), in_.begin() + sizeof(value));
    return value;
  }
  // Of what has been read. A malformed one sets `why` and gives nothing.
  std::optional<Frame> TakeFrame();
  bool malformed() const { return malformed_; }

 private:
  bool End(const char* why, int error = 0);

  std::atomic<int> fd_;
  std::vector<char> in_;
  std::vector<char> out_;
  std::string why_;
  int error_ = 0;
  bool malformed_ = false;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_HEARTBEAT_LINK_H_
