// Calls that run when they are made: data-dependent shapes, values for the host, ops
// without a shape function.
#include <ATen/core/List.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>

#include "lazy/observe.h"
#include "lazy/torch/aten_call.h"
#include "lazy/torch/generator.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

WindowEnd end_reason(const Recipe& recipe) {
  if (recipe.is_data_dependent) return WindowEnd::kDataShape;
  return recipe.returns_values ? WindowEnd::kValueRead : WindowEnd::kNoShapeFunction;
}

// Replaces neuron tensors of a call by CPU tensors over the same bytes.
class HostArguments {
 public:
  HostArguments(const Recipe& recipe, c10::IValue* args) : recipe_(recipe), args_(args) {}

  int device() const { return device_ < 0 ? current_device() : device_; }

  torch::jit::Stack make() {
    torch::jit::Stack stack(args_, args_ + recipe_.args.size());
    for (size_t i = 0; i < recipe_.args.size(); ++i) {
      const ArgInfo& info = recipe_.args[i];
      if (info.kind == ArgKind::kTensor && stack[i].isTensor()) {
        stack[i] = host_side(stack[i].toTensor(), info.is_write,
                             recipe_.has_out && info.is_write);
      } else if (info.kind == ArgKind::kTensorList && stack[i].isList()) {
        stack[i] = host_list(stack[i], info.is_write);
      } else if (info.kind == ArgKind::kDevice && stack[i].isDevice()) {
        device_ = resolve_device(stack[i].toDevice()).index();
        stack[i] = c10::Device(c10::kCPU);
      } else if (info.kind == ArgKind::kGenerator) {
        generator_arg_ = static_cast<int>(i);
      }
    }
    if (generator_arg_ >= 0) {
      std::optional<at::Generator> given;
      if (args_[generator_arg_].isGenerator())
        given = args_[generator_arg_].toGenerator();
      const auto draw = draw_from(given, device(), largest_);
      stack[generator_arg_] = cpu_generator(draw.seed, draw.offset);
    }
    return stack;
  }

 private:
  at::Tensor host_side(const at::Tensor& tensor, bool writes, bool is_out) {
    if (!tensor.defined() || !is_neuron(tensor)) return tensor;
    device_ = tensor.device().index();
    largest_ = std::max<uint64_t>(largest_, tensor.numel());
    if (is_out) return at::empty({0}, at::TensorOptions().dtype(tensor.scalar_type()));
    const WindowEnd end = end_reason(recipe_);
    at::Tensor made = writes ? write_tensor(tensor, end) : read_tensor(tensor, end);
    core_at(device_).count_download(tensor.nbytes());
    return made;
  }

  c10::IValue host_list(const c10::IValue& list, bool writes) {
    if (list.isTensorList()) {
      c10::List<at::Tensor> made;
      for (const c10::IValue& value : list.toListRef()) {
        made.push_back(host_side(value.toTensor(), writes, false));
      }
      return made;
    }
    c10::List<std::optional<at::Tensor>> made;
    for (const c10::IValue& value : list.toListRef()) {
      std::optional<at::Tensor> element;
      if (value.isTensor()) element = host_side(value.toTensor(), writes, false);
      made.push_back(element);
    }
    return made;
  }

  const Recipe& recipe_;
  c10::IValue* args_;
  int device_ = -1;
  int generator_arg_ = -1;
  uint64_t largest_ = 1;
};

at::Tensor give(const at::Tensor& tensor, int device) {
  if (!tensor.defined()) return tensor;
  at::Tensor made = tensor_from_cpu(tensor, device);
  const BufferView view = buffer_of(storage_of(made));
  if (view.buffer != nullptr) core_at(device).count_upload(*view.buffer, made.nbytes());
  return made;
}

c10::IValue to_device(const c10::IValue& value, int device) {
  if (value.isTensor()) return give(value.toTensor(), device);
  if (value.isTensorList()) {
    c10::List<at::Tensor> made;
    for (const c10::IValue& element : value.toListRef()) {
      made.push_back(give(element.toTensor(), device));
    }
    return made;
  }
  return value;
}

}  // namespace

void run_at_once(const Recipe& recipe, torch::jit::Stack* stack) {
  const size_t count = recipe.args.size();
  c10::IValue* args = stack->data() + stack->size() - count;
  recipe.track->calls.fetch_add(1, std::memory_order_relaxed);
  torch::jit::Stack results;
  int device = -1;
  {
    HostArguments host(recipe, args);
    results = host.make();
    device = host.device();
    const auto start = std::chrono::steady_clock::now();
    run_in_executor_scope([&] { recipe.call(&results); });
    if (journal_wants(Topic::kFallback)) {
      observe_call_at_once(recipe.name, recipe.track->is_host, capture_site(),
                           std::chrono::steady_clock::now() - start);
    }
  }
  torch::jit::Stack returned;
  for (size_t i = 0; i < recipe.returns.size(); ++i) {
    const int arg = recipe.returns[i].write_arg;
    if (arg < 0) {
      returned.push_back(to_device(results[i], device));
      continue;
    }
    if (recipe.has_out && args[arg].isTensor()) {
      // The kernel chose the size; the caller's tensor follows.
      const at::Tensor& out = args[arg].toTensor();
      const at::Tensor& made = results[i].toTensor();
      at::native::resize_output(out, made.sizes());
      if (out.numel() > 0) write_tensor(out, end_reason(recipe)).copy_(made);
    }
    returned.push_back(std::move(args[arg]));
  }
  torch::jit::drop(*stack, count);
  for (c10::IValue& value : returned) stack->push_back(std::move(value));
}

}  // namespace neuron::lazy
