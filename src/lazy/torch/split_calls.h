// Large library calls in blocks that all cores share.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

namespace neuron::lazy {

/// Runs an op on a stack of CPU tensors, inside an executor scope.
using CpuCall = void (*)(torch::jit::Stack* stack);

/// How the op with this name (without overload) runs on the CPU: ops that are worth
/// splitting, and ops that the CPU has under another name. nullptr: as it is. The result
/// is a function of the arguments, whatever the number of threads. A failure in a block
/// is raised as if the call had failed, the first block's first.
CpuCall find_cpu_call(std::string_view op);

}  // namespace neuron::lazy
