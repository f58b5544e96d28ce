#include "ir/dtype.h"

namespace neuron::ir {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "u8";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kFloat16:
      return "f16";
    case DType::kFloat32:
      return "f32";
    case DType::kFloat64:
      return "f64";
    case DType::kComplex32:
      return "c32";
    case DType::kComplex64:
      return "c64";
    case DType::kComplex128:
      return "c128";
    case DType::kBool:
      return "bool";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat8E5M2:
      return "f8e5m2";
    case DType::kFloat8E4M3:
      return "f8e4m3";
  }
  return "other";
}

}  // namespace neuron::ir
