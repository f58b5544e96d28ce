// PointwiseCall: a pointwise op on its way from tensors to a native node.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include "ir/pointwise.h"
#include "lazy/torch/record.h"

namespace neuron::lazy {

/// Takes the inputs of one op in the order of its code's slots, then records it. Inputs
/// must outlive the call.
class PointwiseCall {
 public:
  /// A neuron tensor, or a number held by a CPU tensor without dimensions.
  void input(const at::Tensor& tensor);
  void input(const at::Scalar& number);

  /// The type that PyTorch computes in: what the inputs promote to.
  at::ScalarType common_dtype() const;

  /// Whether `record` would succeed.
  bool can_record(ir::Code code, at::ScalarType dtype, const at::Tensor& out) const;

  /// Records `code`, computed in `dtype`, into all of `out` (whose sizes the inputs
  /// broadcast to). False, with nothing recorded, when there is no native code for it:
  /// a type without a body, a conjugated operand, an output that overlaps itself or an
  /// input in part, more than two numbers.
  bool record(ir::Op op, ir::Code code, at::ScalarType dtype, const at::Tensor& out);

 private:
  static constexpr int kMaxInputs = 4;
  static constexpr int kMaxRank = 12;

  struct Layouts;
  bool is_dense_like(const at::Tensor& out) const;
  bool describe_strided(const at::Tensor& out, OperandSpec* operands, Layouts& layouts,
                        int count) const;

  const at::Tensor* tensors_[kMaxInputs] = {};
  at::Scalar numbers_[kMaxInputs];
  int num_inputs_ = 0;
  int num_numbers_ = 0;
};

}  // namespace neuron::lazy
