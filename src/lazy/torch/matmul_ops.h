// Matrix products as native nodes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "ir/op.h"

namespace neuron::lazy {

/// Whether the matrix kernels take the tensor: on the device, not empty, float32 or
/// float64.
bool is_matrix_operand(const at::Tensor& tensor);

/// A tensor seen as a matrix.
struct MatrixRef {
  const at::Tensor& tensor;
  std::array<int64_t, 2> sizes;
  std::array<int64_t, 2> strides;
};

/// Records out = a b (+ bias, one row for all; may be undefined). The tensors are matrix
/// operands of one type and device, the sizes fit, `out` is row-major and new.
void record_product(ir::Op op, const MatrixRef& a, const MatrixRef& b,
                    const at::Tensor& bias, const MatrixRef& out);

/// Records out = a b (+ added: one row for all, or a matrix with dense rows), for float32
/// and float64 tensors of two dimensions and any layout, or of three with equal batch
/// sizes. False, with nothing recorded, when there is no native kernel: other types, or
/// an output that is not dense or shares its storage. `added` may be undefined.
bool record_matmul(ir::Op op, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& added, const at::Tensor& out);

}  // namespace neuron::lazy
