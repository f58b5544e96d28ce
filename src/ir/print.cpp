#include "ir/print.h"

namespace neuron::ir {
namespace {

std::string print_list(std::span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace

std::string print_operand(const Graph& graph, const Operand& operand) {
  std::string text = dtype_name(operand.dtype) + print_list(graph.sizes_of(operand));
  if (!operand.is_contiguous()) text += ":" + print_list(graph.strides_of(operand));
  if (operand.offset != 0) text += "+" + std::to_string(operand.offset);
  if ((operand.flags & Operand::kConjugate) != 0) text += " conj";
  if ((operand.flags & Operand::kNegative) != 0) text += " neg";
  return text;
}

std::string print_node(const Graph& graph, const Node& node) {
  const Call* call = graph.call_of(node);
  std::string text = call != nullptr ? call->name() : std::string(op_info(node.op).aten);
  std::string reads, writes;
  for (const Operand& operand : graph.operands_of(node)) {
    std::string& side = operand.writes() ? writes : reads;
    if (!side.empty()) side += ", ";
    side += print_operand(graph, operand) + " b" + std::to_string(operand.buffer);
  }
  if (!reads.empty()) text += " " + reads;
  return text + " -> " + writes;
}

std::string print_graph(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += print_node(graph, node) + "\n";
  return text;
}

}  // namespace neuron::ir
