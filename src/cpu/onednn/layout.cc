// LayoutDesc: the table of layouts, and reorders between them.

#include "cpu/onednn/layout.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "cpu/onednn/lru_cache.h"
#include "cpu/onednn/primitive.h"

namespace plait::cpu::onednn {
namespace {

using Tag = dnnl::memory::format_tag;

constexpr int kMaxDims = 6;
constexpr Tag kPlain[kMaxDims + 1] = {Tag::undef, Tag::a,     Tag::ab,    Tag::abc,
                                      Tag::abcd,  Tag::abcde, Tag::abcdef};

// Layouts of activations: the number is the row, the column the number of axes less 3.
constexpr Tag kActivation[][3] = {
    {Tag::abc, Tag::abcd, Tag::abcde},  // 0: plain
    {Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b},
    {Tag::aBc8b, Tag::aBcd8b, Tag::aBcde8b},
    {Tag::acb, Tag::acdb, Tag::acdeb},  // channels last
};
constexpr uint32_t kNumActivation = sizeof(kActivation) / sizeof(kActivation[0]);

// Descriptors that no row of the table gives; they are never forgotten.
class Interned {
 public:
  uint32_t IdOf(const Md& md) {
    const std::lock_guard lock(mutex_);
    const auto index = std::find(all_.begin(), all_.end(), md) - all_.begin();
    if (index == std::ssize(all_)) all_.push_back(md);
    return kNumActivation + static_cast<uint32_t>(index);
  }
  Md Get(uint32_t id) {
    const std::lock_guard lock(mutex_);
    return all_[id - kNumActivation];
  }
  static Interned& Global() {
    static Interned& global = *new Interned;
    return global;
  }

 private:
  std::mutex mutex_;
  std::deque<Md> all_;
};

struct ReorderKey {
  int64_t dims[kMaxDims];
  uint32_t rank, threads, from, to;
  int32_t from_dtype, to_dtype;
};
struct ReorderEntry {
  dnnl::primitive primitive;
  Md from, to, scratchpad;
};

ReorderEntry MakeReorder(const ReorderKey& key) {
  const std::span<const int64_t> dims(key.dims, key.rank);
  ReorderEntry entry;
  try {
    entry.from = DescOf({key.from}, dims, static_cast<DType>(key.from_dtype));
    entry.to = DescOf({key.to}, dims, static_cast<DType>(key.to_dtype));
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(Engine(), entry.from, Engine(), entry.to,
                                           attr);
    entry.scratchpad = pd.scratchpad_desc();
    entry.primitive = dnnl::reorder(pd);
  } catch (const dnnl::error& e) {
    Rethrow(e, "reorder");
  }
  return entry;
}

}  // namespace

Md DescOf(LayoutDesc layout, std::span<const int64_t> dims, DType dtype) {
  if (layout.id >= kNumActivation) return Interned::Global().Get(layout.id);
  const Tag tag =
      layout.plain() ? kPlain[dims.size()] : kActivation[layout.id][dims.size() - 3];
  return Md(Dims(dims.begin(), dims.end()), TypeOf(dtype), tag);
}

LayoutDesc LayoutOf(const Md& md, std::span<const int64_t> dims, DType dtype) {
  const uint32_t rows = dims.size() >= 3 && dims.size() <= 5 ? kNumActivation : 1;
  for (uint32_t id = 0; id < rows; ++id) {
    if (DescOf({id}, dims, dtype) == md) return {id};
  }
  return {Interned::Global().IdOf(md)};
}

LayoutDesc BlockedLayout(int64_t block) {
  return {block == 16 ? 1u : 2u};
}

size_t LayoutBytes(LayoutDesc layout, std::span<const int64_t> dims, DType dtype) {
  try {
    return DescOf(layout, dims, dtype).get_size();
  } catch (const dnnl::error& e) {
    Rethrow(e, "layout");
  }
}

void Reorder(std::span<const int64_t> dims, LayoutDesc from_layout, DType from_dtype,
             const void* from, LayoutDesc to_layout, DType to_dtype, void* to) {
  static auto& cache = *new LruCache<ReorderKey, ReorderEntry>(kCacheCapacity);
  ReorderKey key{};
  std::copy(dims.begin(), dims.end(), key.dims);
  key.rank = static_cast<uint32_t>(dims.size());
  key.threads = static_cast<uint32_t>(ComputeThreads());
  key.from = from_layout.id;
  key.to = to_layout.id;
  key.from_dtype = static_cast<int32_t>(from_dtype);
  key.to_dtype = static_cast<int32_t>(to_dtype);
  const ScopedTeam team;
  const auto entry = cache.Get(key, MakeReorder);
  Execute(entry->primitive, entry->scratchpad,
          {{DNNL_ARG_FROM, &entry->from, from}, {DNNL_ARG_TO, &entry->to, to}},
          "reorder");
}

}  // namespace plait::cpu::onednn
