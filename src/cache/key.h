// Key: what a kernel is, independent of where its operands live and how large they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ir/graph.h"
#include "ir/pointwise.h"

namespace neuron::cache {

/// Canonical bytes of a kernel and their hash. The hash finds, the bytes decide.
struct Key {
  uint64_t hash = 0;
  std::vector<std::byte> bytes;

  bool operator==(const Key& other) const {
    // Not `==` of the vectors: that goes byte by byte.
    return hash == other.hash && bytes.size() == other.bytes.size() &&
           std::memcmp(bytes.data(), other.bytes.data(), bytes.size()) == 0;
  }
};

struct KeyHash {
  size_t operator()(const Key& key) const { return key.hash; }
};

/// Writes the key of a kernel that is one node into `key`, whose memory is reused. In the
/// key: op, dtypes, ranks, layout classes (contiguous or strided), access, which operands
/// share a buffer; of a call only that it is one, since it brings its own code. Not in
/// it: sizes, strides, offsets, numbers, addresses.
void make_key(const ir::Graph& graph, const ir::Node& node, Key& key);

/// The same for fused pointwise code, which is in relative form already.
void make_key(const ir::PointwiseCode& code, Key& key);

}  // namespace neuron::cache
