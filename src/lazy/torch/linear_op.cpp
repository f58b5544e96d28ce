// Linear layers as one op, forward and backward: what PyTorch's composite makes of views,
// addmm and their gradients, as products on the tensors themselves. Other calls than
// those of dense float matrices go to the composite.
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include <array>

#include "ir/native.h"
#include "lazy/torch/autograd_node.h"
#include "lazy/torch/lower_rows.h"
#include "lazy/torch/matmul_ops.h"
#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;

// A tensor of any rank as a matrix of its last dimension, or the transpose of that.
MatrixRef rows_of(const Tensor& tensor) {
  const int64_t columns = tensor.sizes().back();
  return {tensor, {tensor.numel() / columns, columns}, {columns, 1}};
}
MatrixRef columns_of(const Tensor& tensor) {
  const int64_t rows = tensor.sizes().back();
  return {tensor, {rows, tensor.numel() / rows}, {1, rows}};
}

bool is_dense_matrix(const Tensor& tensor, const Tensor& like) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return is_matrix_operand(tensor) && impl->is_contiguous() && impl->dim() >= 2 &&
         impl->dtype() == like.dtype() && impl->device() == like.device();
}

bool is_native(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return is_dense_matrix(input, input) && is_dense_matrix(weight, input) &&
         weight.dim() == 2 && input.sizes().back() == weight.sizes()[1] &&
         (!bias.defined() ||
          (is_matrix_operand(bias) && bias.dim() == 1 && bias.is_contiguous() &&
           bias.dtype() == input.dtype() && bias.device() == input.device() &&
           bias.sizes()[0] == weight.sizes()[0]));
}

Tensor forward(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  static OpTrack& track = track_op("aten::linear");
  c10::SmallVector<int64_t, 6> sizes(input.sizes().begin(), input.sizes().end());
  sizes.back() = weight.sizes()[0];
  Tensor out = make_tensor(sizes, {}, input.scalar_type(), input.device().index());
  record_product(ir::Op::kAddmm, rows_of(input), columns_of(weight), bias, rows_of(out));
  track.calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

Tensor linear(c10::DispatchKeySet keys, const Tensor& input, const Tensor& weight,
              const std::optional<Tensor>& bias_option) {
  const Tensor bias = bias_option.value_or(Tensor());
  if (C10_UNLIKELY(!is_ordinary(keys, input, weight, bias) ||
                   !is_native(input, weight, bias))) {
    return at::native::linear(input, weight, bias_option);
  }
  const auto run = [&] { return forward(input, weight, bias); };
  if (!torch::autograd::compute_requires_grad(input, weight, bias)) return run();
  return with_node<torch::autograd::generated::LinearBackward0>(
      run,
      [&](auto& node) {
        if (node.should_compute_output(0)) node.weight_ = saved_input(weight);
        if (node.should_compute_output(1)) node.input_ = saved_input(input);
      },
      input, weight, bias);
}

// --- backward ------------------------------------------------------------------------

// By differentiable ops, as the composite's own gradients.
Gradients decomposed_backward(const Tensor& input, const Tensor& grad,
                              const Tensor& weight, std::array<bool, 3> wanted) {
  const Tensor rows = grad.reshape({-1, grad.size(-1)});
  Gradients result;
  if (wanted[0]) {
    auto sizes = grad.sizes().vec();
    sizes.back() = weight.size(1);
    std::get<0>(result) = at::mm(rows, weight.conj()).view(sizes);
  }
  if (wanted[1]) {
    std::get<1>(result) = at::mm(rows.t(), input.reshape({-1, input.size(-1)}).conj());
  }
  if (wanted[2]) std::get<2>(result) = at::sum(rows, 0);
  return result;
}

Tensor sum_of_rows(const Tensor& grad) {
  ReducedDims dims;
  dims.num_reduced = static_cast<int>(grad.dim()) - 1;
  for (int d = 0; d < dims.num_reduced; ++d) dims.is_reduced[d] = true;
  Tensor out =
      make_tensor({grad.sizes().back()}, {}, grad.scalar_type(), grad.device().index());
  record_reduce(ir::Op::kSum, ir::Native::kReduce,
                static_cast<int64_t>(fusion::Reduce::kSum), /*correction=*/1.0, grad,
                dims, {out});
  return out;
}

// Whether the wanted gradients are products and sums of dense matrices that fit.
bool is_native_backward(const Tensor& input, const Tensor& grad, const Tensor& weight,
                        std::array<bool, 3> wanted) {
  if (!is_matrix_operand(grad) || grad.dim() > ReducedDims::kMaxRank || grad.dim() < 2) {
    return false;
  }
  const int64_t columns = grad.sizes().back();
  if (wanted[0] && !(weight.defined() && is_dense_matrix(weight, grad) &&
                     weight.dim() == 2 && weight.sizes()[0] == columns)) {
    return false;
  }
  return !wanted[1] || (input.defined() && is_dense_matrix(input, grad) &&
                        input.numel() / input.sizes().back() == grad.numel() / columns);
}

Gradients backward(const Tensor& input, const Tensor& given, const Tensor& weight,
                   std::array<bool, 3> wanted) {
  static OpTrack& track = track_op("aten::linear_backward");
  if (C10_UNLIKELY(!is_native_backward(input, given, weight, wanted))) {
    return decomposed_backward(input, given, weight, wanted);
  }
  const Tensor grad = given.contiguous();
  const int device = grad.device().index();
  Gradients result;
  if (wanted[0]) {
    c10::SmallVector<int64_t, 6> sizes(grad.sizes().begin(), grad.sizes().end());
    sizes.back() = weight.sizes()[1];
    Tensor& out = std::get<0>(result);
    out = make_tensor(sizes, {}, grad.scalar_type(), device);
    record_product(ir::Op::kMm, rows_of(grad), rows_of(weight), {}, rows_of(out));
  }
  if (wanted[1]) {
    Tensor& out = std::get<1>(result);
    out = make_tensor({grad.sizes().back(), input.sizes().back()}, {}, grad.scalar_type(),
                      device);
    record_product(ir::Op::kMm, columns_of(grad), rows_of(input), {}, rows_of(out));
  }
  if (wanted[2]) std::get<2>(result) = sum_of_rows(grad);
  track.calls.fetch_add(1, std::memory_order_relaxed);
  return result;
}

Gradients linear_backward(c10::DispatchKeySet keys, const Tensor& input,
                          const Tensor& grad, const Tensor& weight,
                          std::array<bool, 3> wanted) {
  const auto skips = [&](const Tensor& tensor) {
    return !tensor.defined() || needs_no_gradient(tensor);
  };
  if (is_ordinary(keys) && skips(input) && skips(grad) && skips(weight)) {
    return backward(input, grad, weight, wanted);
  }
  return decomposed_backward(input, grad, weight, wanted);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("linear", TORCH_FN(linear));
  m.impl("linear_backward", TORCH_FN(linear_backward));
}

void register_linear_op(Registrar& m) { m.impl("linear_backward", TORCH_FN(backward)); }

}  // namespace neuron::lazy
