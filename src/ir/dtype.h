// Element types. The numbers are PyTorch's ScalarType numbers; the torch side asserts it.
#pragma once

#include <cstdint>

namespace neuron::ir {

enum class DType : uint8_t {
  kUInt8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kFloat32 = 6,
  kFloat64 = 7,
  kComplex32 = 8,
  kComplex64 = 9,
  kComplex128 = 10,
  kBool = 11,
  kBFloat16 = 15,
  kFloat8E5M2 = 23,
  kFloat8E4M3 = 24,
};

/// "f32", "bf16", ... as the IR's text form writes it; "t<number>" for rarer types.
const char* dtype_name(DType dtype);

}  // namespace neuron::ir
