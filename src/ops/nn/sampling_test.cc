// Operators that read images between pixels: where they agree with simpler ones.

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

TEST(BilinearSampler, TheIdentityGridGivesTheImageBack) {
  const NDArray x = Ramp({2, 3, 4, 5});
  const NDArray theta = Array({2, 6}, {1, 0, 0, 0, 1, 0});
  const Attrs attrs = {{"transform_type", "affine"}, {"target_shape", "(4, 5)"}};
  const NDArray grid = Call1("GridGenerator", {theta}, attrs);
  ExpectNear(Call1("BilinearSampler", {x, grid}), Numbers(x), 1e-4);
  ExpectNear(Call1("SpatialTransformer", {x, theta},
                   {{"transform_type", "affine"},
                    {"sampler_type", "bilinear"},
                    {"target_shape", "(4, 5)"}}),
             Numbers(x), 1e-4);
}

TEST(BilinearSampler, BeyondTheEdgesIsZero) {
  const NDArray x = Array({1, 1, 2, 2}, {1});
  ExpectNear(Call1("BilinearSampler", {x, Array({1, 2, 1, 3}, {-1, -3, 5, -1, 0, 0})}),
             {1, 0, 0});
}

TEST(GridGenerator, AFlowOfZeroIsTheIdentity) {
  const NDArray flow = Array({1, 2, 2, 3}, {0});
  ExpectNear(Call1("GridGenerator", {flow}, {{"transform_type", "warp"}}),
             {-1, 0, 1, -1, 0, 1, -1, -1, -1, 1, 1, 1});
}

TEST(DeformableConvolution, OffsetsOfZeroGiveAConvolution) {
  const NDArray x = Ramp({2, 4, 5, 5}, .1, -2), w = Ramp({2, 2, 3, 3}, .05, -.4);
  const NDArray b = Ramp({2}), offset = Array({2, 36, 3, 3}, {0});
  const Attrs attrs = {{"kernel", "(3, 3)"},
                       {"stride", "(2, 2)"},
                       {"pad", "(1, 1)"},
                       {"num_filter", "2"},
                       {"num_group", "2"}};
  Attrs deformable = attrs;
  deformable.push_back({"num_deformable_group", "2"});
  const auto expected = Numbers(Call1("Convolution", {x, w, b}, attrs));
  ExpectNear(Call1("_contrib_DeformableConvolution", {x, offset, w, b}, deformable),
             expected, 1e-4);
  const NDArray ones = Array({2, 18, 3, 3}, {1});
  ExpectNear(Call1("_contrib_ModulatedDeformableConvolution", {x, offset, ones, w, b},
                   deformable),
             expected, 1e-4);
}

TEST(RoiPooling, WholeRegionsGiveTheMaximum) {
  const NDArray x = Ramp({1, 2, 3, 3}), rois = Array({1, 5}, {0, 0, 0, 2, 2});
  const Attrs attrs = {{"pooled_size", "(1, 1)"}, {"spatial_scale", "1"}};
  ExpectNear(Call1("ROIPooling", {x, rois}, attrs), {8, 17});
  ExpectError(
      [&] {
        Numbers(Call1("ROIPooling", {x, Array({1, 5}, {3, 0, 0, 2, 2})}, attrs));
      },
      ErrorKind::kIndex, {"ROIPooling", "image 3"});
}

TEST(RoiAlign, CellsOfOnePixelGiveThePixels) {
  const NDArray x = Ramp({1, 1, 4, 4}), rois = Array({1, 5}, {0, 0, 0, 4, 4});
  ExpectNear(Call1("_contrib_ROIAlign", {x, rois},
                   {{"pooled_size", "(4, 4)"},
                    {"spatial_scale", "1"},
                    {"aligned", "True"},
                    {"sample_ratio", "1"}}),
             Numbers(x));
}

TEST(Im2col, ColumnsTimesTheWeightAreAConvolution) {
  const NDArray x = Ramp({1, 2, 4, 4}), w = Ramp({3, 2, 3, 3}, .1);
  const Attrs window = {{"kernel", "(3, 3)"}};
  const NDArray columns = Call1("im2col", {x}, window);
  EXPECT_EQ(columns.shape(), (Shape{1, 18, 4}));
  const NDArray y = Call1("dot", {w.Reshape({3, 18}), columns.Reshape({18, 4})});
  ExpectNear(Call1("Convolution", {x, w},
                   {{"kernel", "(3, 3)"}, {"num_filter", "3"}, {"no_bias", "True"}}),
             Numbers(y), 1e-3);
}

TEST(Correlation, OfAnImageWithItselfIsLargestInTheMiddle) {
  const NDArray x = Array({1, 1, 3, 3}, {0, 0, 0, 0, 2, 0, 0, 0, 0});
  const auto y = Numbers(Call1("Correlation", {x, x}, {{"pad_size", "1"}}));
  for (size_t i = 0; i < y.size(); ++i) {
    if (i / 9 != 4) continue;
    EXPECT_EQ(y[i], i % 9 == 4 ? 4 : 0);
  }
}

}  // namespace
}  // namespace plait::testing
