// Attention and recurrent cells: which library kernel runs, and cells from their parts.
// (Convolutions are recorded by schema; see AtenCall.)
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// at::SDPBackend's numbers.
constexpr int64_t kMath = 0;
constexpr int64_t kOverrideable = 4;

// The flash kernel takes dense 4-d inputs with equal head sizes, no dropout, and a mask
// that needs no gradient.
bool takes_flash(const Tensor& query, const Tensor& key, const Tensor& value,
                 const OptionalTensor& mask, double dropout, bool is_causal) {
  const auto dtype = query.scalar_type();
  const bool known_dtype = dtype == at::kFloat || dtype == at::kDouble ||
                           dtype == at::kBFloat16 || dtype == at::kHalf;
  if (!known_dtype || dropout != 0.0 || query.dim() != 4 || key.dim() != 4 ||
      value.dim() != 4) {
    return false;
  }
  if (key.scalar_type() != dtype || value.scalar_type() != dtype) return false;
  const bool same_batch = query.size(0) == key.size(0) && key.size(0) == value.size(0) &&
                          query.size(1) == key.size(1) && key.size(1) == value.size(1) &&
                          key.size(2) == value.size(2);
  const bool same_head = query.size(3) == key.size(3) && key.size(3) == value.size(3);
  const bool is_dense =
      query.stride(3) == 1 && key.stride(3) == 1 && value.stride(3) == 1;
  if (!same_batch || !same_head || !is_dense) return false;
  if (query.numel() == 0 || key.numel() == 0) return false;
  if (mask.has_value() && mask->defined()) {
    if (is_causal || mask->requires_grad()) return false;
    if (mask->dim() != 2 && mask->dim() != 4) return false;
    const bool known_mask = mask->scalar_type() == at::kBool ||
                            mask->scalar_type() == dtype ||
                            mask->scalar_type() == at::kFloat;
    if (!known_mask) return false;
  }
  return at::globalContext().userEnabledFlashSDP();
}

}  // namespace

/// The backend number that scaled_dot_product_attention takes for these inputs.
int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const OptionalTensor& mask, double dropout, bool is_causal,
                         std::optional<double>, bool enable_gqa) {
  if (enable_gqa) return kMath;
  return takes_flash(query, key, value, mask, dropout, is_causal) ? kOverrideable : kMath;
}

namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor,
           Tensor>
attention(const Tensor& query, const Tensor& key, const Tensor& value,
          const OptionalTensor& mask, double dropout, bool is_causal, bool,
          std::optional<double> scale) {
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, is_causal, mask, scale);
  return {output,      logsumexp, Tensor(), Tensor(), query.size(2),
          key.size(2), Tensor(),  Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& mask, std::array<bool, 4>, const Tensor& output,
    const Tensor& logsumexp, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt,
    double dropout, bool is_causal, const Tensor&, const Tensor&,
    std::optional<double> scale) {
  if (!grad.defined()) return {};
  const OptionalTensor given = mask.defined() ? OptionalTensor(mask) : std::nullopt;
  auto [grad_query, grad_key, grad_value] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad, query, key, value, output, logsumexp, dropout, is_causal, given, scale);
  return {grad_query, grad_key, grad_value, Tensor()};
}

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

// Gates in the order input, forget, cell, output. The workspace keeps them activated.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates,
                                             const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  const Tensor gates =
      with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor in = at::sigmoid(parts[0]), forget = at::sigmoid(parts[1]);
  const Tensor cell = at::tanh(parts[2]), out = at::sigmoid(parts[3]);
  const Tensor cy = forget * cx + in * cell;
  return {out * at::tanh(cy), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace,
                                                      bool has_bias) {
  const bool has_hy = grad_hy.has_value() && grad_hy->defined();
  const bool has_cy = grad_cy.has_value() && grad_cy->defined();
  if (!has_hy && !has_cy) return {};
  const auto parts = workspace.chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const Tensor squashed = at::tanh(cy);
  Tensor grad_cell_state, grad_out;
  if (has_hy) {
    grad_out = *grad_hy * squashed * (1 - out) * out;
    grad_cell_state = *grad_hy * out * (1 - squashed * squashed);
    if (has_cy) grad_cell_state = grad_cell_state + *grad_cy;
  } else {
    grad_out = at::zeros_like(out);
    grad_cell_state = *grad_cy;
  }
  const Tensor grad_in = grad_cell_state * cell * (1 - in) * in;
  const Tensor grad_forget = grad_cell_state * cx * (1 - forget) * forget;
  const Tensor grad_cell = grad_cell_state * in * (1 - cell * cell);
  const Tensor grad_gates = at::cat({grad_in, grad_forget, grad_cell, grad_out}, 1);
  return {grad_gates, grad_cell_state * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

// Gates in the order reset, update, new. The workspace keeps reset, update, new, hx and
// the hidden part of new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = at::sigmoid(from_input[0] + from_hidden[0]);
  const Tensor update = at::sigmoid(from_input[1] + from_hidden[1]);
  const Tensor fresh = at::tanh(from_input[2] + reset * from_hidden[2]);
  return {fresh + update * (hx - fresh),
          at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2];
  const Tensor &hx = parts[3], &hidden = parts[4];
  const Tensor grad_update = grad * (hx - fresh) * (1 - update) * update;
  const Tensor grad_fresh = grad * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_fresh * hidden * (1 - reset) * reset;
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

}  // namespace

void register_library_ops(Registrar& m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward",
         TORCH_FN(attention_backward));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace neuron::lazy

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::lazy::choose_attention)
}  // namespace at::native
