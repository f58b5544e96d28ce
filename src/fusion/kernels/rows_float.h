// Storage types of the row kernels and their conversions: exact to wider types, to
// nearest even to 16 bits. Branch-free, so that loops over them become vector code.
//
// All is in an anonymous namespace: a file compiled for another instruction set must not
// share inline functions with this one.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ir/dtype.h"

namespace neuron::fusion {
namespace {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

inline float widen(Half x) {
  // In the upper half of a word, so that no step is done in 16 bits and widened again.
  const uint32_t word = static_cast<uint32_t>(x.bits) << 16;
  const uint32_t magnitude =
      word << 1 >> 4;  // exponent and mantissa where a float has them
  // The product corrects the exponent's bias; infinity and NaN, made so by the addition
  // of 255 - 31 to the exponent, stay what they are.
  const float normal = std::bit_cast<float>(magnitude + (224u << 23)) * 0x1p-112f;
  // The mantissa in units of 2^-24 behind the point of a number in [0.5, 1).
  const float subnormal = std::bit_cast<float>((magnitude >> 13) | (126u << 23)) - 0.5f;
  const bool is_normal = static_cast<int32_t>(magnitude) >= (1 << 23);
  const uint32_t bits = std::bit_cast<uint32_t>(is_normal ? normal : subnormal);
  return std::bit_cast<float>((word & 0x80000000) | bits);
}
inline float widen(BFloat x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline float widen(float x) { return x; }
inline double widen(double x) { return x; }

// Integers of storage are their own values.
inline uint8_t widen(uint8_t x) { return x; }
inline int8_t widen(int8_t x) { return x; }
inline int16_t widen(int16_t x) { return x; }
inline int32_t widen(int32_t x) { return x; }
inline int64_t widen(int64_t x) { return x; }

template <class T>
using WideOf = decltype(widen(T{}));

/// What a storage type is computed in (law 3).
template <class T>
using AccOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline Half to_half(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffff;
  // Adding a number whose last bit weighs as much as the result's rounds to it. Large
  // numbers overflow in the first product and stay infinite.
  const float scaled = (std::bit_cast<float>(magnitude) * 0x1p112f) * 0x1p-110f;
  const uint32_t exponent = magnitude & 0x7f800000;
  const uint32_t least = 0x38800000;  // of the smallest normal half
  const uint32_t magic = (exponent < least ? least : exponent) + 0x07800000;
  const uint32_t sum = std::bit_cast<uint32_t>(scaled + std::bit_cast<float>(magic));
  const uint32_t rounded = ((sum >> 13) & 0x7c00) + (sum & 0x0fff);
  const uint32_t result = magnitude > 0x7f800000 ? 0x7e00 : rounded;
  return {static_cast<uint16_t>((bits >> 16 & 0x8000) | result)};
}
inline BFloat to_bfloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded)};
}

/// Rounds to a storage type.
template <class T, class Acc>
inline T narrow(Acc x) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, BFloat>) {
    return to_bfloat(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

/// One NaN, so that a result does not tell which of two NaNs came first.
template <class Acc>
inline Acc one_nan(Acc x) {
  return x != x ? std::numeric_limits<Acc>::quiet_NaN() : x;
}

/// Rounds to the storage type of a float `dtype` and writes element `idx`.
template <class Acc>
inline void store_as(ir::DType dtype, void* out, int64_t idx, Acc value) {
  value = one_nan(value);
  switch (dtype) {
    case ir::DType::kFloat16:
      static_cast<Half*>(out)[idx] = narrow<Half>(value);
      return;
    case ir::DType::kBFloat16:
      static_cast<BFloat*>(out)[idx] = narrow<BFloat>(value);
      return;
    case ir::DType::kFloat32:
      static_cast<float*>(out)[idx] = narrow<float>(value);
      return;
    default:
      static_cast<double*>(out)[idx] = value;
      return;
  }
}

/// Reads element `idx` of a float `dtype`.
template <class Acc>
inline Acc load_as(ir::DType dtype, const void* in, int64_t idx) {
  switch (dtype) {
    case ir::DType::kFloat16:
      return widen(static_cast<const Half*>(in)[idx]);
    case ir::DType::kBFloat16:
      return widen(static_cast<const BFloat*>(in)[idx]);
    case ir::DType::kFloat32:
      return static_cast<const float*>(in)[idx];
    default:
      return static_cast<Acc>(static_cast<const double*>(in)[idx]);
  }
}

inline bool is_float(ir::DType dtype) {
  return dtype == ir::DType::kFloat16 || dtype == ir::DType::kBFloat16 ||
         dtype == ir::DType::kFloat32 || dtype == ir::DType::kFloat64;
}

/// Calls `body` with a null pointer to the storage type of a float `dtype`.
template <class Body>
inline void with_float(ir::DType dtype, const Body& body) {
  switch (dtype) {
    case ir::DType::kFloat16:
      return body(static_cast<Half*>(nullptr));
    case ir::DType::kBFloat16:
      return body(static_cast<BFloat*>(nullptr));
    case ir::DType::kFloat32:
      return body(static_cast<float*>(nullptr));
    default:
      return body(static_cast<double*>(nullptr));
  }
}

/// The same for a float or an integer `dtype`; bool is stored as uint8_t.
template <class Body>
inline void with_type(ir::DType dtype, const Body& body) {
  switch (dtype) {
    case ir::DType::kBool:
    case ir::DType::kUInt8:
      return body(static_cast<uint8_t*>(nullptr));
    case ir::DType::kInt8:
      return body(static_cast<int8_t*>(nullptr));
    case ir::DType::kInt16:
      return body(static_cast<int16_t*>(nullptr));
    case ir::DType::kInt32:
      return body(static_cast<int32_t*>(nullptr));
    case ir::DType::kInt64:
      return body(static_cast<int64_t*>(nullptr));
    default:
      return with_float(dtype, body);
  }
}

}  // namespace
}  // namespace neuron::fusion
