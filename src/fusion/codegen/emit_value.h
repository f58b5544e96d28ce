// Emit<T>: the value type with which the op bodies of pointwise.def build code. It has
// the vocabulary of ir/scalar.h, found by argument-dependent lookup.
#pragma once

#include <cstdint>
#include <type_traits>

#include "fusion/codegen/emit_ops.h"
#include "ir/math.h"
#include "ir/scalar.h"

namespace neuron::fusion {

/// A vector of T in the kernel that is built; T is float, double, int32_t, int64_t or
/// bool.
template <class T>
struct Emit {
  using Literal = std::conditional_t<std::is_floating_point_v<T>, double, T>;

  Ref ref = nullptr;

  Emit() = default;
  explicit Emit(Literal x) : ref(emit_constant(static_cast<T>(x))) {}
  static Emit of(Ref ref) {
    Emit value;
    value.ref = ref;
    return value;
  }
};

template <class T>
inline constexpr Elem kElemOf = Elem::kBool;
template <>
inline constexpr Elem kElemOf<int32_t> = Elem::kI32;
template <>
inline constexpr Elem kElemOf<int64_t> = Elem::kI64;
template <>
inline constexpr Elem kElemOf<float> = Elem::kF32;
template <>
inline constexpr Elem kElemOf<double> = Elem::kF64;

#define NEURON_EMIT_BINARY(symbol, op)                         \
  template <class T>                                           \
  Emit<T> operator symbol(Emit<T> a, Emit<T> b) {              \
    return Emit<T>::of(emit_binary(Binary::op, a.ref, b.ref)); \
  }
NEURON_EMIT_BINARY(+, kAdd)
NEURON_EMIT_BINARY(-, kSub)
NEURON_EMIT_BINARY(*, kMul)
NEURON_EMIT_BINARY(/, kDiv)
NEURON_EMIT_BINARY(&, kAnd)
NEURON_EMIT_BINARY(|, kOr)
NEURON_EMIT_BINARY(^, kXor)
#undef NEURON_EMIT_BINARY

#define NEURON_EMIT_COMPARE(symbol, op)                             \
  template <class T>                                                \
  Emit<bool> operator symbol(Emit<T> a, Emit<T> b) {                \
    return Emit<bool>::of(emit_compare(Compare::op, a.ref, b.ref)); \
  }
NEURON_EMIT_COMPARE(==, kEq)
NEURON_EMIT_COMPARE(!=, kNe)
NEURON_EMIT_COMPARE(<, kLt)
NEURON_EMIT_COMPARE(<=, kLe)
NEURON_EMIT_COMPARE(>, kGt)
NEURON_EMIT_COMPARE(>=, kGe)
#undef NEURON_EMIT_COMPARE

template <class T>
Emit<T> operator-(Emit<T> x) {
  return Emit<T>::of(emit_unary(Unary::kNeg, x.ref));
}
template <class T>
Emit<T> operator~(Emit<T> x) {
  return Emit<T>::of(emit_unary(Unary::kNot, x.ref));
}
inline Emit<bool> operator!(Emit<bool> x) { return ~x; }

#define NEURON_EMIT_UNARY(name, op)                   \
  template <class T>                                  \
  Emit<T> name(Emit<T> x) {                           \
    return Emit<T>::of(emit_unary(Unary::op, x.ref)); \
  }
NEURON_EMIT_UNARY(abs, kAbs)
NEURON_EMIT_UNARY(sqrt, kSqrt)
NEURON_EMIT_UNARY(rint, kRint)
NEURON_EMIT_UNARY(floor, kFloor)
NEURON_EMIT_UNARY(ceil, kCeil)
NEURON_EMIT_UNARY(trunc, kTrunc)
#undef NEURON_EMIT_UNARY

template <class T>
Emit<T> select(Emit<bool> mask, Emit<T> yes, Emit<T> no) {
  return Emit<T>::of(emit_select(mask.ref, yes.ref, no.ref));
}
template <class T>
Emit<T> fma(Emit<T> a, Emit<T> b, Emit<T> c) {
  return Emit<T>::of(emit_fma(a.ref, b.ref, c.ref));
}
template <class T>
Emit<T> copysign(Emit<T> x, Emit<T> y) {
  return Emit<T>::of(emit_binary(Binary::kCopysign, x.ref, y.ref));
}

template <class To, class From>
Emit<To> bitcast(Emit<From> x) {
  return Emit<To>::of(emit_bitcast(x.ref, kElemOf<To>));
}
inline Emit<int32_t> bits(Emit<float> x) { return bitcast<int32_t>(x); }
inline Emit<int64_t> bits(Emit<double> x) { return bitcast<int64_t>(x); }
inline Emit<float> from_bits(Emit<int32_t> x) { return bitcast<float>(x); }
inline Emit<double> from_bits(Emit<int64_t> x) { return bitcast<double>(x); }

template <class To, class From>
Emit<To> convert(Emit<From> x) {
  return Emit<To>::of(emit_convert(x.ref, kElemOf<To>));
}
inline Emit<int32_t> to_int(Emit<float> x) { return convert<int32_t>(x); }
inline Emit<int64_t> to_int(Emit<double> x) { return convert<int64_t>(x); }
inline Emit<float> to_float(Emit<int32_t> x) { return convert<float>(x); }
inline Emit<double> to_float(Emit<int64_t> x) { return convert<double>(x); }
inline Emit<double> widen(Emit<float> x) { return convert<double>(x); }
inline Emit<float> narrow(Emit<double> x) { return convert<float>(x); }

template <class T>
Emit<T> shift_left(Emit<T> x, int n) {
  return Emit<T>::of(emit_shift(Shift::kLeft, x.ref, n));
}
template <class T>
Emit<T> shift_right(Emit<T> x, int n) {
  return Emit<T>::of(emit_shift(Shift::kRight, x.ref, n));
}
template <class T>
Emit<T> operator>>(Emit<T> x, int n) {
  return Emit<T>::of(emit_shift(Shift::kRightSign, x.ref, n));
}

}  // namespace neuron::fusion

namespace neuron::ir {

template <>
struct ScalarTraits<fusion::Emit<float>> {
  using Int = fusion::Emit<int32_t>;
  using Mask = fusion::Emit<bool>;
};
template <>
struct ScalarTraits<fusion::Emit<double>> {
  using Int = fusion::Emit<int64_t>;
  using Mask = fusion::Emit<bool>;
};
template <>
inline constexpr bool math::kIsDouble<fusion::Emit<double>> = true;

}  // namespace neuron::ir
