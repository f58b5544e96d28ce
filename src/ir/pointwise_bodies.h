// The bodies of pointwise.def as function templates: body<Code, T>(a, b, c, d).
//
// Compile with -ffp-contract=off; see scalar.h.
#pragma once

#include <cstdint>

#include "ir/math.h"
#include "ir/pointwise.h"
#include "ir/scalar.h"

namespace neuron::ir {

NEURON_INLINE bool select(bool condition, bool yes, bool no) {
  return condition ? yes : no;
}

template <class T>
NEURON_INLINE T maximum_of(T a, T b) {
  return select((a > b) | (a != a), a, b);
}
template <class T>
NEURON_INLINE T minimum_of(T a, T b) {
  return select((a < b) | (a != a), a, b);
}
template <class T>
NEURON_INLINE T not_of(T a) {
  return ~a;
}
NEURON_INLINE bool not_of(bool a) { return !a; }

// tanh(sqrt(2 / pi) (x + 0.044715 x^3)), the inner part of the tanh form of GELU.
template <class T>
NEURON_INLINE T gelu_tanh_of(T x) {
  return math::tanh(T(0.79788456080286535588) * (x + T(0.044715) * (x * x * x)));
}
// d/dx of x Phi(x): Phi(x) + x phi(x).
template <class T>
NEURON_INLINE T gelu_slope_of(T x) {
  const T cdf = T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440)));
  const T pdf = math::exp(x * x * T(-0.5)) * T(0.39894228040143267794);
  return cdf + x * pdf;
}
template <class T>
NEURON_INLINE T gelu_tanh_slope_of(T x) {
  const T t = gelu_tanh_of(x);
  const T inner = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * (x * x));
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}
template <class T>
NEURON_INLINE T silu_slope_of(T x) {
  const T s = math::sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}
template <class T>
NEURON_INLINE T smooth_l1_of(T distance, T beta) {
  return select(distance < beta, T(0.5) * distance * distance / beta,
                distance - T(0.5) * beta);
}

/// The body of a code for one type; `value` is only there where pointwise.def has one.
template <Code kCode, class T>
struct Body;

#define NEURON_POINTWISE(name, arity, types, result, ...)                         \
  template <class T>                                                              \
  struct Body<Code::name, T> {                                                    \
    NEURON_INLINE static auto value([[maybe_unused]] T a, [[maybe_unused]] T b,   \
                                    [[maybe_unused]] T c, [[maybe_unused]] T d) { \
      return (__VA_ARGS__);                                                       \
    }                                                                             \
  };
#include "ir/pointwise.def"
#undef NEURON_POINTWISE

}  // namespace neuron::ir
