// The plain C interface of the code generator, which is a module of its own: only a
// process that compiles loads LLVM (42 MB, 14 ms).
#pragma once

#include <cstddef>
#include <cstdint>

namespace neuron::fusion {

/// Names the sources that decide what code is generated. Made by the build, for the
/// module and for those who load it.
extern const char kCodegenFingerprint[];

/// The parts of an ir::PointwiseCode.
struct CodegenCode {
  const void* sources;
  const void* instrs;
  const void* sinks;
  uint32_t num_sources, num_instrs, num_sinks, num_registers;
};

/// Receives bytes that are gone after the call.
struct CodegenTaker {
  void (*take)(void* context, const char* bytes, size_t size);
  void* context;
};

enum class CodegenText : int { kLlvmIr, kAssembly };

/// What the module offers. Any thread, many at once; see codegen.h for the meaning.
struct CodegenTable {
  /// A fingerprint of the sources; the host's must be the same.
  const char* fingerprint;
  const char* (*target)();
  /// Gives an object to `object`, or why there is none to `reason`.
  void (*emit)(const CodegenCode* code, int level, const char* name,
               const CodegenTaker* object, const CodegenTaker* reason);
  /// The address of `name`, nullptr on failure; `*handle` keeps it loaded.
  void* (*load)(const char* object, size_t size, const char* name, void** handle,
                const CodegenTaker* reason);
  void (*unload)(void* handle);
  /// The kernel as text, or a reason in parentheses.
  void (*print)(const CodegenCode* code, int level, CodegenText kind,
                const CodegenTaker* text);
};

/// The only symbol of the module: `const CodegenTable* neuron_codegen_table()`.
inline constexpr char kCodegenSymbol[] = "neuron_codegen_table";

}  // namespace neuron::fusion
