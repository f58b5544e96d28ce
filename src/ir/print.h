// Text form of graphs, for people, tests and error messages.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::ir {

/// One operand, such as "f32[4, 8]", "f32[4, 8]:[1, 4]+16" (strides, byte offset) .
std::string print_operand(const Graph& graph, const Operand& operand);

/// One node, such as "add f32[4] b0, f32[4] b1 -> f32[4] b2".
std::string print_node(const Graph& graph, const Node& node);

/// The whole graph, a line a node.
std::string print_graph(const Graph& graph);

/// The op of a node, such as "aten::add".
std::string op_name(const Graph& graph, const Node& node);

/// The ops of a kernel in its order, such as "aten::mul, aten::add x2".
std::string print_ops(const Graph& graph, const Plan& plan, const Kernel& kernel);

/// Per node, whether the plan computes it; the others were left out, since nobody sees
/// what they make.
std::vector<bool> computed_nodes(const Graph& graph, const Plan& plan);

/// The plan of the graph: kernel by kernel its nodes, the code of what is fused, and the
/// nodes that nobody needs.
std::string print_plan(const Graph& graph, const Plan& plan);

}  // namespace neuron::ir
