// itemsize_of: how many bytes one element of a storage type takes.
#pragma once

#include "ir/dtype.h"

namespace neuron::ir {

/// Bytes of one element, as PyTorch's `itemsize`.
constexpr int itemsize_of(DType dtype) {
  switch (dtype) {
    case DType::kComplex128:
      return 16;
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kComplex64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
    case DType::kComplex32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace neuron::ir
