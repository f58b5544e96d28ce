// Graph: the ops of one closed window, with the buffers they touch numbered by first use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/site.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/pointwise.h"

namespace neuron::ir {

/// Arguments of an op that are more than tensors and two numbers. Made and understood by
/// `lazy/torch`; the rest of the engine only carries it.
class Call {
 public:
  virtual ~Call() = default;
  /// Full name for reports, such as "aten::index_select".
  virtual const char* name() const = 0;
};

/// One tensor operand: a window on a buffer.
struct Operand {
  enum Flags : uint8_t {
    kReads = 1,
    kWrites = 2,
    kContiguous = 4,  // row-major and dense; no strides are stored
    kConjugate = 8,
    kNegative = 16,
  };
  uint32_t buffer = 0;  // index in the window's buffer table
  uint32_t dims = 0;    // index in `Graph::dims`: sizes, then strides unless contiguous
  int64_t offset = 0;   // in bytes from the start of the buffer
  DType dtype = DType::kFloat32;
  uint8_t rank = 0;
  uint8_t flags = 0;

  bool reads() const { return (flags & kReads) != 0; }
  bool writes() const { return (flags & kWrites) != 0; }
  bool is_contiguous() const { return (flags & kContiguous) != 0; }
};

/// A number argument kept inside the node.
union Number {
  double real;
  int64_t integer;
};

/// One recorded op: a cache line. A node without a call is native: its operands are the
/// inputs, then the outputs.
struct Node {
  Op op = Op::kHost;
  uint8_t number_kinds = 0;       // bit i: numbers[i] is an integer
  uint8_t number_slots = 0;       // bit i: input i of a pointwise code is a number
  Code code = Code::kNone;        // what a pointwise node computes
  DType dtype = DType::kFloat32;  // in which it computes: inputs are converted to it
  uint16_t variant = 0;           // of a native op that is not pointwise
  uint32_t num_operands = 0;
  uint32_t first_operand = 0;
  uint32_t call = 0;  // 1 + index in Graph::calls, 0 for none
  Number numbers[2] = {{0.0}, {0.0}};
  Site site;
};
static_assert(sizeof(Node) <= 64);

struct Graph {
  std::vector<Node> nodes;
  std::vector<Operand> operands;
  std::vector<int64_t> dims;
  std::vector<std::unique_ptr<Call>> calls;
  uint32_t num_buffers = 0;

  std::span<const Operand> operands_of(const Node& node) const {
    return {operands.data() + node.first_operand, node.num_operands};
  }
  std::span<const int64_t> sizes_of(const Operand& operand) const {
    return {dims.data() + operand.dims, operand.rank};
  }
  /// Empty when the operand is contiguous.
  std::span<const int64_t> strides_of(const Operand& operand) const {
    if (operand.is_contiguous()) return {};
    return {dims.data() + operand.dims + operand.rank, operand.rank};
  }
  const Call* call_of(const Node& node) const {
    return node.call == 0 ? nullptr : calls[node.call - 1].get();
  }

  /// Empties the graph and keeps its memory for the next window.
  void clear();
};

}  // namespace neuron::ir
