// Running native nodes that are not pointwise.
#pragma once

#include "device/program.h"

namespace neuron::lazy {

/// Runs the step of a node whose Node::variant is an ir::Native.
const device::Executable& rows_executable();

}  // namespace neuron::lazy
