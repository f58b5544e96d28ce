// AtenCall: any aten op, recorded by its schema and run by ATen's CPU kernel.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "lazy/torch/execute.h"
#include "lazy/torch/lower.h"
#include "lazy/torch/record.h"
#include "lazy/torch/shape.h"
#include "lazy/torch/split_calls.h"

namespace neuron::lazy {

enum class ArgKind : uint8_t {
  kTensor,      // also Tensor?
  kTensorList,  // also Tensor?[]
  kGenerator,
  kDevice,
  kOther,
};

struct ArgInfo {
  ArgKind kind = ArgKind::kOther;
  bool is_write = false;
};

struct ReturnInfo {
  int write_arg = -1;  // index of the argument that is returned, -1 for a fresh value
  bool is_tensor = false;
  bool is_list = false;
};

/// What the recorder knows about one operator, worked out from its schema once.
struct Recipe {
  explicit Recipe(const c10::OperatorHandle& handle);

  c10::OperatorHandle handle;
  std::string name;  // "aten::add"
  ir::Op op = ir::Op::kHost;
  OpTrack* track = nullptr;
  ShapeFn shape = nullptr;
  LowerFn lower = nullptr;
  std::vector<ArgInfo> args;
  std::vector<ReturnInfo> returns;
  bool is_data_dependent = false;
  bool is_random = false;       // has a Generator argument
  bool has_fresh = false;       // some return is a fresh tensor
  bool has_out = false;         // out= overload: its outputs may be resized
  bool returns_list = false;    // the fresh return is a list of tensors
  bool returns_values = false;  // some return is neither tensor nor list of tensors
  bool returns_view = false;    // schema promises an alias that is not written
  /// Runs the op on CPU tensors if that is more than a call; see find_cpu_call.
  std::unique_ptr<CpuCall> run_on_cpu;
  bool takes_cpu_indices = false;  // CPU tensors in its index argument are copied over

  /// Calls the op on a stack of CPU tensors.
  void call(torch::jit::Stack* stack) const;
  /// Must it run when it is called?
  bool runs_at_once() const;
};

/// The recipe of an operator; lives as long as the process.
const Recipe& recipe_of(const c10::OperatorHandle& op);

/// One recorded call of an operator.
class AtenCall final : public TorchCall {
 public:
  explicit AtenCall(const Recipe& recipe) : recipe_(recipe) {}

  const char* name() const override { return recipe_.name.c_str(); }
  void execute(StepTensors& tensors) override;

  /// Where a tensor of the call comes from at execution.
  struct Slot {
    uint16_t arg = 0;
    int32_t element = -1;  // place in a list argument, -1 for a plain tensor
    int32_t operand = -1;  // operand of the node
  };

  std::vector<c10::IValue> args;  // tensors that are operands are left out (None)
  c10::SmallVector<Slot, 4> slots;
  c10::SmallVector<int32_t, 2> results;  // per fresh output: operand to store, -1 to drop
  uint64_t seed = 0, offset = 0;         // of the random stream, for random ops

 private:
  const Recipe& recipe_;
};

/// A CPU generator whose whole state comes from the Philox stream (seed, offset).
at::Generator cpu_generator(uint64_t seed, uint64_t offset);

/// The call's arguments with every neuron tensor replaced by `cpu` of it; for calls that
/// run at once.
void run_at_once(const Recipe& recipe, torch::jit::Stack* stack);

}  // namespace neuron::lazy
