// The safetensors format, read and written.

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/file.h"
#include "ndarray/array_file.h"
#include "ndarray/byte_reader.h"

namespace plait {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 13> kTypes = {{
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBfloat16},
    {"I8", DType::kInt8},
    {"I16", DType::kInt16},
    {"I32", DType::kInt32},
    {"I64", DType::kInt64},
    {"U8", DType::kUint8},
    {"U16", DType::kUint16},
    {"U32", DType::kUint32},
    {"U64", DType::kUint64},
    {"BOOL", DType::kBool},
}};

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

// Reads the header's JSON: an object of objects of strings and lists of numbers, with
// no more nesting than the format needs.
class Header {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::kUnknown;
    Shape shape;
    uint64_t begin = 0, end = 0;
  };

  Header(std::string_view text, const ByteReader& file) : text_(text), file_(file) {}

  std::vector<Entry> Read() {
    std::vector<Entry> entries;
    Expect('{');
    while (!Take('}')) {
      std::string name = String();
      Expect(':');
      if (name == "__metadata__") {
        SkipMetadata();
      } else {
        entries.push_back(Tensor(std::move(name)));
      }
      if (!Take(',') && Peek() != '}') Bad("an object's end");
    }
    if (Peek() != '\0' || at_ < text_.size()) Bad("the header's end");
    return entries;
  }

 private:
  [[noreturn]] void Bad(const char* wanted) {
    file_.Bad("has a damaged header, at its character ", at_, "; ", wanted,
              " was expected");
  }
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                  text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    const char wanted[] = {'\'', c, '\'', '\0'};
    if (!Take(c)) Bad(wanted);
  }

  std::string String() {
    Expect('"');
    std::string s;
    for (;;) {
      if (at_ >= text_.size()) Bad("a string's end");
      const char c = text_[at_++];
      if (c == '"') return s;
      if (static_cast<unsigned char>(c) < 0x20) Bad("a printed character");
      if (c == '\\') {
        AppendEscaped(s);
      } else {
        s += c;
      }
    }
  }
  void AppendEscaped(std::string& s) {
    if (at_ >= text_.size()) Bad("an escaped character");
    constexpr std::string_view kLetters = "ntrbf", kMeanings = "\n\t\r\b\f";
    const char c = text_[at_++];
    if (c == 'u') {
      AppendUtf8(s, CodePoint());
    } else if (const size_t i = kLetters.find(c); i != kLetters.npos) {
      s += kMeanings[i];
    } else {
      s += c;
    }
  }
  // The character of \uXXXX; those beyond 16 bits are written as two.
  unsigned CodePoint() {
    const unsigned code = HexDigits();
    if (code < 0xD800 || code > 0xDFFF) return code;
    if (code > 0xDBFF || text_.substr(at_, 2) != "\\u") Bad("a pair of surrogates");
    at_ += 2;
    const unsigned low = HexDigits();
    if (low < 0xDC00 || low > 0xDFFF) Bad("a pair of surrogates");
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  unsigned HexDigits() {
    unsigned code = 0;
    const char* begin = text_.data() + at_;
    if (at_ + 4 > text_.size() ||
        std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4)
      Bad("four hexadecimal digits");
    at_ += 4;
    return code;
  }
  static void AppendUtf8(std::string& s, unsigned code) {
    const auto tail = [&](int shift) {
      s += static_cast<char>(0x80 | (code >> shift & 0x3F));
    };
    if (code < 0x80) {
      s += static_cast<char>(code);
    } else if (code < 0x800) {
      s += static_cast<char>(0xC0 | code >> 6);
      tail(0);
    } else if (code < 0x10000) {
      s += static_cast<char>(0xE0 | code >> 12);
      tail(6);
      tail(0);
    } else {
      s += static_cast<char>(0xF0 | code >> 18);
      tail(12);
      tail(6);
      tail(0);
    }
  }

  uint64_t Number() {
    Peek();
    uint64_t value = 0;
    const auto result =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (result.ec != std::errc()) Bad("a whole number");
    at_ = static_cast<size_t>(result.ptr - text_.data());
    return value;
  }
  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    Expect('[');
    while (!Take(']')) {
      numbers.push_back(Number());
      if (!Take(',') && Peek() != ']') Bad("a list's end");
    }
    return numbers;
  }

  void SkipMetadata() {
    Expect('{');
    while (!Take('}')) {
      String();
      Expect(':');
      String();
      if (!Take(',') && Peek() != '}') Bad("an object's end");
    }
  }

  Entry Tensor(std::string name) {
    Entry e;
    e.name = std::move(name);
    Expect('{');
    while (!Take('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "dtype") {
        const std::string type = String();
        for (const auto& [known, dtype] : kTypes) {
          if (known == type) e.dtype = dtype;
        }
        if (e.dtype == DType::kUnknown) file_.Bad("has a tensor of dtype ", type);
      } else if (key == "shape") {
        const std::vector<uint64_t> sizes = Numbers();
        if (sizes.size() > kMaxRank) Bad("a shape of fewer axes");
        for (uint64_t n : sizes) {
          if (n > INT64_MAX) Bad("a smaller size");
          e.shape.Append(static_cast<int64_t>(n));
        }
      } else if (key == "data_offsets") {
        const std::vector<uint64_t> places = Numbers();
        if (places.size() != 2) Bad("two offsets");
        e.begin = places[0];
        e.end = places[1];
      } else {
        Bad("dtype, shape or data_offsets");
      }
      if (!Take(',') && Peek() != '}') Bad("an object's end");
    }
    return e;
  }

  std::string_view text_;
  size_t at_ = 0;
  const ByteReader& file_;
};

// The format's rule: the tensors cover all of the data, each byte once.
void CheckCover(std::vector<Header::Entry> entries, size_t size, const ByteReader& in) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t covered = 0;
  std::set<std::string> names;
  for (const Header::Entry& e : entries) {
    if (!names.insert(e.name).second) in.Bad("has two tensors of name ", e.name);
    if (e.begin != covered)
      in.Bad("has tensor ", e.name, " at byte ", e.begin, " of the data; byte ",
             covered, " was expected");
    covered = e.end;
  }
  if (covered != size)
    in.Bad("has ", size, " bytes of data, but tensors for ", covered);
}

std::string Quoted(const std::string& name) {
  std::string s = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') {
      s += '\\';
      s += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      s += "\\u00";
      s += kHex[c >> 4];
      s += kHex[c & 15];
    } else {
      s += c;
    }
  }
  return s + '"';
}

}  // namespace

void SaveSafetensors(const std::string& path, const NamedArrays& content) {
  Check(content.names.size() == content.arrays.size(), "save: safetensors has ",
        content.names.size(), " names for ", content.arrays.size(), " arrays");
  std::string header = "{";
  uint64_t offset = 0;
  for (size_t i = 0; i < content.arrays.size(); ++i) {
    const NDArray& a = content.arrays[i];
    const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) {
      return t.second == a.dtype();
    });
    header += (i ? "," : "") + Quoted(content.names[i]) + ":{\"dtype\":\"" +
              std::string(type->first) + "\",\"shape\":[";
    for (int k = 0; k < a.shape().rank(); ++k) {
      header += (k ? "," : "") + std::to_string(a.shape()[k]);
    }
    const uint64_t end = offset + static_cast<uint64_t>(a.nbytes());
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  AtomicFile file(path);
  const uint64_t length = header.size();
  file.Write(&length, sizeof length);
  file.Write(header.data(), header.size());
  for (const NDArray& a : content.arrays) {
    a.WaitToRead();
    file.Write(a.data(), static_cast<size_t>(a.nbytes()));
  }
  file.Commit();
}

NamedArrays LoadSafetensors(const std::string& path) {
  const MappedFile file(path);
  ByteReader in(file.bytes(), path);
  const uint64_t length = in.Take<uint64_t>("its head");
  if (length > kMaxHeader) in.Bad("says its header has ", length, " bytes");
  const std::string text = in.TakeText(length, "a header");
  const std::span<const char> data = file.bytes().subspan(in.offset());
  const std::vector<Header::Entry> entries = Header(text, in).Read();
  NamedArrays content;
  for (const Header::Entry& e : entries) {
    size_t bytes = SizeOf(e.dtype);
    for (int64_t n : e.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes))
        in.Bad("has tensor ", e.name, ", larger than any memory");
    }
    if (e.dtype == DType::kUnknown || e.begin > e.end || e.end > data.size() ||
        e.end - e.begin != bytes)
      in.Bad("has tensor ", e.name, " of shape ", e.shape, " at bytes ", e.begin,
             " to ", e.end, " of ", data.size());
    content.names.push_back(e.name);
    content.arrays.push_back(
        NDArray::FromHost(data.data() + e.begin, e.shape, e.dtype));
  }
  CheckCover(entries, data.size(), in);
  return content;
}

}  // namespace plait
