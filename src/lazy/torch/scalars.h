// Numbers inside nodes, and as the 0-dimensional tensors that ATen's kernels take.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/Scalar.h>

#include "ir/graph.h"
#include "lazy/core.h"

namespace neuron::lazy {

/// Number `i` of a node.
inline at::Scalar number_of(const ir::Node& node, int i) {
  return (node.number_kinds >> i & 1) != 0 ? at::Scalar(node.numbers[i].integer)
                                           : at::Scalar(node.numbers[i].real);
}

/// Stores a real or integral scalar as number `i`.
inline void set_number(OpSpec& spec, int i, const at::Scalar& value) {
  if (value.isIntegral(/*includeBool=*/true)) {
    spec.numbers[i].integer = value.toLong();
    spec.number_kinds |= static_cast<uint8_t>(1 << i);
  } else {
    spec.numbers[i].real = value.toDouble();
  }
}

/// A number as Python's numbers reach ATen: it does not take part in type promotion.
inline at::Tensor number_tensor(const at::Scalar& value) {
  at::Tensor tensor = at::scalar_tensor(
      value, at::TensorOptions().dtype(value.isIntegral(true) ? at::kLong : at::kDouble));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace neuron::lazy
