// Execution of recorded calls by ATen's CPU kernels on aliases of simulated memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "device/program.h"
#include "ir/graph.h"
#include "lazy/core.h"
#include "lazy/window.h"

namespace neuron::lazy {

/// The operands of one step as CPU tensors over simulated memory. Operands on one buffer
/// share a storage, so that ATen sees the aliasing. Lives on the executing thread.
class StepTensors {
 public:
  StepTensors(WindowProgram& program, const ir::Node& node);

  size_t size() const { return operands_.size(); }
  const ir::Operand& operand(size_t i) const { return operands_[i]; }

  /// Operand `i` as a CPU tensor. Its buffer gets bytes if it has none.
  at::Tensor tensor(size_t i);

  /// Stores `result` as operand `i`: takes its memory over when layouts agree and nothing
  /// else holds it, else copies. Raises when sizes or dtype are not what was recorded.
  void store(size_t i, at::Tensor result, const char* op_name);

 private:
  WindowProgram& program_;
  std::span<const ir::Operand> operands_;
  c10::SmallVector<std::pair<uint32_t, c10::Storage>, 4> storages_;
};

/// A call that runs on the CPU when its turn comes.
class TorchCall : public ir::Call {
 public:
  /// May throw; the error is stored on what the call writes.
  virtual void execute(StepTensors& tensors) = 0;
};

/// A call given as a function of its operands.
class NativeCall final : public TorchCall {
 public:
  using Body = std::function<void(StepTensors&)>;
  NativeCall(const char* name, Body body) : name_(name), body_(std::move(body)) {}
  const char* name() const override { return name_; }
  void execute(StepTensors& tensors) override { body_(tensors); }

 private:
  const char* name_;
  Body body_;
};

/// A CPU tensor over the bytes of `buffer`; no reference is held.
at::Tensor alias_buffer(device::Buffer& buffer, int64_t byte_offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides,
                        at::ScalarType dtype);

/// The code for a kernel of one node; see FindExecutable.
const device::Executable* find_executable(const ir::Graph& graph, const ir::Node& node);

/// Sets up the calling thread for ATen calls on simulated memory (one library thread,
/// neutral thread-local state, inference mode), runs `body`, restores the thread.
void run_in_executor_scope(const std::function<void()>& body);
/// The same, but the thread is set up by the first step that calls ATen, if there is one:
/// for a thread that runs programs while it waits.
void run_in_lazy_executor_scope(const std::function<void()>& body);

/// Once per process, before the first library call: makes matrix products give the same
/// bits for any number of threads and any alignment.
void make_libraries_reproducible();

/// The failure in flight (inside a catch block) as a Status.
Status status_of_current_exception();

}  // namespace neuron::lazy
