#include "ir/pointwise.h"

#include <iterator>

namespace neuron::ir {
namespace {

constexpr uint8_t kF = 0b0011;
constexpr uint8_t kFI = 0b0111;
constexpr uint8_t kFIB = 0b1111;
constexpr uint8_t kIB = 0b1100;
constexpr bool kSame = false;
constexpr bool kBool = true;
constexpr uint8_t kF32Only = 0b0001;
constexpr uint8_t kF64Only = 0b0010;
constexpr uint8_t kI64Only = 0b0100;
constexpr uint8_t kBoolOnly = 0b1000;

constexpr CodeInfo kTable[] = {
    {"None", 0, 0, false},
#define NEURON_POINTWISE(code, arity, types, result, ...) \
  {&#code[1], arity, types, result},
#include "ir/pointwise.def"
#undef NEURON_POINTWISE
    {"F32ToF64", 1, kF32Only, false},
    {"F64ToF32", 1, kF64Only, false},
    {"I64ToF32", 1, kI64Only, false},
    {"I64ToF64", 1, kI64Only, false},
    {"F32ToI64", 1, kF32Only, false},
    {"F64ToI64", 1, kF64Only, false},
    {"BoolToI64", 1, kBoolOnly, false},
    {"BoolToF32", 1, kBoolOnly, false},
    {"F32ToBool", 1, kF32Only, false},
    {"F64ToBool", 1, kF64Only, false},
    {"I64ToBool", 1, kI64Only, false},
    {"RoundF16", 1, kF32Only, false},
    {"RoundBF16", 1, kF32Only, false},
    {"WrapI32", 1, kI64Only, false},
    {"WrapI16", 1, kI64Only, false},
    {"WrapI8", 1, kI64Only, false},
    {"WrapU8", 1, kI64Only, false},
};
static_assert(std::size(kTable) == static_cast<size_t>(Code::kCount));

const char* type_name(ValueType type) {
  constexpr const char* kNames[] = {"f32", "f64", "i64", "bool"};
  return kNames[static_cast<int>(type)];
}

const char* layout_name(Layout layout) {
  constexpr const char* kNames[] = {"linear", "scalar", "strided"};
  return kNames[static_cast<int>(layout)];
}

}  // namespace

const CodeInfo& code_info(Code code) { return kTable[static_cast<size_t>(code)]; }

bool value_type_of(DType dtype, ValueType& type) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      type = ValueType::kF32;
      return true;
    case DType::kFloat64:
      type = ValueType::kF64;
      return true;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      type = ValueType::kI64;
      return true;
    case DType::kBool:
      type = ValueType::kBool;
      return true;
    default:
      return false;
  }
}

Code rounding_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return Code::kRoundF16;
    case DType::kBFloat16:
      return Code::kRoundBF16;
    case DType::kInt32:
      return Code::kWrapI32;
    case DType::kInt16:
      return Code::kWrapI16;
    case DType::kInt8:
      return Code::kWrapI8;
    case DType::kUInt8:
      return Code::kWrapU8;
    default:
      return Code::kNone;
  }
}

std::array<Code, 2> conversion(ValueType from, ValueType to) {
  if (from == to) return {Code::kNone, Code::kNone};
  switch (from) {
    case ValueType::kF32:
      if (to == ValueType::kF64) return {Code::kF32ToF64, Code::kNone};
      if (to == ValueType::kI64) return {Code::kF32ToI64, Code::kNone};
      return {Code::kF32ToBool, Code::kNone};
    case ValueType::kF64:
      if (to == ValueType::kF32) return {Code::kF64ToF32, Code::kNone};
      if (to == ValueType::kI64) return {Code::kF64ToI64, Code::kNone};
      return {Code::kF64ToBool, Code::kNone};
    case ValueType::kI64:
      if (to == ValueType::kF32) return {Code::kI64ToF32, Code::kNone};
      if (to == ValueType::kF64) return {Code::kI64ToF64, Code::kNone};
      return {Code::kI64ToBool, Code::kNone};
    case ValueType::kBool:
      if (to == ValueType::kF32) return {Code::kBoolToF32, Code::kNone};
      if (to == ValueType::kI64) return {Code::kBoolToI64, Code::kNone};
      return {Code::kBoolToF32, Code::kF32ToF64};
  }
  return {Code::kNone, Code::kNone};
}

std::string print_code(const PointwiseCode& code) {
  std::string text;
  for (size_t i = 0; i < code.sources.size(); ++i) {
    const Source& source = code.sources[i];
    text += "  r" + std::to_string(i) + " = ";
    text += source.is_number ? std::string("number ") + type_name(source.type)
                             : std::string("load ") + dtype_name(source.dtype) + " " +
                                   layout_name(source.layout);
    text += "\n";
  }
  for (const Instr& instr : code.instrs) {
    text += "  r" + std::to_string(instr.out) + " = " + code_info(instr.code).name + "." +
            type_name(instr.type);
    for (int i = 0; i < code_info(instr.code).arity; ++i) {
      text += std::string(i == 0 ? " r" : ", r") + std::to_string(instr.in[i]);
    }
    text += "\n";
  }
  for (const Sink& sink : code.sinks) {
    text += "  store r" + std::to_string(sink.reg) + " " + dtype_name(sink.dtype) + " " +
            layout_name(sink.layout) + "\n";
  }
  return text;
}

}  // namespace neuron::ir
