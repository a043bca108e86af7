// ReadLibSvm: one pass over the bytes of a mapped file.

#include "data/libsvm.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"

namespace plait {
namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

class Lines {
 public:
  Lines(std::span<const char> bytes, const std::string& path, int64_t num_columns)
      : bytes_(bytes), path_(path), num_columns_(num_columns) {}

  // The first byte of the first line that begins at `at` or later.
  size_t LineFrom(size_t at) const {
    if (at == 0) return 0;
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(at - 1);
    const auto end = std::find(from, bytes_.end(), '\n');
    return end == bytes_.end() ? bytes_.size()
                               : static_cast<size_t>(end - bytes_.begin()) + 1;
  }

  void Read(size_t first, size_t last, LibSvmRows* rows) {
    for (size_t at = first; at < last;) {
      const size_t end = LineFrom(at + 1);
      ReadLine(at, end, rows);
      at = end;
    }
  }

 private:
  template <typename... Parts>
  [[noreturn]] void Bad(const char* at, const Parts&... parts) const {
    Fail(ErrorKind::kValue, "LibSVMIter: ", path_, ": at byte ", at - bytes_.data(),
         " ", parts...);
  }

  template <typename T>
  const char* Number(const char* at, const char* end, const char* what, T* value) {
    if (at != end && *at == '+') ++at;
    const auto [next, error] = std::from_chars(at, end, *value);
    if (error == std::errc::result_out_of_range && std::is_floating_point_v<T>) {
      // As C's strtof: 0 or infinity is what a float has for it.
      double wide = 0;
      const auto again = std::from_chars(at, end, wide);
      *value = static_cast<T>(wide);
      if (again.ec == std::errc()) return again.ptr;
    }
    if (error != std::errc()) {
      const std::string_view rest(at,
                                  static_cast<size_t>(std::min<int64_t>(end - at, 12)));
      Bad(at, "'", rest, "' is no ", what,
          "; lines of label column:value ... were expected");
    }
    return next;
  }

  void ReadLine(size_t first, size_t last, LibSvmRows* rows) {
    const char* at = bytes_.data() + first;
    const char* end = std::find(at, bytes_.data() + last, '#');
    while (end > at && (IsBlank(end[-1]) || end[-1] == '\n')) --end;
    const auto skip = [&] {
      while (at != end && IsBlank(*at)) ++at;
    };
    skip();
    if (at == end) return;
    float label = 0;
    at = Number(at, end, "label", &label);
    if (at != end && *at == ':') at = Number(at + 1, end, "weight", &weight_);
    rows->labels.push_back(label);
    int64_t before = -1;
    for (skip(); at != end; skip()) {
      int64_t column = 0;
      const char* pair = at;
      at = Number(at, end, "column", &column);
      if (column < 0 || column >= num_columns_ || column <= before) {
        Bad(pair, "column ", column, " follows ", before,
            "; ascending columns from 0, below ", num_columns_, ", were expected");
      }
      float value = 1;
      if (at != end && *at == ':') at = Number(at + 1, end, "value", &value);
      if (at != end && !IsBlank(*at)) Bad(at, "'", *at, "' follows a number");
      before = column;
      rows->columns.push_back(column);
      rows->values.push_back(value);
    }
    rows->bounds.push_back(static_cast<int64_t>(rows->columns.size()));
  }

  const std::span<const char> bytes_;
  const std::string& path_;
  const int64_t num_columns_;
  float weight_ = 0;  // of examples: read, and not used
};

}  // namespace

LibSvmRows ReadLibSvm(const std::string& path, int64_t num_columns, int part,
                      int parts) {
  Check(parts > 0 && part >= 0 && part < parts, "LibSVMIter: part_index is ", part,
        " of num_parts ", parts, "; one in [0, num_parts) was expected");
  const MappedFile file(path);
  const std::span<const char> bytes = file.bytes();
  Lines lines(bytes, path, num_columns);
  const auto begin_of = [&](int k) {
    return lines.LineFrom(
        static_cast<size_t>(static_cast<unsigned __int128>(bytes.size()) *
                            static_cast<unsigned>(k) / static_cast<unsigned>(parts)));
  };
  LibSvmRows rows;
  rows.bounds.push_back(0);
  lines.Read(begin_of(part), begin_of(part + 1), &rows);
  return rows;
}

}  // namespace plait
