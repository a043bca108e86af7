// Boxes: suppression, matching, codes that undo each other, and input that does not
// fit.

#include <cmath>

#include "ops/call_for_test.h"
#include "ops/contrib/boxes.h"

namespace plait::testing {
namespace {

using Vector = std::vector<double>;

TEST(Boxes, OverlapOfBoxesThatDoNotMeetOrHaveNoAreaIsZero) {
  const Box<float> unit{0, 0, 1, 1}, half{0, 0, 0.5f, 1}, line{0, 0, 0, 1};
  const Box<float> far{2, 2, 3, 3}, inside_out{1, 1, 0, 0};
  EXPECT_EQ(Overlap(unit, unit), 1);
  EXPECT_EQ(Overlap(unit, half), 0.5f);
  EXPECT_EQ(Overlap(unit, far), 0);
  EXPECT_EQ(Overlap(line, line), 0);
  EXPECT_EQ(Overlap(unit, inside_out), 0);
}

TEST(BoxNms, ExampleOfTheDocumentation) {
  const NDArray x =
      Array({4, 6}, {0, 0.5, 0.1, 0.1, 0.2,  0.2,  1, 0.4, 0.1, 0.1, 0.2, 0.2,
                     0, 0.3, 0.1, 0.1, 0.14, 0.14, 2, 0.6, 0.5, 0.5, 0.7, 0.8});
  const NDArray y =
      Call1("_contrib_box_nms", {x},
            {{"overlap_thresh", "0.1"}, {"id_index", "0"}, {"force_suppress", "True"}});
  ExpectNear(y, {2,  0.6, 0.5, 0.5, 0.7, 0.8, 0,  0.5, 0.1, 0.1, 0.2, 0.2,
                 -1, -1,  -1,  -1,  -1,  -1,  -1, -1,  -1,  -1,  -1,  -1});
  const Vector dx = Numbers(Gradients(
      "_contrib_box_nms", {x}, {0},
      {{"overlap_thresh", "0.1"}, {"id_index", "0"}, {"force_suppress", "True"}})[0]);
  EXPECT_EQ(dx[0], 1);   // row 0 stays
  EXPECT_EQ(dx[6], 0);   // row 1 does not
  EXPECT_EQ(dx[18], 1);  // row 3 stays
}

TEST(BoxNms, ChangesTheFormatOfWhatStays) {
  const NDArray y = Call1("_contrib_box_nms",
                          {Array({2, 6}, {0, 0.9, 0, 0, 2, 4, 0, -1, 0, 0, 1, 1})},
                          {{"out_format", "center"}});
  ExpectNear(y, {0, 0.9, 1, 2, 2, 4, -1, -1, -1, -1, -1, -1});
}

TEST(BoxNms, ScoresThatAreNaNDoNotCount) {
  const NDArray y = Call1("_contrib_box_nms",
                          {Array({2, 6}, {0, NAN, 0, 0, 1, 1, 0, 0.5, 0, 0, 1, 1})});
  ExpectNear(y, {0, 0.5, 0, 0, 1, 1, -1, -1, -1, -1, -1, -1});
}

TEST(BoxNms, NamesColumnsThatDoNotFit) {
  for (const Attrs& attrs : {Attrs{{"coord_start", "3"}}, Attrs{{"score_index", "2"}},
                             Attrs{{"id_index", "1"}}, Attrs{{"id_index", "6"}}}) {
    ExpectError(
        [&] {
          Call("_contrib_box_nms", {Ramp({2, 6})}, attrs);
        },
        ErrorKind::kValue, {"_contrib_box_nms", attrs[0].first, "6 numbers"});
  }
}

TEST(BoxCodes, DecodingUndoesEncoding) {
  const NDArray anchors =
      Array({1, 2, 4}, {0, 0, 1, 2, 0.5, 0.5, 2, 1.5}, DType::kFloat64);
  const Vector truth = {0.2, -0.1, 1.5, 2.5, 0, 1, 1, 3};
  const NDArray refs = Array({1, 2, 4}, truth, DType::kFloat64);
  const NDArray zeros = Array({4}, {0}, DType::kFloat64);
  const NDArray stds = Array({4}, {0.1, 0.1, 0.2, 0.2}, DType::kFloat64);
  const Arrays codes =
      Call("_contrib_box_encode",
           {Array({1, 2}, {1}, DType::kFloat64), Array({1, 2}, {0, 1}, DType::kFloat64),
            anchors, refs, zeros, stds});
  ExpectNear(codes[1], Vector(8, 1));
  ExpectNear(Call1("_contrib_box_decode", {codes[0], anchors},
                   {{"std0", "0.1"},
                    {"std1", "0.1"},
                    {"std2", "0.2"},
                    {"std3", "0.2"},
                    {"format", "corner"}}),
             truth, 1e-6);
  ExpectError(
      [&] {
        Call1("_contrib_box_encode",
              {Array({1, 2}, {1}, DType::kFloat64),
               Array({1, 2}, {0, 2}, DType::kFloat64), anchors, refs, zeros, stds})
            .WaitToRead();
      },
      ErrorKind::kIndex, {"_contrib_box_encode", "match 2"});
}

TEST(Matching, ExampleOfTheDocumentation) {
  const Arrays y = Call("_contrib_bipartite_matching",
                        {Array({3, 2}, {0.5, 0.6, 0.1, 0.2, 0.3, 0.4})},
                        {{"threshold", "0.000000000001"}});
  ExpectNear(y[0], {1, -1, 0});
  ExpectNear(y[1], {2, 0});
}

TEST(MultiBox, TargetsOfAnImageWithoutBoxesAreIgnored) {
  const Arrays y = Call("_contrib_MultiBoxTarget",
                        {Array({1, 2, 4}, {0, 0, 1, 1, 0, 0, 0.5, 0.5}),
                         Array({1, 1, 5}, {-1}), Ramp({1, 3, 2})},
                        {{"ignore_label", "-7"}});
  ExpectNear(y[0], Vector(8, 0));
  ExpectNear(y[1], Vector(8, 0));
  ExpectNear(y[2], {-7, -7});
}

TEST(MultiBox, DetectsTheBestBoxOfEachClass) {
  const NDArray prob = Array({1, 3, 3}, {0.1, 0.2, 0.1, 0.6, 0.7, 0.2, 0.3, 0.1, 0.7});
  const NDArray anchor = Array({1, 3, 4}, {0.1, 0.1, 0.5, 0.5, 0.1, 0.1, 0.5, 0.6,  //
                                           0.1, 0.1, 0.5, 0.5});
  const NDArray y =
      Call1("_contrib_MultiBoxDetection", {prob, Array({1, 12}, {0}), anchor});
  ExpectNear(y,
             {0, 0.7, 0.1, 0.1, 0.5, 0.6, 1, 0.7, 0.1, 0.1, 0.5, 0.5,  //
              -1, 0.6, 0.1, 0.1, 0.5, 0.5},
             1e-6);
}

TEST(Proposal, AsksForOneImage) {
  const Attrs attrs = {
      {"scales", "(1,)"}, {"ratios", "(1,)"}, {"rpn_post_nms_top_n", "2"}};
  ExpectError(
      [&] {
        Call("_contrib_Proposal",
             {Ramp({2, 2, 1, 1}), Ramp({2, 4, 1, 1}), Array({2, 3}, {16, 16, 1})},
             attrs);
      },
      ErrorKind::kValue, {"_contrib_Proposal", "batch of 2", "_contrib_MultiProposal"});
  // One region only: it repeats.
  const NDArray y = Call1("_contrib_Proposal",
                          {Array({1, 2, 1, 1}, {0.2, 0.8}), Array({1, 4, 1, 1}, {0}),
                           Array({1, 3}, {16, 16, 1})},
                          attrs);
  ExpectNear(y, {0, 0, 0, 15, 15, 0, 0, 0, 15, 15});
}

TEST(Regions, TheNumberOfAnImageCountsWithoutItsFraction) {
  const NDArray x = Ramp({1, 4, 3, 3});
  const Attrs attrs = {
      {"spatial_scale", "1"}, {"output_dim", "1"}, {"pooled_size", "2"}};
  const auto pooled = [&](double image) {
    return Call1("_contrib_PSROIPooling", {x, Array({1, 5}, {image, 0, 0, 2, 2})},
                 attrs);
  };
  const NDArray want = pooled(0), y = pooled(-0.25);
  y.WaitToRead();
  want.WaitToRead();
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(y.data<const float>()[i], want.data<const float>()[i]);
}

TEST(Regions, OfImagesThatAreNotThereAreErrors) {
  const NDArray x = Ramp({1, 4, 3, 3});
  const Attrs attrs = {
      {"spatial_scale", "1"}, {"output_dim", "1"}, {"pooled_size", "2"}};
  for (double image : {-1.0, 1.0, double{NAN}}) {
    ExpectError(
        [&] {
          Call1("_contrib_PSROIPooling", {x, Array({1, 5}, {image, 0, 0, 2, 2})}, attrs)
              .WaitToRead();
        },
        ErrorKind::kIndex, {"_contrib_PSROIPooling", "region 0", "image"});
  }
  ExpectError(
      [&] {
        Call("_contrib_PSROIPooling", {Ramp({1, 3, 3, 3}), Ramp({1, 5})}, attrs);
      },
      ErrorKind::kValue, {"_contrib_PSROIPooling", "(1, 3, 3, 3)", "(n, 4,"});
}

TEST(Regions, OfHugeSizeAreRefused) {
  ExpectError(
      [] {
        Call1("_contrib_RROIAlign",
              {Ramp({1, 1, 3, 3}), Array({1, 6}, {0, 1, 1, 1e30, 1, 0})},
              {{"pooled_size", "(1, 1)"}, {"spatial_scale", "1"}})
            .WaitToRead();
      },
      ErrorKind::kValue, {"_contrib_RROIAlign", "region 0", "below 20000"});
}

TEST(Regions, TurnedByAHalfIsTheRegionUpsideDown) {
  const NDArray x = Ramp({1, 1, 4, 4});
  const Attrs attrs = {{"pooled_size", "(2, 2)"}, {"spatial_scale", "1"}};
  const std::vector<double> plain = Numbers(
      Call1("_contrib_RROIAlign", {x, Array({1, 6}, {0, 1.5, 1.5, 2, 2, 0})}, attrs));
  ExpectNear(
      Call1("_contrib_RROIAlign", {x, Array({1, 6}, {0, 1.5, 1.5, 2, 2, 180})}, attrs),
      {plain[3], plain[2], plain[1], plain[0]}, 1e-5);
}

}  // namespace
}  // namespace plait::testing
