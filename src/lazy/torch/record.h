// Recording: from a torch call to an op in the current stream's window.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "lazy/core.h"
#include "lazy/torch/execute.h"

namespace neuron::lazy {

/// How often an op ran; one per op name, lives as long as the process.
struct OpTrack {
  std::string name;  // "aten::add"
  bool is_host = false;
  std::atomic<uint64_t> calls{0};
};

/// The counter of an aten base name.
OpTrack& track_op(const std::string& aten_name);

/// (name, calls) of the ops that ran on the device, or on the host.
std::vector<std::pair<std::string, uint64_t>> executed_ops(bool on_host);
void clear_op_tracking();

/// Appends to the current stream of `device`; waits when launch blocking is on. Operands
/// without bytes must have been left out.
void record_op(int device, OpSpec op);

/// Records `body` on `reads` and `writes` (operands in that order). Tensors in `updates`
/// are both read and written. Tensors of zero bytes are not allowed. Arms what is
/// written.
void record_native(OpTrack& track, ir::Op op, std::initializer_list<at::Tensor> reads,
                   std::initializer_list<at::Tensor> updates,
                   std::initializer_list<at::Tensor> writes, NativeCall::Body body);

struct Recipe;

/// Records one call of an op by its recipe: what is behind most of the device.
void record_recipe(const Recipe& recipe, torch::jit::Stack* stack);

/// The boxed kernel of one named op; finds its recipe once.
class BoxedKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  std::atomic<const Recipe*> recipe_{nullptr};
};

/// The boxed kernel of every op that is not named.
void record_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

/// Waits for the bytes of `tensor` and returns a CPU tensor over them, for reading.
/// Raises stored errors.
at::Tensor read_tensor(const at::Tensor& tensor, WindowEnd end);
/// The same for writing: waits for every use.
at::Tensor write_tensor(const at::Tensor& tensor, WindowEnd end);

/// A neuron tensor that takes over the memory of a CPU tensor.
at::Tensor tensor_from_cpu(at::Tensor cpu, int device);

}  // namespace neuron::lazy
