#include "lazy/torch/record.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_strided.h>
#include <tsl/robin_map.h>

#include <mutex>

#include "base/knobs.h"
#include "lazy/torch/aten_call.h"
#include "lazy/torch/generator.h"
#include "lazy/torch/runtime.h"
#include "lazy/torch/sync_debug.h"
#include "lazy/torch/tensors.h"

namespace neuron::lazy {
namespace {

struct Tracks {
  std::mutex mutex;
  tsl::robin_map<std::string, OpTrack*> by_name;
};

Tracks& tracks() {
  static auto* tracks = new Tracks;
  return *tracks;
}

// Raises for an op that the user's mode does not let run on the host.
void check_strict(const Recipe& recipe) {
  const bool on_host = recipe.track->is_host;
  const bool without_need =
      !on_host && !recipe.is_data_dependent && !recipe.returns_values;
  const bool refused =
      (knobs().strict && on_host) ||
      (knobs().fallback_only_unimplemented && without_need && recipe.runs_at_once());
  if (C10_LIKELY(!refused)) return;
  TORCH_CHECK(false, "[", recipe.name, "] would run on the host at ",
              describe_site(capture_site()),
              "; the strict mode (NEURON_STRICT, "
              "TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS) forbids it");
}

// What a boxed call is made of, while it is recorded.
class BoxedRecorder {
 public:
  BoxedRecorder(const Recipe& recipe, torch::jit::Stack* stack)
      : recipe_(recipe),
        stack_(stack),
        args_(stack->data() + stack->size() - recipe.args.size()) {}

  void run();

 private:
  template <class Visit>
  void for_each_tensor(Visit visit);
  void find_device();
  void check_tensor(const at::Tensor& tensor, size_t arg);
  void infer_outputs(ShapeOutputs& outputs);
  void take_operands(AtenCall& call);
  void take_operand(AtenCall& call, const at::Tensor& tensor, size_t arg, int element);
  void take_fresh_outputs(AtenCall& call, const ShapeOutputs& outputs);
  void move_cpu_indices();
  void check_tensors();
  void draw_numbers(AtenCall& call);
  bool record_native(ShapeOutputs& outputs);
  void record_call(std::unique_ptr<AtenCall> call, const ShapeOutputs& outputs);
  c10::IValue blank(const at::Tensor& tensor) const;
  void push_results(ShapeOutputs& outputs);

  const Recipe& recipe_;
  torch::jit::Stack* stack_;
  c10::IValue* args_;
  int device_ = -1;
  c10::SmallVector<OperandSpec, 8> operands_;
  bool writes_bytes_ = false;
};

template <class Visit>
void BoxedRecorder::for_each_tensor(Visit visit) {
  for (size_t i = 0; i < recipe_.args.size(); ++i) {
    const ArgKind kind = recipe_.args[i].kind;
    if (kind == ArgKind::kTensor && args_[i].isTensor()) {
      const at::Tensor& tensor = args_[i].toTensor();
      if (tensor.defined()) visit(tensor, i, -1);
    } else if (kind == ArgKind::kTensorList && args_[i].isList()) {
      int element = 0;
      for (const c10::IValue& value : args_[i].toListRef()) {
        if (value.isTensor() && value.toTensor().defined()) {
          visit(value.toTensor(), i, element);
        }
        ++element;
      }
    }
  }
}

void BoxedRecorder::find_device() {
  for_each_tensor([&](const at::Tensor& tensor, size_t, int) {
    if (device_ < 0 && is_neuron(tensor)) device_ = tensor.device().index();
  });
  if (device_ >= 0) return;
  for (size_t i = 0; i < recipe_.args.size(); ++i) {
    if (recipe_.args[i].kind == ArgKind::kDevice && args_[i].isDevice()) {
      device_ = resolve_device(args_[i].toDevice()).index();
    }
  }
  if (device_ < 0) device_ = current_device();
}

void BoxedRecorder::check_tensor(const at::Tensor& tensor, size_t arg) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "[", recipe_.name,
                              "] neuron supports dense tensors: got layout ",
                              tensor.layout(), "; call to_dense() first");
  if (is_neuron(tensor)) {
    TORCH_CHECK(tensor.device().index() == device_,
                "Expected all tensors to be on the same device, but found at least two "
                "devices, neuron:",
                device_, " and ", tensor.device(),
                "! (when checking "
                "argument ",
                recipe_.handle.schema().arguments()[arg].name(), " of ", recipe_.name,
                ")");
    return;
  }
  const bool is_scalar = tensor.device().is_cpu() && tensor.dim() == 0;
  TORCH_CHECK(
      is_scalar && !recipe_.args[arg].is_write,
      "Expected all tensors to be on the same device, but found at least two devices, "
      "neuron:",
      device_, " and ", tensor.device(), "! (when checking argument ",
      recipe_.handle.schema().arguments()[arg].name(), " of ", recipe_.name, ")");
}

at::Tensor make_output(void* context, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype) {
  return make_tensor(sizes, strides, dtype, *static_cast<int*>(context));
}

void BoxedRecorder::infer_outputs(ShapeOutputs& outputs) {
  int64_t i = 0;
  for (const ReturnInfo& info : recipe_.returns) {
    if (info.is_tensor && info.write_arg >= 0 && args_[info.write_arg].isTensor()) {
      outputs.provide(
          recipe_.has_out ? ShapeOutputs::Kind::kOut : ShapeOutputs::Kind::kInplace, i,
          args_[info.write_arg].toTensor());
    }
    ++i;
  }
  if (recipe_.shape == nullptr) return;
  InferenceScope scope;
  recipe_.shape(args_, outputs);
}

// A stand-in for a tensor that has no bytes, or a number that the host holds.
c10::IValue BoxedRecorder::blank(const at::Tensor& tensor) const {
  if (is_neuron(tensor)) {
    return at::empty_strided(tensor.sizes(), tensor.strides(),
                             at::TensorOptions().dtype(tensor.scalar_type()));
  }
  // The host may change its tensor before the call runs.
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? tensor : tensor.clone();
}

void BoxedRecorder::take_operand(AtenCall& call, const at::Tensor& tensor, size_t arg,
                                 int element) {
  const bool writes = recipe_.args[arg].is_write;
  const uint8_t flags = writes ? ir::Operand::kReads | ir::Operand::kWrites
                               : static_cast<int>(ir::Operand::kReads);
  OperandSpec spec;
  if (is_neuron(tensor)) spec = operand_of(tensor, flags);
  c10::IValue rest;
  if (spec.buffer != nullptr && tensor.numel() > 0) {
    call.slots.push_back(
        {static_cast<uint16_t>(arg), element, static_cast<int32_t>(operands_.size())});
    operands_.push_back(spec);
    writes_bytes_ = writes_bytes_ || writes;
  } else {
    rest = blank(tensor);
  }
  if (element < 0) {
    call.args[arg] = std::move(rest);
  } else if (rest.isTensor()) {
    if (call.args[arg].isTensorList()) {
      call.args[arg].toTensorList().set(element, std::move(rest).toTensor());
    } else {
      call.args[arg].toOptionalTensorList().set(element, std::move(rest).toTensor());
    }
  }
}

void BoxedRecorder::take_operands(AtenCall& call) {
  call.args.resize(recipe_.args.size());
  for (size_t i = 0; i < recipe_.args.size(); ++i) {
    switch (recipe_.args[i].kind) {
      case ArgKind::kTensor:
        break;  // operands are filled in when the call runs
      case ArgKind::kTensorList:
        if (args_[i].isTensorList()) {
          c10::List<at::Tensor> list;
          list.resize(args_[i].toListRef().size());
          call.args[i] = std::move(list);
        } else if (args_[i].isList()) {
          c10::List<std::optional<at::Tensor>> list;
          list.resize(args_[i].toListRef().size());
          call.args[i] = std::move(list);
        }
        break;
      case ArgKind::kDevice:
        call.args[i] = c10::Device(c10::kCPU);
        break;
      case ArgKind::kGenerator:
        break;
      case ArgKind::kOther:
        call.args[i] = args_[i];
        break;
    }
  }
  for_each_tensor([&](const at::Tensor& tensor, size_t arg, int element) {
    take_operand(call, tensor, arg, element);
  });
}

void BoxedRecorder::push_results(ShapeOutputs& outputs) {
  std::vector<c10::IValue> results;
  results.reserve(recipe_.returns.size());
  int64_t i = 0;
  for (const ReturnInfo& info : recipe_.returns) {
    if (info.write_arg >= 0) {
      results.push_back(std::move(args_[info.write_arg]));
    } else if (info.is_list) {
      c10::List<at::Tensor> list;
      for (size_t k = 0; k < outputs.size(); ++k) list.push_back(outputs.get(k));
      results.emplace_back(std::move(list));
    } else {
      results.emplace_back(outputs.get(i));
    }
    ++i;
  }
  torch::jit::drop(*stack_, recipe_.args.size());
  for (c10::IValue& result : results) stack_->push_back(std::move(result));
}

// Indices may lie on the host, as on other devices; they are copied over.
void BoxedRecorder::move_cpu_indices() {
  auto indices = args_[1].toOptionalTensorList();
  for (size_t k = 0; k < indices.size(); ++k) {
    const std::optional<at::Tensor> index = indices.get(k);
    if (index.has_value() && index->defined() && index->device().is_cpu()) {
      indices.set(k, index->to(c10::Device(c10::kPrivateUse1, device_)));
    }
  }
}

void BoxedRecorder::check_tensors() {
  for_each_tensor([&](const at::Tensor& tensor, size_t arg, int) {
    check_tensor(tensor, arg);
    if (recipe_.has_out && recipe_.args[arg].is_write) {
      at::assert_no_internal_overlap(tensor);
    }
  });
}

// The place in the random stream is taken now, whenever the call will run.
void BoxedRecorder::draw_numbers(AtenCall& call) {
  std::optional<at::Generator> generator;
  uint64_t count = 1;
  for (size_t i = 0; i < recipe_.args.size(); ++i) {
    if (args_[i].isGenerator()) generator = args_[i].toGenerator();
    if (args_[i].isTensor()) {
      count = std::max<uint64_t>(count, args_[i].toTensor().numel());
    }
  }
  const auto draw = draw_from(generator, device_, count);
  call.seed = draw.seed;
  call.offset = draw.offset;
}

void BoxedRecorder::take_fresh_outputs(AtenCall& call, const ShapeOutputs& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs.is_provided(k)) continue;
    const at::Tensor& tensor = outputs.get(k);
    const bool has_bytes = tensor.defined() && tensor.numel() > 0;
    call.results.push_back(has_bytes ? static_cast<int32_t>(operands_.size()) : -1);
    if (has_bytes) {
      operands_.push_back(operand_of(tensor, ir::Operand::kWrites));
      writes_bytes_ = true;
    }
  }
}

void BoxedRecorder::record_call(std::unique_ptr<AtenCall> call,
                                const ShapeOutputs& outputs) {
  OpSpec op;
  op.op = recipe_.op;
  op.operands = {operands_.data(), operands_.size()};
  op.call = std::move(call);
  op.site = capture_site();
  record_op(device_, std::move(op));
  for_each_tensor([&](const at::Tensor& tensor, size_t arg, int) {
    if (recipe_.args[arg].is_write && is_neuron(tensor)) arm(tensor);
  });
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs.is_provided(k) && outputs.get(k).defined()) arm(outputs.get(k));
  }
}

// As a native node, if the op and these arguments have one.
bool BoxedRecorder::record_native(ShapeOutputs& outputs) {
  const bool is_empty =
      outputs.size() == 1 && outputs.get(0).defined() && outputs.get(0).numel() == 0;
  if (is_empty || !recipe_.lower({recipe_.op, args_, recipe_.args.size(), outputs})) {
    return false;
  }
  recipe_.track->calls.fetch_add(1, std::memory_order_relaxed);
  push_results(outputs);
  return true;
}

void BoxedRecorder::run() {
  find_device();
  if (recipe_.takes_cpu_indices) move_cpu_indices();
  check_tensors();
  ShapeOutputs outputs(&make_output, &device_);
  infer_outputs(outputs);
  if (recipe_.lower != nullptr && record_native(outputs)) return;
  auto call = std::make_unique<AtenCall>(recipe_);
  take_operands(*call);
  if (recipe_.is_random) draw_numbers(*call);
  take_fresh_outputs(*call, outputs);
  recipe_.track->calls.fetch_add(1, std::memory_order_relaxed);
  if (writes_bytes_) record_call(std::move(call), outputs);
  push_results(outputs);
}

}  // namespace

OpTrack& track_op(const std::string& aten_name) {
  Tracks& all = tracks();
  std::lock_guard lock(all.mutex);
  OpTrack*& track = all.by_name[aten_name];
  if (track == nullptr) {
    track = new OpTrack;
    track->name = aten_name;
  }
  return *track;
}

std::vector<std::pair<std::string, uint64_t>> executed_ops(bool on_host) {
  Tracks& all = tracks();
  std::lock_guard lock(all.mutex);
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const auto& [name, track] : all.by_name) {
    const uint64_t calls = track->calls.load();
    if (calls > 0 && track->is_host == on_host) found.emplace_back(name, calls);
  }
  return found;
}

void clear_op_tracking() {
  Tracks& all = tracks();
  std::lock_guard lock(all.mutex);
  for (const auto& [name, track] : all.by_name) track->calls.store(0);
}

void record_op(int device, OpSpec op) {
  Core& core = core_at(device);
  const uint32_t stream = current_stream(device);
  core.record(stream, std::move(op));
  if (C10_UNLIKELY(core.queue().is_full())) core.queue().relieve();
  if (C10_UNLIKELY(modes().blocking.load(std::memory_order_relaxed))) {
    core.wait(core.mark(stream), WindowEnd::kLaunchBlocking);
    raise_error(core.take_error(stream));
  }
}

void record_native(OpTrack& track, ir::Op op, std::initializer_list<at::Tensor> reads,
                   std::initializer_list<at::Tensor> updates,
                   std::initializer_list<at::Tensor> writes, NativeCall::Body body) {
  c10::SmallVector<OperandSpec, 6> operands;
  int device = -1;
  const auto add = [&](const at::Tensor& tensor, uint8_t flags) {
    operands.push_back(operand_of(tensor, flags));
    device = tensor.device().index();
  };
  for (const at::Tensor& tensor : reads) add(tensor, ir::Operand::kReads);
  for (const at::Tensor& tensor : updates) {
    add(tensor, ir::Operand::kReads | ir::Operand::kWrites);
  }
  for (const at::Tensor& tensor : writes) add(tensor, ir::Operand::kWrites);
  track.calls.fetch_add(1, std::memory_order_relaxed);
  OpSpec spec;
  spec.op = op;
  spec.operands = {operands.data(), operands.size()};
  spec.call = std::make_unique<NativeCall>(track.name.c_str(), std::move(body));
  spec.site = capture_site();
  record_op(device, std::move(spec));
  for (const at::Tensor& tensor : updates) arm(tensor);
  for (const at::Tensor& tensor : writes) arm(tensor);
}

void record_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
  record_recipe(recipe_of(op), stack);
}

void BoxedKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                             torch::jit::Stack* stack) {
  const Recipe* recipe = recipe_.load(std::memory_order_acquire);
  if (C10_UNLIKELY(recipe == nullptr)) {
    recipe = &recipe_of(op);
    recipe_.store(recipe, std::memory_order_release);
  }
  record_recipe(*recipe, stack);
}

void record_recipe(const Recipe& recipe, torch::jit::Stack* stack) {
  check_strict(recipe);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !recipe.returns_view, "[", recipe.name,
      "] has no kernel for neuron: it returns a view, which a copy "
      "cannot stand for");
  if (recipe.runs_at_once()) {
    run_at_once(recipe, stack);
    return;
  }
  BoxedRecorder(recipe, stack).run();
}

namespace {

// The bytes of `tensor` once they are written.
at::Tensor alias_when_written(const at::Tensor& tensor, WindowEnd end) {
  const BufferView view = buffer_of(storage_of(tensor));
  if (view.buffer == nullptr || tensor.numel() == 0) {
    return at::empty_strided(tensor.sizes(), tensor.strides(),
                             at::TensorOptions().dtype(tensor.scalar_type()));
  }
  Core& core = core_at(view.buffer->device_index);
  raise_error(core.take_error(core.wait_for_write(*view.buffer, end)));
  raise_error(view.buffer->error);
  const int64_t start =
      view.offset + tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  at::Tensor alias = alias_buffer(*view.buffer, start, tensor.sizes(), tensor.strides(),
                                  tensor.scalar_type());
  if (tensor.is_conj()) alias._set_conj(true);
  if (tensor.is_neg()) alias._set_neg(true);
  return alias;
}

}  // namespace

at::Tensor read_tensor(const at::Tensor& tensor, WindowEnd end) {
  const BufferView view = buffer_of(storage_of(tensor));
  if (view.buffer != nullptr && tensor.numel() > 0) note_sync(*view.buffer, end);
  return alias_when_written(tensor, end);
}

at::Tensor write_tensor(const at::Tensor& tensor, WindowEnd end) {
  const BufferView view = buffer_of(storage_of(tensor));
  if (view.buffer != nullptr) {
    Core& core = core_at(view.buffer->device_index);
    if (!core.is_idle(*view.buffer)) note_sync(*view.buffer, end);
    core.wait_for_use(*view.buffer, end);
  }
  return alias_when_written(tensor, end);
}

at::Tensor tensor_from_cpu(at::Tensor cpu, int device) {
  at::Tensor result = make_tensor(cpu.sizes(), cpu.strides(), cpu.scalar_type(), device);
  if (cpu.numel() > 0) read_tensor(result, WindowEnd::kValueRead).copy_(cpu);
  return result;
}

}  // namespace neuron::lazy
