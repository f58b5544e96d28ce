#include "cache/key.h"

#include <cstring>

#include "base/hash.h"

namespace neuron::cache {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

void make_key(const ir::Graph& graph, const ir::Kernel& kernel, Key& key) {
  key.bytes.clear();
  std::vector<uint32_t>& first_use = *[] {
    static thread_local std::vector<uint32_t> numbers;
    return &numbers;
  }();
  first_use.clear();
  for (uint32_t i = 0; i < kernel.num_nodes; ++i) {
    const ir::Node& node = graph.nodes[kernel.first_node + i];
    append(key.bytes, node.op);
    append(key.bytes, node.number_kinds);
    for (const ir::Operand& operand : graph.operands_of(node)) {
      uint16_t local = 0;
      while (local < first_use.size() && first_use[local] != operand.buffer) ++local;
      if (local == first_use.size()) first_use.push_back(operand.buffer);
      append(key.bytes, local);
      append(key.bytes, operand.dtype);
      append(key.bytes, operand.rank);
      append(key.bytes, operand.flags);
    }
  }
  key.hash = hash_bytes(key.bytes.data(), key.bytes.size());
}

}  // namespace neuron::cache
