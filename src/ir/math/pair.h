// What the functions of ir/math.h are built from: pairs, polynomials, scaling.
//
// A `Pair` is an unevaluated sum hi + lo (Dekker); it carries what must survive one more
// rounding. Polynomials are minimax fits (Remez) of the expression beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "ir/scalar.h"

/// The loops over these functions are vectorised only if everything is inlined.
#define NEURON_INLINE [[gnu::always_inline]] inline

namespace neuron::ir::math {

template <class F>
inline constexpr bool kIsDouble = false;
template <>
inline constexpr bool kIsDouble<double> = true;

/// The type that `widen` gives; F itself when F is the wide type.
template <class F, bool kWide = kIsDouble<F>>
struct DoubleOfTraits {
  using Type = F;
};
template <class F>
struct DoubleOfTraits<F, false> {
  using Type = decltype(widen(std::declval<F>()));
};
template <class F>
using DoubleOf = typename DoubleOfTraits<F>::Type;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class F>
struct Pair {
  F hi, lo;
};

template <class F>
NEURON_INLINE F poly(F, double c) {
  return F(c);
}
/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class F, class... C>
NEURON_INLINE F poly(F x, double c0, C... rest) {
  return fma(poly(x, rest...), x, F(c0));
}

/// a + b exactly (Knuth).
template <class F>
NEURON_INLINE Pair<F> two_sum(F a, F b) {
  F sum = a + b;
  F part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
/// a + b exactly if |a| >= |b| or a is 0 (Dekker).
template <class F>
NEURON_INLINE Pair<F> fast_two_sum(F a, F b) {
  F sum = a + b;
  return {sum, b - (sum - a)};
}
/// a * b exactly, unless the low part underflows.
template <class F>
NEURON_INLINE Pair<F> two_prod(F a, F b) {
  F product = a * b;
  return {product, fma(a, b, -product)};
}
template <class F>
NEURON_INLINE Pair<F> mul(Pair<F> a, Pair<F> b) {
  Pair<F> product = two_prod(a.hi, b.hi);
  F lo = product.lo + fma(a.hi, b.lo, a.lo * b.hi);
  return fast_two_sum(product.hi, lo);
}
template <class F>
NEURON_INLINE Pair<F> add(Pair<F> a, Pair<F> b) {
  Pair<F> sum = two_sum(a.hi, b.hi);
  return fast_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}
/// a / b; the first quotient is corrected by its remainder.
template <class F>
NEURON_INLINE Pair<F> div(Pair<F> a, Pair<F> b) {
  F inverse = F(1) / b.hi;
  F q = a.hi / b.hi;
  F remainder = fma(-q, b.lo, fma(-q, b.hi, a.hi) + a.lo);
  return {q, remainder * inverse};
}
template <class F>
NEURON_INLINE Pair<F> choose(MaskOf<F> mask, Pair<F> yes, Pair<F> no) {
  return {select(mask, yes.hi, no.hi), select(mask, yes.lo, no.lo)};
}

/// x limited to [lo, hi]; NaN stays.
template <class F>
NEURON_INLINE F limit(F x, double lo, double hi) {
  F below = select(x > F(hi), F(hi), x);
  return select(below < F(lo), F(lo), below);
}
/// r, or the one NaN in place of any NaN. Which NaN an operation gives depends on how the
/// compiler orders operands and folds signs, so every function ends with this.
template <class F>
NEURON_INLINE F one_nan(F r) {
  return select(r == r, r, F(kNan));
}
/// x with its sign flipped where `sign` has the sign bit set.
template <class F>
NEURON_INLINE F flip(F x, IntOf<F> sign) {
  return from_bits(bits(x) ^ sign);
}
template <class F>
NEURON_INLINE IntOf<F> sign_bit(F x) {
  if constexpr (kIsDouble<F>) {
    return bits(x) & IntOf<F>(std::numeric_limits<int64_t>::min());
  } else {
    return bits(x) & IntOf<F>(std::numeric_limits<int32_t>::min());
  }
}

/// Adding this leaves an integer in the low bits of the sum, rounded to even.
template <class F>
NEURON_INLINE F round_magic() {
  return kIsDouble<F> ? F(0x1.8p52) : F(0x1.8p23);
}
/// 2^k for an integer k in the range of normal numbers.
template <class F>
NEURON_INLINE F pow2(F k) {
  if constexpr (kIsDouble<F>) {
    return from_bits(shift_left(bits(k + F(0x1.8p52 + 1023)), 52));
  } else {
    return from_bits(shift_left(bits(k + F(0x1.8p23 + 127)), 23));
  }
}
/// y * 2^k, where k may be twice as far out; a subnormal result is rounded once.
template <class F>
NEURON_INLINE F scale(F y, F k) {
  F half = fma(k, F(0.5), round_magic<F>()) - round_magic<F>();
  return y * pow2(half) * pow2(k - half);
}

}  // namespace neuron::ir::math
