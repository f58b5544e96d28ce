// Graphs written by hand, for tests.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace neuron::ir {

/// An operand as a test writes it. Empty `strides`: contiguous.
struct OperandText {
  uint32_t buffer = 0;
  std::vector<int64_t> sizes = {4};
  std::vector<int64_t> strides = {};
  uint8_t flags = Operand::kReads;
  DType dtype = DType::kFloat32;
  int64_t offset = 0;
};

class NamedCall final : public Call {
 public:
  explicit NamedCall(const char* name) : name_(name) {}
  const char* name() const override { return name_; }

 private:
  const char* name_;
};

/// Appends a node; a null `call` leaves it without a call object.
inline Node& add_node(Graph& graph, Op op, const std::vector<OperandText>& operands,
                      const char* call = nullptr) {
  Node& node = graph.nodes.emplace_back();
  node.op = op;
  node.first_operand = static_cast<uint32_t>(graph.operands.size());
  node.num_operands = static_cast<uint32_t>(operands.size());
  if (call != nullptr) {
    graph.calls.push_back(std::make_unique<NamedCall>(call));
    node.call = static_cast<uint32_t>(graph.calls.size());
  }
  for (const OperandText& text : operands) {
    Operand& operand = graph.operands.emplace_back();
    operand.buffer = text.buffer;
    operand.dims = static_cast<uint32_t>(graph.dims.size());
    operand.offset = text.offset;
    operand.dtype = text.dtype;
    operand.rank = static_cast<uint8_t>(text.sizes.size());
    operand.flags = text.flags;
    if (text.strides.empty()) operand.flags |= Operand::kContiguous;
    graph.dims.insert(graph.dims.end(), text.sizes.begin(), text.sizes.end());
    graph.dims.insert(graph.dims.end(), text.strides.begin(), text.strides.end());
    graph.num_buffers = std::max(graph.num_buffers, text.buffer + 1);
  }
  return node;
}

}  // namespace neuron::ir
