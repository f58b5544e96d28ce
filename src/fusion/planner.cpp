// Essay. The planner walks through the nodes in recorded order and keeps a set of open
// groups of pointwise nodes. Laws:
//  1. Open groups are independent of one another: no group touches a buffer that another
//     one writes. So they may be emitted in any order, and merged.
//  2. A group is emitted when it is closed. Whatever was emitted before it does not
//  depend
//     on it; whatever depends on it closes it first. So a node may join a group that was
//     opened before later kernels were emitted.
//  3. Within a group the elements are independent: operands on one buffer are the same
//     elements in the same order, or lie apart, or are only read.
//  4. A node joins the group that makes its inputs; else one that reads the same buffers;
//     else, if small, the last open group of its size.
//  5. A timed event closes every group: it stands behind all that was recorded before it.
#include "fusion/planner.h"

#include <algorithm>
#include <vector>

#include "base/bisect.h"
#include "fusion/group.h"

namespace neuron::fusion {
namespace {

constexpr int32_t kNobody = -1;
constexpr int32_t kSeveral = -2;
// Independent nodes of this size share a kernel: the launch costs more than the loop.
constexpr int64_t kSmall = 4096;
constexpr size_t kSmallInstrs = 40;
constexpr size_t kMaxOpen = 256;

// Which open groups touch a buffer.
struct BufferState {
  int32_t writer = kNobody;
  int32_t reader = kNobody;  // kSeveral: ask the groups themselves
  uint32_t touches = 0;      // operands of the whole graph on it
};

}  // namespace

class Planner::State {
 public:
  void plan(const ir::Graph& graph, std::span<const uint8_t> is_visible, ir::Plan& plan);

 private:
  bool is_open(int32_t group) const { return group >= 0; }
  void visit_pointwise(uint32_t index);
  void visit_other(uint32_t index);
  int32_t group_of_inputs(const ir::Node& node, const Space& space);
  int32_t group_of_readers(const ir::Node& node, const Space& space);
  int32_t open_group(const Space& space);
  bool accepts(int32_t group, const ir::Node& node, const Space& space) const;
  void close_conflicts(const ir::Node& node, int32_t except);
  void close_readers(uint32_t buffer, int32_t except);
  void close(int32_t group);
  void merge(int32_t into, int32_t from);
  void mark(int32_t group, const ir::Node& node);
  void end_kernel(ir::Kernel& kernel);

  const ir::Graph* graph_ = nullptr;
  std::span<const uint8_t> is_visible_;
  ir::Plan* plan_ = nullptr;
  size_t max_nodes_ = SIZE_MAX;  // of a group; see BisectSwitches
  std::vector<BufferState> buffers_;
  std::vector<Group> groups_;
  std::vector<int32_t> free_;
  std::vector<int32_t> open_;  // in the order of opening
};

Planner::Planner() : state_(std::make_unique<State>()) {}
Planner::~Planner() = default;

void Planner::plan(const ir::Graph& graph, std::span<const uint8_t> is_visible,
                   ir::Plan& plan) {
  state_->plan(graph, is_visible, plan);
}

void Planner::State::plan(const ir::Graph& graph, std::span<const uint8_t> is_visible,
                          ir::Plan& plan) {
  graph_ = &graph;
  is_visible_ = is_visible;
  plan_ = &plan;
  const int64_t most = bisect_switches().max_fused_ops.load(std::memory_order_relaxed);
  max_nodes_ = most > 0 ? static_cast<size_t>(most) : SIZE_MAX;
  plan.kernels.clear();
  plan.nodes.clear();
  plan.accesses.clear();
  plan.num_pointwise = 0;
  plan.last_kernel.assign(graph.num_buffers, ir::Plan::kUntouched);
  buffers_.assign(graph.num_buffers, {});
  for (const ir::Operand& operand : graph.operands) ++buffers_[operand.buffer].touches;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    if (node.code != ir::Code::kNone) {
      visit_pointwise(i);
    } else {
      visit_other(i);
    }
  }
  while (!open_.empty()) close(open_.front());
}

void Planner::State::visit_other(uint32_t index) {
  const ir::Node& node = graph_->nodes[index];
  if (node.op == ir::Op::kRecordEvent) {  // law 5
    while (!open_.empty()) close(open_.front());
  }
  close_conflicts(node, kNobody);
  ir::Kernel& kernel = plan_->kernels.emplace_back();
  kernel.first_node = static_cast<uint32_t>(plan_->nodes.size());
  kernel.num_nodes = 1;
  kernel.first_access = static_cast<uint32_t>(plan_->accesses.size());
  plan_->nodes.push_back(index);
  for (const ir::Operand& operand : graph_->operands_of(node)) {
    plan_->accesses.push_back({operand.buffer, operand.reads(), operand.writes()});
  }
  end_kernel(kernel);
}

void Planner::State::visit_pointwise(uint32_t index) {
  const ir::Node& node = graph_->nodes[index];
  const Space space = space_of(*graph_, node);
  int32_t group = group_of_inputs(node, space);
  if (!is_open(group)) group = group_of_readers(node, space);
  if (!is_open(group) && space.numel <= kSmall) {
    for (size_t i = open_.size(); i-- > 0 && open_.size() - i <= 4;) {
      if (groups_[open_[i]].num_instrs() < kSmallInstrs &&
          accepts(open_[i], node, space)) {
        group = open_[i];
        break;
      }
    }
  }
  close_conflicts(node, group);
  if (!is_open(group)) group = open_group(space);
  mark(group, node);
  groups_[group].add(*graph_, index, space);
}

bool Planner::State::accepts(int32_t group, const ir::Node& node,
                             const Space& space) const {
  return groups_[group].fits(space) && groups_[group].has_room() &&
         groups_[group].nodes().size() < max_nodes_ &&
         !groups_[group].collides(*graph_, node);
}

// Law 4, first part; merges the groups that make the inputs where it can.
int32_t Planner::State::group_of_inputs(const ir::Node& node, const Space& space) {
  int32_t group = kNobody;
  for (const ir::Operand& operand : graph_->operands_of(node)) {
    const int32_t writer = buffers_[operand.buffer].writer;
    if (!is_open(writer) || writer == group) continue;
    if (!accepts(writer, node, space)) continue;
    if (group == kNobody) {
      group = writer;
    } else if (groups_[group].can_take(groups_[writer]) &&
               groups_[group].nodes().size() + groups_[writer].nodes().size() <
                   max_nodes_) {
      merge(group, writer);
      if (!accepts(group, node, space)) return kNobody;
    }
  }
  return group;
}

int32_t Planner::State::group_of_readers(const ir::Node& node, const Space& space) {
  for (const ir::Operand& operand : graph_->operands_of(node)) {
    const int32_t reader = buffers_[operand.buffer].reader;
    if (is_open(reader) && accepts(reader, node, space)) return reader;
  }
  return kNobody;
}

int32_t Planner::State::open_group(const Space& space) {
  if (open_.size() >= kMaxOpen) close(open_.front());
  int32_t group = kNobody;
  if (free_.empty()) {
    group = static_cast<int32_t>(groups_.size());
    groups_.emplace_back();
  } else {
    group = free_.back();
    free_.pop_back();
  }
  groups_[group].reset(space);
  open_.push_back(group);
  return group;
}

void Planner::State::mark(int32_t group, const ir::Node& node) {
  for (const ir::Operand& operand : graph_->operands_of(node)) {
    BufferState& buffer = buffers_[operand.buffer];
    if (operand.writes()) buffer.writer = group;
    if (operand.reads() && buffer.reader != group) {
      buffer.reader = buffer.reader == kNobody ? group : kSeveral;
    }
  }
}

// Closes whatever must run before the node, but for the group that it joins.
void Planner::State::close_conflicts(const ir::Node& node, int32_t except) {
  for (const ir::Operand& operand : graph_->operands_of(node)) {
    const int32_t writer = buffers_[operand.buffer].writer;
    if (is_open(writer) && writer != except) close(writer);
    if (operand.writes()) close_readers(operand.buffer, except);
  }
}

void Planner::State::close_readers(uint32_t buffer, int32_t except) {
  const int32_t reader = buffers_[buffer].reader;
  if (reader == kNobody || reader == except) return;
  if (reader != kSeveral) {
    close(reader);
    return;
  }
  for (size_t i = 0; i < open_.size();) {
    const int32_t group = open_[i];
    const auto& accesses = groups_[group].accesses();
    const bool touches =
        group != except && std::any_of(accesses.begin(), accesses.end(),
                                       [buffer](const GroupAccess& access) {
                                         return access.buffer == buffer;
                                       });
    if (touches) {
      close(group);
    } else {
      ++i;
    }
  }
}

void Planner::State::merge(int32_t into, int32_t from) {
  groups_[into].take(groups_[from]);
  for (const GroupAccess& access : groups_[from].accesses()) {
    BufferState& buffer = buffers_[access.buffer];
    if (buffer.writer == from) buffer.writer = into;
    if (buffer.reader == from) buffer.reader = into;
  }
  open_.erase(std::find(open_.begin(), open_.end(), from));
  free_.push_back(from);
}

void Planner::State::close(int32_t index) {
  open_.erase(std::find(open_.begin(), open_.end(), index));
  free_.push_back(index);
  Group& group = groups_[index];
  for (const GroupAccess& access : group.accesses()) {
    BufferState& buffer = buffers_[access.buffer];
    if (buffer.writer == index) buffer.writer = kNobody;
    if (buffer.reader == index) buffer.reader = kNobody;
  }
  if (plan_->num_pointwise == plan_->pointwise.size()) plan_->pointwise.emplace_back();
  ir::PointwiseKernel& pointwise = plan_->pointwise[plan_->num_pointwise];
  const auto is_needed = [&](uint32_t buffer) {
    if (is_visible_[buffer] != 0) return true;
    uint32_t touches = 0;
    for (const GroupAccess& access : group.accesses()) {
      if (access.buffer == buffer) touches += access.touches;
    }
    return touches < buffers_[buffer].touches;
  };
  if (!group.finish(is_needed, pointwise)) return;
  ir::Kernel& kernel = plan_->kernels.emplace_back();
  kernel.pointwise = plan_->num_pointwise++;
  kernel.first_node = static_cast<uint32_t>(plan_->nodes.size());
  kernel.num_nodes = static_cast<uint32_t>(group.nodes().size());
  kernel.first_access = static_cast<uint32_t>(plan_->accesses.size());
  plan_->nodes.insert(plan_->nodes.end(), group.nodes().begin(), group.nodes().end());
  const size_t num_loads = pointwise.tensors.size() - pointwise.code.sinks.size();
  for (size_t i = 0; i < pointwise.tensors.size(); ++i) {
    plan_->accesses.push_back(
        {pointwise.tensors[i].buffer, i < num_loads, i >= num_loads});
  }
  end_kernel(kernel);
}

void Planner::State::end_kernel(ir::Kernel& kernel) {
  kernel.num_accesses =
      static_cast<uint32_t>(plan_->accesses.size()) - kernel.first_access;
  const auto number = static_cast<uint32_t>(&kernel - plan_->kernels.data());
  for (const ir::KernelAccess& access : plan_->accesses_of(kernel)) {
    plan_->last_kernel[access.buffer] = number;
  }
}

}  // namespace neuron::fusion
