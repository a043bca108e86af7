// Link: reads and writes of a socket that does not block, and the form of frames.

#include "kvstore/heartbeat/link.h"

#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plait {
namespace {

constexpr size_t kMostWaiting = 64 << 10;

struct Header {
  uint8_t kind;
  uint8_t zero;
  uint16_t length;
  int32_t rank;
};
static_assert(sizeof(Header) == 8);

bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

std::unique_ptr<Link> Link::To(const SocketAddress& address) {
  const int fd =
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  auto link = std::make_unique<Link>(fd);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.storage);
  if (connect(fd, where, address.length) != 0 && errno != EINPROGRESS) return nullptr;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return link;
}

void Link::Close() {
  const int fd = fd_.exchange(-1);
  if (fd >= 0) close(fd);
}

bool Link::End(const char* why, int error) {
  if (!why_.empty()) return false;
  why_ = why;
  error_ = error;
  return false;
}

void Link::Send(const Frame& frame) {
  if (!open() || out_.size() > kMostWaiting) return;
  const size_t length = std::min(frame.text.size(), Frame::kMostText);
  SendPlain(Header{frame.kind, 0, static_cast<uint16_t>(length), frame.rank});
  out_.insert(out_.end(), frame.text.begin(), frame.text.begin() + length);
}

void Link::EndOfStream() {
  if (open()) shutdown(fd(), SHUT_WR);
}

bool Link::Write() {
  while (open() && !out_.empty()) {
    const ssize_t done = send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (done < 0) return WouldBlock(errno) ? true : End(std::strerror(errno), errno);
    out_.erase(out_.begin(), out_.begin() + done);
  }
  return true;
}

bool Link::Read() {
  char bytes[4096];
  while (open() && in_.size() < kMostWaiting) {
    const ssize_t done = recv(fd(), bytes, sizeof(bytes), 0);
    if (done == 0) return End("the connection was closed");
    if (done < 0) return WouldBlock(errno) ? true : End(std::strerror(errno), errno);
    in_.insert(in_.end(), bytes, bytes + done);
  }
  return true;
}

std::optional<Frame> Link::TakeFrame() {
  Header header;
  if (malformed_ || in_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, in_.data(), sizeof(header));
  if (header.kind < Frame::kBeat || header.kind > Frame::kNews || header.zero != 0 ||
      header.length > Frame::kMostText) {
    malformed_ = true;
    why_ = "it sent what is no heartbeat";
    return std::nullopt;
  }
  const size_t whole = sizeof(header) + header.length;
  if (in_.size() < whole) return std::nullopt;
  Frame frame{header.kind, header.rank,
              std::string(in_.begin() + sizeof(header), in_.begin() + whole)};
  in_.erase(in_.begin(), in_.begin() + whole);
  return frame;
}

}  // namespace plait
