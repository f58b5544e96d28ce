// fmod and remainder, exact; rsqrt and hypot.
#pragma once

#include <cstddef>
#include <utility>

#include "ir/math/pair.h"

namespace neuron::ir::math {

template <class F>
NEURON_INLINE F rsqrt(F x) {
  if constexpr (kIsDouble<F>) {
    F s = sqrt(x);
    F r = F(1) / s;
    // The rounding errors of s and of r, to first order.
    F error_of_s = fma(-s, s, x) * r;
    F better = fma(r, fma(F(-0.5) * r, error_of_s, fma(-s, r, F(1))), r);
    return one_nan(select((x > F(0)) & (x < F(kInfinity)), better, r));
  } else {
    return narrow(one_nan(DoubleOf<F>(1) / sqrt(widen(x))));
  }
}

template <class F>
NEURON_INLINE F hypot(F x, F y) {
  if constexpr (kIsDouble<F>) {
    F high = select(abs(x) < abs(y), abs(y), abs(x));
    F low = select(abs(x) < abs(y), abs(x), abs(y));
    F factor = select(high > F(0x1p500), F(0x1p-600),
                      select(high < F(0x1p-400), F(0x1p600), F(1)));
    F back = select(high > F(0x1p500), F(0x1p600),
                    select(high < F(0x1p-400), F(0x1p-600), F(1)));
    F a = high * factor;
    F b = low * factor;
    Pair<F> root = sqrt_pair(add(two_prod(a, a), two_prod(b, b)));
    F r = (root.hi + root.lo) * back;
    MaskOf<F> infinite = (abs(x) == F(kInfinity)) | (abs(y) == F(kInfinity));
    return one_nan(select(infinite, F(kInfinity), r));
  } else {
    DoubleOf<F> wide_x = widen(x);
    DoubleOf<F> wide_y = widen(y);
    F r = narrow(sqrt(fma(wide_x, wide_x, wide_y * wide_y)));
    MaskOf<F> infinite = (abs(x) == F(kInfinity)) | (abs(y) == F(kInfinity));
    return one_nan(select(infinite, F(kInfinity), r));
  }
}

/// x = 2^exponent mantissa, mantissa in [1, 2), for positive finite x of the wide type.
template <class F>
struct Split {
  F mantissa, exponent;
};
template <class F>
NEURON_INLINE Split<F> split(F x) {
  using Int = IntOf<F>;
  MaskOf<F> tiny = x < F(0x1p-1022);
  Int pattern = bits(select(tiny, x * F(0x1p54), x));
  F mantissa = from_bits((pattern & Int(0x000fffffffffffff)) | Int(0x3ff0000000000000));
  F exponent = from_bits(shift_right(pattern, 52) | Int(0x4330000000000000)) -
               select(tiny, F(0x1p52 + 1023 + 54), F(0x1p52 + 1023));
  return {mantissa, exponent};
}
/// One step takes up to 50 bits off the quotient r 2^distance / m. Its fma is exact, as
/// all values are multiples of 2^-52 below 2^52.
template <class F>
struct FmodState {
  F r, distance, m, inverse;
};
template <class F>
NEURON_INLINE FmodState<F> fmod_step(FmodState<F> state) {
  auto [r, distance, m, inverse] = state;
  F shift = limit(distance, 0, 50);
  F factor = pow2(shift);
  F q = fma(r, inverse * factor, round_magic<F>()) - round_magic<F>();
  return {fma(-q, m, r * factor), distance - shift, m, inverse};
}
template <class F, std::size_t... kStep>
NEURON_INLINE F fmod_steps(F x, F y, std::index_sequence<kStep...>) {
  F a = abs(x);
  F b = abs(y);
  Split<F> split_a = split(a);
  Split<F> split_b = split(b);
  FmodState<F> state = {split_a.mantissa, F(0), split_b.mantissa,
                        F(1) / split_b.mantissa};
  state = fmod_step(state);
  state.distance = split_a.exponent - split_b.exponent;
  ((static_cast<void>(kStep), state = fmod_step(state)), ...);
  F positive = select(state.r < F(0), state.r + state.m, state.r);
  F r = copysign(scale(positive, split_b.exponent), x);
  return select(a < b, x, r);
}
/// fmod for finite x and y other than 0; anything else gives anything.
template <class F>
NEURON_INLINE F fmod_finite(F x, F y) {
  if constexpr (kIsDouble<F>) {
    return fmod_steps(x, y, std::make_index_sequence<42>());
  } else {
    return narrow(fmod_steps(widen(x), widen(y), std::make_index_sequence<6>()));
  }
}
template <class F>
NEURON_INLINE F fmod(F x, F y) {
  MaskOf<F> defined = (abs(x) < F(kInfinity)) & (abs(y) > F(0));
  return select(defined, fmod_finite(x, y), F(kNan));
}
/// The remainder with the sign of y (Python's %).
template <class F>
NEURON_INLINE F remainder(F x, F y) {
  F r = fmod_finite(x, y);
  F product_sign = flip(F(1), sign_bit(r) ^ sign_bit(y));
  F adjusted = select((r != F(0)) & (product_sign < F(0)), r + y, r);
  MaskOf<F> defined = (abs(x) < F(kInfinity)) & (abs(y) > F(0));
  return select(defined, adjusted, F(kNan));
}

}  // namespace neuron::ir::math
