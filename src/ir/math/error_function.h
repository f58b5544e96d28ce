// erf, erfc, erfinv and gelu.
#pragma once

#include "ir/math/exponential.h"
#include "ir/math/logarithm.h"
#include "ir/math/pair.h"

namespace neuron::ir::math {

/// erf(x) / x - 1 for |x| < 1, in z = x^2.
template <class F>
NEURON_INLINE F erf_kernel(F z) {
  if constexpr (kIsDouble<F>) {
    return poly(z, 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b20p-4,
                -0x1.b82ce3128499bp-6, 0x1.565bcd0db02bep-8, -0x1.c02db3d8ecc79p-11,
                0x1.f9a321a114a18p-14, -0x1.f4d1df38aa93bp-17, 0x1.b9def1963b880p-20,
                -0x1.5f1d3680d4a7fp-23, 0x1.f7a40f581d0dep-27, -0x1.386ab78d0aac5p-30,
                0x1.0579903bf9032p-34);
  } else {
    return poly(z, 0x1.06eba8p-3, -0x1.812740p-2, 0x1.ce2d74p-4, -0x1.b80450p-6,
                0x1.548346p-8, -0x1.a99f44p-11, 0x1.69eb28p-14, -0x1.2668dap-19);
  }
}

/// erfc(a) = 2^k r for a >= 0: e^-(a^2) g / (1 + 2 a), where g is a polynomial in
/// (a - c) / (a + c), c = 4 in double and 3 in float. The square is given.
template <class F>
struct ErfcParts {
  Pair<F> r;
  F k;
};
template <class F>
NEURON_INLINE ErfcParts<F> erfc_parts(Pair<F> a, Pair<F> square) {
  auto [k, m] = exp_parts(-square.hi, -square.lo);
  F center = kIsDouble<F> ? F(4) : F(3);
  F q = fma(F(2), a.hi / (a.hi + center), F(-1));
  Pair<F> g;
  if constexpr (kIsDouble<F>) {
    F p = poly(q, -0x1.1df1ad154a28fp-3, 0x1.f7f5df66fd6dcp-7, 0x1.16ecefcfa54abp-4,
               -0x1.9ddb23c3e89c8p-4, 0x1.7fee004e0fcccp-4, -0x1.0fb06dfe54958p-4,
               0x1.3079edf6d7e13p-5, -0x1.09623882b6908p-6, 0x1.49c6726debe56p-8,
               -0x1.8d4a9c398119ap-11, -0x1.a1df152c5c61fp-13, 0x1.3be06b067cc67p-13,
               -0x1.995aec4b66b7dp-16, -0x1.788dbba32c71ep-17, 0x1.7f359ae2d5946p-18,
               0x1.3bdd365cfa637p-22, -0x1.bb7dcd4ff162cp-21, 0x1.3e0db68d0ea45p-24,
               0x1.da336071a850cp-24, -0x1.2af045d066683p-26, -0x1.e3f089c960d44p-27,
               0x1.c4474842a6918p-30, 0x1.46d33502340e5p-30);
    g = fast_two_sum(F(0x1.3ba5916e9fd7fp+0), q * p);
    g.lo = g.lo + F(-0x1.aa9c415679e6fp-55);
  } else {
    F p = poly(q, -0x1.15c08ap-3, -0x1.85a1a0p-5, 0x1.098414p-3, -0x1.e8884ep-4,
               0x1.17bd48p-4, -0x1.85ee80p-6, 0x1.504b2ap-9, 0x1.06c770p-9,
               -0x1.951b22p-11, -0x1.172b08p-12);
    g = fast_two_sum(F(0x1.40c522p+0), q * p);
    g.lo = g.lo + F(0x1.afc93p-25);
  }
  Pair<F> den = two_sum(F(1), F(2) * a.hi);
  return {div(mul(one_plus(m), g), {den.hi, fma(F(2), a.lo, den.lo)}), k};
}

template <class F>
NEURON_INLINE F erf(F x) {
  F a = kIsDouble<F> ? limit(abs(x), 0, 7) : limit(abs(x), 0, 4.25);
  F small = fma(a, erf_kernel(a * a), a);
  F large;
  if constexpr (kIsDouble<F>) {
    auto [r, k] = erfc_parts(Pair<F>{a, F(0)}, two_prod(a, a));
    large = F(1) - scale(r.hi + r.lo, k);
  } else {
    // -log(erfc(a)) = c0 + a p for a in [1, 4]; beyond, erf rounds to 1.
    F p = poly(a, 0x1.212c2cp+0, 0x1.4434f2p-1, 0x1.bc18cap-4, -0x1.9d0bc6p-6,
               0x1.1398e2p-8, -0x1.ceeaa0p-12, 0x1.6c0624p-16);
    Pair<F> product = two_prod(a, p);
    auto [k, r, r_lo] = exp_reduce(-product.hi);
    F e = exp_kernel(r + ((r_lo - product.lo) + F(0x1.8b3e18p-13)));
    large = F(1) - e * pow2(k);
  }
  return one_nan(copysign(select(a < F(1), small, large), x));
}

template <class F>
NEURON_INLINE F erfc(F x) {
  if constexpr (kIsDouble<F>) {
    F a = limit(abs(x), 0, 28);
    auto [r, k] = erfc_parts(Pair<F>{a, F(0)}, two_prod(a, a));
    F outer = scale(r.hi + r.lo, k);
    MaskOf<F> negative = x < F(0);
    Pair<F> two = fast_two_sum(F(2), -outer);
    F e = erf_kernel(x * x);
    Pair<F> one = two_sum(F(1), -x);
    F near = one.hi + (one.lo - x * e);
    F far = select(negative, two.hi, outer);
    return one_nan(select(abs(x) < F(0.5), near, far));
  } else {
    return narrow(erfc(widen(x)));
  }
}

template <class F>
NEURON_INLINE F erfinv(F x) {
  if constexpr (kIsDouble<F>) {
    // erfinv(x) / x as a polynomial in w = -log(1 - x^2), or beyond 6.25 in its root.
    F w = -log(fma(-x, x, F(1)));
    F root = sqrt(w);
    F central =
        poly(w - F(1.25), 0x1.ff042646be649p-3, 0x1.49362bc1762c4p-9,
             -0x1.276842e431d7fp-9, 0x1.2d21a92b97400p-13, 0x1.055ac7849ecafp-15,
             -0x1.5293f92c3c1edp-18, -0x1.4fa698cf3b501p-22, 0x1.11f438c712752p-23,
             -0x1.55e793f8c1737p-30, -0x1.7601de722c12ep-29, 0x1.ab52acebcbda3p-33,
             0x1.ae8078321482ap-35, -0x1.0204e09a044c1p-37, -0x1.761f9a839e966p-41,
             0x1.d00519e59df09p-43, 0x1.ea94fb299470cp-49, -0x1.6d818a4f887fcp-48,
             0x1.7807ced7a84d1p-53, 0x1.7f5466caa3a25p-53, -0x1.4ae652352a056p-55,
             0x1.eb24b771a7722p-59, -0x1.c20222e3ed1f7p-64, -0x1.694ceb8577b9dp-67,
             0x1.299d23aec1784p-70, -0x1.118f6a7165ac3p-75);
    F middle = poly(root - F(3.25), 0x1.0158a6d641d54p+0, 0x1.5ffcfe5b6cdd7p-8,
                    -0x1.ebadabb9fcb99p-9, 0x1.468eeca9402dcp-9, -0x1.ba9240da40a80p-10,
                    0x1.f3cc545f41386p-11, -0x1.7448bc4bd4532p-12, 0x1.932e8d71292f6p-16,
                    0x1.1e6aa91b8000fp-14, -0x1.8cf45b5a40bdfp-15, 0x1.a2452ca469f57p-17,
                    0x1.89989c1449cd2p-19, -0x1.0b928f2a7d800p-18, 0x1.8dc0c22c22ff2p-20,
                    -0x1.a1f2a197b0d25p-26, -0x1.07d77b0dd1156p-22, 0x1.10a5c16aee08ap-23,
                    -0x1.64162717e5e1bp-26, -0x1.90c5de6a182bfp-27, 0x1.0597a25e6c4cep-27,
                    -0x1.51d66b45cec4fp-30);
    F tail = poly(root - F(5), 0x1.02a30d1fba10bp+0, -0x1.22ea5df1cd0f7p-13,
                  -0x1.c2f36aa171ac8p-13, 0x1.3ebf4efb5a197p-14, -0x1.4a3490378a82bp-16,
                  0x1.2fbcfd5cf58bdp-18, -0x1.0a903a00db8b7p-20, 0x1.ebe3388f1beadp-23,
                  -0x1.2236a3bfb46c7p-24, 0x1.f286eeda7cd04p-26, -0x1.05768241402c5p-26,
                  0x1.0cc69d75d44f2p-27, -0x1.e492e69d81ddep-29, 0x1.6977509d99e99p-30,
                  -0x1.ab11268d36800p-32, 0x1.3450b7bf9f3dap-34, 0x1.45c5731abe38cp-36,
                  -0x1.68d18a15f67aep-36, 0x1.66510b7c9ac84p-38);
    MaskOf<F> is_central = w < F(6.25);
    MaskOf<F> is_middle = w < F(16);
    F c0 = select(is_central, F(0x1.30871b8663a3cp+0),
                  select(is_middle, F(0x1.8abcc380d5a48p+1), F(0x1.3664ddd1ad7fbp+2)));
    F rest = select(is_central, central * (w - F(1.25)),
                    select(is_middle, middle * (root - F(3.25)), tail * (root - F(5))));
    F r = copysign(fma(x, c0, x * rest), x);
    F edge = select(abs(x) == F(1), copysign(F(kInfinity), x), F(kNan));
    return one_nan(select(abs(x) < F(1), r, edge));
  } else {
    return narrow(erfinv(widen(x)));
  }
}

/// x Phi(x), Phi the normal distribution function: the exact gelu. NaN at -inf.
template <class F>
NEURON_INLINE F gelu(F x) {
  F a = kIsDouble<F> ? limit(abs(x), 0, 39.5) : limit(abs(x), 0, 14.5);
  // 2 Phi(-a) = erfc(t) with t = a / sqrt(2)
  constexpr double kRoot = kIsDouble<F> ? 0x1.6a09e667f3bcdp-1 : 0x1.6a09e6p-1;
  constexpr double kRootLo = kIsDouble<F> ? -0x1.bdd3413b26456p-55 : 0x1.9fcef4p-27;
  F t = a * F(kRoot);
  F t_lo = fma(a, F(kRootLo), fma(a, F(kRoot), -t));
  Pair<F> square = two_prod(a, a);
  auto [r, k] = erfc_parts(Pair<F>{t, t_lo}, {F(0.5) * square.hi, F(0.5) * square.lo});
  F half_a = F(0.5) * a;
  F below = scale(-fma(half_a, r.hi, half_a * r.lo), k);
  F s = pow2(kIsDouble<F> ? limit(k, -1000, 0) : limit(k, -120, 0));
  Pair<F> one = fast_two_sum(F(1), F(-0.5) * s * r.hi);
  F above = fma(x, one.hi, a * fma(F(-0.5) * s, r.lo, one.lo));
  // Near 0: x (1/2 + erf(x / sqrt(2)) / 2)
  F half = F(0.5) * t;
  F half_lo = fma(half, erf_kernel(t * t), F(0.5) * t_lo);
  MaskOf<F> negative = x < F(0);
  Pair<F> sum = fast_two_sum(F(0.5), select(negative, -half, half));
  F near = fma(x, sum.hi, x * (sum.lo + select(negative, -half_lo, half_lo)));
  F far = select(negative, below, above);
  F all = select((x > F(-0.5)) & (x < F(1.25)), near, far);
  return one_nan(select(x == F(-kInfinity), F(kNan), all));
}

}  // namespace neuron::ir::math
