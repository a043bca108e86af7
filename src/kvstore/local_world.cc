// MakeLocalWorld: ranks inside one process, with mailboxes for a network.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "base/error.h"
#include "kvstore/transport.h"

namespace plait {
namespace {

struct Mail {
  int from, tag;
  std::string bytes;
};

struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  bool woken = false;
  std::deque<Mail> mail;

  void Put(Mail letter) {
    const std::lock_guard lock(mutex);
    mail.push_back(std::move(letter));
    woken = true;
    changed.notify_all();
  }
};

struct Post {
  explicit Post(int size) : boxes(static_cast<size_t>(size)) {}
  std::deque<Mailbox> boxes;
  std::mutex mutex;
  std::string fault;  // guarded by mutex
};

struct Sent final : Communicator::Request {};
struct Awaited final : Communicator::Request {
  int from = 0, tag = 0;
  void* data = nullptr;
  size_t bytes = 0;
};

class LocalRank final : public Communicator {
 public:
  LocalRank(std::shared_ptr<Post> post, int rank)
      : post_(std::move(post)),
        rank_(rank),
        box_(post_->boxes[static_cast<size_t>(rank)]) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(post_->boxes.size()); }

  RequestPtr Send(int to, int tag, const void* data, size_t bytes) override {
    CheckFault();
    post_->boxes[static_cast<size_t>(to)].Put(
        {rank_, tag, std::string(static_cast<const char*>(data), bytes)});
    return std::make_unique<Sent>();
  }

  RequestPtr Receive(int from, int tag, void* data, size_t bytes) override {
    CheckFault();
    auto request = std::make_unique<Awaited>();
    request->from = from;
    request->tag = tag;
    request->data = data;
    request->bytes = bytes;
    return request;
  }

  std::optional<Arrival> Probe(int tag) override {
    CheckFault();
    const std::lock_guard lock(box_.mutex);
    for (const Mail& mail : box_.mail) {
      if (mail.tag == tag) return Arrival{mail.from, mail.bytes.size()};
    }
    return std::nullopt;
  }

  bool Test(Request& request, size_t* received) override {
    CheckFault();
    auto* awaited = dynamic_cast<Awaited*>(&request);
    if (awaited == nullptr) return true;
    const std::lock_guard lock(box_.mutex);
    const auto found =
        std::find_if(box_.mail.begin(), box_.mail.end(), [awaited](const Mail& mail) {
          return mail.from == awaited->from && mail.tag == awaited->tag;
        });
    if (found == box_.mail.end()) return false;
    Check(found->bytes.size() <= awaited->bytes, ErrorKind::kIo, "rank ", rank_,
          ": a message of ", found->bytes.size(), " bytes came from rank ", found->from,
          "; at most ", awaited->bytes, " were expected");
    std::copy_n(found->bytes.data(), found->bytes.size(),
                static_cast<char*>(awaited->data));
    if (received != nullptr) *received = found->bytes.size();
    box_.mail.erase(found);
    return true;
  }

  void Idle(std::chrono::microseconds most) override {
    std::unique_lock lock(box_.mutex);
    box_.changed.wait_for(lock, most, [this] { return box_.woken; });
    box_.woken = false;
  }

  void Wake() override {
    const std::lock_guard lock(box_.mutex);
    box_.woken = true;
    box_.changed.notify_all();
  }

  std::string fault() const override {
    const std::lock_guard lock(post_->mutex);
    return post_->fault;
  }

  void Abort(const std::string& text) override {
    {
      const std::lock_guard lock(post_->mutex);
      if (!post_->fault.empty()) return;
      post_->fault = "rank " + std::to_string(rank_) + ": " + text;
    }
    for (Mailbox& box : post_->boxes) {
      const std::lock_guard lock(box.mutex);
      box.woken = true;
      box.changed.notify_all();
    }
  }

 private:
  void CheckFault() const {
    const std::string text = fault();
    Check(text.empty(), ErrorKind::kIo, text);
  }

  const std::shared_ptr<Post> post_;
  const int rank_;
  Mailbox& box_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLocalWorld(int size) {
  Check(size >= 1, "MakeLocalWorld: got ", size, " ranks; at least one was expected");
  auto post = std::make_shared<Post>(size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<LocalRank>(post, r));
  return ranks;
}

}  // namespace plait
