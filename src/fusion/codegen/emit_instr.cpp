#include "fusion/codegen/emit_instr.h"

#include <array>
#include <type_traits>

#include "fusion/codegen/emit_value.h"
#include "ir/pointwise_bodies.h"

namespace neuron::fusion {
namespace {

using ir::Code;
using ir::DType;
using ir::ValueType;

template <class T>
constexpr ValueType value_type() {
  if constexpr (std::is_same_v<T, float>) return ValueType::kF32;
  if constexpr (std::is_same_v<T, double>) return ValueType::kF64;
  if constexpr (std::is_same_v<T, int64_t>) return ValueType::kI64;
  return ValueType::kBool;
}
template <class T>
Value value_of(Emit<T> x) {
  return {x.ref, value_type<T>()};
}
template <class T>
Emit<T> as(const Value& value) {
  return Emit<T>::of(value.ref);
}

using EmitFn = Value (*)(const Value in[4]);

template <Code kCode, class T>
Value emit_body(const Value in[4]) {
  return value_of(ir::Body<kCode, Emit<T>>::value(as<T>(in[0]), as<T>(in[1]),
                                                  as<T>(in[2]), as<T>(in[3])));
}

struct EmitTable {
  EmitFn functions[static_cast<int>(Code::kCount)][ir::kNumValueTypes] = {};
};

template <Code kCode, int kTypes>
constexpr void add_body(EmitTable& table) {
  EmitFn* row = table.functions[static_cast<int>(kCode)];
  if constexpr ((kTypes & 1) != 0) row[0] = &emit_body<kCode, float>;
  if constexpr ((kTypes & 2) != 0) row[1] = &emit_body<kCode, double>;
  if constexpr ((kTypes & 4) != 0) row[2] = &emit_body<kCode, int64_t>;
  if constexpr ((kTypes & 8) != 0) row[3] = &emit_body<kCode, bool>;
}

constexpr int kF = 0b0011;
constexpr int kFI = 0b0111;
constexpr int kFIB = 0b1111;
constexpr int kIB = 0b1100;

constexpr EmitTable make_table() {
  EmitTable table;
#define NEURON_POINTWISE(code, arity, types, result, ...) \
  add_body<Code::code, types>(table);
#include "ir/pointwise.def"
#undef NEURON_POINTWISE
  return table;
}
constexpr EmitTable kTable = make_table();

// As the hardware does it: what does not fit becomes the smallest integer. The conversion
// itself only ever sees what fits, for it is undefined elsewhere.
template <class From>
Value to_i64(Emit<From> x) {
  const Emit<bool> fits = (x >= Emit<From>(-0x1p63)) & (x < Emit<From>(0x1p63));
  const Emit<int64_t> whole = convert<int64_t>(select(fits, x, Emit<From>(0)));
  return value_of(select(fits, whole, Emit<int64_t>(INT64_MIN)));
}

// To the nearest, ties to even; NaN stays NaN.
Emit<float> round_to_bf16(Emit<float> x) {
  using Int = Emit<int32_t>;
  const Int word = bits(x);
  const Int odd = shift_right(word, 16) & Int(1);
  const Int rounded = (word + Int(0x7fff) + odd) & Int(static_cast<int32_t>(0xffff0000));
  return from_bits(select(x != x, Int(0x7fc00000), rounded));
}

Value emit_rounding(Code code, const Value& x) {
  switch (code) {
    case Code::kRoundF16:
      return {emit_convert(emit_convert(x.ref, Elem::kF16), Elem::kF32), ValueType::kF32};
    case Code::kRoundBF16:
      return value_of(round_to_bf16(as<float>(x)));
    case Code::kWrapI32:
      return {emit_convert(emit_convert(x.ref, Elem::kI32), Elem::kI64), ValueType::kI64};
    case Code::kWrapI16:
      return {emit_convert(emit_convert(x.ref, Elem::kI16), Elem::kI64), ValueType::kI64};
    case Code::kWrapI8:
      return {emit_convert(emit_convert(x.ref, Elem::kI8), Elem::kI64), ValueType::kI64};
    case Code::kWrapU8:
      return value_of(as<int64_t>(x) & Emit<int64_t>(255));
    default:
      return {};
  }
}

Value emit_conversion(Code code, const Value& x) {
  switch (code) {
    case Code::kF32ToF64:
      return value_of(convert<double>(as<float>(x)));
    case Code::kF64ToF32:
      return value_of(convert<float>(as<double>(x)));
    case Code::kI64ToF32:
      return value_of(convert<float>(as<int64_t>(x)));
    case Code::kI64ToF64:
      return value_of(convert<double>(as<int64_t>(x)));
    case Code::kF32ToI64:
      return to_i64(as<float>(x));
    case Code::kF64ToI64:
      return to_i64(as<double>(x));
    case Code::kBoolToI64:
      return value_of(convert<int64_t>(as<bool>(x)));
    case Code::kBoolToF32:
      return value_of(select(as<bool>(x), Emit<float>(1), Emit<float>(0)));
    case Code::kF32ToBool:
      return value_of(as<float>(x) != Emit<float>(0));
    case Code::kF64ToBool:
      return value_of(as<double>(x) != Emit<double>(0));
    case Code::kI64ToBool:
      return value_of(as<int64_t>(x) != Emit<int64_t>(0));
    default:
      return emit_rounding(code, x);
  }
}

bool is_conversion(Code code) { return code >= Code::kF32ToF64; }

bool inputs_fit(const ir::Instr& instr, const Value in[4]) {
  for (int i = 0; i < ir::code_info(instr.code).arity; ++i) {
    const bool is_condition = instr.code == Code::kWhere && i == 0;
    const ValueType wanted = is_condition ? ValueType::kBool : instr.type;
    if (in[i].ref == nullptr || in[i].type != wanted) return false;
  }
  return true;
}

}  // namespace

Value emit_instr(const ir::Instr& instr, const Value in[4]) {
  if (instr.code >= Code::kCount || !ir::has_body(instr.code, instr.type)) return {};
  if (!inputs_fit(instr, in)) return {};
  if (instr.code == Code::kWhere) {
    return {emit_select(in[0].ref, in[1].ref, in[2].ref), instr.type};
  }
  if (is_conversion(instr.code)) return emit_conversion(instr.code, in[0]);
  const EmitFn emit =
      kTable.functions[static_cast<int>(instr.code)][static_cast<int>(instr.type)];
  return emit == nullptr ? Value{} : emit(in);
}

Elem elem_of(ValueType type) {
  constexpr Elem kElems[] = {Elem::kF32, Elem::kF64, Elem::kI64, Elem::kBool};
  return kElems[static_cast<int>(type)];
}

Elem storage_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Elem::kF32;
    case DType::kFloat64:
      return Elem::kF64;
    case DType::kInt64:
      return Elem::kI64;
    case DType::kInt32:
      return Elem::kI32;
    case DType::kInt16:
    case DType::kBFloat16:
      return Elem::kI16;
    case DType::kFloat16:
      return Elem::kF16;
    default:
      return Elem::kI8;
  }
}

Value emit_load(DType dtype, Ref storage) {
  switch (dtype) {
    case DType::kFloat32:
      return {storage, ValueType::kF32};
    case DType::kFloat64:
      return {storage, ValueType::kF64};
    case DType::kFloat16:
      return {emit_convert(storage, Elem::kF32), ValueType::kF32};
    case DType::kBFloat16: {
      const Ref word = emit_extend_unsigned(storage, Elem::kI32);
      return {emit_bitcast(emit_shift(Shift::kLeft, word, 16), Elem::kF32),
              ValueType::kF32};
    }
    case DType::kUInt8:
      return {emit_extend_unsigned(storage, Elem::kI64), ValueType::kI64};
    case DType::kBool:
      return {emit_is_not_zero(storage), ValueType::kBool};
    default:
      return {emit_convert(storage, Elem::kI64), ValueType::kI64};
  }
}

Ref emit_store(DType dtype, const Value& value) {
  if (dtype != DType::kBFloat16) {
    const Elem to = storage_of(dtype);
    return to == elem_of(value.type) ? value.ref : emit_convert(value.ref, to);
  }
  const Emit<int32_t> upper = shift_right(bits(as<float>(value)), 16);
  return emit_convert(upper.ref, Elem::kI16);
}

}  // namespace neuron::fusion
