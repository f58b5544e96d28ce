// Builds the LLVM module of one pointwise kernel; see KernelFn for its signature.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "ir/pointwise.h"

namespace neuron::fusion {

/// One function `name` that computes `width` elements at a time; width divides
/// kKernelStep. nullptr, with the reason, when the code has something that is not generated.
std::unique_ptr<llvm::Module> build_pointwise(llvm::LLVMContext& context,
                                              const ir::PointwiseCode& code,
                                              unsigned width, const std::string& name,
                                              std::string& reason);

/// Whether the kernel computes in a type of eight bytes somewhere.
bool has_wide_values(const llvm::Module& module);

}  // namespace neuron::fusion
