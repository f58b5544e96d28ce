// Which engines of the chip a pointwise code keeps busy.
#pragma once

#include <cstdint>

#include "ir/pointwise.h"

namespace neuron::lazy {

/// Instructions per element.
struct Instructions {
  uint8_t vector = 1, scalar = 0;
};

/// An arithmetic instruction runs on Vector, a transcendental function is one instruction
/// of Scalar, x * f(x) is both. Conversions ride on other instructions. 1 ns.
Instructions instructions_of(ir::Code code);

}  // namespace neuron::lazy
