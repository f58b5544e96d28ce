// The fused encoder layer of PyTorch's inference path, from ops of our own: so that its
// products, norms and pointwise parts run in our kernels and on both cores.
#include <ATen/core/Tensor.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::Tensor;

Tensor attend(const Tensor& x, int64_t num_heads, const Tensor& qkv_weight,
              const Tensor& qkv_bias, const Tensor& proj_weight,
              const Tensor& proj_bias) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto parts = at::chunk(at::linear(x, qkv_weight, qkv_bias), 3, -1);
  const auto heads = [&](const Tensor& part) {
    return part.view({batch, length, num_heads, width / num_heads}).transpose(1, 2);
  };
  const Tensor mixed =
      at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  return at::linear(mixed.transpose(1, 2).reshape({batch, length, width}), proj_weight,
                    proj_bias);
}

// (src, embed_dim, num_heads, qkv and projection of attention, use_gelu, norm_first, eps,
// both norms, both layers of the feed-forward part, mask, mask_type)
Tensor encoder_layer(const Tensor& src, int64_t embed_dim, int64_t num_heads,
                     const Tensor& qkv_weight, const Tensor& qkv_bias,
                     const Tensor& proj_weight, const Tensor& proj_bias, bool use_gelu,
                     bool norm_first, double eps, const Tensor& norm_weight_1,
                     const Tensor& norm_bias_1, const Tensor& norm_weight_2,
                     const Tensor& norm_bias_2, const Tensor& ffn_weight_1,
                     const Tensor& ffn_bias_1, const Tensor& ffn_weight_2,
                     const Tensor& ffn_bias_2, const std::optional<Tensor>& mask,
                     std::optional<int64_t> mask_type) {
  static const PointwiseEntry entry(ir::Op::kTransformerEncoderLayer,
                                    "aten::_transformer_encoder_layer_fwd", "");
  const bool is_ours =
      is_plain(src) && src.dim() == 3 && src.size(2) == embed_dim &&
      (src.scalar_type() == at::kFloat || src.scalar_type() == at::kDouble) &&
      num_heads > 0 && embed_dim % num_heads == 0 &&
      !(mask.has_value() && mask->defined());
  if (!is_ours) {
    return entry.record_slow(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                             proj_bias, use_gelu, norm_first, eps, norm_weight_1,
                             norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1,
                             ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type);
  }
  const auto norm = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return at::layer_norm(x, {embed_dim}, weight, bias, eps);
  };
  Tensor x = norm_first ? norm(src, norm_weight_1, norm_bias_1) : src;
  x = attend(x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias).add(src);
  if (!norm_first) x = norm(x, norm_weight_1, norm_bias_1);
  const Tensor before = x;
  if (norm_first) x = norm(x, norm_weight_2, norm_bias_2);
  x = at::linear(x, ffn_weight_1, ffn_bias_1);
  x = use_gelu ? at::gelu(x) : at::relu(x);
  x = at::linear(x, ffn_weight_2, ffn_bias_2).add(before);
  return norm_first ? x : norm(x, norm_weight_2, norm_bias_2);
}

// The device has no nested tensors. nn.TransformerEncoder makes them of padded batches
// only where this says that the padding allows it; else it keeps the mask.
bool is_left_aligned(const Tensor&, const Tensor&) { return false; }

}  // namespace

void register_encoder_op(Registrar& m) {
  m.impl("_transformer_encoder_layer_fwd", TORCH_FN(encoder_layer));
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(is_left_aligned));
}

}  // namespace neuron::lazy
