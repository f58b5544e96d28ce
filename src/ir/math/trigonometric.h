// sin, cos, tan and their inverses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ir/math/pair.h"

namespace neuron::ir::math {

/// |x| = n pi/2 + r with r in [-pi/4, pi/4] (or a hair beyond); F is the wide type.
template <class F>
struct TrigReduced {
  F n;  // An integer below 2^51, of which n mod 4 counts.
  Pair<F> r;
};

/// x reduced modulo 4 to [-2, 2], exactly.
template <class F>
NEURON_INLINE F modulo4(F x) {
  return fma(F(-4), rint(x * F(0.25)), x);
}
/// Whether sine and cosine change places. (The test of bit 0 of an integer would stop g++
/// from vectorising: it becomes a truncation to one bit.)
template <class F>
NEURON_INLINE MaskOf<F> is_odd(F n) {
  F half = n * F(0.5);
  return rint(half) != half;
}
/// The sign bit, set where n mod 4 is 2 or 3.
template <class F>
NEURON_INLINE IntOf<F> quadrant_sign(F n) {
  return shift_left(bits(n + round_magic<F>()) & IntOf<F>(2), 62);
}

/// For |x| below 2^128 with at most 24 significant bits, hence a float. 2/pi in parts of
/// 29 bits makes the products exact, and multiples of 4 are dropped from each.
template <class F>
NEURON_INLINE TrigReduced<F> trig_reduce_float(F a) {
  F f0 = modulo4(a * F(0x1.45f306dp-1));
  F f1 = modulo4(a * F(0x1.9391054p-30));
  F f2 = modulo4(a * F(0x1.4fe13abp-59));
  F f3 = modulo4(a * F(0x1.d1f534dp-88));
  F f4 = modulo4(a * F(0x1.b81b6c5p-117));
  F f5 = a * F(0x1.5993c439041fep-148);
  F n = rint(((f0 + f1) + f2) + (f3 + f4));
  F f = ((((f0 - n) + f1) + f2) + f3) + (f4 + f5);
  return {n, {f * F(0x1.921fb54442d18p+0), F(0)}};
}

template <std::size_t kShift, std::size_t kSize, class F, std::size_t... kIdx>
NEURON_INLINE auto shift_words(MaskOf<F> mask, const F (&w)[kSize],
                               std::index_sequence<kIdx...>) {
  struct Words {
    F w[sizeof...(kIdx)];
  };
  return Words{{select(mask, w[kIdx + kShift], w[kIdx])...}};
}

/// Payne-Hanek: the 48-bit words of 2/pi that matter for the exponent of a are chosen by
/// a barrel shift, since there are no tables. Right for every a >= 2^-60.
template <class F>
NEURON_INLINE TrigReduced<F> trig_reduce_large(F a) {
  using Int = IntOf<F>;
  F exponent = from_bits(shift_right(bits(a), 52) | Int(0x4330000000000000)) - F(0x1p52);
  F idx = limit(floor((exponent - F(1076.5)) * F(0x1.5555555555555p-6)), 0, 20);
  Int idx_bits = bits(idx + F(0x1p52));
  auto bit = [&](int64_t n) { return (idx_bits & Int(n)) != Int(0); };
  const F w0[] = {F(0x1.45f306dc9c880p-1),
                  F(0x1.529fc2757d100p-4),
                  F(0x1.ea69bb81b6c40p-1),
                  F(0x1.2b32788720820p-1),
                  F(0x1.fca2c757bd760p-1),
                  F(0x1.8ac36e48dc740p-1),
                  F(0x1.09374b8019240p-2),
                  F(0x1.77504e8c90e00p-3),
                  F(0x1.fc3bd63962520p-1),
                  F(0x1.4e7dd1046bea0p-1),
                  F(0x1.75da24274ce00p-3),
                  F(0x1.c09ad17df9040p-2),
                  F(0x1.cc8eb1cc1a980p-3),
                  F(0x1.cfa4e422fc580p-3),
                  F(0x1.7bf250763ff00p-1),
                  F(0x1.2fffbc0b301e0p-1),
                  F(0x1.de5e2316b4140p-1),
                  F(0x1.b47db4d9fb3c0p-2),
                  F(0x1.3e584dba7a300p-3),
                  F(0x1.fb34f2ff51680p-3),
                  F(0x1.d49eeb1faf940p-2),
                  F(0x1.e2f67a0e73ee0p-1),
                  F(0x1.14a525d4d7f60p-1),
                  F(0x1.7ec47e3574200p-2),
                  F(0x1.580cc11bf1ec0p-2),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0),
                  F(0)};
  auto w1 = shift_words<16>(bit(16), w0, std::make_index_sequence<20>());
  auto w2 = shift_words<8>(bit(8), w1.w, std::make_index_sequence<12>());
  auto w3 = shift_words<4>(bit(4), w2.w, std::make_index_sequence<8>());
  auto w4 = shift_words<2>(bit(2), w3.w, std::make_index_sequence<6>());
  auto w5 = shift_words<1>(bit(1), w4.w, std::make_index_sequence<5>());
  F y = a * pow2(F(-48) * idx);  // Below 2^102.
  Pair<F> p0 = two_prod(y, w5.w[0]);
  Pair<F> p1 = two_prod(y * F(0x1p-48), w5.w[1]);
  Pair<F> p2 = two_prod(y * F(0x1p-96), w5.w[2]);
  Pair<F> p3 = two_prod(y * F(0x1p-144), w5.w[3]);
  F p4 = y * F(0x1p-192) * w5.w[4];
  // The sum modulo 4, exact in its upper parts.
  Pair<F> s0 = two_sum(modulo4(p0.hi), modulo4(p0.lo));
  Pair<F> s1 = two_sum(s0.hi, modulo4(p1.hi));
  Pair<F> s2 = two_sum(s1.hi, p1.lo);
  Pair<F> s3 = two_sum(s2.hi, modulo4(p2.hi));
  F n = rint(s3.hi);
  Pair<F> t0 = two_sum(s3.hi - n, p3.hi);
  Pair<F> t1 = two_sum(t0.hi, p2.lo);
  Pair<F> t2 = two_sum(t1.hi, (s0.lo + s1.lo) + (s2.lo + s3.lo));
  Pair<F> f = fast_two_sum(t2.hi, (t2.lo + (t0.lo + t1.lo)) + (p3.lo + p4));
  return {n, mul(f, {F(0x1.921fb54442d18p+0), F(0x1.1a62633145c07p-54)})};
}

template <class F>
NEURON_INLINE TrigReduced<F> trig_reduce(F a) {
  // Cody-Waite with pi/2 in three parts; the first step is exact while k < 2^50.
  F k = rint(a * F(0x1.45f306dc9c883p-1));
  F exact = fma(-k, F(0x1.921fb54442d18p+0), a);
  Pair<F> product = two_prod(k, F(0x1.1a62633145c07p-54));
  Pair<F> sum = two_sum(exact, -product.hi);
  F lo = sum.lo - fma(k, F(-0x1.f1976b7ed8fbcp-110), product.lo);
  Pair<F> small = fast_two_sum(sum.hi, lo);
  TrigReduced<F> large = trig_reduce_large(a);
  MaskOf<F> is_small = a < F(0x1p30);
  return {select(is_small, k, large.n), choose<F>(is_small, small, large.r)};
}

template <class F>
struct SinCos {
  Pair<F> sin, cos;
};
template <class F>
NEURON_INLINE SinCos<F> sin_cos_kernel(Pair<F> r) {
  Pair<F> square = two_prod(r.hi, r.hi);
  F z = square.hi;
  F s = poly(z, -0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a018acep-13,
             0x1.71de3a5337a7ap-19, -0x1.ae645295e275dp-26, 0x1.612091264a0a5p-33,
             -0x1.aaa47c5bfe800p-41);
  F c = poly(z, 0x1.555555555554cp-5, -0x1.6c16c16c15163p-10, 0x1.a01a019caefddp-16,
             -0x1.27e4f807dd025p-22, 0x1.1ee9ea7102399p-29, -0x1.8fadd26c5c0c2p-37);
  F half = F(0.5) * z;
  Pair<F> sin = fast_two_sum(r.hi, fma(r.hi * z, s, fma(-half, r.lo, r.lo)));
  Pair<F> one = fast_two_sum(F(1), -half);
  F cos_lo = one.lo - fma(r.hi, r.lo, F(0.5) * square.lo);
  return {sin, fast_two_sum(one.hi, fma(z * z, c, cos_lo))};
}
/// The same in double for a float result.
template <class F>
NEURON_INLINE SinCos<F> sin_cos_kernel_float(F r) {
  F z = r * r;
  F s = poly(z, -0x1.5555554cb1ea7p-3, 0x1.111108906b3f8p-7, -0x1.a00f98de1b8d1p-13,
             0x1.6cd7318fa68c8p-19);
  F c = poly(z, 1, -0.5, 0x1.5555554f48b1dp-5, -0x1.6c16b892af642p-10,
             0x1.a0111c10a94ddp-16, -0x1.2429fb1476c21p-22);
  return {{fma(r * z, s, r), F(0)}, {c, F(0)}};
}

/// sin(x + turns pi/2) for the wide type; kFloat when x comes from a float.
template <bool kFloat, class F>
NEURON_INLINE F sin_shifted(F x, double turns, IntOf<F> sign_of_x) {
  F a = abs(x);
  TrigReduced<F> reduced;
  SinCos<F> both;
  if constexpr (kFloat) {
    reduced = trig_reduce_float(a);
    both = sin_cos_kernel_float(reduced.r.hi);
  } else {
    reduced = trig_reduce(a);
    both = sin_cos_kernel(reduced.r);
  }
  F n = reduced.n + F(turns);
  F r = select(is_odd(n), both.cos.hi, both.sin.hi);
  return one_nan(flip(r, quadrant_sign(n) ^ sign_of_x));
}

template <class F>
NEURON_INLINE F sin(F x) {
  if constexpr (kIsDouble<F>) {
    return sin_shifted<false>(x, 0, sign_bit(x));
  } else {
    return narrow(sin_shifted<true>(widen(x), 0, sign_bit(widen(x))));
  }
}
template <class F>
NEURON_INLINE F cos(F x) {
  using D = DoubleOf<F>;
  if constexpr (kIsDouble<F>) {
    return sin_shifted<false>(x, 1, IntOf<F>(0));
  } else {
    return narrow(sin_shifted<true>(widen(x), 1, IntOf<D>(0)));
  }
}
template <class F>
NEURON_INLINE F tan(F x) {
  using D = DoubleOf<F>;
  if constexpr (kIsDouble<F>) {
    auto [n, r] = trig_reduce(abs(x));
    auto [sin, cos] = sin_cos_kernel(r);
    MaskOf<F> odd = is_odd(n);
    Pair<F> minus_cos = {-cos.hi, -cos.lo};
    Pair<F> q = div(choose<F>(odd, minus_cos, sin), choose<F>(odd, sin, cos));
    return one_nan(flip(q.hi + q.lo, sign_bit(x)));
  } else {
    D wide = widen(x);
    auto [n, r] = trig_reduce_float(abs(wide));
    auto [sin, cos] = sin_cos_kernel_float(r.hi);
    MaskOf<D> odd = is_odd(n);
    D q = select(odd, -cos.hi, sin.hi) / select(odd, sin.hi, cos.hi);
    return narrow(one_nan(flip(q, sign_bit(wide))));
  }
}

/// asin(|x|) as factor * (root + tail) off pi/2, or directly, by the size of |x|.
template <class F>
struct AsinParts {
  MaskOf<F> small;  // |x| < 1/2: asin = hi + lo; else asin = pi/2 - 2 (hi + lo).
  Pair<F> r;
};
template <class F>
NEURON_INLINE AsinParts<F> asin_parts(F a) {
  MaskOf<F> small = a < F(0.5);
  F z = select(small, a * a, fma(a, F(-0.5), F(0.5)));
  Pair<F> root = sqrt_pair(Pair<F>{z, F(0)});
  Pair<F> base = choose<F>(small, {a, F(0)}, root);
  // (asin(x) / x - 1) / x^2 in z = x^2
  F p = poly(z, 0x1.5555555555578p-3, 0x1.333333332df86p-4, 0x1.6db6db7225b2ep-5,
             0x1.f1c71a8de3cf8p-6, 0x1.6e8bdfa2ff75fp-6, 0x1.1c49e2f5f8111p-6,
             0x1.ca20c8e14a159p-7, 0x1.757ba20eaaf9ap-7, 0x1.61731fb96315ep-7,
             0x1.e2ca68a6a86b7p-9, 0x1.648f42c22df0cp-6, -0x1.594fe70e88ddfp-6,
             0x1.0baf03b2a20aap-5);
  return {small, {base.hi, fma(base.hi * z, p, base.lo)}};
}
inline constexpr double kHalfPi = 0x1.921fb54442d18p+0;
inline constexpr double kHalfPiLo = 0x1.1a62633145c07p-54;

template <class F>
NEURON_INLINE F asin(F x) {
  if constexpr (kIsDouble<F>) {
    auto [small, r] = asin_parts(abs(x));
    Pair<F> sum = fast_two_sum(F(kHalfPi), F(-2) * r.hi);
    F large = sum.hi + (sum.lo + fma(F(-2), r.lo, F(kHalfPiLo)));
    return one_nan(copysign(select(small, r.hi + r.lo, large), x));
  } else {
    return narrow(asin(widen(x)));
  }
}
template <class F>
NEURON_INLINE F acos(F x) {
  if constexpr (kIsDouble<F>) {
    auto [small, r] = asin_parts(abs(x));
    MaskOf<F> negative = x < F(0);
    // pi/2 - asin(x), 2 (hi + lo), or pi - 2 (hi + lo).
    F factor =
        select(small, select(negative, F(1), F(-1)), select(negative, F(-2), F(2)));
    F turns = select(small, F(1), select(negative, F(2), F(0)));
    Pair<F> sum = fast_two_sum(turns * F(kHalfPi), factor * r.hi);
    F tail = fma(factor, r.lo, turns * F(kHalfPiLo));
    F plain = factor * r.hi + factor * r.lo;
    return one_nan(select(turns == F(0), plain, sum.hi + (sum.lo + tail)));
  } else {
    return narrow(acos(widen(x)));
  }
}

/// turns pi/4 + sign atan(num / den), for num and den > 0 with a quotient below tan(pi/8)
/// or, when `middle`, taken from (num - den) / (num + den) + pi/4.
template <class F>
NEURON_INLINE F atan_quotient(F num, F den, F turns, F sign) {
  MaskOf<F> middle = num > F(0x1.a827999fcef32p-2) * den;
  Pair<F> n = choose<F>(middle, two_sum(num, -den), {num, F(0)});
  Pair<F> d = choose<F>(middle, two_sum(num, den), {den, F(0)});
  Pair<F> q = div(n, d);
  F z = q.hi * q.hi;
  F p = poly(z, -0x1.5555555555554p-2, 0x1.999999999965ap-3, -0x1.2492492475d56p-3,
             0x1.c71c71b778b30p-4, -0x1.745d14bfcaf6cp-4, 0x1.3b136eae779e2p-4,
             -0x1.110c79d3bffc9p-4, 0x1.e17282e1cec36p-5, -0x1.ab80a60b7b4f7p-5,
             0x1.70f99379570cep-5, -0x1.12535ace065b6p-5, 0x1.f25543cceca82p-7);
  F tail = fma(q.hi * z, p, q.lo);
  F all_turns = turns + select(middle, sign, F(0));
  Pair<F> angle = two_prod(all_turns, F(0x1.921fb54442d18p-1));
  Pair<F> sum = two_sum(angle.hi, sign * q.hi);
  F lo = fma(all_turns, F(0x1.1a62633145c07p-55), angle.lo);
  F turned = sum.hi + (sum.lo + fma(sign, tail, lo));
  return select(all_turns == F(0), sign * (q.hi + tail), turned);
}

template <class F>
NEURON_INLINE F atan(F x) {
  if constexpr (kIsDouble<F>) {
    F a = limit(abs(x), 0, 0x1p70);
    MaskOf<F> inverse = a > F(1);
    F r = atan_quotient(select(inverse, F(1), a), select(inverse, a, F(1)),
                        select(inverse, F(2), F(0)), select(inverse, F(-1), F(1)));
    return one_nan(copysign(r, x));
  } else {
    return narrow(atan(widen(x)));
  }
}
template <class F>
NEURON_INLINE F atan2(F y, F x) {
  if constexpr (kIsDouble<F>) {
    F ax = abs(x);
    F ay = abs(y);
    MaskOf<F> inverse = ay > ax;
    F num = select(inverse, ax, ay);
    F den = select(inverse, ay, ax);
    // Away from the limits of the range; infinities become 1 against 0 or 1.
    F factor = select(den > F(0x1p900), F(0x1p-200),
                      select(den < F(0x1p-800), F(0x1p200), F(1)));
    MaskOf<F> infinite = den == F(kInfinity);
    num = select(infinite, select(num == den, F(1), F(0)), num * factor);
    den = select(infinite | (den == F(0)), F(1), den * factor);
    MaskOf<F> left = sign_bit(x) != IntOf<F>(0);
    F turns = select(inverse, F(2), select(left, F(4), F(0)));
    F sign = select((inverse & !left) | (left & !inverse), F(-1), F(1));
    F r = atan_quotient(num, den, turns, sign);
    MaskOf<F> defined = (x == x) & (y == y);
    return one_nan(select(defined, copysign(r, y), F(kNan)));
  } else {
    return narrow(atan2(widen(y), widen(x)));
  }
}

}  // namespace neuron::ir::math
