#include "ir/print.h"

#include <algorithm>

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
  std::string text = op_name(graph, node);
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

std::string op_name(const Graph& graph, const Node& node) {
  const Call* call = graph.call_of(node);
  if (call != nullptr) return call->name();
  const OpInfo& info = op_info(node.op);
  return std::string(info.aten.empty() ? info.name : info.aten);
}

std::string print_ops(const Graph& graph, const Plan& plan, const Kernel& kernel) {
  std::string text, last;
  int repeats = 0;
  const auto end_run = [&] {
    if (repeats == 0) return;
    if (!text.empty()) text += ", ";
    text += last;
    if (repeats > 1) text += " x" + std::to_string(repeats);
  };
  for (const uint32_t index : plan.nodes_of(kernel)) {
    const std::string name = op_name(graph, graph.nodes[index]);
    if (name != last) {
      end_run();
      last = name;
      repeats = 0;
    }
    ++repeats;
  }
  end_run();
  return text;
}

std::vector<bool> computed_nodes(const Graph& graph, const Plan& plan) {
  std::vector<bool> is_computed(graph.nodes.size());
  std::vector<bool> is_wanted(graph.num_buffers);
  for (const Kernel& kernel : plan.kernels) {
    // Of a fused kernel: what its stores depend on.
    std::fill(is_wanted.begin(), is_wanted.end(), !kernel.is_pointwise());
    for (const KernelAccess& access : plan.accesses_of(kernel)) {
      if (access.writes) is_wanted[access.buffer] = true;
    }
    const auto nodes = plan.nodes_of(kernel);
    for (size_t i = nodes.size(); i-- > 0;) {
      const auto operands = graph.operands_of(graph.nodes[nodes[i]]);
      for (const Operand& operand : operands) {
        if (operand.writes() && is_wanted[operand.buffer]) is_computed[nodes[i]] = true;
      }
      if (!kernel.is_pointwise()) is_computed[nodes[i]] = true;
      if (!is_computed[nodes[i]]) continue;
      for (const Operand& operand : operands) {
        if (operand.reads()) is_wanted[operand.buffer] = true;
      }
    }
  }
  return is_computed;
}

std::string print_plan(const Graph& graph, const Plan& plan) {
  std::string text;
  const std::vector<bool> is_computed = computed_nodes(graph, plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    text += "kernel " + std::to_string(i) + ": " + print_ops(graph, plan, kernel);
    if (kernel.is_pointwise()) {
      text += ", fused, " + std::to_string(plan.pointwise[kernel.pointwise].numel) +
              " elements";
    }
    text += "\n";
    for (const uint32_t index : plan.nodes_of(kernel)) {
      text += "  node " + std::to_string(index) + ": " +
              print_node(graph, graph.nodes[index]) + "\n";
    }
    if (kernel.is_pointwise()) text += print_code(plan.pointwise[kernel.pointwise].code);
  }
  for (size_t i = 0; i < is_computed.size(); ++i) {
    if (is_computed[i]) continue;
    text += "left out: node " + std::to_string(i) + ": " +
            op_name(graph, graph.nodes[i]) + ", nobody sees its result\n";
  }
  return text;
}

}  // namespace neuron::ir
