// The back end: LLVM's target machines for this processor, and text and objects from IR.
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

#include "fusion/codegen/codegen.h"

namespace neuron::fusion {

/// Why kernels cannot run here; empty when they can. Starts LLVM at the first call.
const std::string& missing_feature();
/// Whether vectors have 64 bytes.
bool has_avx512();

/// Compiles `module`, which must be valid, to an object or to assembly text.
std::vector<char> emit_machine_code(llvm::Module& module, OptLevel level, bool as_text);

}  // namespace neuron::fusion
