// The vocabulary in which op bodies are written, for plain `float` and `double`.
//
// A body is a template over the value type F. The same text is instantiated for `float`
// and `double` (interpreter and baseline kernels, whose loops the compiler vectorises)
// and for the code generator's value type. So a body has no branch on data (`select`
// instead), no library call, and only operations that IEEE 754 defines to the last bit.
// That is why vector body, tail, baseline and generated code give the same bits. Files
// that include this are compiled with -ffp-contract=off; `fma` is the only contraction.
#pragma once

#include <bit>
#include <cstdint>

namespace neuron::ir {

/// The integer type of the width of F, and what a comparison of two F gives.
template <class F>
struct ScalarTraits;
template <>
struct ScalarTraits<float> {
  using Int = int32_t;
  using Mask = bool;
};
template <>
struct ScalarTraits<double> {
  using Int = int64_t;
  using Mask = bool;
};
template <class F>
using IntOf = typename ScalarTraits<F>::Int;
template <class F>
using MaskOf = typename ScalarTraits<F>::Mask;

inline float select(bool condition, float yes, float no) { return condition ? yes : no; }
inline double select(bool condition, double yes, double no) {
  return condition ? yes : no;
}
inline int32_t select(bool condition, int32_t yes, int32_t no) {
  return condition ? yes : no;
}
inline int64_t select(bool condition, int64_t yes, int64_t no) {
  return condition ? yes : no;
}

/// a * b + c, rounded once.
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
/// To the nearest integer, ties to even.
inline float rint(float x) { return __builtin_rintf(x); }
inline double rint(double x) { return __builtin_rint(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline double ceil(double x) { return __builtin_ceil(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline double trunc(double x) { return __builtin_trunc(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
/// The magnitude of x with the sign of y.
inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
inline double copysign(double x, double y) { return __builtin_copysign(x, y); }

/// The bit pattern of x, and back.
inline int32_t bits(float x) { return std::bit_cast<int32_t>(x); }
inline int64_t bits(double x) { return std::bit_cast<int64_t>(x); }
inline float from_bits(int32_t x) { return std::bit_cast<float>(x); }
inline double from_bits(int64_t x) { return std::bit_cast<double>(x); }

/// Conversion of an F that holds an integer within the range of its Int, and back.
inline int32_t to_int(float x) { return static_cast<int32_t>(x); }
inline int64_t to_int(double x) { return static_cast<int64_t>(x); }
inline float to_float(int32_t x) { return static_cast<float>(x); }
inline double to_float(int64_t x) { return static_cast<double>(x); }

/// Shifts by a constant; `shift_right` fills with zeros, `>>` with the sign.
inline int32_t shift_left(int32_t x, int n) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) << n);
}
inline int64_t shift_left(int64_t x, int n) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) << n);
}
inline int32_t shift_right(int32_t x, int n) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) >> n);
}
inline int64_t shift_right(int64_t x, int n) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) >> n);
}

/// float to double and back, for float functions that are computed in double.
inline double widen(float x) { return x; }
inline float narrow(double x) { return static_cast<float>(x); }

}  // namespace neuron::ir
