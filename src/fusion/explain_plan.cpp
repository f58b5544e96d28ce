#include "fusion/explain_plan.h"

#include <algorithm>

#include "base/bisect.h"
#include "fusion/group.h"
#include "ir/print.h"

namespace neuron::fusion {
namespace {

constexpr uint32_t kNone = 0xffffffff;

bool is_pointwise(const ir::Node& node) { return node.code != ir::Code::kNone; }

std::string what_it_is(const ir::Graph& graph, const ir::Node& node) {
  const std::string name = ir::op_name(graph, node);
  if (node.call != 0) return name + " is a call of the library or the host";
  return name + " is not pointwise: " + ir::op_class_name(ir::op_info(node.op).op_class);
}

std::string print_space(const Space& space) {
  if (space.rank == 0) return std::to_string(space.numel) + " elements";
  std::string text = "strided [";
  for (int d = 0; d < space.rank; ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(space.sizes[d]);
  }
  return text + "]";
}

class Explainer {
 public:
  Explainer(const ir::Graph& graph, const ir::Plan& plan) : graph_(graph), plan_(plan) {
    kernel_of_.assign(graph.nodes.size(), kNone);
    for (uint32_t k = 0; k < plan.kernels.size(); ++k) {
      for (const uint32_t node : plan.nodes_of(plan.kernels[k])) kernel_of_[node] = k;
    }
  }

  std::vector<Apart> run() {
    std::vector<Apart> found;
    std::vector<uint32_t> writer(graph_.num_buffers, kNone);
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto operands = graph_.operands_of(graph_.nodes[i]);
      for (const ir::Operand& operand : operands) {
        const uint32_t producer = writer[operand.buffer];
        if (!operand.reads() || producer == kNone || !is_apart(producer, i)) continue;
        const bool is_known = !found.empty() && found.back().consumer == i &&
                              found.back().producer == producer;
        if (!is_known) found.push_back({producer, i, reason(producer, i)});
      }
      for (const ir::Operand& operand : operands) {
        if (operand.writes()) writer[operand.buffer] = i;
      }
    }
    return found;
  }

 private:
  // What is left out has no kernel, and is no neighbour.
  bool is_apart(uint32_t a, uint32_t b) const {
    return kernel_of_[a] != kNone && kernel_of_[b] != kNone &&
           kernel_of_[a] != kernel_of_[b];
  }

  std::string reason(uint32_t producer, uint32_t consumer) const {
    const ir::Node& first = graph_.nodes[producer];
    const ir::Node& second = graph_.nodes[consumer];
    if (!is_pointwise(first)) return what_it_is(graph_, first);
    if (!is_pointwise(second)) return what_it_is(graph_, second);
    const Group group = group_before(kernel_of_[producer], consumer);
    const Space space = space_of(graph_, second);
    if (!group.fits(space)) {
      return "they have other sizes: " + print_space(group.space()) + " and " +
             print_space(space);
    }
    if (group.collides(graph_, second)) {
      return "the elements overlap in another order than one by one";
    }
    if (!group.has_room()) {
      return "the kernel is full: " + std::to_string(group.num_instrs()) +
             " instructions, " + std::to_string(group.accesses().size()) + " tensors";
    }
    const int64_t most = bisect_switches().max_fused_ops.load(std::memory_order_relaxed);
    if (most > 0 && static_cast<int64_t>(group.nodes().size()) >= most) {
      return "a kernel may have " + std::to_string(most) + " ops (NEURON_MAX_FUSED_OPS)";
    }
    const uint32_t closer = find_closer(group, consumer);
    if (closer == kNone) return "the planner had put them into different kernels before";
    return "another op stood between them and had to run in recorded order: " +
           ir::print_node(graph_, graph_.nodes[closer]);
  }

  // What was in the kernel when the consumer came.
  Group group_before(uint32_t kernel, uint32_t consumer) const {
    Group group;
    bool is_first = true;
    for (const uint32_t index : plan_.nodes_of(plan_.kernels[kernel])) {
      if (index >= consumer) continue;
      const Space space = space_of(graph_, graph_.nodes[index]);
      if (is_first) group.reset(space);
      is_first = false;
      group.add(graph_, index, space);
    }
    return group;
  }

  // The op that made the planner emit the group before the consumer: one that reads what
  // the group writes, or writes what it touches.
  uint32_t find_closer(const Group& group, uint32_t consumer) const {
    const auto& nodes = group.nodes();
    const uint32_t kernel = kernel_of_[nodes.front()];
    const uint32_t first = *std::min_element(nodes.begin(), nodes.end());
    for (uint32_t i = first + 1; i < consumer; ++i) {
      if (kernel_of_[i] == kernel) continue;
      for (const ir::Operand& operand : graph_.operands_of(graph_.nodes[i])) {
        for (const GroupAccess& access : group.accesses()) {
          if (access.buffer != operand.buffer) continue;
          if (access.is_written || operand.writes()) return i;
        }
      }
    }
    return kNone;
  }

  const ir::Graph& graph_;
  const ir::Plan& plan_;
  std::vector<uint32_t> kernel_of_;  // per node
};

}  // namespace

std::vector<Apart> explain_plan(const ir::Graph& graph, const ir::Plan& plan) {
  return Explainer(graph, plan).run();
}

}  // namespace neuron::fusion
