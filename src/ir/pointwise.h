// Pointwise kernels: straight-line code over the elements of one iteration space.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace neuron::ir {

/// What one pointwise instruction computes; see pointwise.def. kNone: not a pointwise op.
enum class Code : uint8_t {
  kNone,
#define NEURON_POINTWISE(code, arity, types, result, ...) code,
#include "ir/pointwise.def"
#undef NEURON_POINTWISE
  // Between types: the names say from and to. To int64 by truncation, to bool by != 0.
  kF32ToF64,
  kF64ToF32,
  kI64ToF32,
  kI64ToF64,
  kF32ToI64,
  kF64ToI64,
  kBoolToI64,
  kBoolToF32,
  kF32ToBool,
  kF64ToBool,
  kI64ToBool,
  // To a narrower storage type and back.
  kRoundF16,
  kRoundBF16,
  kWrapI32,
  kWrapI16,
  kWrapI8,
  kWrapU8,
  kCount
};

/// The type of a value inside a kernel.
enum class ValueType : uint8_t { kF32, kF64, kI64, kBool };
inline constexpr int kNumValueTypes = 4;

struct CodeInfo {
  const char* name;  // without its k
  uint8_t arity;
  uint8_t types;  // bit i: has a body for ValueType i
  bool
      returns_bool;  // else the type of its inputs (of b for kWhere), or its name says it
};
const CodeInfo& code_info(Code code);
inline bool has_body(Code code, ValueType type) {
  return (code_info(code).types >> static_cast<int>(type) & 1) != 0;
}

/// In which type elements of `dtype` are computed; false when it has none.
bool value_type_of(DType dtype, ValueType& type);
inline int value_size(ValueType type) {
  constexpr uint8_t kSizes[kNumValueTypes] = {4, 8, 8, 1};
  return kSizes[static_cast<int>(type)];
}
/// The code that rounds a value to storage `dtype`, kNone when the value type is exact.
Code rounding_of(DType dtype);
/// The conversions from `from` to `to`: up to two codes, unused ones kNone.
std::array<Code, 2> conversion(ValueType from, ValueType to);

/// How a kernel walks through one tensor.
enum class Layout : uint8_t {
  kLinear,   // dense in the order of the iteration space
  kScalar,   // one element for all
  kStrided,  // by strides
};

/// One instruction. Registers are numbered from 0; sources come first: register i <
/// number of sources is source i.
struct Instr {
  Code code = Code::kNone;
  ValueType type = ValueType::kF32;  // of the inputs
  uint16_t out = 0;
  uint16_t in[4] = {};
};
static_assert(sizeof(Instr) == 12);

/// Where a register's value comes from before the first instruction.
struct Source {
  bool is_number = false;
  ValueType type = ValueType::kF32;
  DType dtype = DType::kFloat32;  // storage, of a tensor
  Layout layout = Layout::kLinear;
};
static_assert(sizeof(Source) == 4);

/// A value that is stored after the last instruction.
struct Sink {
  uint16_t reg = 0;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kLinear;
};
static_assert(sizeof(Sink) == 4);

/// The code of a kernel: what decides the machine code, and nothing else.
struct PointwiseCode {
  std::vector<Source> sources;
  std::vector<Instr> instrs;
  std::vector<Sink> sinks;
  uint16_t num_registers = 0;

  void clear() {
    sources.clear();
    instrs.clear();
    sinks.clear();
    num_registers = 0;
  }
};

/// Text form, one line an instruction.
std::string print_code(const PointwiseCode& code);

/// A tensor as a kernel walks through it. Strides in elements, per dimension of the
/// space.
struct TensorArg {
  void* data = nullptr;
  const int64_t* strides = nullptr;  // kStrided only
};

/// The arguments of one run, in the order of the code's sources and sinks.
struct PointwiseArgs {
  int64_t numel = 0;
  int rank = 0;
  const int64_t* sizes = nullptr;      // of the space; needed when something is kStrided
  const TensorArg* tensors = nullptr;  // sources that are tensors, then sinks
  const double* reals = nullptr;       // per source that is a number, as a double,
  const int64_t* integers = nullptr;   // and as an integer
};

}  // namespace neuron::ir
