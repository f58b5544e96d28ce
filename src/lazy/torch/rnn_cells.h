// Recording of the cells of recurrent layers.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::lazy {

/// What a cell adds up: the products of input and state with their weights,
/// [batch, gates * size], and their biases or undefined tensors.
struct CellGates {
  const at::Tensor& input;
  const at::Tensor& hidden;
  const at::Tensor& input_bias;
  const at::Tensor& hidden_bias;
};

/// Each records one node; formulas and layouts: fusion/kernels/rows.h. All tensors are
/// defined unless said otherwise, contiguous and of one float type; an empty batch or
/// state records nothing.
void record_lstm_cell(const CellGates& gates, const at::Tensor& cx, const at::Tensor& hy,
                      const at::Tensor& cy, const at::Tensor& workspace);
/// `grad_hy` or `grad_cy` may be undefined.
void record_lstm_cell_backward(const at::Tensor& grad_hy, const at::Tensor& grad_cy,
                               const at::Tensor& cx, const at::Tensor& cy,
                               const at::Tensor& workspace, const at::Tensor& grad_gates,
                               const at::Tensor& grad_cx);
void record_gru_cell(const CellGates& gates, const at::Tensor& hx, const at::Tensor& hy,
                     const at::Tensor& workspace);
void record_gru_cell_backward(const at::Tensor& grad, const at::Tensor& workspace,
                              const at::Tensor& grad_input, const at::Tensor& grad_hidden,
                              const at::Tensor& grad_hx);

}  // namespace neuron::lazy
