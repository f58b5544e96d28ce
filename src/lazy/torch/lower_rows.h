// Recording of reductions, for the lowerings and for the unboxed entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>

#include "fusion/kernels/rows.h"
#include "ir/native.h"
#include "ir/op.h"

namespace neuron::lazy {

/// The dimensions that a reduction goes over.
struct ReducedDims {
  static constexpr int kMaxRank = fusion::ReduceShape::kMaxRank;

  bool is_reduced[kMaxRank] = {};
  int num_reduced = 0;
};

/// Records a reduction of `self`, of at most `kMaxRank` dimensions; more than one output
/// only if they have the layout of the first. False, with nothing recorded, for more
/// dimensions.
bool record_reduce(ir::Op op, ir::Native native, int64_t kind, double correction,
                   const at::Tensor& self, const ReducedDims& dims,
                   std::initializer_list<at::Tensor> outs);

/// Records softmax or its logarithm over `dim` (counted from the front) of a contiguous
/// tensor; `op` is for reports.
void record_softmax(ir::Op op, bool is_log, const at::Tensor& self, int64_t dim,
                    const at::Tensor& out);
/// Its gradient, of contiguous tensors of equal sizes.
void record_softmax_backward(ir::Op op, bool is_log, const at::Tensor& grad,
                             const at::Tensor& result, int64_t dim,
                             const at::Tensor& out);

/// Records a layer norm of contiguous tensors; `weight` and `bias` may be undefined.
/// `mean` and `rstd` have one element for each row.
void record_layer_norm(const at::Tensor& self, const at::Tensor& weight,
                       const at::Tensor& bias, double eps, const at::Tensor& out,
                       const at::Tensor& mean, const at::Tensor& rstd);
/// Its gradients; those that are undefined are not computed, one must be defined.
void record_layer_norm_backward(const at::Tensor& grad, const at::Tensor& self,
                                const at::Tensor& mean, const at::Tensor& rstd,
                                const at::Tensor& weight, const at::Tensor& grad_input,
                                const at::Tensor& grad_weight,
                                const at::Tensor& grad_bias);

}  // namespace neuron::lazy
