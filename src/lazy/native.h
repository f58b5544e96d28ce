// Native steps: kernels of our own, run on simulated memory without PyTorch.
#pragma once

#include "device/program.h"

namespace neuron::lazy {

/// Runs a step that is a fused pointwise kernel of a WindowProgram.
const device::Executable& pointwise_executable();

/// A step without work.
const device::Executable& nothing_executable();

}  // namespace neuron::lazy
