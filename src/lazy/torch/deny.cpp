#include "lazy/torch/deny.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "lazy/torch/aten_call.h"
#include "lazy/torch/autograd_entry.h"
#include "lazy/torch/lower.h"
#include "lazy/torch/record.h"

namespace neuron::lazy {
namespace {

using c10::DispatchKey;

struct Denials {
  std::mutex mutex;
  std::vector<std::string> names;
  std::vector<c10::RegistrationHandleRAII> handles;
};

Denials& denials() {
  static auto* denials = new Denials;  // the dispatcher may be gone before static objects
  return *denials;
}

// Replaced entries are what is wanted here.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// The recipe of an op without its lowering. Recorded calls refer to it.
const Recipe& recipe_without_lowering(const c10::OperatorHandle& op) {
  static auto* recipes =
      new std::map<c10::OperatorName, Recipe*,
                   bool (*)(const c10::OperatorName&, const c10::OperatorName&)>(
          [](const c10::OperatorName& a, const c10::OperatorName& b) {
            return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
          });
  Recipe*& recipe = (*recipes)[op.operator_name()];
  if (recipe == nullptr) {
    recipe = new Recipe(op);
    recipe->lower = nullptr;
  }
  return *recipe;
}

class DeniedKernel final : public c10::OperatorKernel {
 public:
  explicit DeniedKernel(const Recipe& recipe) : recipe_(recipe) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    record_recipe(recipe_, stack);
  }

 private:
  const Recipe& recipe_;
};

// In the place of an entry that skips autograd: autograd's own kernel, always.
class GeneratedKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    op.redispatchBoxed(generated_kernel(keys), stack);
  }
};

void replace(const c10::OperatorHandle& op, DispatchKey key, c10::KernelFunction kernel) {
  if (!op.hasKernelForDispatchKey(key)) return;
  denials().handles.push_back(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), key, std::move(kernel), std::nullopt, nullptr, "deny list"));
}

void deny(const c10::OperatorHandle& op) {
  for (const DispatchKey key : {DispatchKey::PrivateUse1, DispatchKey::PrivateUse3}) {
    replace(op, key,
            c10::KernelFunction::makeFromBoxedFunctor(
                std::make_unique<DeniedKernel>(recipe_without_lowering(op))));
  }
  replace(op, DispatchKey::AutogradPrivateUse1,
          c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<GeneratedKernel>()));
}

std::string full_name(const std::string& name) {
  return name.find("::") == std::string::npos ? "aten::" + name : name;
}

}  // namespace

void set_denied_ops(const std::vector<std::string>& names) {
  std::vector<std::string> full;
  for (const std::string& name : names) full.push_back(full_name(name));
  for (const std::string& name : full) {
    TORCH_CHECK_VALUE(find_lowering(name) != nullptr,
                      "[deny] an op without a native kernel cannot be denied: got ", name,
                      ", expected one such as aten::add; it runs on the host already, or "
                      "has another name");
  }
  const std::lock_guard lock(denials().mutex);
  NoWarnings quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  denials().handles.clear();
  denials().names = full;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& op : dispatcher.getAllOpNames()) {
    const bool is_denied = std::any_of(full.begin(), full.end(), [&](const auto& name) {
      return op.name == name || op.name == name + "_";
    });
    if (!is_denied) continue;
    if (const auto handle = dispatcher.findSchema(op)) deny(*handle);
  }
}

std::vector<std::string> denied_ops() {
  const std::lock_guard lock(denials().mutex);
  return denials().names;
}

}  // namespace neuron::lazy
