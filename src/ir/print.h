// Text form of graphs, for people, tests and error messages.
#pragma once

#include <string>

#include "ir/graph.h"

namespace neuron::ir {

/// One operand, such as "f32[4, 8]", "f32[4, 8]:[1, 4]+16" (strides, byte offset) .
std::string print_operand(const Graph& graph, const Operand& operand);

/// One node, such as "add f32[4] b0, f32[4] b1 -> f32[4] b2".
std::string print_node(const Graph& graph, const Node& node);

/// The whole graph, a line a node.
std::string print_graph(const Graph& graph);

}  // namespace neuron::ir
