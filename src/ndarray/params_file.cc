// MXNet's container of arrays (.params): reading versions V0 to V3, writing V2 and V3.

#include <functional>

#include "base/file.h"
#include "ndarray/array_file.h"
#include "ndarray/byte_reader.h"
#include "ndarray/sparse.h"

namespace plait {
namespace {

constexpr uint64_t kListMagic = 0x112;
constexpr uint32_t kV1 = 0xF993FAC8, kV2 = 0xF993FAC9, kV3 = 0xF993FACA;

// ---------------------------------------------------------------- reading

Shape TakeShape(ByteReader& in, uint32_t rank, bool wide) {
  if (rank > kMaxRank) in.Bad("has an array of ", rank, " axes");
  Shape shape;
  for (uint32_t i = 0; i < rank; ++i) {
    const int64_t size =
        wide ? in.Take<int64_t>("a shape") : in.Take<uint32_t>("a shape");
    if (size < 0) in.Bad("has an array of size ", size);
    shape.Append(size);
  }
  return shape;
}

DType TakeDType(ByteReader& in) {
  const int32_t flag = in.Take<int32_t>("a dtype");
  if (flag < 0 || flag >= kNumDTypes) in.Bad("has an array of unknown dtype ", flag);
  return static_cast<DType>(flag);
}

DType TakeDeviceAndDType(ByteReader& in) {
  in.Take<int32_t>("a device type");  // arrays are loaded to the cpu
  in.Take<int32_t>("a device number");
  return TakeDType(in);
}

NDArray TakeElements(ByteReader& in, const Shape& shape, DType dtype) {
  size_t bytes = SizeOf(dtype);
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes))
      in.Bad("has an array of shape ", shape, ", larger than any memory");
  }
  const char* values = in.TakeBytes(bytes, "the values of an array");
  return NDArray::FromHost(values, shape, dtype);
}

NDArray TakeValues(ByteReader& in, const Shape& shape) {
  return TakeElements(in, shape, TakeDeviceAndDType(in));
}

// A sparse record, after its storage type. Indices of any integer dtype are read.
NDArray TakeSparse(ByteReader& in, Storage storage) {
  const auto shape_of = [&in] {
    const int32_t rank = in.Take<int32_t>("a shape");
    if (rank < 0) in.Bad("has a sparse array of unknown shape");
    return TakeShape(in, static_cast<uint32_t>(rank), true);
  };
  const Shape values = shape_of(), shape = shape_of();
  const DType dtype = TakeDeviceAndDType(in);
  const int parts = storage == Storage::kCsr ? 2 : 1;
  DType types[2];
  Shape shapes[2];
  for (int i = 0; i < parts; ++i) {
    types[i] = TakeDType(in);
    if (types[i] != DType::kInt64 && types[i] != DType::kInt32)
      in.Bad("has indices of dtype ", Name(types[i]));
    shapes[i] = shape_of();
  }
  SparseParts p{storage, TakeElements(in, values, dtype), {}, {}};
  const auto indices = [&in](const Shape& s, DType type) {
    const NDArray read = TakeElements(in, s, type);
    if (type == DType::kInt64) return read;
    const auto* from = read.data<const int32_t>();
    const std::vector<int64_t> wide(from, from + read.size());
    return NDArray::FromHost(wide.data(), s, DType::kInt64);
  };
  if (storage == Storage::kCsr) p.indptr = indices(shapes[0], types[0]);
  p.indices = indices(shapes[parts - 1], types[parts - 1]);
  try {
    const NDArray x = MakeSparse(std::move(p), shape);
    CheckFormat(x, Strictness::kInRange);
    return x;
  } catch (const Error& e) {
    in.Bad("has a ", Name(storage), " array that is none: ", e.what());
  }
}

// A record that says "no array" (an unknown shape) is an array without elements.
NDArray None() {
  return NDArray::Empty(Shape{0});
}

NDArray TakeArray(ByteReader& in) {
  const uint32_t magic = in.Take<uint32_t>("an array");
  if (magic == kV2 || magic == kV3) {
    const int32_t stype = in.Take<int32_t>("a storage type");
    if (stype != 0) {
      if (stype != 1 && stype != 2)
        in.Bad("has an array of unknown storage type ", stype);
      return TakeSparse(in, static_cast<Storage>(stype));
    }
  } else if (magic != kV1) {  // V0: the magic is the number of axes
    const Shape shape = TakeShape(in, magic, false);
    return shape.rank() == 0 ? None() : TakeValues(in, shape);
  }
  const int32_t rank = in.Take<int32_t>("a shape");
  if (rank < 0) return None();
  const Shape shape = TakeShape(in, static_cast<uint32_t>(rank), true);
  if (rank == 0 && magic != kV3) return None();
  return TakeValues(in, shape);
}

// ---------------------------------------------------------------- writing

using Sink = std::function<void(const void*, size_t)>;

template <typename T>
void Put(const Sink& sink, T value) {
  sink(&value, sizeof value);
}

void PutShape(const Sink& sink, const Shape& shape) {
  Put<int32_t>(sink, shape.rank());
  for (int64_t size : shape) Put<int64_t>(sink, size);
}

void PutDeviceAndDType(const Sink& sink, const NDArray& a) {
  Put<int32_t>(sink, static_cast<int32_t>(a.device().type));
  Put<int32_t>(sink, a.device().id);
  Put<int32_t>(sink, static_cast<int32_t>(a.dtype()));
}

void PutElements(const Sink& sink, const NDArray& a) {
  a.WaitToRead();
  sink(a.data(), static_cast<size_t>(a.nbytes()));
}

void PutSparse(const Sink& sink, const NDArray& a) {
  const SparseParts p = PartsOf(a);
  Put<uint32_t>(sink, kV2);
  Put<int32_t>(sink, static_cast<int32_t>(p.storage));
  PutShape(sink, p.data.shape());
  PutShape(sink, a.shape());
  PutDeviceAndDType(sink, a);
  std::vector<NDArray> aux;
  if (p.indptr) aux.push_back(p.indptr);
  aux.push_back(p.indices);
  for (const NDArray& part : aux) {
    Put<int32_t>(sink, static_cast<int32_t>(DType::kInt64));
    PutShape(sink, part.shape());
  }
  PutElements(sink, p.data);
  for (const NDArray& part : aux) PutElements(sink, part);
}

void PutArray(const Sink& sink, const NDArray& a) {
  if (IsSparse(a)) return PutSparse(sink, a);
  bool legacy = a.shape().rank() > 0;
  for (int64_t size : a.shape()) legacy &= size > 0;
  Put<uint32_t>(sink, legacy ? kV2 : kV3);
  Put<int32_t>(sink, 0);
  PutShape(sink, a.shape());
  PutDeviceAndDType(sink, a);
  PutElements(sink, a);
}

}  // namespace

NamedArrays ParseParams(std::span<const char> bytes, const std::string& source) {
  ByteReader in(bytes, source);
  if (in.Take<uint64_t>("its head") != kListMagic)
    in.Bad("does not start as a list of arrays");
  in.Take<uint64_t>("its head");
  NamedArrays content;
  const uint64_t count = in.Take<uint64_t>("its number of arrays");
  // An array takes at least a magic: a larger number is a lie, and not reserved for.
  if (count > in.left() / sizeof(uint32_t)) in.Bad("says it has ", count, " arrays");
  for (uint64_t i = 0; i < count; ++i) content.arrays.push_back(TakeArray(in));
  const uint64_t names = in.Take<uint64_t>("its number of names");
  if (names != 0 && names != count)
    in.Bad("has ", names, " names for ", count, " arrays");
  for (uint64_t i = 0; i < names; ++i) {
    const uint64_t length = in.Take<uint64_t>("a name");
    content.names.push_back(in.TakeText(length, "a name"));
  }
  return content;
}

NamedArrays LoadParams(const std::string& path) {
  const MappedFile file(path);
  return ParseParams(file.bytes(), path);
}

void SaveParams(const std::string& path, const NamedArrays& content) {
  AtomicFile file(path);
  const Sink sink = [&file](const void* data, size_t n) { file.Write(data, n); };
  Put<uint64_t>(sink, kListMagic);
  Put<uint64_t>(sink, 0);
  Put<uint64_t>(sink, content.arrays.size());
  for (const NDArray& a : content.arrays) PutArray(sink, a);
  Put<uint64_t>(sink, content.names.size());
  for (const std::string& name : content.names) {
    Put<uint64_t>(sink, name.size());
    sink(name.data(), name.size());
  }
  file.Commit();
}

std::string DumpArray(const NDArray& array) {
  std::string bytes;
  PutArray([&bytes](const void* data,
                    size_t n) { bytes.append(static_cast<const char*>(data), n); },
           array);
  return bytes;
}

NDArray ParseArray(std::span<const char> bytes) {
  const std::string source = "array record";
  ByteReader in(bytes, source);
  return TakeArray(in);
}

}  // namespace plait
