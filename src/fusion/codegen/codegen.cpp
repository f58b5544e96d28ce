#include "fusion/codegen/codegen.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <atomic>
#include <utility>

#include "base/check.h"
#include "fusion/codegen/emit_pointwise.h"
#include "fusion/codegen/jit.h"
#include "fusion/codegen/target.h"

namespace neuron::fusion {
namespace {

#ifdef NDEBUG
constexpr bool kVerifiesByDefault = false;
#else
constexpr bool kVerifiesByDefault = true;
#endif
std::atomic<bool> verifies_ir{kVerifiesByDefault};

void verify(const llvm::Module& module) {
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  NEURON_CHECK(!llvm::verifyModule(module, &stream), "[codegen] invalid IR: " + errors);
}

// How many elements of four bytes a step computes. Several registers a value, because the
// chains of dependent instructions are long: silu(x + b) * g - c takes 1.7, 1.2 and 1.0 ns
// an element with 1, 2 and 4 registers. But they also cost time to compile.
unsigned width_of(OptLevel level) {
  const unsigned registers = level == OptLevel::kNone ? 2 : 4;
  return registers * (has_avx512() ? 16 : 8);
}

std::unique_ptr<llvm::Module> build(llvm::LLVMContext& context,
                                    const ir::PointwiseCode& code, OptLevel level,
                                    const std::string& name, std::string& reason) {
  reason = missing_feature();
  if (!reason.empty()) return nullptr;
  const unsigned width = width_of(level);
  auto module = build_pointwise(context, code, width, name, reason);
  if (module != nullptr && has_wide_values(*module)) {
    module = build_pointwise(context, code, width / 2, name, reason);
  }
  if (module != nullptr && verifies_ir.load(std::memory_order_relaxed)) verify(*module);
  return module;
}

std::vector<char> emit(const ir::PointwiseCode& code, OptLevel level, bool as_text,
                       const std::string& name, std::string& reason) {
  llvm::LLVMContext context;
  auto module = build(context, code, level, name, reason);
  return module == nullptr ? std::vector<char>{}
                           : emit_machine_code(*module, level, as_text);
}

}  // namespace

std::vector<char> emit_object(const ir::PointwiseCode& code, OptLevel level,
                              std::string_view name, std::string* reason) {
  std::string why;
  auto object = emit(code, level, /*as_text=*/false, std::string(name), why);
  if (reason != nullptr) *reason = std::move(why);
  return object;
}

CompiledPointwise load_object(const std::vector<char>& object, std::string_view name,
                              std::string* reason) {
  std::string why;
  LoadedSymbol symbol = load_symbol(object, std::string(name), why);
  if (reason != nullptr) *reason = std::move(why);
  return {reinterpret_cast<KernelFn>(symbol.address), std::move(symbol.object)};
}

CompiledPointwise compile_pointwise(const ir::PointwiseCode& code, OptLevel level,
                                    std::string_view name, std::string* reason) {
  const std::vector<char> object = emit_object(code, level, name, reason);
  return object.empty() ? CompiledPointwise{} : load_object(object, name, reason);
}

std::string llvm_text(const ir::PointwiseCode& code, OptLevel level) {
  llvm::LLVMContext context;
  std::string reason;
  const auto module = build(context, code, level, "neuron_pointwise", reason);
  if (module == nullptr) return "(" + reason + ")\n";
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return text;
}

std::string assembly_text(const ir::PointwiseCode& code, OptLevel level) {
  std::string reason;
  const auto text = emit(code, level, /*as_text=*/true, "neuron_pointwise", reason);
  return text.empty() ? "(" + reason + ")\n" : std::string(text.begin(), text.end());
}

void set_verify_ir(bool on) { verifies_ir.store(on, std::memory_order_relaxed); }

}  // namespace neuron::fusion
