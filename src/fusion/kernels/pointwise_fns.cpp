// Baseline kernels of all pointwise codes. Compiled once for AVX2 and once for AVX-512,
// each time with the namespace `neuron` renamed, so that no inline function compiled for
// one instruction set is linked into the other.
#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "fusion/kernels/pointwise_table.h"
#include "ir/pointwise_bodies.h"

namespace neuron::fusion {
namespace {

using ir::Code;
using ir::ValueType;

// The input pointers may equal the output, never overlap it otherwise.
#define NEURON_FOR_ALL _Pragma("GCC ivdep") for (int64_t i = 0; i < n; ++i)

template <Code kCode, class T, class Result>
void run_instr(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<Result*>(out);
  const auto* a = static_cast<const T*>(in[0]);
  const auto* b = static_cast<const T*>(in[1]);
  const auto* c = static_cast<const T*>(in[2]);
  const auto* d = static_cast<const T*>(in[3]);
  NEURON_FOR_ALL o[i] = ir::Body<kCode, T>::value(a[i], b[i], c[i], d[i]);
}

template <class T>
void run_where(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<T*>(out);
  const auto* a = static_cast<const uint8_t*>(in[0]);
  const auto* b = static_cast<const T*>(in[1]);
  const auto* c = static_cast<const T*>(in[2]);
  NEURON_FOR_ALL o[i] = a[i] != 0 ? b[i] : c[i];
}

template <class From, class To>
void run_convert(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<To*>(out);
  const auto* a = static_cast<const From*>(in[0]);
  NEURON_FOR_ALL o[i] = static_cast<To>(a[i]);
}

// As the hardware does it: what does not fit becomes the smallest integer.
template <class From>
void run_to_i64(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<int64_t*>(out);
  const auto* a = static_cast<const From*>(in[0]);
  NEURON_FOR_ALL {
    const From x = a[i];
    const bool fits = x >= From(-0x1p63) && x < From(0x1p63);
    o[i] = fits ? static_cast<int64_t>(fits ? x : From(0)) : INT64_MIN;
  }
}

template <class From>
void run_to_bool(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<uint8_t*>(out);
  const auto* a = static_cast<const From*>(in[0]);
  NEURON_FOR_ALL o[i] = a[i] != From(0);
}

template <class Narrow>
void run_wrap(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<int64_t*>(out);
  const auto* a = static_cast<const int64_t*>(in[0]);
  NEURON_FOR_ALL o[i] = static_cast<Narrow>(a[i]);
}

// To the nearest, ties to even; NaN stays NaN.
inline uint32_t to_bf16(float x) {
  const auto word = static_cast<uint32_t>(ir::bits(x));
  const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
  return x != x ? 0x7fc0u : rounded;
}

void run_round_bf16(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<float*>(out);
  const auto* a = static_cast<const float*>(in[0]);
  NEURON_FOR_ALL o[i] = ir::from_bits(static_cast<int32_t>(to_bf16(a[i]) << 16));
}

void run_round_f16(void* out, const void* const* in, int64_t n) {
  auto* o = static_cast<float*>(out);
  const auto* a = static_cast<const float*>(in[0]);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_ps(o + i, _mm256_cvtph_ps(half));
  }
  for (; i < n; ++i) o[i] = _cvtsh_ss(_cvtss_sh(a[i], _MM_FROUND_TO_NEAREST_INT));
}

// --- storage ------------------------------------------------------------------------

template <class Value, class Storage, class Convert>
void load_as(void* values, const void* storage, int64_t n, int64_t stride,
             const Convert& convert) {
  auto* o = static_cast<Value*>(values);
  const auto* a = static_cast<const Storage*>(storage);
  if (stride == 1) {
    NEURON_FOR_ALL o[i] = convert(a[i]);
  } else if (stride == 0) {
    const Value value = convert(a[0]);
    NEURON_FOR_ALL o[i] = value;
  } else {
    NEURON_FOR_ALL o[i] = convert(a[i * stride]);
  }
}

template <class Storage, class Value, class Convert>
void store_as(void* storage, const void* values, int64_t n, int64_t stride,
              const Convert& convert) {
  auto* o = static_cast<Storage*>(storage);
  const auto* a = static_cast<const Value*>(values);
  if (stride == 1) {
    NEURON_FOR_ALL o[i] = convert(a[i]);
  } else {
    NEURON_FOR_ALL o[i * stride] = convert(a[i]);
  }
}

template <class Value, class Storage>
void load(void* values, const void* storage, int64_t n, int64_t stride) {
  load_as<Value, Storage>(values, storage, n, stride,
                          [](Storage x) { return static_cast<Value>(x); });
}
template <class Storage, class Value>
void store(void* storage, const void* values, int64_t n, int64_t stride) {
  store_as<Storage, Value>(storage, values, n, stride,
                           [](Value x) { return static_cast<Storage>(x); });
}
void load_bool(void* values, const void* storage, int64_t n, int64_t stride) {
  load_as<uint8_t, uint8_t>(values, storage, n, stride,
                            [](uint8_t x) { return static_cast<uint8_t>(x != 0); });
}
void load_bf16(void* values, const void* storage, int64_t n, int64_t stride) {
  load_as<float, uint16_t>(values, storage, n, stride, [](uint16_t x) {
    return ir::from_bits(static_cast<int32_t>(static_cast<uint32_t>(x) << 16));
  });
}
void store_bf16(void* storage, const void* values, int64_t n, int64_t stride) {
  store_as<uint16_t, float>(
      storage, values, n, stride,
      [](float x) {  // rounded before, or loaded as it is
        return static_cast<uint16_t>(static_cast<uint32_t>(ir::bits(x)) >> 16);
      });
}
void load_f16(void* values, const void* storage, int64_t n, int64_t stride) {
  auto* o = static_cast<float*>(values);
  const auto* a = static_cast<const uint16_t*>(storage);
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= n; i += 8) {
      const auto* half = reinterpret_cast<const __m128i*>(a + i);
      _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128(half)));
    }
  }
  for (; i < n; ++i) o[i] = _cvtsh_ss(a[i * stride]);
}
void store_f16(void* storage, const void* values, int64_t n, int64_t stride) {
  auto* o = static_cast<uint16_t*>(storage);
  const auto* a = static_cast<const float*>(values);
  int64_t i = 0;
  if (stride == 1) {
    for (; i + 8 <= n; i += 8) {
      const __m256 value = _mm256_loadu_ps(a + i);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(o + i),
                       _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    }
  }
  for (; i < n; ++i) o[i * stride] = _cvtss_sh(a[i], _MM_FROUND_TO_NEAREST_INT);
}

// --- the table ----------------------------------------------------------------------

constexpr int kF = 0b0011;
constexpr int kFI = 0b0111;
constexpr int kFIB = 0b1111;
constexpr int kIB = 0b1100;

constexpr bool kSame = false;
constexpr bool kBool = true;

template <Code kCode, class T, bool kReturnsBool>
constexpr InstrFn instr_fn() {
  return &run_instr<kCode, T, std::conditional_t<kReturnsBool, bool, T>>;
}

template <Code kCode, int kTypes, bool kReturnsBool>
void add_instr(PointwiseTable& table) {
  InstrFn* row = table.instrs[static_cast<int>(kCode)];
  if constexpr ((kTypes & 1) != 0) row[0] = instr_fn<kCode, float, kReturnsBool>();
  if constexpr ((kTypes & 2) != 0) row[1] = instr_fn<kCode, double, kReturnsBool>();
  if constexpr ((kTypes & 4) != 0) row[2] = instr_fn<kCode, int64_t, kReturnsBool>();
  if constexpr ((kTypes & 8) != 0) row[3] = instr_fn<kCode, bool, kReturnsBool>();
}

void add_conversions(PointwiseTable& table) {
  const auto at = [&](Code code, ValueType type) -> InstrFn& {
    return table.instrs[static_cast<int>(code)][static_cast<int>(type)];
  };
  at(Code::kF32ToF64, ValueType::kF32) = &run_convert<float, double>;
  at(Code::kF64ToF32, ValueType::kF64) = &run_convert<double, float>;
  at(Code::kI64ToF32, ValueType::kI64) = &run_convert<int64_t, float>;
  at(Code::kI64ToF64, ValueType::kI64) = &run_convert<int64_t, double>;
  at(Code::kF32ToI64, ValueType::kF32) = &run_to_i64<float>;
  at(Code::kF64ToI64, ValueType::kF64) = &run_to_i64<double>;
  at(Code::kBoolToI64, ValueType::kBool) = &run_convert<uint8_t, int64_t>;
  at(Code::kBoolToF32, ValueType::kBool) = &run_convert<uint8_t, float>;
  at(Code::kF32ToBool, ValueType::kF32) = &run_to_bool<float>;
  at(Code::kF64ToBool, ValueType::kF64) = &run_to_bool<double>;
  at(Code::kI64ToBool, ValueType::kI64) = &run_to_bool<int64_t>;
  at(Code::kRoundF16, ValueType::kF32) = &run_round_f16;
  at(Code::kRoundBF16, ValueType::kF32) = &run_round_bf16;
  at(Code::kWrapI32, ValueType::kI64) = &run_wrap<int32_t>;
  at(Code::kWrapI16, ValueType::kI64) = &run_wrap<int16_t>;
  at(Code::kWrapI8, ValueType::kI64) = &run_wrap<int8_t>;
  at(Code::kWrapU8, ValueType::kI64) = &run_wrap<uint8_t>;
}

void add_storage(PointwiseTable& table) {
  const auto add = [&](ir::DType dtype, LoadFn load_fn, StoreFn store_fn) {
    table.loads[static_cast<int>(dtype)] = load_fn;
    table.stores[static_cast<int>(dtype)] = store_fn;
  };
  add(ir::DType::kFloat32, &load<float, float>, &store<float, float>);
  add(ir::DType::kFloat64, &load<double, double>, &store<double, double>);
  add(ir::DType::kInt64, &load<int64_t, int64_t>, &store<int64_t, int64_t>);
  add(ir::DType::kInt32, &load<int64_t, int32_t>, &store<int32_t, int64_t>);
  add(ir::DType::kInt16, &load<int64_t, int16_t>, &store<int16_t, int64_t>);
  add(ir::DType::kInt8, &load<int64_t, int8_t>, &store<int8_t, int64_t>);
  add(ir::DType::kUInt8, &load<int64_t, uint8_t>, &store<uint8_t, int64_t>);
  add(ir::DType::kBool, &load_bool, &store<uint8_t, uint8_t>);
  add(ir::DType::kBFloat16, &load_bf16, &store_bf16);
  add(ir::DType::kFloat16, &load_f16, &store_f16);
}

PointwiseTable make_table() {
  PointwiseTable table;
#define NEURON_POINTWISE(code, arity, types, result, ...) \
  add_instr<Code::code, types, result>(table);
#include "ir/pointwise.def"
#undef NEURON_POINTWISE
  InstrFn* where = table.instrs[static_cast<int>(Code::kWhere)];
  where[0] = &run_where<float>;
  where[1] = &run_where<double>;
  where[2] = &run_where<int64_t>;
  where[3] = &run_where<uint8_t>;
  add_conversions(table);
  add_storage(table);
  return table;
}

}  // namespace
}  // namespace neuron::fusion

extern "C" const void* NEURON_TABLE_NAME() {
  static const auto table = neuron::fusion::make_table();
  return &table;
}
