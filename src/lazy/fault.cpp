#include "lazy/fault.h"

#include <mutex>
#include <stdexcept>
#include <utility>

#include "ir/print.h"
#include "lazy/window.h"

namespace neuron::lazy {
namespace {

std::mutex mutex;
std::string broken_op;  // under the mutex

bool is_broken(const ir::Graph& graph, const ir::Node& node) {
  const std::lock_guard lock(mutex);
  return ir::op_name(graph, node) == broken_op;
}

Status throw_on_purpose(const device::Executable&, device::Program&,
                        const device::Step&) {
  throw std::runtime_error("a test made this step throw");
}

}  // namespace

void set_fault(Fault fault, std::string op) {
  const std::lock_guard lock(mutex);
  broken_op = std::move(op);
  armed_fault.store(fault);
}

void break_nodes(WindowProgram& program) {
  if (armed_fault.load() != Fault::kWrongCode || program.graph.nodes.size() < 2) return;
  for (ir::Node& node : program.graph.nodes) {
    if (node.code == ir::Code::kNone || !is_broken(program.graph, node)) continue;
    const int arity = ir::code_info(node.code).arity;
    if (arity == 1) node.code = ir::Code::kNeg;
    if (arity == 2) node.code = ir::Code::kSub;
  }
}

void break_steps(WindowProgram& program) {
  static const device::Executable throwing{&throw_on_purpose};
  if (armed_fault.load() != Fault::kThrow) return;
  const ir::Plan& plan = program.plan;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    for (const uint32_t node : plan.nodes_of(plan.kernels[i])) {
      if (!is_broken(program.graph, program.graph.nodes[node])) continue;
      program.steps[i].executable = &throwing;
    }
  }
}

}  // namespace neuron::lazy
