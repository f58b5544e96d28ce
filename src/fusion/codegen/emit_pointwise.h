// Builds the LLVM module of one pointwise kernel; see KernelFn for its signature.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstddef>
#include <memory>
#include <string>

#include "ir/pointwise.h"

namespace neuron::fusion {

/// One function `name` that computes `width` elements at a time; width divides
/// kKernelStep. nullptr, with the reason, when the code has something that is not
/// generated.
std::unique_ptr<llvm::Module> build_pointwise(llvm::LLVMContext& context,
                                              const ir::PointwiseCode& code,
                                              unsigned width, const std::string& name,
                                              std::string& reason);

struct KernelSize {
  size_t num_instrs = 0;
  bool has_wide_values = false;  // of eight bytes
};
KernelSize kernel_size(const llvm::Module& module);

}  // namespace neuron::fusion
