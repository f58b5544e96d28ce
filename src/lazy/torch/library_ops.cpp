// Attention: which library kernel runs.
// (Convolutions are recorded by schema; see AtenCall.)
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
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

}  // namespace

void register_library_ops(Registrar& m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward",
         TORCH_FN(attention_backward));
}

}  // namespace neuron::lazy

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::lazy::choose_attention)
}  // namespace at::native
