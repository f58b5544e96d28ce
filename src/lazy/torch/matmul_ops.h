// Matrix products as native nodes.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/op.h"

namespace neuron::lazy {

/// Records out = a b (+ bias, one row for all), for float32 and float64 tensors of two
/// dimensions, or of three with equal batch sizes. False, with nothing recorded, when
/// types or layouts have no native kernel. `bias` may be undefined.
bool record_matmul(ir::Op op, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias, const at::Tensor& out);

}  // namespace neuron::lazy
