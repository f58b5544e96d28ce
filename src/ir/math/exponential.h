// exp and its relatives, sigmoid, silu, the tanh form of gelu, sinh, cosh, tanh.
#pragma once

#include "ir/math/pair.h"

namespace neuron::ir::math {

/// x = k ln2 + r (Cody-Waite): k is an integer, and r + r_lo lies in [-ln2/2, ln2/2].
template <class F>
struct ExpReduced {
  F k, r, r_lo;
};
template <class F>
NEURON_INLINE ExpReduced<F> exp_reduce(F x) {
  constexpr double kHi = kIsDouble<F> ? 0x1.62e42fefa39efp-1 : 0x1.62e43p-1;
  constexpr double kLo = kIsDouble<F> ? 0x1.abc9e3b39803fp-56 : -0x1.05c610p-29;
  F k = fma(x, F(0x1.71547652b82fep+0), round_magic<F>()) - round_magic<F>();
  F exact = fma(-k, F(kHi), x);  // The result has no more bits than x and kHi.
  F r = fma(-k, F(kLo), exact);
  return {k, r, fma(-k, F(kLo), exact - r)};
}

/// e^(x + x_lo) = 2^k (1 + m.hi + m.lo).
template <class F>
struct ExpParts {
  F k;
  Pair<F> m;
};
template <class F>
NEURON_INLINE ExpParts<F> exp_parts_reduced(ExpReduced<F> reduced) {
  auto [k, r, r_lo] = reduced;
  F square = r * r;
  Pair<F> sum = fast_two_sum(r, F(0.5) * square);
  F tail = fma(r_lo, sum.hi, r_lo) + sum.lo;
  F p;  // (e^r - 1 - r - r^2/2) / r^3
  if constexpr (kIsDouble<F>) {
    tail = fma(F(0.5), fma(r, r, -square), tail);  // In float it is negligible.
    p = poly(r, 0x1.5555555555559p-3, 0x1.5555555555559p-5, 0x1.111111110f6d6p-7,
             0x1.6c16c16c14a83p-10, 0x1.a01a01afd8408p-13, 0x1.a01a01af64894p-16,
             0x1.71ddf86f16950p-19, 0x1.27e4c7c1bd5f5p-22, 0x1.af5e95be4a3b0p-26,
             0x1.1f92c56186728p-29);
  } else {
    p = poly(r, 0x1.555556p-3, 0x1.5554f8p-5, 0x1.111024p-7, 0x1.6d401cp-10,
             0x1.a20084p-13);
  }
  return {k, fast_two_sum(sum.hi, fma(r * square, p, tail))};
}
template <class F>
NEURON_INLINE ExpParts<F> exp_parts(F x) {
  return exp_parts_reduced(exp_reduce(x));
}
template <class F>
NEURON_INLINE ExpParts<F> exp_parts(F x, F x_lo) {
  auto [k, r, r_lo] = exp_reduce(x);
  // x_lo may be much larger than the last place of r.
  Pair<F> sum = fast_two_sum(r, r_lo + x_lo);
  return exp_parts_reduced(ExpReduced<F>{k, sum.hi, sum.lo});
}
/// 1 + m as a pair.
template <class F>
NEURON_INLINE Pair<F> one_plus(Pair<F> m) {
  Pair<F> sum = fast_two_sum(F(1), m.hi);
  return {sum.hi, sum.lo + m.lo};
}

/// e^r for r in [-ln2/2, ln2/2].
template <class F>
NEURON_INLINE F exp_kernel(F r) {
  if constexpr (kIsDouble<F>) {
    return poly(r, 1, 1, 0.5, 0x1.5555555555559p-3, 0x1.5555555555559p-5,
                0x1.111111110f6d6p-7, 0x1.6c16c16c14a83p-10, 0x1.a01a01afd8408p-13,
                0x1.a01a01af64894p-16, 0x1.71ddf86f16950p-19, 0x1.27e4c7c1bd5f5p-22,
                0x1.af5e95be4a3b0p-26, 0x1.1f92c56186728p-29);
  } else {
    return poly(r, 1, 1, 0.5, 0x1.555556p-3, 0x1.5554f8p-5, 0x1.111024p-7, 0x1.6d401cp-10,
                0x1.a20084p-13);
  }
}

template <class F>
NEURON_INLINE F exp(F x) {
  F limited = kIsDouble<F> ? limit(x, -750, 710) : limit(x, -105, 89);
  auto [k, r, r_lo] = exp_reduce(limited);
  return one_nan(scale(exp_kernel(r), k));
}

template <class F>
NEURON_INLINE F exp2(F x) {
  F limited = kIsDouble<F> ? limit(x, -1080, 1025) : limit(x, -152, 129);
  F k = rint(limited);
  F r = limited - k;
  if constexpr (kIsDouble<F>) {
    F p = poly(r, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0d1p-5, 0x1.3b2ab6fba4e81p-7,
               0x1.5d87fe78a22cdp-10, 0x1.430912f868d7ap-13, 0x1.ffcbfc75e4746p-17,
               0x1.62c0224da2b9ep-20, 0x1.b524db52e9645p-24, 0x1.e4cee835b7966p-28,
               0x1.ea0420a87cab6p-32, 0x1.c4dab88b81d84p-36);
    return one_nan(scale(fma(fma(r, p, F(0x1.62e42fefa39efp-1)), r, F(1)), k));
  } else {
    F p = poly(r, 1, 0x1.62e430p-1, 0x1.ebfbe0p-3, 0x1.c6b08ep-5, 0x1.3b29f0p-7,
               0x1.5d8724p-10, 0x1.445e6ap-13, 0x1.00f17ep-16);
    return one_nan(scale(p, k));
  }
}

/// e^x - 1 as a pair, for x in [-50, 50] or so, where 2^k is far from the limits.
template <class F>
NEURON_INLINE Pair<F> expm1_pair(F x, F x_lo) {
  auto [k, m] = exp_parts(x, x_lo);
  F s = pow2(k);
  Pair<F> base = two_sum(s, F(-1));
  Pair<F> sum = two_sum(base.hi, s * m.hi);
  Pair<F> scaled = fast_two_sum(sum.hi, sum.lo + fma(s, m.lo, base.lo));
  return choose<F>(k == F(0), m, scaled);
}

template <class F>
NEURON_INLINE F expm1(F x) {
  if constexpr (kIsDouble<F>) {
    auto [k, m] = exp_parts(limit(x, -50, 710));
    F s = pow2(k - F(1));  // Half of 2^k: 2^1024 is out of range.
    Pair<F> base = two_sum(s, F(-0.5));
    Pair<F> sum = two_sum(base.hi, s * m.hi);
    F scaled = F(2) * (sum.hi + (sum.lo + fma(s, m.lo, base.lo)));
    return one_nan(select(x == F(0), x, select(k == F(0), m.hi + m.lo, scaled)));
  } else {
    return narrow(expm1(widen(x)));
  }
}

/// 1 / (1 + e^-x).
template <class F>
struct SigmoidParts {
  Pair<F> q;
  F k;
};
/// sigmoid(x) = 2^k (q.hi + q.lo), so that a factor can be applied before it underflows.
template <class F>
NEURON_INLINE SigmoidParts<F> sigmoid_parts(F x, ExpParts<F> exp_parts) {
  // With e = e^-|x|, given as exp_parts: 1 / (1 + e) or e / (1 + e).
  auto [k, m] = exp_parts;
  Pair<F> e = one_plus(m);
  F floor_k = kIsDouble<F> ? F(-1000) : F(-120);
  F s = pow2(select(k < floor_k, floor_k, k));
  Pair<F> sum = fast_two_sum(F(1), s * e.hi);
  Pair<F> den = {sum.hi, fma(s, e.lo, sum.lo)};
  MaskOf<F> negative = x < F(0);
  Pair<F> num = choose<F>(negative, e, {F(1), F(0)});
  F q = num.hi / den.hi;
  F remainder = fma(-q, den.lo, fma(-q, den.hi, num.hi) + num.lo);
  // For the correction 1 / (1 + e) to one digit is q or 1 - q, but q <= 1 always.
  F inverse = select(negative, fma(-q, s, F(1)), q);
  return {{q, remainder * inverse}, select(negative, k, F(0))};
}
template <class F>
NEURON_INLINE F sigmoid(F x) {
  F limited = kIsDouble<F> ? limit(x, -760, 760) : limit(x, -120, 120);
  auto [q, k] = sigmoid_parts(limited, exp_parts(-abs(limited)));
  return one_nan(scale(q.hi + q.lo, k));
}
/// x sigmoid(x); NaN at -inf, as x / (1 + e^-x) has it.
template <class F>
NEURON_INLINE F silu(F x) {
  F limited = kIsDouble<F> ? limit(x, -760, 760) : limit(x, -120, 120);
  auto [q, k] = sigmoid_parts(limited, exp_parts(-abs(limited)));
  F factor = select(x < limited, limited, x);
  F r = scale(fma(factor, q.hi, limited * q.lo), k);
  return one_nan(select(x == F(-kInfinity), F(kNan), r));
}

/// The tanh approximation of gelu: x (1 + tanh(u)) / 2 = x sigmoid(2 u) with
/// u = sqrt(2/pi) (x + 0.044715 x^3). NaN at -inf.
template <class F>
NEURON_INLINE F gelu_tanh(F x) {
  F limited = kIsDouble<F> ? limit(x, -22, 100) : limit(x, -12, 100);
  Pair<F> square = two_prod(limited, limited);
  // 2 sqrt(2/pi) and its product with 0.044715
  constexpr double kA = kIsDouble<F> ? 0x1.9884533d43651p+0 : 0x1.988454p+0;
  constexpr double kALo = kIsDouble<F> ? -0x1.cbc0d30ebfd15p-54 : -0x1.857936p-25;
  constexpr double kB = kIsDouble<F> ? 0x1.2444f2a4d8b4bp-4 : 0x1.2444f2p-4;
  constexpr double kBLo = kIsDouble<F> ? -0x1.3023b0e5fbc6ep-58 : 0x1.49b16ap-29;
  Pair<F> inner = add(mul(square, {F(kB), F(kBLo)}), {F(kA), F(kALo)});
  Pair<F> u = mul(inner, {limited, F(0)});
  F far = kIsDouble<F> ? limit(u.hi, -760, 760) : limit(u.hi, -120, 120);
  F far_lo = select(far == u.hi, u.lo, F(0));
  ExpParts<F> e = exp_parts(-abs(far), flip(far_lo, sign_bit(-far)));
  auto [q, k] = sigmoid_parts(far, e);
  F factor = select(x < limited, limited, x);
  F r = scale(fma(factor, q.hi, limited * q.lo), k);
  return one_nan(select(x == F(-kInfinity), F(kNan), r));
}

template <class F>
NEURON_INLINE F tanh(F x) {
  if constexpr (kIsDouble<F>) {
    F a = limit(abs(x), 0, 25);
    Pair<F> n = expm1_pair(F(2) * a, F(0));
    Pair<F> d = two_sum(F(2), n.hi);
    Pair<F> q = div(n, {d.hi, d.lo + n.lo});
    return one_nan(copysign(q.hi + q.lo, x));
  } else {
    F a = limit(abs(x), 0, 10);
    F z = a * a;
    F p = poly(z, -0x1.555552p-2, 0x1.11103cp-3, -0x1.b9f6dep-5, 0x1.64c0a4p-6,
               -0x1.18de98p-7, 0x1.8f9f52p-9, -0x1.aee922p-11, 0x1.e86d62p-14);
    F small = fma(a * z, p, a);
    auto [k, r, r_lo] = exp_reduce(F(2) * a);
    F e = exp_kernel(r) * pow2(k);
    F large = F(1) - F(2) / (e + F(1));
    return one_nan(copysign(select(a < F(1), small, large), x));
  }
}

template <class F>
NEURON_INLINE F sinh(F x) {
  if constexpr (kIsDouble<F>) {
    F a = limit(abs(x), 0, 720);
    // (n + n / (n + 1)) / 2 with n = e^a - 1; beyond 40 it is e^a / 2.
    Pair<F> n = expm1_pair(limit(a, 0, 40), F(0));
    Pair<F> d = two_sum(n.hi, F(1));
    Pair<F> sum = add(n, div(n, {d.hi, d.lo + n.lo}));
    auto [k, m] = exp_parts(a);
    Pair<F> e = one_plus(m);
    F large = scale(e.hi + e.lo, k - F(1));
    F r = select(a < F(40), F(0.5) * (sum.hi + sum.lo), large);
    return one_nan(copysign(select(a < F(0x1p-30), a, r), x));
  } else {
    return narrow(sinh(widen(x)));
  }
}

template <class F>
NEURON_INLINE F cosh(F x) {
  if constexpr (kIsDouble<F>) {
    F a = limit(abs(x), 0, 720);
    auto [k, m] = exp_parts(a);
    Pair<F> e = one_plus(m);
    F s = pow2(limit(k, 0, 100));
    Pair<F> large = {s * e.hi, s * e.lo};
    Pair<F> sum = add(large, div(Pair<F>{F(1), F(0)}, large));
    F far = scale(e.hi + e.lo, k - F(1));
    return one_nan(select(a < F(40), F(0.5) * (sum.hi + sum.lo), far));
  } else {
    return narrow(cosh(widen(x)));
  }
}

}  // namespace neuron::ir::math
