// Cost: how long a step takes on the simulated chip.
#pragma once

#include <array>

#include "device/target.h"
#include "device/work.h"

namespace neuron::device {

/// How long the parts of a compute step take, in ns; they overlap.
struct Cost {
  std::array<double, kNumEngines> engines = {};
  double dma = 0;
  double rows = 0;   // latency of chains that nothing hides
  double total = 0;  // the longest part, and `rows`
};

/// Under 20 ns.
Cost cost_of(const Work& work, const LogicalCore& core);

}  // namespace neuron::device
