// Group: pointwise nodes that will run as one kernel, while the planner adds to it.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"

namespace neuron::fusion {

/// One way in which a group touches a buffer.
struct GroupAccess {
  uint32_t buffer = 0;
  ir::DType dtype = ir::DType::kFloat32;
  ir::Layout layout = ir::Layout::kLinear;
  bool is_source = false;  // its old content is read
  bool is_written = false;
  uint16_t value = 0;   // the value it holds now
  uint16_t source = 0;  // the value it was loaded as
  int64_t offset = 0;
  int64_t end = 0;  // first byte behind it
  const int64_t* strides = nullptr;
  uint32_t touches = 0;  // operands of the group's nodes that are this access
};

/// The operands of a pointwise node as the planner sees them.
struct Space {
  int64_t numel = 0;
  int rank = 0;  // 0: every operand is dense or a single element
  const int64_t* sizes = nullptr;
};

/// Code of a group in growing form: every instruction makes a new value.
class Group {
 public:
  static constexpr size_t kMaxInstrs = 96;
  static constexpr size_t kMaxAccesses = 48;

  void reset(const Space& space);
  bool is_empty() const { return nodes_.empty(); }
  size_t num_instrs() const { return instrs_.size(); }
  const Space& space() const { return space_; }
  const std::vector<GroupAccess>& accesses() const { return accesses_; }

  /// Whether a node of this space can run in the group's loop.
  bool fits(const Space& space) const;
  /// Whether the node's operands overlap those of the group in any other way than being
  /// the same.
  bool collides(const ir::Graph& graph, const ir::Node& node) const;
  bool has_room() const {
    return instrs_.size() < kMaxInstrs - 8 && accesses_.size() < kMaxAccesses - 6;
  }

  /// Adds a node that fits, does not collide, and for which there is room.
  void add(const ir::Graph& graph, uint32_t node, const Space& space);
  /// Whether all of `other`, which depends on nothing here nor the other way round, could
  /// be in this group.
  bool can_take(const Group& other) const;
  void take(const Group& other);

  /// Writes the kernel: only what somebody will read is computed and stored. `is_needed`
  /// tells of a written access whether its buffer is seen after the group. False when
  /// nothing remains.
  template <class IsNeeded>
  bool finish(const IsNeeded& is_needed, ir::PointwiseKernel& kernel);

  const std::vector<uint32_t>& nodes() const { return nodes_; }

 private:
  struct Value {
    ir::ValueType type = ir::ValueType::kF32;
    int32_t access = -1;  // of a loaded value
    int32_t number = -1;  // of a number
  };
  struct Number {
    double real = 0;
    int64_t integer = 0;
  };

  uint16_t add_value(ir::ValueType type);
  uint16_t add_number(ir::ValueType type, const ir::Node& node, int i);
  uint16_t emit(ir::Code code, ir::ValueType type, const uint16_t* in, ir::ValueType out);
  uint16_t convert(uint16_t value, ir::DType from, ir::DType to);
  GroupAccess& access_of(const ir::Graph& graph, const ir::Operand& operand,
                         const Space& space);
  uint16_t load(GroupAccess& access);
  void find_needed();
  void write_code(ir::PointwiseKernel& kernel);

  Space space_;
  std::vector<uint32_t> nodes_;
  std::vector<GroupAccess> accesses_;
  std::vector<ir::Instr> instrs_;  // registers are values
  std::vector<Value> values_;
  std::vector<Number> numbers_;
  std::vector<uint8_t> is_needed_;  // per value, in finish
  std::vector<uint8_t> is_stored_;  // per access, in finish
  std::vector<uint16_t> register_;  // per value
  std::vector<uint32_t> last_use_;  // per value: instruction
};

/// The iteration space of a pointwise node; its sizes are the graph's.
Space space_of(const ir::Graph& graph, const ir::Node& node);
/// The layout of an operand within a space; its strides are the graph's.
ir::Layout layout_of(const ir::Operand& operand, const Space& space);
/// Bytes [offset, end) that the operand may touch.
int64_t end_of(const ir::Graph& graph, const ir::Operand& operand);

template <class IsNeeded>
bool Group::finish(const IsNeeded& is_needed, ir::PointwiseKernel& kernel) {
  is_stored_.assign(accesses_.size(), 0);
  bool stores = false;
  for (size_t i = 0; i < accesses_.size(); ++i) {
    if (!accesses_[i].is_written || !is_needed(accesses_[i].buffer)) continue;
    is_stored_[i] = 1;
    stores = true;
  }
  if (!stores) return false;
  find_needed();
  write_code(kernel);
  return true;
}

}  // namespace neuron::fusion
