// Entries on the Autograd key: they save the generated autograd kernel where no gradient
// can be asked for. Laws:
//  1. An entry records at once only if nothing but the device is active below autograd;
//     else a FakeTensor or a mode would be passed over.
//  2. Else it reaches the generated kernel through the unused backend PrivateUse3, whose
//     kernel is the same recorder. The key set is masked first, or tracing would come
//     back here.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>

namespace neuron::lazy {

inline bool needs_no_gradient(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->autograd_meta() == nullptr) return true;
  return !(c10::GradMode::is_enabled() && impl->requires_grad()) &&
         !tensor._fw_grad(/*level=*/0).defined();
}

/// Law 1.
template <class... Tensors>
bool can_skip_autograd(c10::DispatchKeySet keys, const Tensors&... tensors) {
  return (needs_no_gradient(tensors) && ...) &&
         (keys & c10::after_ADInplaceOrView_keyset).highestPriorityTypeId() ==
             c10::DispatchKey::PrivateUse1;
}

/// Law 2.
inline c10::DispatchKeySet generated_kernel(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset) |
         c10::DispatchKeySet(c10::DispatchKey::AutogradPrivateUse3);
}

}  // namespace neuron::lazy
