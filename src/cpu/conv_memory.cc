// Measured choices of convolutions: the memory, its file, and the clock.

#include "cpu/conv_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/options.h"
#include "base/parallel.h"

namespace plait::cpu {
namespace {

constexpr const char* kHeader = "plait convolutions 1";

ConvMemory& TheMemory() {
  static ConvMemory memory([] {
    const std::string& word = GetOption(Option::kConv);
    const size_t colon = word.find(':');
    return colon == std::string::npos ? std::string() : word.substr(colon + 1);
  }());
  return memory;
}

// Runs f on a thread of its own that may use all cores, unless this one may: a thread
// of the host language must not master a team.
size_t OnComputeThreads(const std::function<size_t()>& f) {
  if (ComputeThreads() > 1 || AvailableThreads() == 1) return f();
  size_t result = 0;
  std::exception_ptr error;
  std::thread([&] {
    const ScopedComputeThreads all(AvailableThreads());
    try {
      result = f();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace

ConvMemory::ConvMemory(std::string path) : path_(std::move(path)) {
  if (!path_.empty() && access(path_.c_str(), F_OK) == 0) Read();
}

void ConvMemory::Read() {
  const MappedFile file(path_);
  std::istringstream text(std::string(file.bytes().data(), file.bytes().size()));
  std::string line;
  Check(std::getline(text, line) && line == kHeader, "PLAIT_CONV: ", path_,
        " does not begin with \"", kHeader,
        "\"; a file that PLAIT_CONV=measure:FILE wrote was expected");
  for (int64_t number = 2; std::getline(text, line); ++number) {
    const size_t space = line.find(' ');
    Check(space != 0 && space != std::string::npos && space + 1 < line.size() &&
              line.find(' ', space + 1) == std::string::npos && line.size() < 400,
          "PLAIT_CONV: ", path_, ", line ", number, " is \"", line.substr(0, 80),
          "\"; a problem and a way were expected");
    if (choices_.size() < kMost)
      choices_.emplace(line.substr(0, space), line.substr(space + 1));
  }
}

void ConvMemory::Save() const {
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [key, name] : choices_) text += key + " " + name + "\n";
  AtomicFile file(path_);
  file.Write(text.data(), text.size());
  file.Commit();
}

std::string ConvMemory::Find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::string() : found->second;
}

std::string ConvMemory::Note(const std::string& key, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(key);
  if (found != choices_.end()) return found->second;
  if (choices_.size() >= kMost) return name;
  choices_.emplace(key, name);
  if (!path_.empty()) Save();
  return name;
}

bool ConvMemory::full() const {
  const std::lock_guard lock(mutex_);
  return choices_.size() >= kMost;
}

std::string ConvKey(const ConvProblem& p, ConvPass pass, const char* layout,
                    int threads) {
  static constexpr const char* kPasses[] = {"forward", "data", "weight"};
  std::ostringstream key;
  key << kPasses[static_cast<int>(pass)] << ',' << layout << ",t" << threads << ",n"
      << p.batch << ",c" << p.in_channels << ">" << p.out_channels << "/" << p.groups;
  const std::pair<const char*, const std::array<int64_t, 3>*> lists[] = {
      {",x", &p.in},       {",k", &p.kernel},  {",s", &p.stride},
      {",d", &p.dilation}, {",p", &p.pad_low}, {",q", &p.pad_high}};
  for (const auto& [name, list] : lists) {
    key << name;
    for (size_t i = static_cast<size_t>(3 - p.rank); i < 3; ++i)
      key << (i > static_cast<size_t>(3 - p.rank) ? "x" : "") << (*list)[i];
  }
  return key.str();
}

size_t Remembered(const ConvProblem& p, ConvPass pass, const char* layout,
                  std::span<const char* const> names,
                  const std::function<size_t()>& measure) {
  ConvMemory& memory = TheMemory();
  const int threads = std::max(ComputeThreads(), AvailableThreads());
  const std::string key = ConvKey(p, pass, layout, threads);
  const auto place = [&](const std::string& name) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) -
                               names.begin());
  };
  const std::string known = memory.Find(key);
  // A way that another build or processor had is measured again, and not noted.
  if (!known.empty() && place(known) < names.size()) return place(known);
  if (memory.full() || !known.empty()) return 0;
  const std::string noted = memory.Note(key, names[OnComputeThreads(measure)]);
  return place(noted) < names.size() ? place(noted) : 0;
}

size_t Fastest(size_t count, const std::function<void(size_t)>& run) {
  using Clock = std::chrono::steady_clock;
  constexpr double kMost = 0.03;  // seconds a way
  constexpr int kRuns = 7;
  constexpr double kBetter = 0.97;  // of the time of the best before
  double best = std::numeric_limits<double>::infinity();
  size_t fastest = 0;
  for (size_t i = 0; i < count; ++i) {
    run(i);  // makes primitives, finds memory
    double least = std::numeric_limits<double>::infinity(), total = 0;
    for (int r = 0; r < kRuns && (r < 2 || total < kMost); ++r) {
      const auto start = Clock::now();
      run(i);
      const double s = std::chrono::duration<double>(Clock::now() - start).count();
      least = std::min(least, s);
      total += s;
    }
    if (least >= kBetter * best) continue;
    best = least;
    fastest = i;
  }
  return fastest;
}

int64_t MeasuredBatch(const ConvProblem& p) {
  constexpr double kFloats = 1 << 24;
  const double sample =
      static_cast<double>(p.in_channels * p.InSize() + p.out_channels * p.OutSize());
  return std::clamp<int64_t>(static_cast<int64_t>(kFloats / sample), 1, p.batch);
}

}  // namespace plait::cpu
