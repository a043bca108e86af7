// Speed of reading a record file, beside reading the bytes alone as `cat` does.
//
// usage: record_bench [RECORD_BYTES ...]
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/record_index.h"
#include "data/record_reader.h"
#include "data/record_writer.h"

namespace {

using plait::data::RandomFile;
using plait::data::RecordReader;
using plait::data::RecordWriter;

constexpr size_t kFileBytes = size_t{400} << 20;

template <typename F>
double BestSeconds(F&& f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

void Measure(const std::string& path, size_t size) {
  {
    RecordWriter writer(path, RecordWriter::Mode::kNew);
    const std::string record(size, 'x');
    for (size_t n = kFileBytes / size; n > 0; --n) writer.Write(record);
    writer.Close();
  }
  const double cat = BestSeconds([&] {
    const RandomFile file(path);
    std::vector<char> buffer(128 << 10);
    for (uint64_t at = 0; size_t n = file.Read(at, buffer.data(), buffer.size());)
      at += n;
  });
  const std::string command = "cat " + path + " > /dev/null";
  const double real_cat = BestSeconds([&] { (void)!std::system(command.c_str()); });
  const double read = BestSeconds([&] {
    RecordReader reader(path);
    while (reader.Next()) {
    }
  });
  const double scan = BestSeconds([&] {
    const RandomFile file(path);
    plait::data::ScanRecords(file, 0, file.size());
  });
  const double bytes = static_cast<double>(kFileBytes);
  std::printf(
      "%7zu bytes: bare read %.1f, cat %.1f, records %.1f GB/s (%.0f %% of cat), "
      "scan %.1f ms\n",
      size, bytes / cat / 1e9, bytes / real_cat / 1e9, bytes / read / 1e9,
      100 * real_cat / read, scan * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = "/tmp/plait_record_bench_" + std::to_string(::getpid());
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {1000, 10'000, 100'000};
  for (const size_t size : sizes) Measure(path, size);
  std::remove(path.c_str());
  return 0;
}
