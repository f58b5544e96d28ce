// Why neighbours of a plan did not become one kernel, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::fusion {

/// A node that reads what another one makes, and runs in another kernel.
struct Apart {
  uint32_t producer = 0;  // nodes of the graph
  uint32_t consumer = 0;
  std::string reason;
};

/// Every such pair of a planned graph, in the order of the consumers. The reasons follow
/// from the planner's laws after the fact, so planning itself pays nothing for them.
std::vector<Apart> explain_plan(const ir::Graph& graph, const ir::Plan& plan);

}  // namespace neuron::fusion
