// log and its relatives, softplus, logaddexp, pow, asinh, acosh, atanh.
#pragma once

#include "ir/math/exponential.h"
#include "ir/math/pair.h"

namespace neuron::ir::math {

/// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x.
template <class F>
struct LogReduced {
  F k, f;
};
template <class F>
NEURON_INLINE LogReduced<F> log_reduce(F x) {
  using Int = IntOf<F>;
  if constexpr (kIsDouble<F>) {
    MaskOf<F> tiny = x < F(0x1p-1022);
    Int shifted = bits(select(tiny, x * F(0x1p54), x)) +
                  Int(0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
    Int mantissa = (shifted & Int(0x000fffffffffffff)) + Int(0x3fe6a09e667f3bcd);
    // The biased exponent becomes the low bits of 2^52: no conversion in AVX2.
    F k = from_bits(shift_right(shifted, 52) | Int(0x4330000000000000)) -
          select(tiny, F(0x1p52 + 1023 + 54), F(0x1p52 + 1023));
    return {k, from_bits(mantissa) - F(1)};
  } else {
    MaskOf<F> tiny = x < F(0x1p-126);
    Int shifted = bits(select(tiny, x * F(0x1p23), x)) + Int(0x3f800000 - 0x3f3504f3);
    Int mantissa = (shifted & Int(0x007fffff)) + Int(0x3f3504f3);
    F k = from_bits(shift_right(shifted, 23) | Int(0x4b000000)) -
          select(tiny, F(0x1p23 + 127 + 23), F(0x1p23 + 127));
    return {k, from_bits(mantissa) - F(1)};
  }
}

/// log(1 + f) as a pair; double only. With s = f / (2 + f), log(1 + f) = 2 atanh(s)
/// = f - f^2/2 + s (f^2/2 + R(s^2)).
template <class F>
NEURON_INLINE Pair<F> log_kernel(F f) {
  F s = f / (F(2) + f);
  F z = s * s;
  // (log((1 + s) / (1 - s)) / s - 2) / z
  F p = poly(z, 0x1.5555555555555p-1, 0x1.9999999999e00p-2, 0x1.249249242b344p-2,
             0x1.c71c72590d4c6p-3, 0x1.745cde30a1d23p-3, 0x1.3b20ac6e05336p-3,
             0x1.0f5cb511b66b5p-3, 0x1.0f63ca5344dbbp-3);
  Pair<F> square = two_prod(f, f);
  F half = F(0.5) * square.hi;
  Pair<F> sum = fast_two_sum(f, -half);
  F lo = fma(s, fma(z, p, half), fma(F(-0.5), square.lo, sum.lo));
  return fast_two_sum(sum.hi, lo);
}

/// The values of a logarithm where its argument is not positive and finite.
template <class F>
NEURON_INLINE F log_edges(F x, F r) {
  F positive = select(x < F(kInfinity), r, x);  // inf and NaN stay.
  F edge = select(x == F(0), F(-kInfinity), positive);
  return one_nan(select(x < F(0), F(kNan), edge));
}

/// k c + m b, where b is a pair and c has trailing zeros enough for k c to be exact.
template <class F>
NEURON_INLINE F log_combine(F k, double c, double c_lo, Pair<F> m) {
  Pair<F> sum = fast_two_sum(k * F(c), m.hi);
  F with_k = sum.hi + (sum.lo + fma(k, F(c_lo), m.lo));
  return select(k == F(0), m.hi + m.lo, with_k);
}

/// k ln2 + log(1 + f) in float, with log(1 + f) = f - f^2/2 + f^3 p.
template <class F>
NEURON_INLINE Pair<F> log_combine_float(F k, F f) {
  F z = f * f;
  F p = poly(f, 0x1.555546p-2, -0x1.ffffeep-3, 0x1.99a542p-3, -0x1.5562eap-3,
             0x1.2333f4p-3, -0x1.fb4236p-4, 0x1.e64e6cp-4, -0x1.e2d286p-4, 0x1.1aadcep-4);
  F tail = fma(f * z, p, fma(k, F(0x1.7f7d1cp-20), F(-0.5) * z));
  Pair<F> sum = fast_two_sum(k * F(0x1.62e4p-1), f);
  return {sum.hi, sum.lo + tail};
}

template <class F>
NEURON_INLINE F log(F x) {
  auto [k, f] = log_reduce(x);
  if constexpr (kIsDouble<F>) {
    return log_edges(
        x, log_combine(k, 0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45, log_kernel(f)));
  } else {
    auto [hi, lo] = log_combine_float(k, f);
    return log_edges(x, hi + lo);
  }
}

template <class F>
NEURON_INLINE F log2(F x) {
  if constexpr (kIsDouble<F>) {
    auto [k, f] = log_reduce(x);
    Pair<F> m = mul(log_kernel(f), {F(0x1.71547652b82fep+0), F(0x1.777d0ffda0d24p-56)});
    return log_edges(x, log_combine(k, 1, 0, m));
  } else {
    return narrow(log2(widen(x)));
  }
}

template <class F>
NEURON_INLINE F log10(F x) {
  if constexpr (kIsDouble<F>) {
    auto [k, f] = log_reduce(x);
    Pair<F> m = mul(log_kernel(f), {F(0x1.bcb7b1526e50ep-2), F(0x1.95355baaafad3p-57)});
    return log_edges(x, log_combine(k, 0x1.34413509f7800p-2, 0x1.fef311f12b358p-46, m));
  } else {
    return narrow(log10(widen(x)));
  }
}

/// log(1 + x + x_lo), for finite x > -1; double only.
template <class F>
NEURON_INLINE Pair<F> log1p_pair(F x, F x_lo) {
  Pair<F> u = two_sum(F(1), x);
  auto [k, f] = log_reduce(u.hi);
  Pair<F> m = log_kernel(f);
  Pair<F> sum = two_sum(k * F(0x1.62e42fefa3800p-1), m.hi);
  F correction = (u.lo + x_lo) / u.hi;  // The derivative of the logarithm.
  F lo = sum.lo + fma(k, F(0x1.ef35793c76730p-45), m.lo);
  Pair<F> total = two_sum(sum.hi, correction);
  return fast_two_sum(total.hi, total.lo + lo);
}
template <class F>
NEURON_INLINE F log1p(F x) {
  if constexpr (kIsDouble<F>) {
    F r = log1p_pair(select(x < F(kInfinity), x, F(0)), F(0)).hi;
    F finite = select(x < F(kInfinity), r, x);
    F above = select(x == F(-1), F(-kInfinity), select(x < F(-1), F(kNan), finite));
    return one_nan(select(abs(x) < F(0x1p-60), x, above));
  } else {
    return narrow(log1p(widen(x)));
  }
}

/// log(1 + e) for e in (0, 1]; in float 1 + e is halved when it exceeds sqrt(2).
template <class F>
NEURON_INLINE Pair<F> log1p_unit(Pair<F> e) {
  if constexpr (kIsDouble<F>) {
    return log1p_pair(e.hi, e.lo);
  } else {
    MaskOf<F> high = e.hi > F(0x1.a82798p-2);
    Pair<F> less_one = fast_two_sum(F(-1), e.hi);
    Pair<F> log = log_combine_float(select(high, F(1), F(0)),
                                    select(high, F(0.5) * less_one.hi, e.hi));
    // The derivative 1 / (1 + e) to two digits.
    F slope = fma(e.hi, fma(e.hi, F(0.42), F(-0.92)), F(1));
    F rest = e.lo + select(high, less_one.lo, F(0));
    return {log.hi, fma(rest, slope, log.lo)};
  }
}
/// log(1 + e) for e <= 1, given as exp_parts.
template <class F>
NEURON_INLINE Pair<F> log1p_exp(ExpParts<F> exp_parts) {
  auto [k, m] = exp_parts;
  Pair<F> e = one_plus(m);
  return log1p_unit(Pair<F>{scale(e.hi, k), scale(e.lo, k)});
}
/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
template <class F>
NEURON_INLINE F softplus(F x) {
  F a = kIsDouble<F> ? limit(abs(x), 0, 760) : limit(abs(x), 0, 120);
  Pair<F> log = log1p_exp(exp_parts(-a));
  Pair<F> sum = two_sum(select(x < F(0), F(0), x), log.hi);
  F r = select(x < F(0), log.hi + log.lo, sum.hi + (sum.lo + log.lo));
  return one_nan(select(x < F(kInfinity), r, x));
}
/// log(e^x + e^y).
template <class F>
NEURON_INLINE F logaddexp(F x, F y) {
  if constexpr (kIsDouble<F>) {
    F high = select(x < y, y, x);
    F low = select(x < y, x, y);
    MaskOf<F> near = high - low < F(750);  // Not so for infinities and NaN.
    Pair<F> d = two_sum(select(near, high, F(750)), select(near, -low, F(0)));
    Pair<F> log = log1p_exp(exp_parts(-d.hi, -d.lo));
    Pair<F> sum = two_sum(high, log.hi);
    F finite = sum.hi + (sum.lo + log.lo);
    F r = select(near, finite, high);
    MaskOf<F> defined = (x == x) & (y == y);
    return one_nan(select(defined, r, F(kNan)));
  } else {
    return narrow(logaddexp(widen(x), widen(y)));
  }
}

/// log(x) as a pair with a relative error near 2^-66, for positive finite x; double only.
template <class F>
NEURON_INLINE Pair<F> log_precise(F x) {
  auto [k, f] = log_reduce(x);
  Pair<F> s = div(Pair<F>{f, F(0)}, two_sum(F(2), f));
  Pair<F> z = mul(s, s);
  // ((log((1 + s) / (1 - s)) / s - 2) / z - 2/3) / z
  F p = poly(z.hi, 0x1.999999999999ap-2, 0x1.249249249246fp-2, 0x1.c71c71c722770p-3,
             0x1.745d17417efd4p-3, 0x1.3b13b311c0d48p-3, 0x1.1110944a6e8fdp-3,
             0x1.e20b83041b411p-4, 0x1.aaebabc3cd370p-4, 0x1.c31de4055113fp-4);
  Pair<F> c = fast_two_sum(F(0x1.5555555555555p-1), z.hi * p);
  Pair<F> series = mul(mul(s, z), {c.hi, c.lo + F(0x1.5555555555555p-55)});
  Pair<F> m = add(Pair<F>{F(2) * s.hi, F(2) * s.lo}, series);
  Pair<F> sum = fast_two_sum(k * F(0x1.62e42fefa3800p-1), m.hi);
  F lo = fma(k, F(0x1.cc01f97b57a08p-87), m.lo);
  Pair<F> middle = two_sum(sum.lo, k * F(0x1.ef35793c76000p-45));
  Pair<F> total = fast_two_sum(sum.hi, middle.hi);
  return choose<F>(k == F(0), m, {total.hi, total.lo + (middle.lo + lo)});
}

template <class F>
NEURON_INLINE F pow(F x, F y) {
  if constexpr (kIsDouble<F>) {
    F a = abs(x);
    Pair<F> log_a = log_precise(a);
    Pair<F> product = two_prod(y, log_a.hi);
    F exponent = limit(product.hi, -760, 720);
    F exponent_lo = select(exponent == product.hi, fma(y, log_a.lo, product.lo), F(0));
    auto [k, m] = exp_parts(exponent, exponent_lo);
    Pair<F> e = one_plus(m);
    F r = scale(e.hi + e.lo, k);
    // Where the magnitude is 0, 1, infinite, or the power is.
    MaskOf<F> up = y > F(0);
    r = select(a == F(0), select(up, F(0), F(kInfinity)), r);
    r = select(a == F(kInfinity), select(up, F(kInfinity), F(0)), r);
    F limit_value =
        select(a > F(1), select(up, F(kInfinity), F(0)), select(up, F(0), F(kInfinity)));
    r = select(abs(y) == F(kInfinity), select(a == F(1), F(1), limit_value), r);
    // A negative base: the sign of an odd power, NaN for one that is not an integer.
    MaskOf<F> odd = (trunc(y) == y) & (F(2) * trunc(y * F(0.5)) != y);
    r = select(odd, copysign(r, x), r);
    MaskOf<F> undefined = (x < F(0)) & (a < F(kInfinity)) & (trunc(y) != y);
    MaskOf<F> defined = (x == x) & (y == y) & !undefined;
    r = select(defined, r, F(kNan));
    return one_nan(select((y == F(0)) | (x == F(1)), F(1), r));
  } else {
    return narrow(pow(widen(x), widen(y)));
  }
}

/// The square root of a pair.
template <class F>
NEURON_INLINE Pair<F> sqrt_pair(Pair<F> a) {
  F s = sqrt(a.hi);
  F remainder = fma(-s, s, a.hi) + a.lo;
  return {s, select(s == F(0), F(0), remainder / (s + s))};
}

template <class F>
NEURON_INLINE F asinh(F x) {
  if constexpr (kIsDouble<F>) {
    // log(1 + a + a^2 / (1 + sqrt(1 + a^2))); beyond 2^28 it is log(2 a).
    F full = abs(x);
    MaskOf<F> large = full > F(0x1p28);
    F a = select(large, F(1), full);
    Pair<F> square = two_prod(a, a);
    Pair<F> root = sqrt_pair(add(square, {F(1), F(0)}));
    Pair<F> term = div(square, add(root, {F(1), F(0)}));
    Pair<F> sum = add(term, {a, F(0)});
    F near = log1p_pair(sum.hi, sum.lo).hi;
    F far = log(full) + F(0x1.62e42fefa39efp-1);
    F r = select(full < F(0x1p-28), full, select(large, far, near));
    return one_nan(copysign(r, x));
  } else {
    return narrow(asinh(widen(x)));
  }
}

template <class F>
NEURON_INLINE F acosh(F x) {
  if constexpr (kIsDouble<F>) {
    // log(1 + t + sqrt(t (t + 2))) with t = x - 1.
    MaskOf<F> large = x > F(0x1p28);
    Pair<F> t = two_sum(select(large, F(2), x), F(-1));
    Pair<F> root = sqrt_pair(mul(t, add(t, {F(2), F(0)})));
    Pair<F> sum = add(t, root);
    F near = log1p_pair(sum.hi, sum.lo).hi;
    F far = log(x) + F(0x1.62e42fefa39efp-1);
    F r = select(large, far, near);
    return one_nan(select(x < F(1), F(kNan), r));
  } else {
    return narrow(acosh(widen(x)));
  }
}

template <class F>
NEURON_INLINE F atanh(F x) {
  if constexpr (kIsDouble<F>) {
    // log(1 + 2 a / (1 - a)) / 2
    F a = abs(x);
    F inside = select(a < F(1), a, F(0.5));
    Pair<F> q = div(Pair<F>{F(2) * inside, F(0)}, two_sum(F(1), -inside));
    F r = copysign(F(0.5) * log1p_pair(q.hi, q.lo).hi, x);
    r = select(a < F(0x1p-28), x, r);
    F edge = select(a == F(1), copysign(F(kInfinity), x), F(kNan));
    return one_nan(select(a < F(1), r, edge));
  } else {
    return narrow(atanh(widen(x)));
  }
}

}  // namespace neuron::ir::math
