#include "fusion/pipeline.h"

namespace neuron::fusion {

void make_plan(const ir::Graph& graph, ir::Plan& plan) {
  plan.kernels.clear();
  plan.last_kernel.assign(graph.num_buffers, 0);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    plan.kernels.push_back({i, 1});
    for (const ir::Operand& operand : graph.operands_of(graph.nodes[i])) {
      plan.last_kernel[operand.buffer] = i;
    }
  }
}

}  // namespace neuron::fusion
