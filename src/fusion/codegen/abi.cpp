#include "fusion/codegen/abi.h"

#include <memory>
#include <string>
#include <vector>

#include "fusion/codegen/codegen.h"

namespace neuron::fusion {
namespace {

void give(const CodegenTaker& taker, const char* bytes, size_t size) {
  taker.take(taker.context, bytes, size);
}

const char* target() { return codegen_target().c_str(); }

template <class T>
std::vector<T> copy_of(const void* items, uint32_t count) {
  const T* first = static_cast<const T*>(items);
  return std::vector<T>(first, first + count);
}

ir::PointwiseCode code_of(const CodegenCode& parts) {
  ir::PointwiseCode code;
  code.sources = copy_of<ir::Source>(parts.sources, parts.num_sources);
  code.instrs = copy_of<ir::Instr>(parts.instrs, parts.num_instrs);
  code.sinks = copy_of<ir::Sink>(parts.sinks, parts.num_sinks);
  code.num_registers = static_cast<uint16_t>(parts.num_registers);
  return code;
}

void emit(const CodegenCode* parts, int level, const char* name,
          const CodegenTaker* object, const CodegenTaker* reason) {
  const ir::PointwiseCode code = code_of(*parts);
  std::string why;
  const auto bytes = emit_object(code, static_cast<OptLevel>(level), name, &why);
  if (bytes.empty()) return give(*reason, why.data(), why.size());
  give(*object, bytes.data(), bytes.size());
}

void* load(const char* object, size_t size, const char* name, void** handle,
           const CodegenTaker* reason) {
  std::string why;
  auto compiled = std::make_unique<CompiledPointwise>(
      load_object(std::vector<char>(object, object + size), name, &why));
  if (!*compiled) {
    give(*reason, why.data(), why.size());
    return nullptr;
  }
  void* address = reinterpret_cast<void*>(compiled->function());
  *handle = compiled.release();
  return address;
}

void unload(void* handle) { delete static_cast<CompiledPointwise*>(handle); }

void print(const CodegenCode* parts, int level, CodegenText kind,
           const CodegenTaker* text) {
  const ir::PointwiseCode code = code_of(*parts);
  const std::string made = kind == CodegenText::kLlvmIr
                               ? llvm_text(code)
                               : assembly_text(code, static_cast<OptLevel>(level));
  give(*text, made.data(), made.size());
}

constexpr CodegenTable kTable{
    kCodegenFingerprint, &target, &emit, &load, &unload, &print};

}  // namespace
}  // namespace neuron::fusion

extern "C" [[gnu::visibility("default")]] const neuron::fusion::CodegenTable*
neuron_codegen_table() {
  return &neuron::fusion::kTable;
}
