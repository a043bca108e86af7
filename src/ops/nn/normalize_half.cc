// Normalisation of half types by the float kernels, a part of the groups at a time.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/norm.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "ops/nn/normalize.h"

namespace plait {
namespace {

// Elements that are floats at a time: a few caches full.
constexpr int64_t kElements = 1 << 20;

// A small array as floats.
std::vector<float> Floats(const View& v) {
  std::vector<float> floats(static_cast<size_t>(v.size()));
  cpu::Convert(v.ptr, v.dtype, floats.data(), DType::kFloat32, v.size());
  return floats;
}
void Store(const std::vector<float>& floats, const View& v) {
  cpu::Convert(floats.data(), DType::kFloat32, v.ptr, v.dtype, v.size());
}

// x seen as runs of groups: rows (of layer normalisation), or the planes of channels.
struct Parts {
  explicit Parts(const Norm& norm) : rows(norm.stats_axes == 0b101) {
    const Shape& s = norm.sizes;
    groups = rows ? s[0] : s[1];
    runs = rows ? 1 : s[0];
    length = rows ? s[1] : s[2] * s[3];
    step = std::clamp<int64_t>(kElements / (runs * length), 1, groups);
  }

  // Calls f(first group, number of groups).
  template <typename F>
  void ForEach(F&& f) const {
    for (int64_t g = 0; g < groups; g += step) f(g, std::min(step, groups - g));
  }
  // Copies the groups between the view, which has all, and floats, which have only
  // them. Runs are cut so that threads share long ones.
  void Load(const View& v, int64_t first, int64_t count, float* floats) const {
    Copy(first, count, [&](int64_t at, int64_t to, int64_t n) {
      cpu::Convert(Address(v, at), v.dtype, floats + to, DType::kFloat32, n);
    });
  }
  void Save(const float* floats, int64_t first, int64_t count, const View& v) const {
    Copy(first, count, [&](int64_t at, int64_t to, int64_t n) {
      cpu::Convert(floats + to, DType::kFloat32, Address(v, at), v.dtype, n);
    });
  }
  cpu::NormGroups Groups(int64_t count) const {
    return {count, runs, count * length, length, count, 1};
  }
  int64_t elements() const { return step * runs * length; }

  bool rows;
  int64_t groups, runs, length, step;

 private:
  static char* Address(const View& v, int64_t element) {
    return static_cast<char*>(v.ptr) + element * static_cast<int64_t>(SizeOf(v.dtype));
  }
  template <typename F>
  void Copy(int64_t first, int64_t count, F&& f) const {
    constexpr int64_t kPiece = 1 << 13;
    const int64_t run = count * length, pieces = (run + kPiece - 1) / kPiece;
    ParallelFor(runs * pieces, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = i / pieces, from = i % pieces * kPiece;
        f((r * groups + first) * length + from, r * run + from,
          std::min(kPiece, run - from));
      }
    });
  }
};

float* Or(std::vector<float>& v, bool none, int64_t first) {
  return none ? nullptr : v.data() + first;
}

}  // namespace

void HalfNormForward(const Norm& norm, const View& x, const View& gamma,
                     const View& beta, const View& y, const View& mean,
                     const View& third, float* variance) {
  const Parts parts(norm);
  std::vector<float> gammas = Floats(gamma), betas = Floats(beta);
  const cpu::Scratch scratch(cpu::Scratch::Bytes<float>(2 * parts.elements()));
  float *const fx = scratch.As<float>(), *const fy = fx + parts.elements();
  float *means = mean.data<float>(), *thirds = third.data<float>();
  parts.ForEach([&](int64_t first, int64_t count) {
    parts.Load(x, first, count, fx);
    if (parts.rows) {
      cpu::LayerNormForward<float>(count, parts.length, norm.eps, fx,
                                   Or(gammas, norm.fix_gamma, 0), betas.data(),
                                   means + first, thirds + first, fy);
    } else {
      float* const var = (variance != nullptr ? variance : thirds) + first;
      cpu::NormForward<float>(parts.Groups(count), norm.eps, fx,
                              Or(gammas, norm.fix_gamma, first), betas.data() + first,
                              means + first, var, fy);
      for (int64_t i = 0; i < count; ++i)
        thirds[first + i] =
            static_cast<float>(1 / std::sqrt(static_cast<double>(var[i]) + norm.eps));
    }
    parts.Save(fy, first, count, y);
  });
  if (!norm.third_is_std) return;
  for (int64_t i = 0; i < third.size(); ++i) thirds[i] = 1 / thirds[i];
}

void HalfNormApply(const Norm& norm, const View& x, const View& gamma, const View& beta,
                   const View& mean, const View& third, const View& y) {
  const Parts parts(norm);
  std::vector<float> gammas = Floats(gamma), betas = Floats(beta);
  const cpu::Scratch scratch(cpu::Scratch::Bytes<float>(2 * parts.elements()));
  float *const fx = scratch.As<float>(), *const fy = fx + parts.elements();
  parts.ForEach([&](int64_t first, int64_t count) {
    parts.Load(x, first, count, fx);
    cpu::NormApply<float>(parts.Groups(count), fx, Or(gammas, norm.fix_gamma, first),
                          betas.data() + first, mean.data<float>() + first,
                          third.data<float>() + first, fy);
    parts.Save(fy, first, count, y);
  });
}

void HalfNormBackward(const Norm& norm, const View& dy, const View& x,
                      const View& gamma, const View& mean, const View& third,
                      const View& dx, const View& dgamma, const View& dbeta) {
  const Parts parts(norm);
  const size_t affine = static_cast<size_t>(dgamma.size());
  std::vector<float> gammas = Floats(gamma), inverse = Floats(third), dg(affine),
                     db(affine), dg_part(affine), db_part(affine);
  if (norm.third_is_std)
    for (float& v : inverse) v = 1 / v;
  const int64_t n = parts.elements();
  const cpu::Scratch scratch(cpu::Scratch::Bytes<float>(3 * n));
  float *const fx = scratch.As<float>(), *const fdy = fx + n, *const fdx = fdy + n;
  const float* means = mean.data<float>();
  parts.ForEach([&](int64_t first, int64_t count) {
    parts.Load(x, first, count, fx);
    parts.Load(dy, first, count, fdy);
    if (parts.rows) {
      cpu::LayerNormBackward<float>(
          count, parts.length, fdy, fx, Or(gammas, norm.fix_gamma, 0), means + first,
          inverse.data() + first, fdx, dg_part.data(), db_part.data());
      for (size_t i = 0; i < affine; ++i) dg[i] += dg_part[i], db[i] += db_part[i];
    } else {
      cpu::NormBackward<float>(parts.Groups(count), fdy, fx,
                               Or(gammas, norm.fix_gamma, first), means + first,
                               inverse.data() + first, fdx, dg.data() + first,
                               db.data() + first);
    }
    parts.Save(fdx, first, count, dx);
  });
  if (norm.fix_gamma) std::fill(dg.begin(), dg.end(), 0.0f);
  Store(dg, dgamma);
  Store(db, dbeta);
}

}  // namespace plait
