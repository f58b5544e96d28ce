// Unboxed entries of sum and mean over floating tensors; they record what lower_rows.cpp
// does.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/sum_ops.h>

#include "lazy/torch/autograd_node.h"
#include "lazy/torch/lower_rows.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::OptionalIntArrayRef;
using at::Tensor;
using c10::DispatchKeySet;
using fusion::Reduce;
using ir::Op;
namespace nodes = torch::autograd::generated;
using OptionalDtype = std::optional<at::ScalarType>;

// A floating tensor of any layout.
bool can_reduce(const Tensor& self) {
  const c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  return impl->is_privateuseone() && is_real_float(impl->dtype().toScalarType()) &&
         impl->numel() > 0 && impl->dim() <= ReducedDims::kMaxRank && !self.is_neg();
}

// Marks what `dim` names: all dimensions when it names none. False for a list that
// PyTorch refuses.
bool mark_dims(const Tensor& self, OptionalIntArrayRef dim, ReducedDims& dims) {
  const int64_t rank = self.dim();
  if (!dim.has_value() || dim->empty()) {
    for (int64_t d = 0; d < rank; ++d) dims.is_reduced[d] = true;
    dims.num_reduced = static_cast<int>(rank);
    return true;
  }
  for (int64_t d : *dim) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank || dims.is_reduced[d]) return false;
    dims.is_reduced[d] = true;
    ++dims.num_reduced;
  }
  return true;
}

// Undefined when the call needs inference.
Tensor record(const PointwiseEntry& entry, Reduce reduce, const Tensor& self,
              OptionalIntArrayRef dim, bool keepdim, OptionalDtype dtype) {
  ReducedDims dims;
  if (dtype.has_value() || !can_reduce(self) || !mark_dims(self, dim, dims)) return {};
  int64_t sizes[ReducedDims::kMaxRank];
  size_t rank = 0;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (dims.is_reduced[d] && !keepdim) continue;
    sizes[rank++] = dims.is_reduced[d] ? 1 : self.sizes()[d];
  }
  Tensor out = make_tensor({sizes, rank}, {}, self.scalar_type(), self.device().index());
  record_reduce(entry.op, ir::Native::kReduce, static_cast<int64_t>(reduce),
                /*correction=*/1.0, self, dims, {out});
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

// What the node of a gradient needs of the input and the dimensions.
template <class Node>
void keep_shape(Node& node, const Tensor& self) {
  node.self_sym_sizes = self.sym_sizes().vec();
  if constexpr (requires { node.self_sym_numel; }) node.self_sym_numel = self.sym_numel();
}
template <class Node>
void keep_shape(Node& node, const Tensor& self, OptionalIntArrayRef dim, bool keepdim) {
  keep_shape(node, self);
  node.dim = dim;
  node.keepdim = keepdim;
}

// The overload for all dimensions is PyTorch's own call of the other one.
#define NEURON_REDUCE_ENTRY(code, name, overload, op, Node)                              \
  Tensor name##_dim_entry(const Tensor& self, OptionalIntArrayRef dim, bool keepdim,     \
                          OptionalDtype dtype) {                                         \
    static const PointwiseEntry entry(Op::code, "aten::" #name, overload);               \
    Tensor out = record(entry, Reduce::code, self, dim, keepdim, dtype);                 \
    return out.defined() ? out : entry.record_slow(self, dim, keepdim, dtype);           \
  }                                                                                      \
  Tensor name##_entry(const Tensor& self, OptionalDtype dtype) {                         \
    return name##_dim_entry(self, at::IntArrayRef(), /*keepdim=*/false, dtype);          \
  }                                                                                      \
  Tensor name##_dim_autograd(DispatchKeySet keys, const Tensor& self,                    \
                             OptionalIntArrayRef dim, bool keepdim,                      \
                             OptionalDtype dtype) {                                      \
    const auto run = [&] { return name##_dim_entry(self, dim, keepdim, dtype); };        \
    if (can_skip_autograd(keys, self)) return run();                                     \
    if (!can_make_node(keys, self)) {                                                    \
      return at::_ops::op::redispatch(generated_kernel(keys), self, dim, keepdim,        \
                                      dtype);                                            \
    }                                                                                    \
    return with_unary_node<nodes::Node##1>(                                              \
        self, run, [&](auto& node) { keep_shape(node, self, dim, keepdim); });           \
  }                                                                                      \
  Tensor name##_autograd(DispatchKeySet keys, const Tensor& self, OptionalDtype dtype) { \
    const auto run = [&] { return name##_entry(self, dtype); };                          \
    if (can_skip_autograd(keys, self)) return run();                                     \
    if (!can_make_node(keys, self)) {                                                    \
      return at::_ops::name::redispatch(generated_kernel(keys), self, dtype);            \
    }                                                                                    \
    return with_unary_node<nodes::Node##0>(self, run,                                    \
                                           [&](auto& node) { keep_shape(node, self); }); \
  }

NEURON_REDUCE_ENTRY(kSum, sum, "dim_IntList", sum_dim_IntList, SumBackward)
NEURON_REDUCE_ENTRY(kMean, mean, "dim", mean_dim, MeanBackward)

}  // namespace

// Also on PrivateUse3 (law 2 of autograd_entry.h).
template <class Library>
void register_reductions(Library& m) {
  m.impl("sum", TORCH_FN(sum_entry));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dim_entry));
  m.impl("mean", TORCH_FN(mean_entry));
  m.impl("mean.dim", TORCH_FN(mean_dim_entry));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) { register_reductions(m); }

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("sum", TORCH_FN(sum_autograd));
  m.impl("sum.dim_IntList", TORCH_FN(sum_dim_autograd));
  m.impl("mean", TORCH_FN(mean_autograd));
  m.impl("mean.dim", TORCH_FN(mean_dim_autograd));
}

void register_unboxed_rows(Registrar& m) { register_reductions(m); }

}  // namespace neuron::lazy
