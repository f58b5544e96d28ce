#include "lazy/torch/fast_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/cos_cpu_dispatch.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/exp_cpu_dispatch.h>
#include <ATen/ops/log_cpu_dispatch.h>
#include <ATen/ops/maximum_cpu_dispatch.h>
#include <ATen/ops/minimum_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/neg_cpu_dispatch.h>
#include <ATen/ops/reciprocal_cpu_dispatch.h>
#include <ATen/ops/rsqrt_cpu_dispatch.h>
#include <ATen/ops/sigmoid_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/sin_cpu_dispatch.h>
#include <ATen/ops/sqrt_cpu_dispatch.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/tanh_cpu_dispatch.h>
#include <c10/core/ScalarType.h>

#include "base/check.h"
#include "lazy/torch/execute.h"
#include "lazy/torch/scalars.h"

namespace neuron::lazy {
namespace {

using Tensor = at::Tensor;

// The second input: a tensor, or the node's first number.
Tensor second_input(StepTensors& tensors, const ir::Node& node) {
  return node.num_operands == 3 ? tensors.tensor(1) : number_tensor(number_of(node, 0));
}

#define NEURON_FAST_BINARY(op, name, function)                              \
  void run_##name(StepTensors& tensors, const ir::Node& node) {             \
    Tensor out = tensors.tensor(node.num_operands - 1);                     \
    at::cpu::function(out, tensors.tensor(0), second_input(tensors, node)); \
  }                                                                         \
  constexpr FastKernel kernel_##name{&run_##name};
#define NEURON_FAST_SCALED(op, name, function)                             \
  void run_##name(StepTensors& tensors, const ir::Node& node) {            \
    Tensor out = tensors.tensor(node.num_operands - 1);                    \
    at::cpu::function(out, tensors.tensor(0), second_input(tensors, node), \
                      number_of(node, 1));                                 \
  }                                                                        \
  constexpr FastKernel kernel_##name{&run_##name};
#define NEURON_FAST_UNARY(op, name, function)              \
  void run_##name(StepTensors& tensors, const ir::Node&) { \
    Tensor out = tensors.tensor(1);                        \
    at::cpu::function(out, tensors.tensor(0));             \
  }                                                        \
  constexpr FastKernel kernel_##name{&run_##name};
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_BINARY
#undef NEURON_FAST_SCALED
#undef NEURON_FAST_UNARY

}  // namespace

const FastKernel* find_fast_kernel(ir::Op op) {
  switch (op) {
#define NEURON_FAST_BINARY(op, name, function) \
  case ir::Op::op:                             \
    return &kernel_##name;
#define NEURON_FAST_SCALED NEURON_FAST_BINARY
#define NEURON_FAST_UNARY NEURON_FAST_BINARY
#include "lazy/torch/fast_ops.def"
#undef NEURON_FAST_BINARY
#undef NEURON_FAST_SCALED
#undef NEURON_FAST_UNARY
    default:
      break;
  }
  fail_check(__FILE__, __LINE__, "an op was recorded without a call and has no kernel");
}

}  // namespace neuron::lazy
