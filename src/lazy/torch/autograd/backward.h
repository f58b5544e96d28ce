// The lean backward loop: runs an ordinary graph of device tensors in place of PyTorch's
// engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lazy/torch/autograd/graph.h"

namespace neuron::lazy {

/// Backward passes of the device since the start or the last reset.
struct BackwardCounts {
  uint64_t graphs = 0;  // run by the lean loop
  uint64_t nodes = 0;   // in these graphs
  /// Run by PyTorch's engine, by reason.
  std::array<uint64_t, static_cast<size_t>(OriginalEngine::kCount)> original{};
};

/// Runs `call` and returns the gradients of its inputs (none if they are accumulated);
/// nothing when PyTorch's engine has to run it, and then nothing has happened yet. Throws
/// what a node or a hook throws. The roots are tensors of the device; the GIL is not
/// held. Gradients of the roots are brought into their roots' shape and type.
std::optional<torch::autograd::variable_list> run_lean_backward(BackwardCall& call);

/// Counts a call that the caller itself passes on to PyTorch's engine.
void count_original_engine(OriginalEngine reason);

BackwardCounts backward_counts();
void reset_backward_counts();

/// The switch, for all threads (at start: the knob `lean_autograd`).
bool is_lean_autograd();
void set_lean_autograd(bool enabled);

}  // namespace neuron::lazy
