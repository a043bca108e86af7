// Factorisations against their definitions, at sizes on both sides of every cut, and
// the gradients that single elements do not show.

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/call_for_test.h"
#include "ops/linalg/dense.h"

namespace plait::testing {
namespace {

constexpr DType kDouble = DType::kFloat64;
using Vector = std::vector<double>;

Vector Random(int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Vector x(size);
  for (double& v : x) v = normal(random);
  return x;
}

// op(A) (m, k) op(B) (k, n).
Vector Times(const Vector& a, const Vector& b, int64_t m, int64_t k, int64_t n,
             bool ta = false, bool tb = false) {
  Vector c(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] +=
            (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
  return c;
}

// A A^T / n + 1: positive definite and well conditioned.
Vector Definite(int64_t n, unsigned seed) {
  const Vector x = Random(n * n, seed);
  Vector a = Times(x, x, n, n, n, false, true);
  for (double& v : a) v /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) a[i * n + i] += 1;
  return a;
}

NDArray Square(int64_t n, const Vector& x) {
  return Array({n, n}, x, kDouble);
}

constexpr int64_t kSizes[] = {1, 2, 5, 16, 17, 32, 33, 64, 100, 300};

TEST(Cholesky, FactorsMultiplyToTheMatrix) {
  for (int64_t n : kSizes) {
    const Vector a = Definite(n, 1);
    const Vector l = Numbers(Call1("_linalg_potrf", {Square(n, a)}));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) ASSERT_EQ(l[i * n + j], 0);
    ExpectNear(Square(n, Times(l, l, n, n, n, false, true)), a, 1e-10);
    const Vector u =
        Numbers(Call1("_linalg_potrf", {Square(n, a)}, {{"lower", "False"}}));
    ExpectNear(Square(n, Times(u, u, n, n, n, true, false)), a, 1e-10);
    const Vector y = Numbers(Call1("_linalg_potri", {Square(n, l)}));
    Vector one(n * n);
    for (int64_t i = 0; i < n; ++i) one[i * n + i] = 1;
    ExpectNear(Square(n, Times(a, y, n, n, n)), one, 1e-10);
  }
}

TEST(Cholesky, RefusesWhatIsNotDefinite) {
  for (const Vector& a :
       {Vector{1, 2, 2, 1}, Vector{NAN, 0, 0, 1}, Vector{-1, 0, 0, 1}}) {
    ExpectError([&] { Call1("_linalg_potrf", {Square(2, a)}).WaitToRead(); },
                ErrorKind::kValue, {"_linalg_potrf", "matrix 0", "positive definite"});
  }
  ExpectError(
      [] {
        Call("_linalg_potrf", {Ramp({2, 3})});
      },
      ErrorKind::kValue, {"_linalg_potrf", "(2, 3)", "square"});
}

TEST(Solve, UndoesTheProduct) {
  for (int64_t n : kSizes) {
    Vector a = Random(n * n, 2);
    for (double& v : a) v /= static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) a[i * n + i] = 2;
    const Vector b = Random(n * 7, 3);
    for (int way = 0; way < 8; ++way) {
      const bool right = way & 4;
      const Attrs attrs = {{"transpose", way & 1 ? "True" : "False"},
                           {"lower", way & 2 ? "True" : "False"},
                           {"rightside", right ? "True" : "False"}};
      const NDArray x = Array(right ? Shape{7, n} : Shape{n, 7}, b, kDouble);
      const NDArray y = Call1("_linalg_trmm", {Square(n, a), x}, attrs);
      ExpectNear(Call1("_linalg_trsm", {Square(n, a), y}, attrs), b, 1e-9);
    }
  }
}

TEST(Inverse, TimesTheMatrixIsOne) {
  for (int64_t n : kSizes) {
    const Vector a = Random(n * n, 4);
    const Vector y = Numbers(Call1("_linalg_inverse", {Square(n, a)}));
    Vector one(n * n);
    for (int64_t i = 0; i < n; ++i) one[i * n + i] = 1;
    ExpectNear(Square(n, Times(a, y, n, n, n)), one, 1e-7);
  }
  ExpectError(
      [] {
        Call1("_linalg_inverse", {Array({2, 2}, {1, 2, 2, 4})}).WaitToRead();
      },
      ErrorKind::kValue, {"_linalg_inverse", "matrix 0", "singular"});
}

TEST(Determinant, IsSignedAndKnowsSingularMatrices) {
  ExpectNear(Call1("_linalg_det", {Array({2, 2, 2}, {1, 4, 2, 3, 2, 3, 1, 4})}),
             {-5, 5});
  const Arrays y =
      Call("_linalg_slogdet", {Array({3, 2, 2}, {2, 3, 1, 4, 1, 2, 2, 4, 1, 2, 4, 3})});
  ExpectNear(y[0], {1, 0, -1});
  EXPECT_NEAR(Numbers(y[1])[0], 1.609438, 1e-6);
  EXPECT_EQ(Numbers(y[1])[1], -INFINITY);
  EXPECT_NEAR(Numbers(y[1])[2], 1.609438, 1e-6);
  EXPECT_EQ(Call1("_linalg_det", {Ramp({2, 2})}).shape(), (Shape{1}));
  // No gradient, and no error, where there is no inverse.
  ExpectNear(Gradients("_linalg_det", {Array({2, 2}, {1, 2, 2, 4})}, {0})[0],
             {0, 0, 0, 0});
  // Of many rows: the logarithm is there where the number is not.
  Vector big(200 * 200);
  for (int64_t i = 0; i < 200; ++i) big[i * 200 + (i + 1) % 200] = 1000;
  const Arrays z = Call("_linalg_slogdet", {Square(200, big)});
  ExpectNear(z[0], {-1});
  ExpectNear(z[1], {200 * std::log(1000.0)}, 1e-9);
}

TEST(LQ, FactorsMultiplyToTheMatrix) {
  for (const auto& [m, n] :
       {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {5, 5}, {40, 90}}) {
    const Vector a = Random(m * n, 5);
    const Arrays y = Call("_linalg_gelqf", {Array({m, n}, a, kDouble)});
    const Vector q = Numbers(y[0]), l = Numbers(y[1]);
    ExpectNear(Array({m, n}, Times(l, q, m, m, n), kDouble), a, 1e-10);
    Vector one(m * m);
    for (int64_t i = 0; i < m; ++i) one[i * m + i] = 1;
    ExpectNear(Square(m, Times(q, q, m, n, m, false, true)), one, 1e-10);
  }
}

TEST(LQ, HasTheSignsOfLapack) {
  const Arrays y = Call("_linalg_gelqf", {Array({2, 3}, {1, 2, 3, 4, 5, 6})});
  ExpectNear(y[0], {-0.26726124, -0.53452248, -0.80178373, 0.87287156, 0.21821789,
                    -0.43643578});
  ExpectNear(y[1], {-3.74165739, 0, -8.55235974, 1.96396101}, 1e-5);
}

TEST(Eigen, VectorsAreThoseOfTheMatrix) {
  for (int64_t n : kSizes) {
    const Vector x = Random(n * n, 6);
    Vector a(n * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) a[i * n + j] = x[i * n + j] + x[j * n + i];
    const Arrays y = Call("_linalg_syevd", {Square(n, a)});
    const Vector u = Numbers(y[0]), l = Numbers(y[1]);
    Vector scaled = u, one(n * n);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_LE(l[std::max<int64_t>(0, i - 1)], l[i]);
      for (int64_t j = 0; j < n; ++j) scaled[i * n + j] *= l[i];
      one[i * n + i] = 1;
    }
    ExpectNear(Square(n, Times(u, a, n, n, n)), scaled, 1e-9);
    ExpectNear(Square(n, Times(u, u, n, n, n, false, true)), one, 1e-10);
  }
}

TEST(Eigen, HandlesEqualValuesZerosAndNaN) {
  ExpectNear(Call("_linalg_syevd", {Square(3, {2, 0, 0, 0, 2, 0, 0, 0, 2})})[1],
             {2, 2, 2});
  ExpectNear(Call("_linalg_syevd", {Square(2, {0, 0, 0, 0})})[1], {0, 0});
  const Arrays y = Call("_linalg_syevd", {Array({2, 2}, {1, 2, 2, 4})});
  ExpectNear(y[0], {0.89442719, -0.4472136, 0.4472136, 0.89442719});
  ExpectNear(y[1], {0, 5}, 1e-6);
  ExpectError(
      [] {
        Call1("_linalg_syevd", {Square(2, {NAN, 1, 1, 1})}).WaitToRead();
      },
      ErrorKind::kValue, {"_linalg_syevd", "matrix 0"});
}

// The gradient of a projection of op(x x^T + shift) with respect to x, against
// differences: elements of a symmetric matrix change in pairs.
void CheckSymmetricGradient(const char* op, const Attrs& attrs, int64_t n) {
  const Vector shift = [&] {
    Vector d(n * n);
    for (int64_t i = 0; i < n; ++i) d[i * n + i] = 1 + 0.7 * static_cast<double>(i);
    return d;
  }();
  const Vector start = Random(n * n, 7);
  const auto outputs = [&](const NDArray& x) {
    const NDArray a =
        Call1("_linalg_gemm", {x, x, Square(n, shift)}, {{"transpose_b", "True"}});
    return Call(op, {a}, attrs);
  };
  const auto weights = [](const NDArray& y, unsigned i) {
    return Array(y.shape(), Random(y.size(), 8 + i), kDouble);
  };
  const auto value = [&](const Vector& at) {
    const Arrays y = outputs(Square(n, at));
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const Vector a = Numbers(y[i]), w = Numbers(weights(y[i], i));
      for (size_t k = 0; k < a.size(); ++k) sum += a[k] * w[k];
    }
    return sum;
  };
  const NDArray x = Square(n, start);
  AttachGrad(x, Square(n, start), GradReq::kWrite);
  Recording() = true;
  const Arrays y = outputs(x);
  Recording() = false;
  std::vector<NDArray> heads(y.begin(), y.end()), head_gradients;
  for (size_t i = 0; i < heads.size(); ++i) head_gradients.push_back(weights(y[i], i));
  const Vector dx =
      Numbers(Grad(heads, {&x, 1}, head_gradients, false, false, true)[0]);
  for (int64_t k = 0; k < n * n; ++k) {
    Vector above = start, below = start;
    above[k] += 1e-5;
    below[k] -= 1e-5;
    EXPECT_NEAR(dx[k], (value(above) - value(below)) / 2e-5,
                1e-5 * (1 + std::abs(dx[k])))
        << op << " at " << k;
  }
}

TEST(Gradients, OfSymmetricMatrices) {
  CheckSymmetricGradient("_linalg_potrf", {}, 4);
  CheckSymmetricGradient("_linalg_potrf", {{"lower", "False"}}, 4);
  CheckSymmetricGradient("_linalg_syevd", {}, 4);
}

TEST(Gradients, OfEqualEigenvaluesAreFinite) {
  const NDArray a = Square(2, {1, 0, 0, 1});
  for (double v : Numbers(Gradients("_linalg_syevd", {a}, {0})[0])) {
    EXPECT_TRUE(std::isfinite(v));
  }
}

TEST(KhatriRao, MultipliesColumnByColumn) {
  const NDArray y = Call1(
      "khatri_rao", {Array({2, 2}, {1, -1, 2, -3}), Array({3, 2}, {1, 4, 2, 5, 3, 6})});
  ExpectNear(y, {1, -4, 2, -5, 3, -6, 2, -12, 4, -15, 6, -18});
  ExpectError(
      [] {
        Call("khatri_rao", {Ramp({2, 2}), Ramp({2, 3})});
      },
      ErrorKind::kValue, {"khatri_rao", "(2, 3)", "(2, 2)"});
}

TEST(Trian, PacksUpperTrianglesByColumns) {
  const NDArray a = Array({3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  ExpectNear(Call1("_linalg_extracttrian", {a}), {0, 3, 4, 6, 7, 8});
  const Attrs upper = {{"lower", "False"}};
  ExpectNear(Call1("_linalg_extracttrian", {a}, upper), {0, 1, 4, 2, 5, 8});
  ExpectNear(Call1("_linalg_extracttrian", {a}, {{"offset", "-1"}}), {3, 6, 7});
  ExpectNear(Call1("_linalg_maketrian", {Ramp({6})}, upper),
             {0, 1, 3, 0, 2, 4, 0, 0, 5});
}

TEST(Trian, PacksRowsAsTheDocumentationShows) {
  const NDArray a = Array({3}, {1, 2, 3});
  ExpectNear(Call1("_linalg_maketrian", {a}), {1, 0, 2, 3});
  ExpectNear(Call1("_linalg_maketrian", {a}, {{"lower", "False"}}), {1, 2, 0, 3});
  ExpectNear(Call1("_linalg_maketrian", {a}, {{"offset", "1"}}),
             {0, 1, 2, 0, 0, 3, 0, 0, 0});
  ExpectNear(Call1("_linalg_maketrian", {a}, {{"offset", "-1"}}),
             {0, 0, 0, 1, 0, 0, 2, 3, 0});
  ExpectError([] { Call("_linalg_maketrian", {Ramp({4})}); }, ErrorKind::kValue,
              {"_linalg_maketrian", "(4,)", "m (m + 1) / 2"});
  ExpectError(
      [] {
        Call("_linalg_extractdiag", {Ramp({2, 2})}, {{"offset", "2"}});
      },
      ErrorKind::kValue, {"_linalg_extractdiag", "offset 2"});
}

TEST(Linalg, HalvesAreComputedInFloat) {
  const Arrays y =
      Call("_linalg_potrf", {Array({2, 2}, {4, 1, 1, 4.25}, DType::kFloat16)});
  ExpectNear(y[0], {2, 0, 0.5, 2}, 1e-3);
}

}  // namespace
}  // namespace plait::testing
