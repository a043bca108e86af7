// Fourier transforms of any length.

#ifndef PLAIT_OPS_CONTRIB_FFT_H_
#define PLAIT_OPS_CONTRIB_FFT_H_

#include <complex>
#include <cstdint>
#include <vector>

namespace plait {

// Transforms sequences of n numbers: x_k becomes the sum of x_j exp(-2 pi i j k / n).
// Thread safety: Run may be called from several threads, each with its own memory.
class FourierPlan {
 public:
  using Complex = std::complex<double>;

  explicit FourierPlan(int64_t n);  // REQUIRES: n >= 1
  int64_t size() const { return n_; }
  // Transforms x[0, n). `scratch` is grown as needed.
  void Run(Complex* x, std::vector<Complex>& scratch) const;

 private:
  int64_t n_;
  int64_t padded_;               // a power of two
  std::vector<Complex> roots_;   // exp(-2 pi i k / padded), k < padded / 2
  std::vector<Complex> chirp_;   // empty when n is a power of two
  std::vector<Complex> kernel_;  // the chirp's conjugate, transformed
};

}  // namespace plait

#endif  // PLAIT_OPS_CONTRIB_FFT_H_
