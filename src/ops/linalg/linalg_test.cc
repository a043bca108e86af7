// Products: shapes, dtypes and errors that samples do not reach.

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

TEST(Dot, ContractsTheLastAxisWithTheFirst) {
  const NDArray z = Call1("dot", {Ramp({2, 3, 4}), Ramp({4, 5})});
  EXPECT_EQ(z.shape(), (Shape{2, 3, 5}));
  ExpectNear(Call1("dot", {Ramp({3}), Ramp({3})}), {5});
  EXPECT_EQ(Call1("dot", {Ramp({3}), Ramp({3})}).shape(), (Shape{1}));
}

TEST(Dot, IntegersAndEmptySums) {
  ExpectNear(Call1("dot", {Ramp({2, 2}, 1, 0, DType::kInt32),
                           Ramp({2, 2}, 1, 0, DType::kInt32)}),
             {2, 3, 6, 11});
  ExpectNear(Call1("dot", {NDArray::Empty({2, 0}), NDArray::Empty({0, 2})}),
             {0, 0, 0, 0});
}

TEST(Dot, HalvesAddUpInFloat) {
  const NDArray x = Array({1, 4096}, {1}, DType::kFloat16);
  const NDArray y = Array({4096, 1}, {1}, DType::kFloat16);
  ExpectNear(Call1("dot", {x, y}), {4096});
}

TEST(Dot, MismatchNamesBothShapes) {
  ExpectError(
      [] {
        Call("dot", {Ramp({2, 3}), Ramp({4, 5})});
      },
      ErrorKind::kValue, {"dot", "(2, 3)", "(4, 5)"});
}

TEST(Dot, MixedTypesPromote) {
  const NDArray y = Call1("dot", {Ramp({2, 3}), Ramp({3, 5}, 1, 0, DType::kFloat64)});
  EXPECT_EQ(y.dtype(), DType::kFloat64);
  EXPECT_EQ(y.shape(), (Shape{2, 5}));
}

TEST(FullyConnected, FlattensAllButTheFirstAxis) {
  const NDArray w = Array({1, 6}, {1}), b = Array({1}, {10});
  const Attrs attrs = {{"num_hidden", "1"}};
  ExpectNear(Call1("FullyConnected", {Ramp({2, 2, 3}), w, b}, attrs), {25, 61});
  ExpectError(
      [&] {
        Call("FullyConnected", {Ramp({2, 4}), w, b}, attrs);
      },
      ErrorKind::kValue, {"FullyConnected", "(2, 4)", "(1, 6)"});
  ExpectError(
      [&] {
        Call("FullyConnected", {Ramp({2, 6}), w}, attrs);
      },
      ErrorKind::kType, {"FullyConnected", "got 2 arrays"});
}

TEST(BatchDot, MismatchNamesBothShapes) {
  ExpectError(
      [] {
        Call("batch_dot", {Ramp({2, 3, 4}), Ramp({3, 4, 5})});
      },
      ErrorKind::kValue, {"batch_dot", "(2, 3, 4)", "(3, 4, 5)"});
  ExpectError(
      [] {
        Call("batch_dot", {Ramp({3, 4}), Ramp({4, 5})});
      },
      ErrorKind::kValue, {"batch_dot", "rank"});
}

TEST(Cholesky, AMatrixThatIsNotPositiveDefiniteIsReported) {
  ExpectError(
      [] {
        Numbers(Call1("_linalg_potrf", {Array({2, 2}, {1, 2, 2, 1})}));
      },
      ErrorKind::kValue, {"_linalg_potrf", "positive definite"});
}

TEST(Syevd, ExampleOfTheDocumentation) {
  const Arrays y = Call("_linalg_syevd", {Array({2, 2}, {1, 2, 2, 4})});
  ExpectNear(y[0], {0.89442719, -0.4472136, 0.4472136, 0.89442719});
  ExpectNear(y[1], {0, 5});
}

TEST(Determinant, OfSingularAndOfExchangedRows) {
  const NDArray singular = Array({2, 2}, {1, 2, 2, 4}),
                exchange = Array({2, 2}, {0, 1, 1, 0});
  ExpectNear(Call1("_linalg_det", {singular}), {0});
  ExpectNear(Call1("_linalg_det", {exchange}), {-1});
  const Arrays y = Call("_linalg_slogdet", {exchange});
  ExpectNear(y[0], {-1});
  ExpectNear(y[1], {0});
  ExpectError([&] { Numbers(Call1("_linalg_inverse", {singular})); }, ErrorKind::kValue,
              {"_linalg_inverse", "singular"});
}

TEST(Triangles, ExamplesOfTheDocumentation) {
  const NDArray a = Array({2, 2}, {1, 2, 3, 4});
  ExpectNear(Call1("_linalg_extracttrian", {a}), {1, 3, 4});
  ExpectNear(Call1("_linalg_extracttrian", {a}, {{"lower", "False"}}), {1, 2, 4});
  ExpectNear(Call1("_linalg_extracttrian", {a}, {{"offset", "1"}}), {2});
  ExpectNear(Call1("_linalg_extractdiag", {a}, {{"offset", "-1"}}), {3});
}

TEST(KhatriRao, TheLastMatrixChangesFastest) {
  ExpectNear(Call1("khatri_rao", {Array({2, 1}, {1, 2}), Array({2, 1}, {3, 4})},
                   {{"num_args", "2"}}),
             {3, 4, 6, 8});
}

}  // namespace
}  // namespace plait::testing
