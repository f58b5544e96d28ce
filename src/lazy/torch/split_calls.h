// Large library calls in blocks that all cores share.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>

namespace neuron::lazy {

/// How an op runs on CPU tensors where that is more than a call. The result is a function
/// of the arguments, whatever the number of threads. A failure in a block is raised as if
/// the call had failed, the first block's first.
class CpuCall {
 public:
  virtual ~CpuCall() = default;
  /// Replaces the arguments on the stack by the results; inside an executor scope.
  virtual void run(torch::jit::Stack* stack) const = 0;
};

/// For ops that are worth splitting, and ops that the CPU has under another name.
/// nullptr: as it is.
std::unique_ptr<CpuCall> find_cpu_call(const c10::OperatorHandle& op);

}  // namespace neuron::lazy
