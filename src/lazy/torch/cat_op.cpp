// Concatenation as one copy for each part, so that the copies fuse with what makes the
// parts.
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat_ops.h>

#include "lazy/torch/autograd_entry.h"
#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/pointwise_entry.h"
#include "lazy/torch/register.h"

namespace neuron::lazy {
namespace {

using at::Tensor;
using Parts = at::MaterializedITensorListRef;

constexpr size_t kMaxParts = 64;
constexpr int64_t kMaxRank = 8;

// Whether the parts need no inference: contiguous, of one type that kernels of ours can
// copy and of equal sizes but for `dim`, on one device.
bool are_simple(const Parts& parts, int64_t dim) {
  if (parts.empty() || parts.size() > kMaxParts) return false;
  const Tensor& first = parts[0];
  ir::ValueType type = ir::ValueType::kF32;
  if (!is_neuron(first) || first.dim() > kMaxRank || dim < 0 || dim >= first.dim() ||
      !ir::value_type_of(static_cast<ir::DType>(first.scalar_type()), type)) {
    return false;
  }
  for (const Tensor& part : parts) {
    if (!is_neuron(part) || part.dtype() != first.dtype() ||
        part.device() != first.device() || part.dim() != first.dim() ||
        part.numel() == 0 || !part.is_contiguous() || part.is_neg()) {
      return false;
    }
    for (int64_t d = 0; d < first.dim(); ++d) {
      if (d != dim && part.sizes()[d] != first.sizes()[d]) return false;
    }
  }
  return true;
}

// The place of a part in the output.
Tensor slice_of(const Tensor& out, const Tensor& part, int64_t offset) {
  c10::TensorImpl* from = out.unsafeGetTensorImpl();
  Tensor place = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                          c10::Storage(from->storage()),
                                                          from->key_set(), from->dtype());
  place.unsafeGetTensorImpl()->set_sizes_and_strides(part.sizes(), out.strides(), offset);
  return place;
}

Tensor record_cat(const PointwiseEntry& entry, const Parts& parts, int64_t dim) {
  const Tensor& first = parts[0];
  int64_t sizes[kMaxRank];
  std::copy(first.sizes().begin(), first.sizes().end(), sizes);
  sizes[dim] = 0;
  for (const Tensor& part : parts) sizes[dim] += part.sizes()[dim];
  Tensor out = make_tensor({sizes, static_cast<size_t>(first.dim())}, {},
                           first.scalar_type(), first.device().index());
  int64_t offset = 0;
  for (const Tensor& part : parts) {
    PointwiseCall call;
    call.input(part);
    const bool is_recorded = call.record(entry.op, ir::Code::kCopy, first.scalar_type(),
                                         slice_of(out, part, offset));
    TORCH_INTERNAL_ASSERT(is_recorded);
    offset += part.sizes()[dim] * out.strides()[dim];
  }
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  static const PointwiseEntry entry(ir::Op::kCat, "aten::cat", "");
  const Parts parts = tensors.materialize();
  const int64_t rank = parts.empty() ? 0 : parts[0].get().dim();
  const int64_t d = dim < 0 ? dim + rank : dim;
  if (are_simple(parts, d)) return record_cat(entry, parts, d);
  c10::List<Tensor> list;
  for (const Tensor& part : parts) list.push_back(part);
  return entry.record_slow(list, dim);
}

Tensor cat_autograd(c10::DispatchKeySet keys, const at::ITensorListRef& tensors,
                    int64_t dim) {
  bool skips = can_skip_autograd(keys);
  for (const Tensor& tensor : tensors) skips = skips && needs_no_gradient(tensor);
  if (skips) return cat(tensors, dim);
  return at::_ops::cat::redispatch(generated_kernel(keys), tensors, dim);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("cat", TORCH_FN(cat_autograd));
}
TORCH_LIBRARY_IMPL(aten, PrivateUse3, m) { m.impl("cat", TORCH_FN(cat)); }

void register_cat_op(Registrar& m) { m.impl("cat", TORCH_FN(cat)); }

}  // namespace neuron::lazy
