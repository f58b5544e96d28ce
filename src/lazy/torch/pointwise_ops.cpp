// Unboxed entries of the commonest pointwise ops: output made by hand, no call object.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <c10/core/GradMode.h>

#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/record.h"
#include "lazy/torch/register.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/scalars.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

using at::Tensor;

bool is_real_float(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 ||
         dtype == at::kHalf;
}

// A neuron tensor that needs no inference: floating, contiguous, not empty.
bool is_plain(const Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_privateuseone() && impl->is_contiguous() && impl->numel() > 0 &&
         is_real_float(impl->dtype().toScalarType());
}

bool is_same_plain(const Tensor& a, const Tensor& b) {
  return b.is_privateuseone() && b.dtype() == a.dtype() && b.sizes() == a.sizes() &&
         b.is_contiguous() && b.device() == a.device();
}

// A Python number, which the node keeps as a double or as an integer.
bool is_number(const Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->is_wrapped_number() || !impl->is_cpu()) return false;
  const auto dtype = impl->dtype().toScalarType();
  return dtype == at::kDouble || dtype == at::kLong;
}

at::Scalar value_of(const Tensor& number) {
  const void* data = number.unsafeGetTensorImpl()->data();
  if (number.scalar_type() == at::kDouble) return *static_cast<const double*>(data);
  return *static_cast<const int64_t*>(data);
}

struct FastSpec {
  ir::Op op;
  ir::Code code;
  OpTrack* track;
  const at::Scalar* alpha = nullptr;  // a factor on the second operand
};

void record_fast(const FastSpec& fast, const Tensor& a, const Tensor* b,
                 const Tensor& out) {
  OperandSpec operands[3];
  size_t count = 0;
  int numbers = 0;
  OpSpec spec;
  operands[count++] = operand_of(a, ir::Operand::kReads);
  if (b != nullptr && b->is_privateuseone()) {
    operands[count++] = operand_of(*b, ir::Operand::kReads);
  } else if (b != nullptr) {
    set_number(spec, numbers++, value_of(*b));
    spec.number_slots = 1 << 1;
  }
  operands[count++] = operand_of(out, ir::Operand::kWrites);
  if (fast.alpha != nullptr) {
    set_number(spec, numbers++, *fast.alpha);
    spec.number_slots |= 1 << 2;
  }
  spec.op = fast.op;
  spec.code = fast.code;
  spec.dtype = operands[0].dtype;
  spec.operands = {operands, count};
  spec.site = capture_site();
  fast.track->calls.fetch_add(1, std::memory_order_relaxed);
  record_op(a.device().index(), std::move(spec));
  arm(out);
}

// Two contiguous tensors of one floating type that broadcast to one another, recorded into
// a new tensor; undefined when they are not that.
Tensor record_broadcast(const FastSpec& fast, const Tensor& a, const Tensor& b) {
  if (!is_plain(a) || !is_plain(b) || b.dtype() != a.dtype() || b.device() != a.device()) {
    return {};
  }
  constexpr int64_t kMaxRank = 8;
  const int64_t rank = std::max(a.dim(), b.dim());
  if (rank > kMaxRank) return {};
  int64_t sizes[kMaxRank];
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t da = d - (rank - a.dim());
    const int64_t db = d - (rank - b.dim());
    const int64_t size_a = da < 0 ? 1 : a.sizes()[da];
    const int64_t size_b = db < 0 ? 1 : b.sizes()[db];
    if (size_a != size_b && size_a != 1 && size_b != 1) return {};
    sizes[d] = size_a == 1 ? size_b : size_a;
  }
  Tensor out = make_tensor({sizes, static_cast<size_t>(rank)}, {}, a.scalar_type(),
                           a.device().index());
  PointwiseCall call;
  call.input(a);
  call.input(b);
  if (fast.alpha != nullptr) call.input(*fast.alpha);
  if (!call.record(fast.op, fast.code, a.scalar_type(), out)) return {};
  fast.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

bool goes_fast(const Tensor& a, const Tensor& b) {
  return is_plain(a) && (is_same_plain(a, b) || is_number(b));
}

// In place: the second operand is another storage, or exactly the first.
bool is_apart(const Tensor& a, const Tensor& b) {
  return !b.is_privateuseone() || storage_of(a) != storage_of(b) ||
         a.storage_offset() == b.storage_offset();
}

bool is_real_number(const at::Scalar& alpha) {
  return alpha.isFloatingPoint() || alpha.isIntegral(/*includeBool=*/false);
}

template <class... Args>
Tensor record_slow(const c10::OperatorHandle& op, const Args&... args) {
  torch::jit::Stack stack;
  (stack.emplace_back(args), ...);
  record_boxed(op, {}, &stack);
  return std::move(stack[0]).toTensor();
}

c10::OperatorHandle handle(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

bool is_one(const at::Scalar& alpha) {
  return alpha.isFloatingPoint() ? alpha.toDouble() == 1.0 : alpha.toLong() == 1;
}

#define NEURON_BINARY_ENTRY(op, name, overload)                               \
  Tensor name##_entry(const Tensor& a, const Tensor& b) {                     \
    static OpTrack& track = track_op("aten::" #name);                         \
    const FastSpec fast{ir::Op::op, ir::Code::op, &track};                    \
    if (C10_LIKELY(goes_fast(a, b))) {                                        \
      Tensor out = make_tensor_like(a);                                       \
      record_fast(fast, a, &b, out);                                          \
      return out;                                                             \
    }                                                                         \
    if (Tensor out = record_broadcast(fast, a, b); out.defined()) return out; \
    static const c10::OperatorHandle slow = handle("aten::" #name, overload); \
    return record_slow(slow, a, b);                                           \
  }

#define NEURON_SCALED_ENTRY(op, name)                                                 \
  FastSpec name##_spec(OpTrack& track, const at::Scalar& alpha) {                     \
    if (is_one(alpha)) return {ir::Op::op, ir::Code::op, &track};                     \
    return {ir::Op::op, ir::Code::op##Scaled, &track, &alpha};                        \
  }                                                                                   \
  Tensor name##_entry(const Tensor& a, const Tensor& b, const at::Scalar& alpha) {    \
    static OpTrack& track = track_op("aten::" #name);                                 \
    if (C10_LIKELY(is_real_number(alpha))) {                                          \
      const FastSpec fast = name##_spec(track, alpha);                                \
      if (C10_LIKELY(goes_fast(a, b))) {                                              \
        Tensor out = make_tensor_like(a);                                             \
        record_fast(fast, a, &b, out);                                                \
        return out;                                                                   \
      }                                                                               \
      if (Tensor out = record_broadcast(fast, a, b); out.defined()) return out;       \
    }                                                                                 \
    static const c10::OperatorHandle slow = handle("aten::" #name, "Tensor");         \
    return record_slow(slow, a, b, alpha);                                            \
  }                                                                                   \
  Tensor& name##_inplace_entry(Tensor& a, const Tensor& b, const at::Scalar& alpha) { \
    static OpTrack& track = track_op("aten::" #name "_");                             \
    if (C10_LIKELY(goes_fast(a, b) && is_apart(a, b) && is_real_number(alpha))) {     \
      record_fast(name##_spec(track, alpha), a, &b, a);                               \
      return a;                                                                       \
    }                                                                                 \
    static const c10::OperatorHandle slow = handle("aten::" #name "_", "Tensor");     \
    record_slow(slow, a, b, alpha);                                                   \
    return a;                                                                         \
  }

#define NEURON_INPLACE_ENTRY(op, name)                                            \
  Tensor& name##_inplace_entry(Tensor& a, const Tensor& b) {                      \
    static OpTrack& track = track_op("aten::" #name "_");                         \
    if (C10_LIKELY(goes_fast(a, b) && is_apart(a, b))) {                          \
      record_fast({ir::Op::op, ir::Code::op, &track}, a, &b, a);                  \
      return a;                                                                   \
    }                                                                             \
    static const c10::OperatorHandle slow = handle("aten::" #name "_", "Tensor"); \
    record_slow(slow, a, b);                                                      \
    return a;                                                                     \
  }

#define NEURON_UNARY_ENTRY(op, name)                                    \
  Tensor name##_entry(const Tensor& a) {                                \
    static OpTrack& track = track_op("aten::" #name);                   \
    if (C10_LIKELY(is_plain(a))) {                                      \
      Tensor out = make_tensor_like(a);                                 \
      record_fast({ir::Op::op, ir::Code::op, &track}, a, nullptr, out); \
      return out;                                                       \
    }                                                                   \
    static const c10::OperatorHandle slow = handle("aten::" #name, ""); \
    return record_slow(slow, a);                                        \
  }

// The entries on the Autograd key: they save the generated autograd kernel where no
// gradient can be asked for. Laws:
//  1. An entry records at once only if nothing but the device is active below autograd;
//     else a FakeTensor or a mode would be passed over.
//  2. Else it reaches the generated kernel through the unused backend PrivateUse3, whose
//     kernel is the same recorder. The key set is masked first, or tracing would come
//     back here.
bool needs_no_gradient(const Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->autograd_meta() == nullptr) return true;
  return !(c10::GradMode::is_enabled() && impl->requires_grad()) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

bool only_device_is_active(c10::DispatchKeySet keys) {
  return (keys & c10::after_ADInplaceOrView_keyset).highestPriorityTypeId() ==
         c10::DispatchKey::PrivateUse1;
}

c10::DispatchKeySet generated_kernel(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset) |
         c10::DispatchKeySet(c10::DispatchKey::AutogradPrivateUse3);
}

#define NEURON_AUTOGRAD_BINARY(name, op)                                               \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) { \
    if (needs_no_gradient(a) && needs_no_gradient(b) && only_device_is_active(keys)) { \
      return name##_entry(a, b);                                                       \
    }                                                                                  \
    return at::_ops::op::redispatch(generated_kernel(keys), a, b);                     \
  }
#define NEURON_AUTOGRAD_SCALED(name, op)                                               \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b,   \
                         const at::Scalar& alpha) {                                    \
    if (needs_no_gradient(a) && needs_no_gradient(b) && only_device_is_active(keys)) { \
      return name##_entry(a, b, alpha);                                                \
    }                                                                                  \
    return at::_ops::op::redispatch(generated_kernel(keys), a, b, alpha);              \
  }
#define NEURON_AUTOGRAD_UNARY(name)                                                  \
  Tensor name##_autograd(c10::DispatchKeySet keys, const Tensor& a) {                \
    if (needs_no_gradient(a) && only_device_is_active(keys)) return name##_entry(a); \
    return at::_ops::name::redispatch(generated_kernel(keys), a);                    \
  }

NEURON_BINARY_ENTRY(kMul, mul, "Tensor")
NEURON_BINARY_ENTRY(kDiv, div, "Tensor")
NEURON_BINARY_ENTRY(kMaximum, maximum, "")
NEURON_BINARY_ENTRY(kMinimum, minimum, "")
NEURON_INPLACE_ENTRY(kMul, mul)
NEURON_INPLACE_ENTRY(kDiv, div)
NEURON_SCALED_ENTRY(kAdd, add)
NEURON_SCALED_ENTRY(kSub, sub)
#define NEURON_FAST_UNARY(op, name) NEURON_UNARY_ENTRY(op, name)
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY

NEURON_AUTOGRAD_BINARY(mul, mul_Tensor)
NEURON_AUTOGRAD_BINARY(div, div_Tensor)
NEURON_AUTOGRAD_BINARY(maximum, maximum)
NEURON_AUTOGRAD_BINARY(minimum, minimum)
NEURON_AUTOGRAD_SCALED(add, add_Tensor)
NEURON_AUTOGRAD_SCALED(sub, sub_Tensor)
#define NEURON_FAST_UNARY(op, name) NEURON_AUTOGRAD_UNARY(name)
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_UNARY

}  // namespace

// The functional entries, on the device's key and on PrivateUse3 (law 2).
template <class Library>
void register_functional(Library& m) {
  m.impl("add.Tensor", TORCH_FN(add_entry));
  m.impl("sub.Tensor", TORCH_FN(sub_entry));
  m.impl("mul.Tensor", TORCH_FN(mul_entry));
  m.impl("div.Tensor", TORCH_FN(div_entry));
  m.impl("maximum", TORCH_FN(maximum_entry));
  m.impl("minimum", TORCH_FN(minimum_entry));
#define NEURON_FAST_UNARY(op, name) m.impl(#name, TORCH_FN(name##_entry));
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
#define NEURON_FAST_UNARY(op, name) m.impl(#name, TORCH_FN(name##_autograd));
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
