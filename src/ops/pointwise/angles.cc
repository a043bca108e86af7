// degrees, radians: conversion of angles.

#include <numbers>

#include "ops/gradients.h"
#include "ops/pointwise/numbers.h"

namespace plait {
namespace {

constexpr double kDegrees = 180 / std::numbers::pi, kRadians = std::numbers::pi / 180;

[[maybe_unused]] const OpDef& degrees = Register<NoParams>({
    .name = "degrees",
    .aliases = {"_sparse_degrees"},
    .doc = "Angles in radians as degrees.",
    .inputs = {{"data", Types::kAny, "Angles in radians, of any shape."}},
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {g.dout(0) * kDegrees};
    },
    .pointwise = [](const NoParams&,
                    PwCall& c) { c.Return(Scaled(c.in(0), kDegrees)); },
    .samples = {{{Normal({2, 3})}}, {{Normal({0})}}},
});

[[maybe_unused]] const OpDef& radians = Register<NoParams>({
    .name = "radians",
    .aliases = {"_sparse_radians"},
    .doc = "Angles in degrees as radians.",
    .inputs = {{"data", Types::kAny, "Angles in degrees, of any shape."}},
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {g.dout(0) * kRadians};
    },
    .pointwise = [](const NoParams&,
                    PwCall& c) { c.Return(Scaled(c.in(0), kRadians)); },
    .samples = {{{Uniform({2, 3}, -180, 180)}}, {{Normal({0})}}},
});

}  // namespace
}  // namespace plait
