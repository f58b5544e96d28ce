#include "ir/graph.h"

namespace neuron::ir {

void Graph::clear() {
  nodes.clear();
  operands.clear();
  dims.clear();
  calls.clear();
  num_buffers = 0;
}

}  // namespace neuron::ir
