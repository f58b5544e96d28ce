// Plan: the kernels that a graph becomes, in order, and when each buffer is last needed.
#pragma once

#include <cstdint>
#include <vector>

namespace neuron::ir {

/// A run of nodes that is executed as one program step.
struct Kernel {
  uint32_t first_node = 0;
  uint32_t num_nodes = 0;
};

struct Plan {
  std::vector<Kernel> kernels;
  /// Per buffer of the graph: the last kernel that touches it.
  std::vector<uint32_t> last_kernel;
};

}  // namespace neuron::ir
