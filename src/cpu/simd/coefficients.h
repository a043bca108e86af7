// Constants of the vector words: minimax polynomials, and constants in two or three
// parts.
//
// Polynomials have their lowest coefficient first. They were fitted with Sollya's
// fpminimax on the intervals given, so that their error is small against one ULP.

#ifndef PLAIT_CPU_SIMD_COEFFICIENTS_H_
#define PLAIT_CPU_SIMD_COEFFICIENTS_H_

namespace plait::cpu {

template <typename T>
struct Coefficients;

template <>
struct Coefficients<float> {
  static constexpr float kLog2E = 0x1.715476p0f, kLn2 = 0x1.62e43p-1f,
                         kLn2Low = -0x1.05c61p-29f;
  // Where exp (and half of it) is 0 or infinity for certain, and expm1 infinity.
  static constexpr float kExpLow = -104.f, kExpHigh = 89.f, kExpm1High = 89.f;
  // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
  static constexpr float kExp[] = {0x1p-1f, 0x1.5554dep-3f, 0x1.55556cp-5f,
                                   0x1.120adp-7f, 0x1.6ca9aap-10f};
  // (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f in [sqrt(1/2), sqrt(2)].
  static constexpr float kLog[] = {0x1.555554p-2f,  -0x1.fffff8p-3f, 0x1.999d44p-3f,
                                   -0x1.555c8cp-3f, 0x1.23d54ep-3f,  -0x1.fcbfeap-4f,
                                   0x1.de32ecp-4f,  -0x1.d778e8p-4f, 0x1.20456cp-4f};
  static constexpr float kTwoOverPi = 0x1.45f306p-1f, kHalfPi1 = 0x1.921fb6p0f,
                         kHalfPi2 = -0x1.777a5cp-25f, kHalfPi3 = -0x1.ee59dap-50f;
  // (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4, in r^2, |r| <= pi / 4.
  static constexpr float kSin[] = {-0x1.555556p-3f, 0x1.111198p-7f, -0x1.a08304p-13f,
                                   0x1.877072p-19f};
  static constexpr float kCos[] = {0x1.555556p-5f, -0x1.6c17d4p-10f, 0x1.a0f58ep-16f,
                                   -0x1.58deecp-22f};
  // erf(x) / x - 1, in x^2, for |x| <= 1; and -log(1 - erf(x)) for x in [1, 4].
  static constexpr float kErf[] = {0x1.06eba8p-3f,  -0x1.81274p-2f, 0x1.ce2d52p-4f,
                                   -0x1.b7fec4p-6f, 0x1.542fecp-8f, -0x1.a5197ap-11f,
                                   0x1.4c5cb2p-14f};
  static constexpr float kErfTail[] = {
      -0x1.4fbffep-12f, 0x1.215722p0f,   0x1.437db4p-1f,
      0x1.c2ee5ep-4f,   -0x1.b10304p-6f, 0x1.38251cp-8f,
      -0x1.395674p-11f, 0x1.834f3ap-15f, -0x1.b92af4p-20f};
};

template <>
struct Coefficients<double> {
  static constexpr double kLog2E = 0x1.71547652b82fep0,
                          kLog2ELow = 0x1.777d0ffda0d24p-56,
                          kLn2 = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56,
                          kLog10E = 0x1.bcb7b1526e50ep-2,
                          kLog10ELow = 0x1.95355baaafad3p-57,
                          kLog10Of2 = 0x1.34413509f79ffp-2,
                          kLog10Of2Low = -0x1.9dc1da994fd21p-59;
  static constexpr double kExpLow = -746, kExpHigh = 712, kExpm1High = 710;
  static constexpr double kExp[] = {0x1.0000000000001p-1,  0x1.555555555554dp-3,
                                    0x1.5555555553cdcp-5,  0x1.11111111144d1p-7,
                                    0x1.6c16c178ab20bp-10, 0x1.a01a018c3894ep-13,
                                    0x1.a019b8b55cc44p-16, 0x1.71de59e30725cp-19,
                                    0x1.2891d894b0c5dp-22, 0x1.aeabfd57b2439p-26};
  // (2^r - 1) / r for |r| <= 1/2.
  static constexpr double kExp2[] = {
      0x1.62e42fefa39efp-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d704a1acp-5,
      0x1.3b2ab6fba1ee3p-7,  0x1.5d87fe7880441p-10, 0x1.430913093a10fp-13,
      0x1.ffcbfd0180bb3p-17, 0x1.62bfd4fe48ea7p-20, 0x1.b523dc17d3925p-24,
      0x1.e605597478972p-28, 0x1.eb5b6dba0be6dp-32};
  // With s = f / (2 + f): (log(1 + f) / s - 2) / s^2, in s^2.
  static constexpr double kLog[] = {0x1.5555555555558p-1, 0x1.9999999995303p-2,
                                    0x1.2492492df3035p-2, 0x1.c71c62e0b72cbp-3,
                                    0x1.7462b661a6689p-3, 0x1.39fe212ae99bap-3,
                                    0x1.2b5b8533c9337p-3};
  static constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1,
                          kHalfPi1 = 0x1.921fb54442d18p0,
                          kHalfPi2 = 0x1.1a62633145c07p-54,
                          kHalfPi3 = -0x1.f1976b7ed8fbcp-110;
  static constexpr double kSin[] = {-0x1.5555555555555p-3,  0x1.111111111101fp-7,
                                    -0x1.a01a019fe8e53p-13, 0x1.71de3a10ed7d7p-19,
                                    -0x1.ae63f92faaa72p-26, 0x1.60e6b23885defp-33,
                                    -0x1.8dd31e38f814fp-41};
  static constexpr double kCos[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16a34p-10,
                                    0x1.a01a019fb86p-16,   -0x1.27e4faf00500ap-22,
                                    0x1.1eecd7e030f6fp-29, -0x1.92a91ab755096p-37,
                                    0x1.3627974e5ee69p-45};
  // (arcsin(r) / r - 1) / r^2, in r^2, for |r| <= 1/2; arctan's for |r| <= tan(pi / 8).
  static constexpr double kArcsin[] = {
      0x1.555555555554ep-3, 0x1.3333333337269p-4, 0x1.6db6db67f1612p-5,
      0x1.f1c71fc03ce43p-6, 0x1.6e8b25e014fep-6,  0x1.1c59a07163e01p-6,
      0x1.c86948fe0ee2cp-7, 0x1.8567416c7a83cp-7, 0x1.fccbd3d93e5cp-8,
      0x1.08a85a539406p-6,  -0x1.66c56113f5e3p-7, 0x1.cfeb6b627c8f3p-6};
  static constexpr double kArctan[] = {
      -0x1.5555555555555p-2, 0x1.999999999942ap-3, -0x1.249249243d6b8p-3,
      0x1.c71c7188b437p-4,   -0x1.745d0b9b37c6p-4, 0x1.3b126bdb3c47fp-4,
      -0x1.10fae454c15p-4,   0x1.dfecd9c3509dbp-5, -0x1.a0b89fd35f146p-5,
      0x1.41b489d54a8ebp-5,  -0x1.3aea268dd0266p-6};
  // (sinh(r) / r - 1) / r^2, in r^2, for |r| <= 1.
  static constexpr double kSinh[] = {0x1.5555555555555p-3,  0x1.111111111119ap-7,
                                     0x1.a01a01a00b345p-13, 0x1.71de3a5f0cd9cp-19,
                                     0x1.ae6452c900867p-26, 0x1.612265382367ep-33,
                                     0x1.b250729f7c32cp-41};
  static constexpr double kErf[] = {
      0x1.06eba8214db69p-3,   -0x1.812746b0379fdp-2, 0x1.ce2f21a04362dp-4,
      -0x1.b82ce312abf03p-6,  0x1.565bcd1299007p-8,  -0x1.c02db49b01882p-11,
      0x1.f9a335375a61cp-14,  -0x1.f4d3336b97bep-17, 0x1.b9ee93d07536cp-20,
      -0x1.5f98182f55323p-23, 0x1.fc7803df5a26p-27,  -0x1.4676a762d28a2p-30,
      0x1.29705f910d6ap-34};
  // e^(x^2) (1 - erf(x)), in t = (x - 3) / (x + 3), for x in [1, 6].
  static constexpr double kErfTail[] = {
      0x1.6e9827d229d2dp-3,   -0x1.4e102b9cf8515p-2, 0x1.f6ff2041059c4p-3,
      -0x1.336ffbef0884dp-3,  0x1.258b13b0102f6p-4,  -0x1.8fa58eb645edap-6,
      0x1.17c8390717f2ap-8,   0x1.73102087a7578p-11, -0x1.39085e1ca6fc5p-11,
      0x1.7b9e1d769d8e7p-15,  0x1.0cb2703e05decp-14, -0x1.aef3eabdfa53dp-17,
      -0x1.0ca6689ec57b7p-17, 0x1.0d8efadb7c303p-19, 0x1.53a12fd2d98cp-20};

  // Powers of floats, computed in double: as kLog and 2^r, with fewer terms.
  static constexpr double kShortLog[] = {0x1.5555555565024p-1, 0x1.999998ca15c0ap-2,
                                         0x1.2493248a3391bp-2, 0x1.c67a8e74c2fb9p-3,
                                         0x1.8c916f6bd49d6p-3};
  static constexpr double kShortExp2[] = {0x1.ffffffffabbcdp-1,  0x1.62e42ff11628fp-1,
                                          0x1.ebfbe0a4be856p-3,  0x1.c6b08aaf2e4f2p-5,
                                          0x1.3b29dc40d472p-7,   0x1.5d8a7088e1p-10,
                                          0x1.446a1fdbeaa5dp-13, 0x1.fe17833d51649p-17};
  // Powers of doubles: (log(1 + f) / 2s - 1 - s^2 / 3) / s^4, in s^2; and 1/3.
  static constexpr double kLogTail[] = {0x1.999999999999fp-3, 0x1.249249248e312p-3,
                                        0x1.c71c71d835427p-4, 0x1.745d09cb276a7p-4,
                                        0x1.3b18c19bb06c2p-4, 0x1.1017b756e7619p-4,
                                        0x1.08830ef638a2cp-4};
  static constexpr double kThird = 0x1.5555555555555p-2,
                          kThirdLow = 0x1.5555555555555p-56;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_SIMD_COEFFICIENTS_H_
