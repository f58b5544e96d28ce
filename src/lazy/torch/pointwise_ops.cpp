// Unboxed entries of the commonest pointwise ops: output made by hand, no call object.
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh_ops.h>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using ir::Code;
namespace nodes = torch::autograd::generated;

bool is_one(const at::Scalar& alpha) {
  return alpha.isFloatingPoint() ? alpha.toDouble() == 1.0 : alpha.toLong() == 1;
}

#define NEURON_BINARY_ENTRY(op, name, overload)                                 \
  Tensor name##_entry(const Tensor& a, const Tensor& b) {                       \
    static const PointwiseEntry entry(ir::Op::op, "aten::" #name, overload);    \
    if (C10_LIKELY(goes_fast(a, b))) return record_like(entry, Code::op, a, b); \
    Tensor out = record_broadcast(entry, Code::op, /*is_truth=*/false, a, b);   \
    return out.defined() ? out : entry.record_slow(a, b);                       \
  }

#define NEURON_SCALED_ENTRY(op, name)                                                   \
  Tensor name##_entry(const Tensor& a, const Tensor& b, const at::Scalar& alpha) {      \
    static const PointwiseEntry entry(ir::Op::op, "aten::" #name, "Tensor");            \
    if (C10_UNLIKELY(!is_real_number(alpha))) return entry.record_slow(a, b, alpha);    \
    const bool plain = is_one(alpha);                                                   \
    if (C10_LIKELY(goes_fast(a, b))) {                                                  \
      return plain ? record_like(entry, Code::op, a, b)                                 \
                   : record_like(entry, Code::op##Scaled, a, b, alpha);                 \
    }                                                                                   \
    Tensor out = plain ? record_broadcast(entry, Code::op, false, a, b)                 \
                       : record_broadcast(entry, Code::op##Scaled, false, a, b, alpha); \
    return out.defined() ? out : entry.record_slow(a, b, alpha);                        \
  }                                                                                     \
  Tensor& name##_inplace_entry(Tensor& a, const Tensor& b, const at::Scalar& alpha) {   \
    static const PointwiseEntry entry(ir::Op::op, "aten::" #name "_", "Tensor");        \
    if (C10_UNLIKELY(!goes_fast(a, b) || !is_apart(a, b) || !is_real_number(alpha))) {  \
      entry.record_slow(a, b, alpha);                                                   \
    } else if (is_one(alpha)) {                                                         \
      record_plain(entry, Code::op, a.scalar_type(), a, a, b);                          \
    } else {                                                                            \
      record_plain(entry, Code::op##Scaled, a.scalar_type(), a, a, b, alpha);           \
    }                                                                                   \
    return a;                                                                           \
  }

#define NEURON_INPLACE_ENTRY(op, name)                                           \
  Tensor& name##_inplace_entry(Tensor& a, const Tensor& b) {                     \
    static const PointwiseEntry entry(ir::Op::op, "aten::" #name "_", "Tensor"); \
    if (C10_LIKELY(goes_fast(a, b) && is_apart(a, b))) {                         \
      record_plain(entry, Code::op, a.scalar_type(), a, a, b);                   \
    } else {                                                                     \
      entry.record_slow(a, b);                                                   \
    }                                                                            \
    return a;                                                                    \
  }

#define NEURON_UNARY_ENTRY(op, name)                                     \
  Tensor name##_entry(const Tensor& a) {                                 \
    static const PointwiseEntry entry(ir::Op::op, "aten::" #name, "");   \
    if (C10_LIKELY(is_plain(a))) return record_like(entry, Code::op, a); \
    return entry.record_slow(a);                                         \
  }

// --- on the Autograd key -------------------------------------------------------------

void save_operands(nodes::MulBackward0& node, const Tensor& a, const Tensor& b) {
  node.self_scalar_type = a.scalar_type();
  node.other_scalar_type = b.scalar_type();
  if (node.should_compute_output(0)) node.other_ = saved_input(b);
  if (node.should_compute_output(1)) node.self_ = saved_input(a);
}
void save_operands(nodes::DivBackward0& node, const Tensor& a, const Tensor& b) {
  node.self_scalar_type = a.scalar_type();
  node.other_ = saved_input(b);
  if (node.should_compute_output(1)) node.self_ = saved_input(a);
}
template <class Node>
void save_operands(Node& node, const Tensor& a, const Tensor& b,
                   const at::Scalar& alpha) {
  node.self_scalar_type = a.scalar_type();
  node.other_scalar_type = b.scalar_type();
  node.alpha = alpha;
}
void save_operands(nodes::MaximumBackward0& node, const Tensor& a, const Tensor& b) {
  node.self_ = saved_input(a);
  node.other_ = saved_input(b);
}
void save_operands(nodes::MinimumBackward0& node, const Tensor& a, const Tensor& b) {
  node.self_ = saved_input(a);
  node.other_ = saved_input(b);
}

#define NEURON_AUTOGRAD_BINARY(name, op, Node)                                           \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) {   \
    if (can_skip_autograd(keys, a, b)) return name##_entry(a, b);                        \
    if (!can_make_node(keys, a, b)) {                                                    \
      return at::_ops::op::redispatch(generated_kernel(keys), a, b);                     \
    }                                                                                    \
    return with_node<nodes::Node>([&] { return name##_entry(a, b); },                    \
                                  [&](nodes::Node& node) { save_operands(node, a, b); }, \
                                  a, b);                                                 \
  }
#define NEURON_AUTOGRAD_SCALED(name, op, Node)                                       \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b, \
                         const at::Scalar& alpha) {                                  \
    if (can_skip_autograd(keys, a, b)) return name##_entry(a, b, alpha);             \
    if (!can_make_node(keys, a, b)) {                                                \
      return at::_ops::op::redispatch(generated_kernel(keys), a, b, alpha);          \
    }                                                                                \
    return with_node<nodes::Node>(                                                   \
        [&] { return name##_entry(a, b, alpha); },                                   \
        [&](nodes::Node& node) { save_operands(node, a, b, alpha); }, a, b);         \
  }
#define NEURON_AUTOGRAD_UNARY(name, Node)                                    \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a) {        \
    if (can_skip_autograd(keys, a)) return name##_entry(a);                  \
    if (!can_make_node(keys, a)) {                                           \
      return at::_ops::name::redispatch(generated_kernel(keys), a);          \
    }                                                                        \
    return with_unary_node<nodes::Node>(a, [&] { return name##_entry(a); }); \
  }

NEURON_BINARY_ENTRY(kMul, mul, "Tensor")
NEURON_BINARY_ENTRY(kDiv, div, "Tensor")
NEURON_BINARY_ENTRY(kMaximum, maximum, "")
NEURON_BINARY_ENTRY(kMinimum, minimum, "")
NEURON_INPLACE_ENTRY(kMul, mul)
NEURON_INPLACE_ENTRY(kDiv, div)
NEURON_SCALED_ENTRY(kAdd, add)
NEURON_SCALED_ENTRY(kSub, sub)
#define NEURON_FAST_UNARY(op, name, node) NEURON_UNARY_ENTRY(op, name)
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY

NEURON_AUTOGRAD_BINARY(mul, mul_Tensor, MulBackward0)
NEURON_AUTOGRAD_BINARY(div, div_Tensor, DivBackward0)
NEURON_AUTOGRAD_BINARY(maximum, maximum, MaximumBackward0)
NEURON_AUTOGRAD_BINARY(minimum, minimum, MinimumBackward0)
NEURON_AUTOGRAD_SCALED(add, add_Tensor, AddBackward0)
NEURON_AUTOGRAD_SCALED(sub, sub_Tensor, SubBackward0)
#define NEURON_FAST_UNARY(op, name, node) NEURON_AUTOGRAD_UNARY(name, node)
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY

}  // namespace

// The functional entries, also on PrivateUse3 (law 2 of autograd_entry.h).
template <class Library>
void register_functional(Library& m) {
  m.impl("add.Tensor", TORCH_FN(add_entry));
  m.impl("sub.Tensor", TORCH_FN(sub_entry));
  m.impl("mul.Tensor", TORCH_FN(mul_entry));
  m.impl("div.Tensor", TORCH_FN(div_entry));
  m.impl("maximum", TORCH_FN(maximum_entry));
  m.impl("minimum", TORCH_FN(minimum_entry));
#define NEURON_FAST_UNARY(op, name, node) m.impl(#name, TORCH_FN(name##_entry));
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY
}

TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) { register_functional(m); }

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("add.Tensor", TORCH_FN(add_autograd));
  m.impl("sub.Tensor", TORCH_FN(sub_autograd));
  m.impl("mul.Tensor", TORCH_FN(mul_autograd));
  m.impl("div.Tensor", TORCH_FN(div_autograd));
  m.impl("maximum", TORCH_FN(maximum_autograd));
  m.impl("minimum", TORCH_FN(minimum_autograd));
#define NEURON_FAST_UNARY(op, name, node) m.impl(#name, TORCH_FN(name##_autograd));
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY
}

void register_pointwise_ops(Registrar& m) {
  register_functional(m);
  m.impl("add_.Tensor", TORCH_FN(add_inplace_entry));
  m.impl("sub_.Tensor", TORCH_FN(sub_inplace_entry));
  m.impl("mul_.Tensor", TORCH_FN(mul_inplace_entry));
  m.impl("div_.Tensor", TORCH_FN(div_inplace_entry));
}

}  // namespace neuron::lazy
