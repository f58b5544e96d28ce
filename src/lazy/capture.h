// CapturedWindow: a window as it was planned, kept for people to look at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/site.h"
#include "ir/pointwise.h"

namespace neuron::lazy {

class WindowProgram;

/// One kernel of a captured window.
struct CapturedKernel {
  std::string ops;         // "aten::mul, aten::add"
  bool is_fused = false;   // has code; else the library's, the host's or a fixed kernel
  int64_t numel = 0;       // of fused code
  ir::PointwiseCode code;  // of fused code
};

/// Texts are made when the window is planned; nothing refers to the window itself.
struct CapturedWindow {
  int device = 0;
  uint32_t stream = 0;
  uint64_t number = 0;      // of the window within its stream
  std::string ir;           // a line a node
  std::vector<Site> sites;  // per node
  std::string plan;
  std::vector<CapturedKernel> kernels;
};

/// The window as it is now: planned and not yet run.
std::shared_ptr<const CapturedWindow> capture_window(const WindowProgram& program);

/// Fused code as LLVM IR or as assembly, as the compiler of kernels makes it; a reason in
/// parentheses where it cannot. Loads LLVM (14 ms) at the first call.
std::string llvm_text_of(const ir::PointwiseCode& code);
std::string assembly_text_of(const ir::PointwiseCode& code);

}  // namespace neuron::lazy
