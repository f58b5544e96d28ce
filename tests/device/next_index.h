// A device number of its own for every simulated memory of a test process.
#pragma once

#include <cstdint>

namespace neuron::device {

/// Memories with one device number share per-thread lists of records: each takes its own.
inline uint16_t next_index() {
  static uint16_t next = 0;
  return next++;
}

}  // namespace neuron::device
