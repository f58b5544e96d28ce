// Table ops that are recorded without a call object: two numbers and at most three
// operands.
#pragma once

#include "ir/graph.h"
#include "ir/op.h"

namespace neuron::lazy {

class StepTensors;

/// How a table op runs. Operands are the inputs, then the output.
struct FastKernel {
  void (*run)(StepTensors& tensors, const ir::Node& node);
};

/// The kernel of `op`; never nullptr for an op that is recorded without a call.
const FastKernel* find_fast_kernel(ir::Op op);

}  // namespace neuron::lazy
