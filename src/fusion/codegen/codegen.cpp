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

// How many elements a step computes. A processor overlaps the steps of a short kernel by
// itself. In a long one it waits for each result of a chain, so there a value fills four
// registers: 30 ops with 4 exponentials take 4.1, 3.6 and 2.4 ns an element with 1, 2 and
// 4 registers, and 2.2, 4.5 and 8 ms to compile without optimisation.
unsigned width_of(const KernelSize& size) {
  constexpr size_t kLongKernel = 64;
  const unsigned registers = size.num_instrs > kLongKernel ? 4 : 2;
  const unsigned register_bytes = has_avx512() ? 64 : 32;
  return registers * register_bytes / (size.has_wide_values ? 8 : 4);
}

std::unique_ptr<llvm::Module> build(llvm::LLVMContext& context,
                                    const ir::PointwiseCode& code,
                                    const std::string& name, std::string& reason) {
  reason = missing_feature();
  if (!reason.empty()) return nullptr;
  // Only the IR tells how long the bodies are. Building it costs little.
  const unsigned first_width = width_of({});
  auto module = build_pointwise(context, code, first_width, name, reason);
  if (module == nullptr) return nullptr;
  const unsigned width = width_of(kernel_size(*module));
  if (width != first_width) module = build_pointwise(context, code, width, name, reason);
  if (verifies_ir.load(std::memory_order_relaxed)) verify(*module);
  return module;
}

std::vector<char> emit(const ir::PointwiseCode& code, OptLevel level, bool as_text,
                       const std::string& name, std::string& reason) {
  llvm::LLVMContext context;
  auto module = build(context, code, name, reason);
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

std::string llvm_text(const ir::PointwiseCode& code) {
  llvm::LLVMContext context;
  std::string reason;
  const auto module = build(context, code, "neuron_pointwise", reason);
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
