// Lowering: which recorded ops become native nodes instead of calls of ATen.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>
#include <unordered_map>

#include "ir/op.h"
#include "ir/pointwise.h"
#include "lazy/torch/shape.h"

namespace neuron::lazy {

/// One call on its way to native nodes: arguments in schema order and the outputs that
/// its shape function made.
struct LowerArgs {
  ir::Op op;
  const c10::IValue* args;
  size_t num_args;
  const ShapeOutputs& outputs;
};

/// Records the call as native nodes; false, with nothing recorded, when it has to be a
/// call of ATen.
using LowerFn = bool (*)(const LowerArgs& call);

/// The lowerings of each topic, by base name.
using LowerTable = std::unordered_map<std::string_view, LowerFn>;
const LowerTable& pointwise_lowerings();
const LowerTable& row_lowerings();
const LowerTable& foreach_lowerings();
const LowerTable& matmul_lowerings();
const LowerTable& index_lowerings();

/// The code of a power with this exponent: a unary one, or kPow.
ir::Code power_code(double exponent);

/// The lowering of an op by base name ("aten::add", also for "aten::add_"); nullptr for
/// none.
LowerFn find_lowering(std::string_view name);

}  // namespace neuron::lazy
