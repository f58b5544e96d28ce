// What the unboxed entries of pointwise ops share: which tensors need no inference, and
// how they are recorded without a call object. An entry records the very nodes of the
// op's lowering; what it does not know it gives to the boxed recorder.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Scalar.h>

#include <cmath>
#include <limits>

#include "ir/pointwise.h"
#include "lazy/torch/pointwise_call.h"
#include "lazy/torch/record.h"
#include "lazy/torch/scalars.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {

/// One overload with an unboxed entry; lives as long as the process.
class PointwiseEntry {
 public:
  PointwiseEntry(ir::Op op, const char* aten_name, const char* overload);

  /// The boxed recorder.
  template <class... Args>
  at::Tensor record_slow(const Args&... args) const {
    torch::jit::Stack stack;
    (stack.emplace_back(args), ...);
    record_boxed(handle, {}, &stack);
    return std::move(stack[0]).toTensor();
  }

  const ir::Op op;
  OpTrack* const track;
  const c10::OperatorHandle handle;
};

inline bool is_real_float(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 ||
         dtype == at::kHalf;
}

/// A neuron tensor that needs no inference: floating, contiguous, not empty.
inline bool is_plain(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->is_privateuseone() && impl->is_contiguous() && impl->numel() > 0 &&
         is_real_float(impl->dtype().toScalarType());
}

/// Whether `b` is laid out as `a`, which is contiguous, on the same device.
inline bool is_laid_out_as(const at::Tensor& a, const at::Tensor& b) {
  return b.is_privateuseone() && b.sizes() == a.sizes() && b.is_contiguous() &&
         b.device() == a.device();
}
inline bool is_same_plain(const at::Tensor& a, const at::Tensor& b) {
  return b.dtype() == a.dtype() && is_laid_out_as(a, b);
}

/// A Python number, which the node keeps as a double or as an integer.
inline bool is_number(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->is_wrapped_number() || !impl->is_cpu()) return false;
  const auto dtype = impl->dtype().toScalarType();
  return dtype == at::kDouble || dtype == at::kLong;
}

/// The value of a tensor that `is_number`.
inline at::Scalar number_of(const at::Tensor& number) {
  const void* data = number.unsafeGetTensorImpl()->data();
  if (number.scalar_type() == at::kDouble) return *static_cast<const double*>(data);
  return *static_cast<const int64_t*>(data);
}

/// A real number that every floating type but float16 holds; of a larger one PyTorch may
/// complain.
inline bool is_real_number(const at::Scalar& number) {
  if (!number.isFloatingPoint()) return number.isIntegral(/*includeBool=*/false);
  const double value = number.toDouble();
  return !(std::abs(value) > std::numeric_limits<float>::max()) || std::isinf(value);
}

/// Whether `a` (plain) and `b` are recorded as they are.
inline bool goes_fast(const at::Tensor& a, const at::Tensor& b) {
  return is_plain(a) && (is_same_plain(a, b) || is_number(b));
}

/// For ops in place on `a`: `b` is another storage, or exactly `a`.
inline bool is_apart(const at::Tensor& a, const at::Tensor& b) {
  return !b.is_privateuseone() || storage_of(a) != storage_of(b) ||
         a.storage_offset() == b.storage_offset();
}

/// A native pointwise node under construction, of operands that are all contiguous and of
/// equal sizes, and of numbers. Inputs come in the order of the code's slots.
class PlainNode {
 public:
  void input(const at::Tensor& tensor) {
    if (C10_UNLIKELY(!tensor.is_privateuseone())) return input(number_of(tensor));
    ++slot_;
    operands_[count_++] = operand_of(tensor, ir::Operand::kReads);
  }
  void input(const at::Scalar& number) {
    set_number(spec_, numbers_++, number);
    spec_.number_slots |= static_cast<uint8_t>(1 << slot_++);
  }
  /// Records `code`, computed in `dtype`, into `out`.
  void record(const PointwiseEntry& entry, ir::Code code, at::ScalarType dtype,
              const at::Tensor& out);

 private:
  OpSpec spec_;
  OperandSpec operands_[5];
  size_t count_ = 0;
  int numbers_ = 0;
  int slot_ = 0;
};

template <class... Inputs>
void record_plain(const PointwiseEntry& entry, ir::Code code, at::ScalarType dtype,
                  const at::Tensor& out, const Inputs&... inputs) {
  PlainNode node;
  (node.input(inputs), ...);
  node.record(entry, code, dtype, out);
}

/// The same into a new tensor like `first`, a plain tensor.
template <class... Inputs>
at::Tensor record_like(const PointwiseEntry& entry, ir::Code code,
                       const at::Tensor& first, const Inputs&... inputs) {
  at::Tensor out = make_tensor_like(first);
  record_plain(entry, code, first.scalar_type(), out, first, inputs...);
  return out;
}

/// What the inputs of a node broadcast to. Every one is contiguous, or one element
/// expanded, so that TensorIterator would lay the result out contiguously.
class BroadcastSizes {
 public:
  /// False when the tensor is none of these or does not fit to those before.
  bool add(const at::Tensor& tensor, at::ScalarType dtype);
  bool add(const at::Tensor& tensor) {
    if (is_number(tensor)) return true;
    if (count_ > 0) return add(tensor, dtype_);
    return is_real_float(tensor.scalar_type()) && add(tensor, tensor.scalar_type());
  }
  bool add(const at::Scalar& number) const { return is_real_number(number); }

  at::ScalarType dtype() const { return dtype_; }
  at::IntArrayRef sizes() const { return {sizes_ + kMaxRank - rank_, rank_}; }
  int device() const { return device_; }

 private:
  static constexpr size_t kMaxRank = 8;

  int64_t sizes_[kMaxRank];  // aligned at the end
  size_t rank_ = 0;
  int count_ = 0;
  int device_ = -1;
  at::ScalarType dtype_ = at::kFloat;
};

/// Records tensors of one floating type that broadcast to one another, and numbers, into
/// a new tensor, of truth values if so asked; undefined when they are not that.
template <class... Inputs>
at::Tensor record_broadcast(const PointwiseEntry& entry, ir::Code code, bool is_truth,
                            const Inputs&... inputs) {
  BroadcastSizes shape;
  if (!(shape.add(inputs) && ...) || shape.device() < 0) return {};
  const at::ScalarType dtype = shape.dtype();
  at::Tensor out =
      make_tensor(shape.sizes(), {}, is_truth ? at::kBool : dtype, shape.device());
  PointwiseCall call;
  (call.input(inputs), ...);
  if (!call.record(entry.op, code, dtype, out)) return {};
  entry.track->calls.fetch_add(1, std::memory_order_relaxed);
  return out;
}

}  // namespace neuron::lazy
