// Plan: the kernels that a graph becomes, in order, and when each buffer is last needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/pointwise.h"

namespace neuron::ir {

/// Where a kernel touches a buffer of the graph.
struct KernelAccess {
  uint32_t buffer = 0;
  bool reads = false;
  bool writes = false;
};

/// A tensor of a pointwise kernel.
struct TensorRef {
  uint32_t buffer = 0;
  int64_t offset = 0;                // bytes
  const int64_t* strides = nullptr;  // in the graph's dims; kStrided only
};

/// Fused pointwise nodes: their code and its arguments but for the buffers' places.
struct PointwiseKernel {
  PointwiseCode code;
  std::vector<TensorRef> tensors;  // sources that are tensors, then sinks
  std::vector<double> reals;       // per source
  std::vector<int64_t> integers;   // per source
  int64_t numel = 0;
  int rank = 0;
  const int64_t* sizes = nullptr;  // in the graph's dims
};

/// What is executed as one program step: one node by its own code, or fused nodes.
struct Kernel {
  static constexpr uint32_t kOneNode = 0xffffffff;
  uint32_t pointwise = kOneNode;  // index in Plan::pointwise
  uint32_t first_node = 0;        // in Plan::nodes
  uint32_t num_nodes = 0;
  uint32_t first_access = 0;  // in Plan::accesses
  uint32_t num_accesses = 0;

  bool is_pointwise() const { return pointwise != kOneNode; }
};

/// Keeps its memory from one window to the next.
struct Plan {
  std::vector<Kernel> kernels;
  std::vector<uint32_t> nodes;  // of the graph
  std::vector<KernelAccess> accesses;
  std::vector<PointwiseKernel> pointwise;  // the first `num_pointwise` are in use
  uint32_t num_pointwise = 0;
  /// Per buffer of the graph: the last kernel that touches it; kUntouched for none.
  static constexpr uint32_t kUntouched = 0xffffffff;
  std::vector<uint32_t> last_kernel;

  std::span<const uint32_t> nodes_of(const Kernel& kernel) const {
    return {nodes.data() + kernel.first_node, kernel.num_nodes};
  }
  std::span<const KernelAccess> accesses_of(const Kernel& kernel) const {
    return {accesses.data() + kernel.first_access, kernel.num_accesses};
  }
};

}  // namespace neuron::ir
