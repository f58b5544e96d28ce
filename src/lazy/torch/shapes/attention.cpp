// Fused attention.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

namespace neuron::lazy::shapes {
namespace {

// Heads and positions swapped in memory: the backward kernel works on (batch, position,
// head, width).
void set_transposed(ShapeOutputs& out, int64_t i, at::IntArrayRef sizes,
                    at::ScalarType dtype) {
  const int64_t heads = sizes[1], length = sizes[2], width = sizes[3];
  const std::array<int64_t, 4> strides = {length * heads * width, width, heads * width,
                                          1};
  out.set(i, sizes, strides, dtype);
}

void flash_attention(const IValue* args, ShapeOutputs& out) {
  const at::Tensor& query = tensor(args[0]);
  const at::Tensor& key = tensor(args[1]);
  const at::Tensor& value = tensor(args[2]);
  const at::ScalarType dtype = query.scalar_type();
  TORCH_CHECK(c10::isFloatingType(dtype),
              "scaled_dot_product_attention_flash_attention: Expected "
              "data type in FP32, FP64, BF16, FP16, but got ",
              dtype, " instead.");
  TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
      "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of "
      "{B, H, T, K}");
  TORCH_CHECK(args[3].toDouble() == 0.0,
              "scaled_dot_product_attention_flash_attention: Currently "
              "do not support dropout > 0");
  TORCH_CHECK(
      query.size(3) == value.size(3) && key.size(3) == value.size(3),
      "scaled_dot_product_attention_flash_attention: Q/K/V should have the same head "
      "size");
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  set_like(out, 0, query);
  const at::ScalarType sums =
      dtype == at::kBFloat16 || dtype == at::kHalf ? at::kFloat : dtype;
  const std::array<int64_t, 3> strides = {length * heads, 1, heads};
  out.set(1, {batch, heads, length}, strides, sums);
}

void flash_attention_backward(const IValue* args, ShapeOutputs& out) {
  for (int64_t i = 0; i < 3; ++i) {
    const at::Tensor& t = tensor(args[1 + i]);
    set_transposed(out, i, t.sizes(), t.scalar_type());
  }
}

}  // namespace

Rows attention_rows() {
  static constexpr Row rows[] = {
      {"aten::_scaled_dot_product_flash_attention_for_cpu", &flash_attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       &flash_attention_backward},
      {"aten::_transformer_encoder_layer_fwd", &contiguous_like<0>},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
