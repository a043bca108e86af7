// Densities against known numbers; classes of _sample_unique_zipfian.

#include <cmath>
#include <set>

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

const Attrs kLog = {{"is_log", "True"}};

TEST(Pdf, OfContinuousDistributions) {
  ExpectNear(Call1("_random_pdf_uniform", {Array({2, 2}, {1, 2, 1, 2}),
                                           Array({2}, {0, 0}), Array({2}, {5, 10})}),
             {0.2, 0.2, 0.1, 0.1});
  ExpectNear(Call1("_random_pdf_normal", {Array({2, 2}, {-2, 0, -4, 2}),
                                          Array({2}, {0, 0}), Array({2}, {1, 2})}),
             {0.05399097, 0.3989423, 0.02699548, 0.12098537});
  ExpectNear(Call1("_random_pdf_gamma",
                   {Array({1, 3}, {1, 2, 5}), Array({1}, {5}), Array({1}, {1})}),
             {0.01532831, 0.09022352, 0.17546739});
  ExpectNear(Call1("_random_pdf_exponential",
                   {Array({2, 2}, {1, 2, 1, 2}), Array({2}, {1, 0.5})}),
             {0.36787945, 0.13533528, 0.30326533, 0.18393973});
}

TEST(Pdf, OfDiscreteDistributions) {
  ExpectNear(
      Call1("_random_pdf_poisson", {Array({2, 2}, {0, 3, 0, 3}), Array({2}, {1, 2})}),
      {0.36787945, 0.06131324, 0.13533528, 0.18044704});
  ExpectNear(
      Call1("_random_pdf_negative_binomial",
            {Array({2, 2}, {1, 4, 1, 4}), Array({2}, {1, 1.5}), Array({2}, {0.5})}),
      {0.25, 0.03125, 0.26516506, 0.05437956});
  ExpectNear(Call1("_random_pdf_generalized_negative_binomial",
                   {Array({1, 2}, {1, 4}), Array({1}, {1}), Array({1}, {1})}),
             {0.25, 0.03125});
}

TEST(Pdf, OfVectors) {
  const NDArray alpha = Array({2}, {2.5});
  ExpectNear(Call1("_random_pdf_dirichlet", {Array({2, 2}, {1, 2, 2, 3}), alpha}),
             {38.413498, 199.60245}, 1e-3);
  EXPECT_EQ(Call1("_random_pdf_dirichlet", {Array({2}, {0.5}), alpha}).shape(),
            (Shape{1}));
}

TEST(Pdf, LogarithmsReachFurther) {
  const NDArray x = Array({1}, {60}), zero = Array({1}, {0}), one = Array({1}, {1});
  ExpectNear(Call1("_random_pdf_normal", {x, zero, one}), {0});
  ExpectNear(Call1("_random_pdf_normal", {x, zero, one}, kLog), {-1800.9189385}, 1e-3);
  // In halves everything but the result is computed in float.
  ExpectNear(
      Call1("_random_pdf_gamma",
            {Array({1}, {40}, DType::kFloat16), Array({1}, {30}, DType::kFloat16),
             Array({1}, {1}, DType::kFloat16)},
            kLog),
      {30 * 0.0 + 29 * std::log(40.0) - 40 - std::lgamma(30.0)}, 5e-3);
}

TEST(Pdf, ParametersMustHaveTheFirstAxesOfSamples) {
  ExpectError(
      [] {
        Call("_random_pdf_exponential", {Ramp({2, 3}), Ramp({3})});
      },
      ErrorKind::kValue, {"_random_pdf_exponential", "(3,)", "(2, 3)"});
  ExpectError(
      [] {
        Call("_random_pdf_dirichlet", {Ramp({2, 3}), Ramp({2})});
      },
      ErrorKind::kValue, {"_random_pdf_dirichlet", "(2,)", "(2, 3)"});
}

TEST(Zipfian, ClassesOfARowDiffer) {
  const Arrays y =
      Call("_sample_unique_zipfian", {}, {{"range_max", "50"}, {"shape", "(3, 50)"}});
  const std::vector<double> k = Numbers(y[0]), tries = Numbers(y[1]);
  for (int row = 0; row < 3; ++row) {
    const std::set<double> seen(k.begin() + row * 50, k.begin() + (row + 1) * 50);
    EXPECT_EQ(seen.size(), 50u);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 49);
    EXPECT_GE(tries[row], 50);
  }
  ExpectError(
      [] {
        Call("_sample_unique_zipfian", {}, {{"range_max", "3"}, {"shape", "(1, 4)"}});
      },
      ErrorKind::kValue, {"_sample_unique_zipfian", "4", "range_max = 3"});
}

}  // namespace
}  // namespace plait::testing
