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

}  // namespace neuron::lazy
