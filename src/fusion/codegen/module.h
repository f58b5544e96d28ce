// The code generator as the rest of the project sees it: a module loaded on demand.
#pragma once

#include <string>
#include <vector>

#include "fusion/codegen/abi.h"
#include "fusion/codegen/codegen.h"

namespace neuron::fusion {

/// Loads the module `_codegen.so` that lies beside the binary this function is in;
/// nullptr, with the reason, when it or LLVM is missing, or when it was built from other
/// sources. It stays loaded. Any thread.
const CodegenTable* open_codegen(std::string& reason);

/// emit_object and load_object of codegen.h by way of a table.
std::vector<char> emit_by(const CodegenTable& table, const ir::PointwiseCode& code,
                          OptLevel level, const char* name, std::string& reason);
CompiledPointwise load_by(const CodegenTable& table, const std::vector<char>& object,
                          const char* name, std::string& reason);

/// llvm_text and assembly_text of codegen.h by way of a table.
std::string text_by(const CodegenTable& table, const ir::PointwiseCode& code,
                    OptLevel level, CodegenText kind);

}  // namespace neuron::fusion
