// Matrix products by oneDNN's generated code.

#include "cpu/onednn/matmul.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "cpu/onednn/lru_cache.h"
#include "cpu/onednn/primitive.h"
#include "cpu/onednn/team.h"

namespace plait::cpu::onednn {
namespace {

// A thread is worth waking for about two million multiplications.
int ThreadsFor(int64_t m, int64_t n, int64_t k) {
  const double work =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return static_cast<int>(std::clamp<double>(work / 2e6, 1, ComputeThreads()));
}

struct Key {
  int64_t m, n, k, lda, ldb, ldc;
  int32_t threads;
  uint8_t trans_a, trans_b, add, to_float;
};

struct Entry {
  bool available = false;
  dnnl::primitive primitive;
  Md a, b, c, scratchpad;
};

#if DNNL_VERSION_MAJOR >= 3
dnnl::matmul::primitive_desc MatmulPd(const Entry& e,
                                      const dnnl::primitive_attr& attr) {
  return {Engine(), e.a, e.b, e.c, attr};
}
#else
dnnl::matmul::primitive_desc MatmulPd(const Entry& e,
                                      const dnnl::primitive_attr& attr) {
  return {{e.a, e.b, e.c}, attr, Engine()};
}
#endif

Entry Make(const Key& key) {
  Entry e;
  try {
    const auto bf16 = dnnl::memory::data_type::bf16;
    e.a = Md({key.m, key.k}, bf16, key.trans_a ? Dims{1, key.lda} : Dims{key.lda, 1});
    e.b = Md({key.k, key.n}, bf16, key.trans_b ? Dims{1, key.ldb} : Dims{key.ldb, 1});
    e.c = Md({key.m, key.n}, key.to_float ? dnnl::memory::data_type::f32 : bf16,
             Dims{key.ldc, 1});
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attr.set_post_ops(sum);
    }
    const auto pd = MatmulPd(e, attr);
    const std::string_view name = pd.impl_info_str();
    if (name.find("ref") != name.npos) return e;
    e.scratchpad = pd.scratchpad_desc();
    e.primitive = dnnl::matmul(pd);
    e.available = true;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) Rethrow(error, "matmul");
  }
  return e;
}

}  // namespace

bool Bfloat16Gemm(const Bfloat16Problem& p) {
  static auto& cache = *new LruCache<Key, Entry>(kCacheCapacity);
  const int threads = ThreadsFor(p.m, p.n, p.k);
  const ScopedTeam team(threads);
  const Key key{p.m,
                p.n,
                p.k,
                p.lda,
                p.ldb,
                p.ldc,
                threads,
                p.trans_a,
                p.trans_b,
                p.add,
                p.c_dtype == DType::kFloat32};
  const auto e = cache.Get(key, Make);
  if (!e->available) return false;
  Execute(e->primitive, e->scratchpad,
          {{DNNL_ARG_SRC, &e->a, p.a},
           {DNNL_ARG_WEIGHTS, &e->b, p.b},
           {DNNL_ARG_DST, &e->c, p.c}},
          "matmul");
  return true;
}

void Sgemm(const GemmProblem<float>& p) {
  const ScopedTeam team(ThreadsFor(p.m, p.n, p.k));
  const dnnl_status_t status =
      dnnl_sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
                 p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  Check(status != dnnl_out_of_memory, ErrorKind::kMemory,
        "matmul: no memory for the buffers of a product of (", p.m, ", ", p.k,
        ") and (", p.k, ", ", p.n, ")");
  Check(status == dnnl_success, ErrorKind::kRuntime,
        "matmul: oneDNN failed with status ", static_cast<int>(status));
}

}  // namespace plait::cpu::onednn
