// Numbers inside nodes.
#pragma once

#include <c10/core/Scalar.h>

#include "lazy/core.h"

namespace neuron::lazy {

/// Stores a real or integral scalar as number `i`.
inline void set_number(OpSpec& spec, int i, const at::Scalar& value) {
  if (value.isIntegral(/*includeBool=*/true)) {
    spec.numbers[i].integer = value.toLong();
    spec.number_kinds |= static_cast<uint8_t>(1 << i);
  } else {
    spec.numbers[i].real = value.toDouble();
  }
}

}  // namespace neuron::lazy
