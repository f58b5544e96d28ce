// Planning: which nodes of a closed window run together.
#pragma once

#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::fusion {

/// Turns a graph into its plan. Each node is a kernel of its own; the order is the order
/// of recording. Writes into `plan`, whose memory is reused.
void make_plan(const ir::Graph& graph, ir::Plan& plan);

}  // namespace neuron::fusion
