// Nodes of the backward graph made by our own entries on the Autograd key: PyTorch's own
// node classes, so that names, saved values, hooks and double backward are PyTorch's.
//
// An entry may do so only for an `is_ordinary` call. It makes the node before it records,
// and sets the history after.
#pragma once

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include "lazy/torch/autograd_entry.h"

namespace neuron::lazy {

inline bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr &&
         tensor._fw_grad(/*level=*/0).defined();
}

/// Whether nothing but the device is active below autograd and no input has a forward
/// gradient. Undefined tensors are allowed.
template <class... Tensors>
bool is_ordinary(c10::DispatchKeySet keys, const Tensors&... tensors) {
  return (keys & c10::after_ADInplaceOrView_keyset).highestPriorityTypeId() ==
             c10::DispatchKey::PrivateUse1 &&
         !(has_tangent(tensors) || ...);
}

/// A node with edges to the inputs, one of which needs a gradient.
template <class Node, class... Tensors>
c10::intrusive_ptr<Node> make_node(const Tensors&... inputs) {
  auto node = c10::make_intrusive<Node>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

/// Whether an entry may make the node itself: an ordinary call with a gradient to come.
template <class... Tensors>
bool can_make_node(c10::DispatchKeySet keys, const Tensors&... tensors) {
  return is_ordinary(keys, tensors...) && c10::GradMode::is_enabled() &&
         (... || tensors.requires_grad()) && (... && !tensors.is_complex());
}

inline torch::autograd::SavedVariable saved_input(const at::Tensor& tensor) {
  return {tensor, /*is_output=*/false};
}
inline torch::autograd::SavedVariable saved_result(const at::Tensor& tensor) {
  return {tensor, /*is_output=*/true};
}

/// The result of `entry()` with a node whose edges lead to the inputs, one of which needs
/// a gradient. `fill(node)` sets what the gradient needs; a node that keeps its result
/// gets it.
template <class Node, class Entry, class Fill, class... Tensors>
at::Tensor with_node(const Entry& entry, const Fill& fill, const Tensors&... inputs) {
  const auto node = make_node<Node>(inputs...);
  fill(*node);
  at::Tensor out = entry();
  torch::autograd::set_history(out, node);
  if constexpr (requires { node->result_; }) node->result_ = saved_result(out);
  return out;
}

/// The same for one input, which is kept if the node's class has a place for it.
template <class Node, class Entry, class Fill>
at::Tensor with_unary_node(const at::Tensor& self, const Entry& entry, const Fill& fill) {
  const auto keep_input = [&](Node& node) {
    if constexpr (requires { node.self_; }) node.self_ = saved_input(self);
    fill(node);
  };
  return with_node<Node>(entry, keep_input, self);
}
template <class Node, class Entry>
at::Tensor with_unary_node(const at::Tensor& self, const Entry& entry) {
  return with_unary_node<Node>(self, entry, [](Node&) {});
}

}  // namespace neuron::lazy
