#include "cache/key.h"

#include <cstring>

#include "base/hash.h"
#include "cache/key_layout.h"

namespace neuron::cache {
namespace {

// Numbers buffers by first use.
class FirstUse {
 public:
  uint16_t number(uint32_t buffer) {
    uint16_t local = 0;
    while (local < seen_.size() && seen_[local] != buffer) ++local;
    if (local == seen_.size()) seen_.push_back(buffer);
    return local;
  }
  void clear() { seen_.clear(); }

 private:
  std::vector<uint32_t> seen_;
};

}  // namespace

void make_key(const ir::Graph& graph, const ir::Node& node, Key& key) {
  static thread_local FirstUse first_use;
  first_use.clear();
  size_t size = sizeof(NodeKey);
  if (node.call == 0) size += sizeof(OperandKey) * node.num_operands;
  key.bytes.resize(size);
  std::byte* at = key.bytes.data();
  const NodeKey node_key{node.op, node.number_kinds, node.call != 0,
                         node.call != 0 ? 0 : node.num_operands};
  std::memcpy(at, &node_key, sizeof node_key);
  at += sizeof node_key;
  if (node.call == 0) {  // a call brings its own code, whatever its operands
    for (const ir::Operand& operand : graph.operands_of(node)) {
      const OperandKey operand_key{first_use.number(operand.buffer), operand.dtype,
                                   operand.rank, operand.flags};
      std::memcpy(at, &operand_key, sizeof operand_key);
      at += sizeof operand_key;
    }
  }
  key.hash = hash_bytes(key.bytes.data(), key.bytes.size());
}

void make_key(const ir::PointwiseCode& code, Key& key) {
  const CodeKey counts{static_cast<uint16_t>(code.sources.size()),
                       static_cast<uint16_t>(code.instrs.size()),
                       static_cast<uint16_t>(code.sinks.size()), code.num_registers};
  const size_t sources = code.sources.size() * sizeof(ir::Source);
  const size_t instrs = code.instrs.size() * sizeof(ir::Instr);
  const size_t sinks = code.sinks.size() * sizeof(ir::Sink);
  key.bytes.resize(sizeof counts + sources + instrs + sinks);
  std::byte* at = key.bytes.data();
  std::memcpy(at, &counts, sizeof counts);
  at += sizeof counts;
  if (sources != 0) std::memcpy(at, code.sources.data(), sources);
  if (instrs != 0) std::memcpy(at + sources, code.instrs.data(), instrs);
  if (sinks != 0) std::memcpy(at + sources + instrs, code.sinks.data(), sinks);
  key.hash = hash_bytes(key.bytes.data(), key.bytes.size());
}

}  // namespace neuron::cache
