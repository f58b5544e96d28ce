// In-place ops on whole tensors or lists of them that report nothing new.
#include "lazy/torch/shapes/arguments.h"
#include "lazy/torch/shapes/table.h"

namespace neuron::lazy::shapes {
namespace {

void nothing(const IValue*, ShapeOutputs&) {}

void fill_scalar(const IValue* args, ShapeOutputs&) {
  const at::Tensor& self = tensor(args[0]);
  TORCH_CHECK(self.is_complex() || !args[1].toScalar().isComplex(),
              "value cannot be converted to type ", self.dtype().name(),
              " without overflow");
}

void fill_tensor(const IValue* args, ShapeOutputs&) {
  const at::Tensor& value = tensor(args[1]);
  TORCH_CHECK(value.dim() == 0,
              "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
}

void update_scale(const IValue* args, ShapeOutputs&) {
  const at::Tensor& scale = tensor(args[0]);
  const at::Tensor& growth_tracker = tensor(args[1]);
  const at::Tensor& found_inf = tensor(args[2]);
  TORCH_CHECK(growth_tracker.numel() == 1, "growth_tracker must be a 1-element tensor.");
  TORCH_CHECK(scale.numel() == 1, "current_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(growth_tracker.scalar_type() == at::kInt,
              "growth_tracker must be an int tensor.");
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "current_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
}

void check_and_unscale(const IValue* args, ShapeOutputs&) {
  const at::Tensor& found_inf = tensor(args[1]);
  const at::Tensor& inverse = tensor(args[2]);
  if (args[0].toListRef().empty()) return;
  TORCH_CHECK(inverse.numel() == 1, "inv_scale must be a 1-element tensor.");
  TORCH_CHECK(found_inf.numel() == 1, "found_inf must be a 1-element tensor.");
  TORCH_CHECK(inverse.scalar_type() == at::kFloat, "inv_scale must be a float tensor.");
  TORCH_CHECK(found_inf.scalar_type() == at::kFloat, "found_inf must be a float tensor.");
}

}  // namespace

Rows optimizer_rows() {
  static constexpr Row rows[] = {
      {"aten::zero_", &nothing},
      {"aten::fill_.Scalar", &fill_scalar},
      {"aten::fill_.Tensor", &fill_tensor},
      {"aten::_amp_update_scale_", &update_scale},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", &check_and_unscale},
      {"aten::_fused_adam_", &nothing},
      {"aten::_fused_adam_.tensor_lr", &nothing},
      {"aten::_fused_adamw_", &nothing},
      {"aten::_fused_adamw_.tensor_lr", &nothing},
      {"aten::_fused_sgd_", &nothing},
      {"aten::_fused_sgd_.tensor_lr", &nothing},
      {"aten::_fused_adagrad_", &nothing},
      {"aten::_fused_adagrad_.tensor_lr", &nothing},
  };
  return rows;
}

}  // namespace neuron::lazy::shapes
