// RecordIndex: one pass over the text; look-up by place where keys are dense.

#include "data/record_index.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"

namespace plait::data {
namespace {

std::string ReadAll(const std::string& path) {
  const RandomFile file(path);
  std::string text(file.size(), '\0');
  text.resize(file.Read(0, text.data(), text.size()));
  return text;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Reads a number behind blanks; moves `at`. False: there is none that fits.
template <typename T>
bool Number(const char*& at, const char* end, T* value) {
  while (at < end && IsBlank(*at)) ++at;
  const auto [next, error] = std::from_chars(at, end, *value);
  if (error != std::errc()) return false;
  at = next;
  return at == end || IsBlank(*at) || *at == '\n';
}

}  // namespace

RecordIndex::RecordIndex(const std::string& path) {
  const std::string text = ReadAll(path);
  const char *at = text.data(), *end = at + text.size();
  const size_t lines = static_cast<size_t>(std::count(at, end, '\n')) + 1;
  keys_.reserve(lines);
  offsets_.reserve(lines);
  bool ascending = true;
  for (size_t line = 1; at < end; ++line, ++at) {
    while (at < end && IsBlank(*at)) ++at;
    if (at == end || *at == '\n') continue;
    int64_t key;
    uint64_t offset;
    const bool sound = Number(at, end, &key) && Number(at, end, &offset);
    while (at < end && IsBlank(*at)) ++at;
    Check(sound && (at == end || *at == '\n'), ErrorKind::kIo, "record index: ", path,
          ": line ", line,
          " is wrong; a number, a tab and an offset were expected (for keys that are "
          "text, give key_type=str)");
    ascending = ascending && (keys_.empty() || key > keys_.back());
    keys_.push_back(key);
    offsets_.push_back(offset);
  }
  if (ascending) return;
  order_.resize(keys_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return keys_[a] < keys_[b]; });
}

std::optional<uint64_t> RecordIndex::Find(int64_t key) const {
  if (keys_.empty()) return std::nullopt;
  if (order_.empty()) {
    // Ascending and without gaps, as they mostly are, the key tells its place.
    const uint64_t place =
        static_cast<uint64_t>(key) - static_cast<uint64_t>(keys_.front());
    if (place < keys_.size() && keys_[place] == key) return offsets_[place];
    const auto it = std::lower_bound(keys_.begin(), keys_.end(), key);
    if (it == keys_.end() || *it != key) return std::nullopt;
    return offsets_[static_cast<size_t>(it - keys_.begin())];
  }
  const auto it = std::upper_bound(order_.begin(), order_.end(), key,
                                   [&](int64_t k, size_t i) { return k < keys_[i]; });
  if (it == order_.begin() || keys_[*(it - 1)] != key) return std::nullopt;
  return offsets_[*(it - 1)];
}

}  // namespace plait::data
