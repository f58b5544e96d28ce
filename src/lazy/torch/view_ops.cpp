// Views made at one stroke on the Autograd key: geometry, view metadata and node, where
// the generated kernels dispatch three times. What a call means, and the message for a
// bad one, is PyTorch's: whatever is not an ordinary call goes to the generated kernel.
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/expand_ops.h>
#include <ATen/ops/permute_ops.h>
#include <ATen/ops/reshape_native.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/squeeze_ops.h>
#include <ATen/ops/t_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/view_ops.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/library.h>

#include "lazy/torch/autograd_node.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using c10::DispatchKeySet;
namespace nodes = torch::autograd::generated;

// Sizes, strides and offset of a view, in elements.
struct Geometry {
  at::DimVector sizes;
  at::DimVector strides;
  int64_t offset = 0;

  explicit Geometry(const c10::TensorImpl& base)
      : sizes(base.sizes().begin(), base.sizes().end()),
        strides(base.strides().begin(), base.strides().end()),
        offset(base.storage_offset()) {}
  Geometry(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset)
      : sizes(sizes.begin(), sizes.end()),
        strides(strides.begin(), strides.end()),
        offset(offset) {}

  void erase(int64_t d) {
    sizes.erase(sizes.begin() + d);
    strides.erase(strides.begin() + d);
  }
};

// A dimension counted from the front, or -1 for one that does not exist.
int64_t wrapped(int64_t d, int64_t rank) {
  if (d < 0) d += rank;
  return d < rank ? d : -1;
}

bool can_view(DispatchKeySet keys, const Tensor& base) {
  return is_ordinary(keys, base) && keys.has(c10::DispatchKey::ADInplaceOrView) &&
         !c10::AutogradState::get_tls_state().get_view_replay_enabled();
}

// The view of `base`, with the metadata that in-place writes need, and with the node that
// `fill(node)` completes where `base` needs a gradient.
template <class Node, class Fill>
Tensor make_view(const Tensor& base, const Geometry& geometry, const Fill& fill) {
  c10::TensorImpl* from = base.unsafeGetTensorImpl();
  const bool has_grad_mode = c10::GradMode::is_enabled();
  c10::intrusive_ptr<Node> node;
  if (has_grad_mode && from->requires_grad()) {
    node = make_node<Node>(base);
    fill(*node);
  }
  Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                         c10::Storage(from->storage()),
                                                         from->key_set(), from->dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides,
                                                    geometry.offset);
  using torch::autograd::CreationMeta;
  view = torch::autograd::as_view(
      base, view, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true,
      /*view_func=*/nullptr, /*rev_view_func=*/nullptr,
      has_grad_mode ? CreationMeta::DEFAULT : CreationMeta::NO_GRAD_MODE);
  if (node != nullptr) torch::autograd::set_history(view, node);
  return view;
}

template <class Node>
void keep_sizes(Node& node, const Tensor& base) {
  node.self_sym_sizes = base.sym_sizes().vec();
}

// view(self, size), if the sizes fit and the layout allows it.
std::optional<Geometry> viewed_as(const Tensor& base, c10::SymIntArrayRef size) {
  const auto wanted = c10::asIntArrayRefSlowOpt(size);
  if (!wanted.has_value()) return {};
  int64_t known = 1;
  int64_t unknown = -1;
  for (size_t d = 0; d < wanted->size(); ++d) {
    const int64_t length = (*wanted)[d];
    if (length == -1 && unknown < 0) {
      unknown = static_cast<int64_t>(d);
    } else if (length < 0) {
      return {};
    } else {
      known *= length;
    }
  }
  at::DimVector sizes(wanted->begin(), wanted->end());
  const int64_t numel = base.numel();
  if (unknown >= 0) {
    if (known == 0 || numel % known != 0) return {};
    sizes[unknown] = numel / known;
  } else if (known != numel) {
    return {};
  }
  const auto strides = at::detail::computeStride(base.sizes(), base.strides(), sizes);
  if (!strides.has_value()) return {};
  return Geometry(sizes, *strides, base.storage_offset());
}

Tensor make_reshaped(const Tensor& self, const Geometry& geometry) {
  return make_view<nodes::ViewBackward0>(
      self, geometry, [&](nodes::ViewBackward0& node) { keep_sizes(node, self); });
}

Tensor view(DispatchKeySet keys, const Tensor& self, c10::SymIntArrayRef size) {
  if (can_view(keys, self)) {
    if (const auto geometry = viewed_as(self, size))
      return make_reshaped(self, *geometry);
  }
  return at::_ops::view::redispatch(generated_kernel(keys), self, size);
}

Tensor reshape(DispatchKeySet keys, const Tensor& self, c10::SymIntArrayRef shape) {
  if (can_view(keys, self)) {
    if (const auto geometry = viewed_as(self, shape)) {
      return make_reshaped(self, *geometry);
    }
  }
  return at::native::reshape_symint(self, shape);
}

Tensor t(DispatchKeySet keys, const Tensor& self) {
  if (!can_view(keys, self) || self.dim() != 2) {
    return at::_ops::t::redispatch(generated_kernel(keys), self);
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  std::swap(geometry.sizes[0], geometry.sizes[1]);
  std::swap(geometry.strides[0], geometry.strides[1]);
  return make_view<nodes::TBackward0>(self, geometry, [](nodes::TBackward0&) {});
}

Tensor transpose(DispatchKeySet keys, const Tensor& self, int64_t dim0, int64_t dim1) {
  const int64_t a = wrapped(dim0, self.dim());
  const int64_t b = wrapped(dim1, self.dim());
  if (!can_view(keys, self) || a < 0 || b < 0 || a == b) {
    return at::_ops::transpose_int::redispatch(generated_kernel(keys), self, dim0, dim1);
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  std::swap(geometry.sizes[a], geometry.sizes[b]);
  std::swap(geometry.strides[a], geometry.strides[b]);
  return make_view<nodes::TransposeBackward0>(self, geometry,
                                              [&](nodes::TransposeBackward0& node) {
                                                node.dim0 = dim0;
                                                node.dim1 = dim1;
                                              });
}

Tensor permute(DispatchKeySet keys, const Tensor& self, at::IntArrayRef dims) {
  const int64_t rank = self.dim();
  bool is_permutation = rank < 64 && static_cast<int64_t>(dims.size()) == rank;
  uint64_t seen = 0;
  Geometry geometry(*self.unsafeGetTensorImpl());
  for (int64_t k = 0; is_permutation && k < rank; ++k) {
    const int64_t d = wrapped(dims[k], rank);
    is_permutation = d >= 0 && (seen >> d & 1) == 0;
    if (!is_permutation) break;
    seen |= uint64_t{1} << d;
    geometry.sizes[k] = self.sizes()[d];
    geometry.strides[k] = self.strides()[d];
  }
  if (!is_permutation || !can_view(keys, self)) {
    return at::_ops::permute::redispatch(generated_kernel(keys), self, dims);
  }
  return make_view<nodes::PermuteBackward0>(
      self, geometry, [&](nodes::PermuteBackward0& node) { node.dims = dims.vec(); });
}

Tensor select(DispatchKeySet keys, const Tensor& self, int64_t dim, c10::SymInt index) {
  const int64_t d = wrapped(dim, self.dim());
  const std::optional<int64_t> given = index.maybe_as_int();
  const int64_t i = d < 0 || !given ? -1 : wrapped(*given, self.sizes()[d]);
  if (i < 0 || !can_view(keys, self)) {
    return at::_ops::select_int::redispatch(generated_kernel(keys), self, dim,
                                            std::move(index));
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  geometry.offset += i * geometry.strides[d];
  geometry.erase(d);
  return make_view<nodes::SelectBackward0>(self, geometry,
                                           [&](nodes::SelectBackward0& node) {
                                             node.dim = dim;
                                             node.index = index;
                                             keep_sizes(node, self);
                                           });
}

// A bound of a slice: the end that is counted from the back, then cut to [low, size].
int64_t clamped(int64_t bound, int64_t low, int64_t size) {
  if (bound < 0) bound += size;
  return std::clamp(bound, low, size);
}

Tensor slice(DispatchKeySet keys, const Tensor& self, int64_t dim,
             std::optional<c10::SymInt> start, std::optional<c10::SymInt> end,
             c10::SymInt step) {
  const int64_t d = wrapped(dim, self.dim());
  const auto is_known = [](const std::optional<c10::SymInt>& bound) {
    return !bound.has_value() || bound->maybe_as_int().has_value();
  };
  const int64_t stride = step.maybe_as_int().value_or(0);
  if (d < 0 || stride <= 0 || !is_known(start) || !is_known(end) ||
      !can_view(keys, self)) {
    return at::_ops::slice_Tensor::redispatch(generated_kernel(keys), self, dim,
                                              std::move(start), std::move(end),
                                              std::move(step));
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  const int64_t size = geometry.sizes[d];
  const int64_t first = clamped(start ? *start->maybe_as_int() : 0, 0, size);
  const int64_t last = clamped(end ? *end->maybe_as_int() : size, first, size);
  geometry.offset += first * geometry.strides[d];
  geometry.sizes[d] = (last - first + stride - 1) / stride;
  geometry.strides[d] *= stride;
  return make_view<nodes::SliceBackward0>(self, geometry,
                                          [&](nodes::SliceBackward0& node) {
                                            node.dim = dim;
                                            node.start = start;
                                            node.end = end;
                                            node.step = step;
                                            keep_sizes(node, self);
                                          });
}

Tensor unsqueeze(DispatchKeySet keys, const Tensor& self, int64_t dim) {
  const int64_t rank = self.dim();
  const int64_t d = wrapped(dim, rank + 1);
  if (d < 0 || !can_view(keys, self)) {
    return at::_ops::unsqueeze::redispatch(generated_kernel(keys), self, dim);
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  const int64_t stride = d < rank ? geometry.sizes[d] * geometry.strides[d] : 1;
  geometry.sizes.insert(geometry.sizes.begin() + d, 1);
  geometry.strides.insert(geometry.strides.begin() + d, stride);
  return make_view<nodes::UnsqueezeBackward0>(
      self, geometry, [&](nodes::UnsqueezeBackward0& node) { node.dim = dim; });
}

Tensor squeeze(DispatchKeySet keys, const Tensor& self, int64_t dim) {
  const int64_t d = wrapped(dim, self.dim());
  if (d < 0 || !can_view(keys, self)) {
    return at::_ops::squeeze_dim::redispatch(generated_kernel(keys), self, dim);
  }
  Geometry geometry(*self.unsafeGetTensorImpl());
  if (geometry.sizes[d] == 1) geometry.erase(d);
  return make_view<nodes::SqueezeBackward1>(self, geometry,
                                            [&](nodes::SqueezeBackward1& node) {
                                              node.dim = dim;
                                              keep_sizes(node, self);
                                            });
}

// Whether every size can be expanded to the wanted one.
bool can_expand(at::IntArrayRef from, at::IntArrayRef wanted) {
  if (from.size() > wanted.size()) return false;
  const size_t missing = wanted.size() - from.size();
  for (size_t k = 0; k < wanted.size(); ++k) {
    const bool fits = k < missing ? wanted[k] >= 0
                                  : wanted[k] == -1 || wanted[k] == from[k - missing] ||
                                        (wanted[k] >= 0 && from[k - missing] == 1);
    if (!fits) return false;
  }
  return true;
}

Tensor expand(DispatchKeySet keys, const Tensor& self, c10::SymIntArrayRef size,
              bool implicit) {
  const auto wanted = c10::asIntArrayRefSlowOpt(size);
  if (!wanted.has_value() || !can_expand(self.sizes(), *wanted) ||
      !can_view(keys, self)) {
    return at::_ops::expand::redispatch(generated_kernel(keys), self, size, implicit);
  }
  const auto expanded =
      at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), *wanted);
  const Geometry geometry(expanded.sizes, expanded.strides, self.storage_offset());
  return make_view<nodes::ExpandBackward0>(
      self, geometry, [&](nodes::ExpandBackward0& node) { keep_sizes(node, self); });
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("view", TORCH_FN(view));
  m.impl("reshape", TORCH_FN(reshape));
  m.impl("t", TORCH_FN(t));
  m.impl("transpose.int", TORCH_FN(transpose));
  m.impl("permute", TORCH_FN(permute));
  m.impl("select.int", TORCH_FN(select));
  m.impl("slice.Tensor", TORCH_FN(slice));
  m.impl("unsqueeze", TORCH_FN(unsqueeze));
  m.impl("squeeze.dim", TORCH_FN(squeeze));
  m.impl("expand", TORCH_FN(expand));
}

// Law 2 of autograd_entry.h; the others have kernels for every backend.
TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) { m.impl("view", TORCH_FN(at::native::view)); }

}  // namespace neuron::lazy
