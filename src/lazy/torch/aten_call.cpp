#include "lazy/torch/aten_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/List.h>
#include <tsl/robin_map.h>

#include <mutex>

#include "base/philox.h"
#include "lazy/torch/split_calls.h"

namespace neuron::lazy {
namespace {

ArgKind kind_of(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return ArgKind::kTensor;
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::kTensor;
    case c10::TypeKind::GeneratorType:
      return ArgKind::kGenerator;
    case c10::TypeKind::DeviceObjType:
      return ArgKind::kDevice;
    case c10::TypeKind::OptionalType:
      return kind_of(type->castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType: {
      const ArgKind element = kind_of(type->castRaw<c10::ListType>()->getElementType());
      return element == ArgKind::kTensor ? ArgKind::kTensorList : ArgKind::kOther;
    }
    default:
      return ArgKind::kOther;
  }
}

// Index of the argument whose write alias set the return shares, or -1.
int written_argument(const c10::FunctionSchema& schema, const c10::Argument& value) {
  const c10::AliasInfo* alias = value.alias_info();
  if (alias == nullptr || !alias->isWrite()) return -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* have = schema.arguments()[i].alias_info();
    if (have != nullptr && have->isWrite() && have->beforeSets() == alias->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool takes_cpu_indices(const std::string& name) {
  return name == "aten::index" || name == "aten::_index_put_impl_" ||
         name == "aten::index_put_" || name == "aten::index_put" ||
         name == "aten::_unsafe_index" || name == "aten::_unsafe_index_put";
}

}  // namespace

void Recipe::call(torch::jit::Stack* stack) const {
  if (run_on_cpu != nullptr) {
    run_on_cpu->run(stack);
  } else {
    handle.callBoxed(stack);
  }
}

Recipe::Recipe(const c10::OperatorHandle& op) : handle(op) {
  const c10::FunctionSchema& schema = op.schema();
  name = schema.name();
  const std::string full =
      schema.overload_name().empty() ? name : name + "." + schema.overload_name();
  this->op = ir::find_op(name);
  track = &track_op(name);
  track->is_host = ir::is_host_op(this->op);
  shape = find_shape_function(full);
  lower = find_lowering(name);
  is_data_dependent = lazy::is_data_dependent(full);
  takes_cpu_indices = lazy::takes_cpu_indices(name);
  run_on_cpu = find_cpu_call(op);
  for (const c10::Argument& argument : schema.arguments()) {
    ArgInfo info;
    info.kind = kind_of(argument.type());
    const c10::AliasInfo* alias = argument.alias_info();
    info.is_write = alias != nullptr && alias->isWrite();
    if (info.is_write && argument.is_out()) has_out = true;
    if (info.kind == ArgKind::kGenerator) is_random = true;
    args.push_back(info);
  }
  for (const c10::Argument& value : schema.returns()) {
    ReturnInfo info;
    const ArgKind kind = kind_of(value.type());
    info.is_tensor = kind == ArgKind::kTensor;
    info.is_list = kind == ArgKind::kTensorList;
    info.write_arg = written_argument(schema, value);
    if (!info.is_tensor && !info.is_list) returns_values = true;
    if (info.write_arg < 0 && (info.is_tensor || info.is_list)) {
      has_fresh = true;
      returns_list = returns_list || info.is_list;
      if (value.alias_info() != nullptr) returns_view = true;
    }
    returns.push_back(info);
  }
}

bool Recipe::runs_at_once() const {
  if (returns_values || is_data_dependent) return true;
  // A list among several returns has no flat numbering of outputs.
  if (returns_list && returns.size() > 1) return true;
  return shape == nullptr && (has_fresh || has_out);
}

const Recipe& recipe_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static tsl::robin_map<const void*, const Recipe*>* recipes =
      new tsl::robin_map<const void*, const Recipe*>;
  // The schema's address names the operator.
  const void* id = &op.schema();
  static thread_local tsl::robin_map<const void*, const Recipe*> known;
  const auto found = known.find(id);
  if (C10_LIKELY(found != known.end())) return *found->second;
  std::lock_guard lock(mutex);
  const Recipe*& recipe = (*recipes)[id];
  if (recipe == nullptr) recipe = new Recipe(op);
  known[id] = recipe;
  return *recipe;
}

at::Generator cpu_generator(uint64_t seed, uint64_t offset) {
  at::mt19937_data_pod state;
  state.seed_ = seed;
  state.left_ = 1;
  state.seeded_ = true;
  state.next_ = 0;
  for (size_t i = 0; i < state.state_.size(); i += 4) {
    const auto words = philox(seed, offset, i / 4);
    for (size_t k = 0; k < 4 && i + k < state.state_.size(); ++k)
      state.state_[i + k] = words[k];
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
  at::mt19937 engine;
  engine.set_data(state);
  generator.get<at::CPUGeneratorImpl>()->set_engine(engine);
  return generator;
}

void AtenCall::execute(StepTensors& tensors) {
  torch::jit::Stack stack(args.begin(), args.end());
  c10::SmallVector<std::pair<at::Tensor, const ir::Operand*>, 2> written;
  for (const Slot& slot : slots) {
    at::Tensor tensor = tensors.tensor(static_cast<size_t>(slot.operand));
    const ir::Operand& operand = tensors.operand(static_cast<size_t>(slot.operand));
    if (operand.writes() && tensor.is_complex()) written.emplace_back(tensor, &operand);
    if (slot.element < 0) {
      stack[slot.arg] = std::move(tensor);
    } else if (stack[slot.arg].isTensorList()) {
      stack[slot.arg].toTensorList().set(static_cast<size_t>(slot.element),
                                         std::move(tensor));
    } else {
      stack[slot.arg].toOptionalTensorList().set(static_cast<size_t>(slot.element),
                                                 std::move(tensor));
    }
  }
  if (recipe_.is_random) {
    for (size_t i = 0; i < recipe_.args.size(); ++i) {
      if (recipe_.args[i].kind == ArgKind::kGenerator)
        stack[i] = cpu_generator(seed, offset);
    }
  }
  recipe_.call(&stack);
  for (auto& [tensor, operand] : written) {
    // A kernel may leave an output conjugated by its bit alone; the caller's tensor has
    // none.
    const bool want = (operand->flags & ir::Operand::kConjugate) != 0;
    if (tensor.is_conj() == want) continue;
    const at::Tensor values = tensor.clone().resolve_conj();
    tensor._set_conj(want);
    tensor.copy_(values);
  }
  written.clear();
  // Aliases must be gone before a result's memory can be taken over.
  size_t next = 0;
  for (size_t i = 0; i < recipe_.returns.size(); ++i) {
    const ReturnInfo& info = recipe_.returns[i];
    if (info.write_arg >= 0) continue;
    if (info.is_list) {
      std::vector<at::Tensor> list = stack[i].toTensorVector();
      stack[i] = c10::IValue();
      for (at::Tensor& tensor : list) {
        const int32_t operand = next < results.size() ? results[next] : -1;
        ++next;
        if (operand >= 0)
          tensors.store(static_cast<size_t>(operand), std::move(tensor), name());
      }
      continue;
    }
    const int32_t operand = next < results.size() ? results[next] : -1;
    ++next;
    if (operand < 0) continue;
    at::Tensor tensor = std::move(stack[i]).toTensor();
    tensors.store(static_cast<size_t>(operand), std::move(tensor), name());
  }
}

}  // namespace neuron::lazy
