// A device number of its own for every simulated memory of a test process.
#pragma once

#include <cstdint>

namespace neuron::device {

/// Memories share per-thread lists of records by device number, so no two may have the same.
inline uint16_t next_index() {
  static uint16_t next = 0;
  return next++;
}

}  // namespace neuron::device
