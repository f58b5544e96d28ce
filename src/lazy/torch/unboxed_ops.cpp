// Unboxed entries of pointwise ops with numbers, masks or more than two tensors. Each
// records what the op's row in lower_pointwise.cpp does.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/leaky_relu_ops.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/where_ops.h>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/lower.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::Scalar;
using at::Tensor;
using c10::DispatchKeySet;
using ir::Code;
using ir::Op;
namespace nodes = torch::autograd::generated;

template <class... Numbers>
bool are_real(const Numbers&... numbers) {
  return (is_real_number(numbers) && ...);
}

// --- with numbers --------------------------------------------------------------------

Tensor clamp_entry(const Tensor& self, const std::optional<Scalar>& min,
                   const std::optional<Scalar>& max) {
  static const PointwiseEntry entry(Op::kClamp, "aten::clamp", "");
  if (is_plain(self)) {
    if (min && max && are_real(*min, *max)) {
      return record_like(entry, Code::kClamp, self, *min, *max);
    }
    if (min && !max && are_real(*min)) {
      return record_like(entry, Code::kMaximum, self, *min);
    }
    if (max && !min && are_real(*max)) {
      return record_like(entry, Code::kMinimum, self, *max);
    }
  }
  return entry.record_slow(self, min, max);
}

Tensor clamp_min_entry(const Tensor& self, const Scalar& min) {
  static const PointwiseEntry entry(Op::kClampMin, "aten::clamp_min", "");
  if (!is_plain(self) || !are_real(min)) return entry.record_slow(self, min);
  return record_like(entry, Code::kMaximum, self, min);
}

Tensor clamp_max_entry(const Tensor& self, const Scalar& max) {
  static const PointwiseEntry entry(Op::kClampMax, "aten::clamp_max", "");
  if (!is_plain(self) || !are_real(max)) return entry.record_slow(self, max);
  return record_like(entry, Code::kMinimum, self, max);
}

Tensor pow_entry(const Tensor& self, const Scalar& exponent) {
  static const PointwiseEntry entry(Op::kPow, "aten::pow", "Tensor_Scalar");
  if (!is_plain(self) || !are_real(exponent)) return entry.record_slow(self, exponent);
  const Code code = power_code(exponent.toDouble());
  if (code == Code::kPow) return record_like(entry, code, self, exponent);
  return record_like(entry, code, self);
}

Tensor gelu_entry(const Tensor& self, c10::string_view approximate) {
  static const PointwiseEntry entry(Op::kGelu, "aten::gelu", "");
  if (is_plain(self)) {
    if (approximate == "none") return record_like(entry, Code::kGelu, self);
    if (approximate == "tanh") return record_like(entry, Code::kGeluTanh, self);
  }
  return entry.record_slow(self, approximate);
}

Tensor softplus_entry(const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  static const PointwiseEntry entry(Op::kSoftplus, "aten::softplus", "");
  if (!is_plain(self) || !are_real(beta, threshold)) {
    return entry.record_slow(self, beta, threshold);
  }
  return record_like(entry, Code::kSoftplus, self, beta, threshold);
}

Tensor leaky_relu_entry(const Tensor& self, const Scalar& slope) {
  static const PointwiseEntry entry(Op::kLeakyRelu, "aten::leaky_relu", "");
  if (!is_plain(self) || !are_real(slope)) return entry.record_slow(self, slope);
  return record_like(entry, Code::kLeakyRelu, self, slope);
}

// --- gradients -----------------------------------------------------------------------

// `code` of a gradient, a tensor and numbers; undefined when it needs inference. The
// gradient is often one element expanded.
template <class... Numbers>
Tensor record_backward(const PointwiseEntry& entry, Code code, const Tensor& grad,
                       const Tensor& self, const Numbers&... numbers) {
  if (!are_real(numbers...)) return {};
  if (is_plain(grad) && is_same_plain(grad, self)) {
    return record_like(entry, code, grad, self, numbers...);
  }
  return record_broadcast(entry, code, /*is_truth=*/false, grad, self, numbers...);
}

#define NEURON_BACKWARD_ENTRY(op, name)                            \
  Tensor name##_entry(const Tensor& grad, const Tensor& self) {    \
    static const PointwiseEntry entry(Op::op, "aten::" #name, ""); \
    Tensor out = record_backward(entry, Code::op, grad, self);     \
    return out.defined() ? out : entry.record_slow(grad, self);    \
  }

NEURON_BACKWARD_ENTRY(kTanhBackward, tanh_backward)
NEURON_BACKWARD_ENTRY(kSigmoidBackward, sigmoid_backward)
NEURON_BACKWARD_ENTRY(kSiluBackward, silu_backward)

Tensor threshold_backward_entry(const Tensor& grad, const Tensor& self,
                                const Scalar& threshold) {
  static const PointwiseEntry entry(Op::kThresholdBackward, "aten::threshold_backward",
                                    "");
  Tensor out = record_backward(entry, Code::kThresholdBackward, grad, self, threshold);
  return out.defined() ? out : entry.record_slow(grad, self, threshold);
}

Tensor leaky_relu_backward_entry(const Tensor& grad, const Tensor& self,
                                 const Scalar& slope, bool is_result) {
  static const PointwiseEntry entry(Op::kLeakyReluBackward, "aten::leaky_relu_backward",
                                    "");
  Tensor out;
  if (!is_result) {
    out = record_backward(entry, Code::kLeakyReluBackward, grad, self, slope);
  }
  return out.defined() ? out : entry.record_slow(grad, self, slope, is_result);
}

Tensor gelu_backward_entry(const Tensor& grad, const Tensor& self,
                           c10::string_view approximate) {
  static const PointwiseEntry entry(Op::kGeluBackward, "aten::gelu_backward", "");
  Tensor out;
  if (approximate == "none") {
    out = record_backward(entry, Code::kGeluBackward, grad, self);
  } else if (approximate == "tanh") {
    out = record_backward(entry, Code::kGeluTanhBackward, grad, self);
  }
  return out.defined() ? out : entry.record_slow(grad, self, approximate);
}

Tensor softplus_backward_entry(const Tensor& grad, const Tensor& self, const Scalar& beta,
                               const Scalar& threshold) {
  static const PointwiseEntry entry(Op::kSoftplusBackward, "aten::softplus_backward", "");
  Tensor out =
      record_backward(entry, Code::kSoftplusBackward, grad, self, beta, threshold);
  return out.defined() ? out : entry.record_slow(grad, self, beta, threshold);
}

Tensor mse_loss_backward_entry(const Tensor& grad, const Tensor& self,
                               const Tensor& target, int64_t reduction) {
  static const PointwiseEntry entry(Op::kMseLossBackward, "aten::mse_loss_backward", "");
  Tensor out;
  if (is_plain(self) && is_same_plain(self, target) && grad.is_privateuseone()) {
    const bool is_mean = reduction == at::Reduction::Mean;
    const Scalar factor = is_mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
    out = record_broadcast(entry, Code::kSquaredErrorBackward, /*is_truth=*/false, self,
                           target, grad, factor);
  }
  return out.defined() ? out : entry.record_slow(grad, self, target, reduction);
}

// --- comparisons ---------------------------------------------------------------------

Tensor make_mask_like(const Tensor& like) {
  return make_tensor(like.sizes(), {}, at::kBool, like.device().index());
}

template <class Other>
Tensor record_comparison(const PointwiseEntry& entry, Code code, const Tensor& a,
                         const Other& b) {
  Tensor out = make_mask_like(a);
  record_plain(entry, code, a.scalar_type(), out, a, b);
  return out;
}

// A comparison has no gradient: law 1 of autograd_entry.h asks for no more than the keys.
#define NEURON_COMPARISON(op, name)                                                   \
  Tensor name##_scalar_entry(const Tensor& a, const Scalar& b) {                      \
    static const PointwiseEntry entry(Op::op, "aten::" #name, "Scalar");              \
    if (!is_plain(a) || !are_real(b)) return entry.record_slow(a, b);                 \
    return record_comparison(entry, Code::op, a, b);                                  \
  }                                                                                   \
  Tensor name##_tensor_entry(const Tensor& a, const Tensor& b) {                      \
    static const PointwiseEntry entry(Op::op, "aten::" #name, "Tensor");              \
    if (goes_fast(a, b)) return record_comparison(entry, Code::op, a, b);             \
    Tensor out = record_broadcast(entry, Code::op, /*is_truth=*/true, a, b);          \
    return out.defined() ? out : entry.record_slow(a, b);                             \
  }                                                                                   \
  Tensor name##_scalar_autograd(DispatchKeySet k, const Tensor& a, const Scalar& b) { \
    if (can_skip_autograd(k)) return name##_scalar_entry(a, b);                       \
    return at::_ops::name##_Scalar::redispatch(generated_kernel(k), a, b);            \
  }                                                                                   \
  Tensor name##_tensor_autograd(DispatchKeySet k, const Tensor& a, const Tensor& b) { \
    if (can_skip_autograd(k)) return name##_tensor_entry(a, b);                       \
    return at::_ops::name##_Tensor::redispatch(generated_kernel(k), a, b);            \
  }

NEURON_COMPARISON(kEq, eq)
NEURON_COMPARISON(kNe, ne)
NEURON_COMPARISON(kLt, lt)
NEURON_COMPARISON(kLe, le)
NEURON_COMPARISON(kGt, gt)
NEURON_COMPARISON(kGe, ge)

// --- masks ---------------------------------------------------------------------------

// Inputs of several sizes. The mask comes first in `kWhere`.
Tensor broadcast_where(const PointwiseEntry& entry, const Tensor& mask, const Tensor& a,
                       const Tensor& b) {
  BroadcastSizes shape;
  if (!a.is_privateuseone() || !b.is_privateuseone() || !shape.add(a) || !shape.add(b) ||
      !shape.add(mask, at::kBool)) {
    return {};
  }
  Tensor out = make_tensor(shape.sizes(), {}, a.scalar_type(), shape.device());
  PointwiseCall call;
  call.input(mask);
  call.input(a);
  call.input(b);
  if (!call.record(entry.op, Code::kWhere, a.scalar_type(), out)) return {};
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

bool is_mask_of(const Tensor& mask, const Tensor& self) {
  return mask.scalar_type() == at::kBool && is_laid_out_as(self, mask);
}

Tensor where_entry(const Tensor& mask, const Tensor& a, const Tensor& b) {
  static const PointwiseEntry entry(Op::kWhere, "aten::where", "self");
  if (is_plain(a) && is_same_plain(a, b) && is_mask_of(mask, a)) {
    Tensor out = make_tensor_like(a);
    record_plain(entry, Code::kWhere, a.scalar_type(), out, mask, a, b);
    return out;
  }
  Tensor out = broadcast_where(entry, mask, a, b);
  return out.defined() ? out : entry.record_slow(mask, a, b);
}

Tensor masked_fill_entry(const Tensor& self, const Tensor& mask, const Scalar& value) {
  static const PointwiseEntry entry(Op::kMaskedFill, "aten::masked_fill", "Scalar");
  if (!is_plain(self) || !is_mask_of(mask, self) || !are_real(value)) {
    return at::compositeexplicitautograd::masked_fill(self, mask, value);
  }
  Tensor out = make_tensor_like(self);
  record_plain(entry, Code::kWhere, self.scalar_type(), out, mask, value, self);
  return out;
}

Tensor& masked_fill_inplace_entry(Tensor& self, const Tensor& mask, const Scalar& value) {
  static const PointwiseEntry entry(Op::kMaskedFill, "aten::masked_fill_", "Scalar");
  if (!is_plain(self) || !is_mask_of(mask, self) || !are_real(value) ||
      storage_of(self) == storage_of(mask)) {
    entry.record_slow(self, mask, value);
  } else {
    record_plain(entry, Code::kWhere, self.scalar_type(), self, mask, value, self);
  }
  return self;
}

// --- in place ------------------------------------------------------------------------

bool goes_fast_in_place(const Tensor& self, const Tensor& other) {
  return is_same_plain(self, other) && is_apart(self, other);
}

#define NEURON_ADDC_ENTRY(op, name)                                               \
  Tensor& name##_inplace_entry(Tensor& self, const Tensor& a, const Tensor& b,    \
                               const Scalar& value) {                             \
    static const PointwiseEntry entry(Op::op, "aten::" #name "_", "");            \
    if (!is_plain(self) || !goes_fast_in_place(self, a) ||                        \
        !goes_fast_in_place(self, b) || !are_real(value)) {                       \
      entry.record_slow(self, a, b, value);                                       \
    } else {                                                                      \
      record_plain(entry, Code::op, self.scalar_type(), self, self, a, b, value); \
    }                                                                             \
    return self;                                                                  \
  }

NEURON_ADDC_ENTRY(kAddcmul, addcmul)
NEURON_ADDC_ENTRY(kAddcdiv, addcdiv)

Tensor& lerp_inplace_entry(Tensor& self, const Tensor& end, const Scalar& weight) {
  static const PointwiseEntry entry(Op::kLerp, "aten::lerp_", "Scalar");
  if (!is_plain(self) || !goes_fast_in_place(self, end) || !are_real(weight)) {
    entry.record_slow(self, end, weight);
  } else {
    record_plain(entry, Code::kLerp, self.scalar_type(), self, self, end, weight);
  }
  return self;
}

Tensor& relu_inplace_entry(Tensor& self) {
  static const PointwiseEntry entry(Op::kRelu, "aten::relu_", "");
  if (!is_plain(self)) {
    entry.record_slow(self);
  } else {
    record_plain(entry, Code::kRelu, self.scalar_type(), self, self);
  }
  return self;
}

Tensor& zero_entry(Tensor& self) {
  static const PointwiseEntry entry(Op::kZero, "aten::zero_", "");
  if (!is_plain(self)) {
    entry.record_slow(self);
  } else {
    record_plain(entry, Code::kCopy, self.scalar_type(), self, Scalar(0));
  }
  return self;
}

Tensor& fill_entry(Tensor& self, const Scalar& value) {
  static const PointwiseEntry entry(Op::kFill, "aten::fill_", "Scalar");
  if (!is_plain(self) || !are_real(value)) {
    entry.record_slow(self, value);
  } else {
    record_plain(entry, Code::kCopy, self.scalar_type(), self, value);
  }
  return self;
}

// --- on the Autograd key -------------------------------------------------------------

Tensor clamp_autograd(DispatchKeySet keys, const Tensor& self,
                      const std::optional<Scalar>& min,
                      const std::optional<Scalar>& max) {
  const auto entry = [&] { return clamp_entry(self, min, max); };
  if (can_skip_autograd(keys, self)) return entry();
  if (!can_make_node(keys, self)) {
    return at::_ops::clamp::redispatch(generated_kernel(keys), self, min, max);
  }
  return with_unary_node<nodes::ClampBackward1>(self, entry, [&](auto& node) {
    node.min = min;
    node.max = max;
  });
}
Tensor gelu_autograd(DispatchKeySet keys, const Tensor& self, c10::string_view how) {
  const auto entry = [&] { return gelu_entry(self, how); };
  if (can_skip_autograd(keys, self)) return entry();
  if (!can_make_node(keys, self)) {
    return at::_ops::gelu::redispatch(generated_kernel(keys), self, how);
  }
  return with_unary_node<nodes::GeluBackward0>(
      self, entry, [&](auto& node) { node.approximate = std::string(how); });
}
Tensor softplus_autograd(DispatchKeySet keys, const Tensor& self, const Scalar& beta,
                         const Scalar& threshold) {
  const auto entry = [&] { return softplus_entry(self, beta, threshold); };
  if (can_skip_autograd(keys, self)) return entry();
  if (!can_make_node(keys, self)) {
    return at::_ops::softplus::redispatch(generated_kernel(keys), self, beta, threshold);
  }
  return with_unary_node<nodes::SoftplusBackward0>(self, entry, [&](auto& node) {
    node.beta = beta;
    node.threshold = threshold;
  });
}
Tensor where_autograd(DispatchKeySet keys, const Tensor& mask, const Tensor& a,
                      const Tensor& b) {
  if (can_skip_autograd(keys, a, b)) return where_entry(mask, a, b);
  if (!can_make_node(keys, a, b)) {
    return at::_ops::where_self::redispatch(generated_kernel(keys), mask, a, b);
  }
  return with_node<nodes::WhereBackward0>(
      [&] { return where_entry(mask, a, b); },
      [&](auto& node) { node.condition_ = saved_input(mask); }, a, b);
}

#define NEURON_AUTOGRAD_NUMBER(name, op, Node, number)                            \
  Tensor name##_autograd(DispatchKeySet k, const Tensor& self, const Scalar& n) { \
    const auto entry = [&] { return name##_entry(self, n); };                     \
    if (can_skip_autograd(k, self)) return entry();                               \
    if (!can_make_node(k, self)) {                                                \
      return at::_ops::op::redispatch(generated_kernel(k), self, n);              \
    }                                                                             \
    return with_unary_node<nodes::Node>(self, entry,                              \
                                        [&](auto& node) { node.number = n; });    \
  }
NEURON_AUTOGRAD_NUMBER(pow, pow_Tensor_Scalar, PowBackward0, exponent)
NEURON_AUTOGRAD_NUMBER(leaky_relu, leaky_relu, LeakyReluBackward0, negative_slope)
NEURON_AUTOGRAD_NUMBER(clamp_min, clamp_min, ClampMinBackward0, min)
NEURON_AUTOGRAD_NUMBER(clamp_max, clamp_max, ClampMaxBackward0, max)

}  // namespace

// Rows (registered name, function) of the ops that stand on the Autograd key too.
#define NEURON_SHORTCUTS(row)                                                         \
  row("clamp", clamp) row("clamp_min", clamp_min) row("clamp_max", clamp_max)         \
      row("pow.Tensor_Scalar", pow) row("gelu", gelu) row("softplus", softplus)       \
          row("leaky_relu", leaky_relu) row("where.self", where)                      \
              row("eq.Scalar", eq_scalar) row("eq.Tensor", eq_tensor)                 \
                  row("ne.Scalar", ne_scalar) row("ne.Tensor", ne_tensor)             \
                      row("lt.Scalar", lt_scalar) row("lt.Tensor", lt_tensor)         \
                          row("le.Scalar", le_scalar) row("le.Tensor", le_tensor)     \
                              row("gt.Scalar", gt_scalar) row("gt.Tensor", gt_tensor) \
                                  row("ge.Scalar", ge_scalar)                         \
                                      row("ge.Tensor", ge_tensor)

#define NEURON_ENTRY_ROW(name, function) m.impl(name, TORCH_FN(function##_entry));
#define NEURON_AUTOGRAD_ROW(name, function) m.impl(name, TORCH_FN(function##_autograd));

TORCH_LIBRARY_IMPL(aten, PrivateUse3, m){
    NEURON_SHORTCUTS(NEURON_ENTRY_ROW)} TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  NEURON_SHORTCUTS(NEURON_AUTOGRAD_ROW)
}

void register_unboxed_ops(Registrar& m) {
  NEURON_SHORTCUTS(NEURON_ENTRY_ROW)
  m.impl("tanh_backward", TORCH_FN(tanh_backward_entry));
  m.impl("sigmoid_backward", TORCH_FN(sigmoid_backward_entry));
  m.impl("silu_backward", TORCH_FN(silu_backward_entry));
  m.impl("threshold_backward", TORCH_FN(threshold_backward_entry));
  m.impl("leaky_relu_backward", TORCH_FN(leaky_relu_backward_entry));
  m.impl("gelu_backward", TORCH_FN(gelu_backward_entry));
  m.impl("softplus_backward", TORCH_FN(softplus_backward_entry));
  m.impl("mse_loss_backward", TORCH_FN(mse_loss_backward_entry));
  m.impl("masked_fill.Scalar", TORCH_FN(masked_fill_entry));
  m.impl("masked_fill_.Scalar", TORCH_FN(masked_fill_inplace_entry));
  m.impl("addcmul_", TORCH_FN(addcmul_inplace_entry));
  m.impl("addcdiv_", TORCH_FN(addcdiv_inplace_entry));
  m.impl("lerp_.Scalar", TORCH_FN(lerp_inplace_entry));
  m.impl("relu_", TORCH_FN(relu_inplace_entry));
  m.impl("zero_", TORCH_FN(zero_entry));
  m.impl("fill_.Scalar", TORCH_FN(fill_entry));
}

}  // namespace neuron::lazy
