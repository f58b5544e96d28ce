// Where reduce() sends its operations: the families of kernels it is made of.
#pragma once

#include "fusion/kernels/rows.h"

namespace neuron::fusion {

/// Folds by the tree of law 2: sums, means, products, norms and variances of floats.
void reduce_by_tree(Reduce op, ir::DType in_dtype, const void* in, ir::DType out_dtype,
                    void* out, const ReduceShape& shape, double correction);
/// kAmax, kAmin and kNormInf.
void reduce_to_extreme(Reduce op, ir::DType in_dtype, const void* in, ir::DType out_dtype,
                       void* out, const ReduceShape& shape);
/// kSum and kProd of integers, kAny and kAll.
void reduce_exactly(Reduce op, ir::DType in_dtype, const void* in, void* out,
                    const ReduceShape& shape);
/// The extreme value and its index; `out` may be nullptr.
void find_extremes(bool is_max, ir::DType dtype, const void* in, void* out,
                   int64_t* indices, const ReduceShape& shape);

}  // namespace neuron::fusion
